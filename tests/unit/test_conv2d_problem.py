"""Convolution layers as problems: canonical forms, keys, shapes, and invalid arguments."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import json
from typing import Any

import numpy as np
import pytest

from warpsmith.errors import BadArgument
from warpsmith.generator.conv2d import Conv2d, PaddingMode, Pass
from warpsmith.generator.conv2d.layer.text import text_key
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.problem import DType, NonFinite, Problem, Role

SHAPES: dict[str, Any] = {"input": (2, 4, 7, 9), "weight": (6, 4, 3, 2)}
LAYER = Conv2d(**SHAPES)
WHOLE = Conv2d(
    (4, 8, 13, 17),
    (12, 4, 3, 5),
    stride=(2, 3),
    padding=((1, 2), (0, 3)),  # type: ignore[arg-type]
    dilation=(2, 1),
    groups=2,
    bias=True,
    relu=True,
)

MIRRORED = Conv2d(**SHAPES, pass_="wgrad", padding="same", padding_mode="reflect")
HALVES = Conv2d(**SHAPES, pass_="dgrad", dtype="bfloat16", precision="bf16", layout="nhwc", bias=True)


def conv2d(**fields: Any) -> Conv2d:
    """A problem from a caller's arguments."""
    return Conv2d(**{**SHAPES, **fields})


class TestCanonicalForm:
    @pytest.mark.parametrize(
        ("fields", "same"),
        [
            ({"stride": 2}, {"stride": (2, 2)}),
            ({"dilation": np.int64(2)}, {"dilation": [2, 2]}),
            ({"padding": 1}, {"padding": ((1, 1), (1, 1))}),
            ({"padding": (1, 0)}, {"padding": [[1, 1], 0]}),
            ({"padding": "valid"}, {}),
            ({"padding": "same"}, {"padding": ((1, 1), (0, 1))}),
            ({"padding": "same", "dilation": 2}, {"padding": (2, 1), "dilation": 2}),
            ({"pass_": "dgrad"}, {"pass_": Pass.DGRAD}),
            ({"bias": 1}, {"bias": True}),
            ({"input": np.array((2, 4, 7, 9))}, {}),
            ({"padding_mode": "zeros", "padding": 1}, {"padding": 1}),
            ({"padding_mode": "reflect", "padding": 1}, {"padding_mode": PaddingMode.REFLECT, "padding": 1}),
            ({"padding_mode": "reflect"}, {}),
            ({"dtype": "float32"}, {}),
            ({"dtype": np.float16}, {"dtype": "float16"}),
            ({"padding_mode": "circular", "weight": (6, 4, 1, 1), "padding": "same"}, {"weight": (6, 4, 1, 1)}),
        ],
    )
    def test_two_ways_to_say_it_are_one_problem(self, fields: dict[str, Any], same: dict[str, Any]) -> None:
        one, other = conv2d(**fields), conv2d(**same)
        assert one == other
        assert one.key() == other.key()
        assert hash(one) == hash(other)

    @pytest.mark.parametrize("problem", [LAYER, WHOLE, MIRRORED, HALVES])
    def test_a_spec_is_json_and_reads_back(self, problem: Conv2d) -> None:
        spec = json.loads(json.dumps(problem.spec()))
        assert Problem.from_spec("conv2d", spec) == problem
        fields = {field.name for field in dataclasses.fields(Conv2d)}
        usual = {"dtype"} if problem.dtype is DType.FLOAT32 else set()
        usual |= {"nonfinite"} if problem.nonfinite is NonFinite.ANY else set()
        assert spec.keys() == fields - usual

    def test_a_rule_for_what_is_not_finite_shows_where_it_is_not_the_usual_one(self) -> None:
        strict = conv2d(nonfinite="window")
        assert conv2d(nonfinite="any") == conv2d() == Problem.from_spec("conv2d", conv2d().spec())
        assert "nonfinite" not in conv2d().key()
        assert strict.key().endswith(" nonfinite=window")
        assert strict.spec()["nonfinite"] == "window"
        assert Problem.from_spec("conv2d", json.loads(json.dumps(strict.spec()))) == strict
        assert text_key(strict) == text_key(conv2d())  # no text depends on it

    def test_a_workspace_is_1_gib_or_grows_with_the_layer(self) -> None:
        small, large = conv2d(), Conv2d((4, 512, 512, 512), (512, 512, 3, 3), padding=1)
        assert (small.workspace, small.workspace_limit) == (None, 2**30)
        assert conv2d(workspace=2**30) == small
        assert small.spec()["workspace"] == 2**30  # as stored by earlier versions
        assert large.workspace_limit == 1.5 * sum(operand.nbytes for operand in large.operands)
        assert Conv2d(large.input, large.weight, padding=1, workspace=large.workspace_limit) == large
        assert Problem.from_spec("conv2d", large.spec()) == large
        assert "workspace" not in large.key()
        tight = dataclasses.replace(large, workspace=2**30)
        assert tight.key().endswith(" workspace=1073741824")
        assert dataclasses.replace(large, workspace=None) == large

    def test_a_spec_of_before_there_were_modes_has_zeros(self) -> None:
        spec = conv2d(padding=1).spec()
        del spec["padding_mode"]
        assert Problem.from_spec("conv2d", spec) == conv2d(padding=1)


class TestKey:
    def test_is_one_readable_line(self) -> None:
        assert LAYER.key() == "conv2d pass=fprop input=2x4x7x9 weight=6x4x3x2 precision=ieee"
        assert WHOLE.key() == (
            "conv2d pass=fprop input=4x8x13x17 weight=12x4x3x5 precision=ieee stride=2x3 padding=1+2x0+3 dilation=2x1 "
            "groups=2 bias=yes relu=yes"
        )
        assert conv2d(padding=(1, 0), padding_mode="circular").key().endswith(" padding=1x0 padding_mode=circular")

    def test_every_field_shows(self) -> None:
        changed: dict[str, list[Any]] = {
            "input": [(3, 4, 7, 9), (2, 4, 8, 9), (2, 4, 7, 10)],
            "weight": [(8, 4, 3, 2), (6, 4, 4, 2), (6, 4, 3, 3)],
            "stride": [(2, 1), (1, 2)],
            "padding": [((1, 0), (0, 0)), ((0, 1), (0, 0)), ((0, 0), (1, 0)), ((0, 0), (0, 1)), ((1, 1), (0, 0))],
            "dilation": [(2, 1), (1, 2)],
            "pass_": ["dgrad", "wgrad"],
            "bias": [True],
            "relu": [True],
            "accuracy": ["elementwise"],
            "nonfinite": ["window"],
            "workspace": [0, 2**28],
            "padding_mode": [],  # shown only if there is padding
            "precision": ["tf32", "f16", "bf16"],
            "layout": ["nhwc"],
            "dtype": ["float16", "bfloat16"],
        }
        problems = [conv2d(padding=1, padding_mode=mode) for mode in PaddingMode]
        problems += [LAYER, *(conv2d(**{name: value}) for name, values in changed.items() for value in values)]
        problems.append(conv2d(weight=(6, 2, 3, 2), groups=2))
        seen = {*changed, "groups"}
        assert seen == {field.name for field in dataclasses.fields(Conv2d)}
        assert len({problem.key() for problem in problems}) == len(problems)

    def test_groups_show_beside_the_weight_that_follows_from_them(self) -> None:
        """The weight has one channel with as many groups as channels, and also with a single input channel."""
        grouped = Conv2d((1, 4, 8, 8), (4, 1, 3, 3), groups=4)
        copied = copy.copy(grouped)
        object.__setattr__(copied, "groups", 1)
        assert copied.key() != grouped.key()


class TestOperands:
    @pytest.mark.parametrize("pass_", Pass)
    @pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
    def test_channels_last_lie_as_in_pytorch(self, pass_: Pass, dtype: str) -> None:
        torch = pytest.importorskip("torch")
        problem = conv2d(pass_=pass_, dtype=dtype, layout="nhwc", bias=pass_ is Pass.FPROP)
        for each in problem.operands:
            shape = torch.empty(each.shape, dtype=getattr(torch, dtype))
            laid = shape if each.name == "b" else shape.contiguous(memory_format=torch.channels_last)
            assert each.element_strides == laid.stride()
            assert each.dtype == dtype
            assert each.is_dense
            assert each.is_in_row_order is (each.name == "b")

    def test_are_large_from_2_to_31_elements_on(self) -> None:
        assert not Conv2d((1, 8, 2**14, 2**14 - 1), (4, 8, 3, 3)).is_large
        assert Conv2d((1, 8, 2**14, 2**14), (4, 8, 3, 3)).is_large
        assert Conv2d((2**18, 4, 32, 32), (16, 4, 3, 2)).is_large
        padded = {"weight": (1, 1, 1, 1), "padding": 2**14}
        assert Conv2d((1, 1, 2**15, 2**15), padding_mode="replicate", **padded).is_large  # type: ignore[arg-type]

    def test_are_those_of_the_pass_with_the_result_last(self) -> None:
        def told(problem: Conv2d) -> list[tuple[str, tuple[int, ...]]]:
            assert [each.role for each in problem.operands] == [Role.INPUT] * (len(problem.operands) - 1) + [
                Role.OUTPUT
            ]
            assert {each.dtype for each in problem.operands} == {DType.FLOAT32}
            return [(each.name, each.shape) for each in problem.operands]

        x, w, y = (2, 4, 7, 9), (6, 4, 3, 2), (2, 6, 5, 8)
        assert told(LAYER) == [("x", x), ("w", w), ("y", y)]
        assert told(conv2d(bias=True)) == [("x", x), ("w", w), ("b", (6,)), ("y", y)]
        assert told(conv2d(pass_="dgrad")) == [("dy", y), ("w", w), ("dx", x)]
        assert told(conv2d(pass_="wgrad")) == [("x", x), ("dy", y), ("dw", w)]

    def test_the_result_has_the_shape_that_pytorch_gives_it(self) -> None:
        torch = pytest.importorskip("torch")
        sizes = itertools.product((1, 2, 3), (0, 1, 2), (1, 2), ((7, 9), (12, 5)), ((1, 1), (3, 2), (2, 4)))
        for stride, padding, dilation, image, taps in sizes:
            try:
                problem = Conv2d((1, 2, *image), (3, 2, *taps), stride=stride, padding=padding, dilation=dilation)  # type: ignore[arg-type]
            except BadArgument:
                with pytest.raises(RuntimeError, match="size"):
                    torch.nn.functional.conv2d(
                        torch.zeros(1, 2, *image), torch.zeros(3, 2, *taps), None, stride, padding, dilation
                    )
                continue
            x, w = torch.zeros(problem.input), torch.zeros(problem.weight)
            assert problem.output.shape == torch.nn.functional.conv2d(x, w, None, stride, padding, dilation).shape

    @pytest.mark.filterwarnings("ignore:Using padding=.same.")
    @pytest.mark.parametrize("taps", [(1, 1), (3, 3), (2, 2), (4, 3), (2, 5)])
    @pytest.mark.parametrize("dilation", [1, 2, 3])
    def test_same_is_as_pytorch_pads(self, taps: tuple[int, int], dilation: int) -> None:
        torch = pytest.importorskip("torch")
        problem = Conv2d((1, 1, 8, 9), (1, 1, *taps), padding="same", dilation=dilation)  # type: ignore[arg-type]
        assert problem.output.shape[2:] == (8, 9)
        x, w = torch.rand(problem.input), torch.rand(problem.weight)
        padded = torch.nn.functional.pad(x, [side for axis in reversed(problem.padding) for side in axis])
        ours = torch.nn.functional.conv2d(padded, w, dilation=dilation)
        torch.testing.assert_close(ours, torch.nn.functional.conv2d(x, w, padding="same", dilation=dilation))

    @pytest.mark.parametrize("pass_", Pass)
    def test_operations_are_those_of_all_taps(self, pass_: Pass) -> None:
        problem = Conv2d((4, 8, 13, 17), (12, 4, 3, 5), groups=2, pass_=pass_)
        assert problem.flops == 2 * 4 * 12 * 11 * 13 * 4 * 3 * 5
        assert problem.bytes == 4 * (4 * 8 * 13 * 17 + 12 * 4 * 3 * 5 + 4 * 12 * 11 * 13)


class TestPaddingModes:
    SIZES = ((1, 1), (1, 3), (4, 2), (5, 5))

    @pytest.mark.parametrize("mode", [each for each in PaddingMode if each is not PaddingMode.ZEROS])
    def test_padding_may_be_as_large_as_in_pytorch(self, mode: PaddingMode) -> None:
        torch = pytest.importorskip("torch")
        refused = 0
        for size, (above, below), (left, right) in itertools.product(self.SIZES, self.SIZES, ((0, 0), (1, 2))):
            fields: dict[str, Any] = {"padding": ((above, below), (left, right)), "padding_mode": mode}
            image = torch.zeros(1, 1, *size)
            try:
                problem = Conv2d((1, 1, *size), (1, 1, 1, 1), **fields)
            except BadArgument:
                refused += 1
                with pytest.raises(RuntimeError, match=r"[Pp]adding"):
                    torch.nn.functional.pad(image, (left, right, above, below), str(mode))
                continue
            padded = torch.nn.functional.pad(image, (left, right, above, below), str(mode))
            assert problem.padded_size == tuple(padded.shape[2:])
        assert (refused > 0) is (mode is not PaddingMode.REPLICATE)

    @pytest.mark.parametrize("pass_", Pass)
    def test_of_padded_images_the_layer_has_the_same_results(self, pass_: Pass) -> None:
        problem = conv2d(padding=((1, 2), (0, 3)), padding_mode="reflect", stride=2, pass_=pass_)
        padded = problem.of_padded
        assert padded.input == (2, 4, 10, 12)
        assert padded.padding == ((0, 0), (0, 0))
        assert padded.padding_mode is PaddingMode.ZEROS
        assert padded.output_size == problem.output_size
        assert padded.pass_ is pass_
        zeros = dataclasses.replace(problem, padding_mode=PaddingMode.ZEROS)
        assert zeros.of_padded is zeros


class TestTransposed:
    OPTIONS = tuple(itertools.product((1, 2, 3), (0, 1, 2), (0, 1, 2), (1, 3), (1, 2)))
    """Stride, padding, output padding, dilation and groups of a transposed layer."""

    def test_has_the_size_that_pytorch_gives_it_and_is_refused_where_it_refuses(self) -> None:
        torch = pytest.importorskip("torch")
        beyond = 0
        for stride, padding, more, dilation, groups in self.OPTIONS:
            given, weight = torch.zeros(2, 4, 5, 6), torch.zeros(4, 3, 2, 3)
            try:
                problem = Conv2d.transposed(given.shape, weight.shape, stride, padding, more, dilation, groups)
            except BadArgument as error:
                if "reaches beyond every tap" in str(error):
                    beyond += 1
                    assert more // stride * stride > padding
                    continue
                with pytest.raises(RuntimeError):
                    torch.nn.functional.conv_transpose2d(given, weight, None, stride, padding, more, groups, dilation)
                continue
            result = torch.nn.functional.conv_transpose2d(given, weight, None, stride, padding, more, groups, dilation)
            assert problem.output.shape == result.shape
            assert [each.shape for each in problem.inputs] == [tuple(given.shape), tuple(weight.shape)]
            assert problem.pass_ is Pass.DGRAD
        assert 0 < beyond < len(self.OPTIONS) // 8

    def test_has_a_bias_a_channel_of_its_result(self) -> None:
        problem = Conv2d.transposed((2, 4, 5, 6), (4, 3, 2, 3), groups=2, bias=True, relu=True, dtype="bfloat16")  # type: ignore[arg-type]
        assert [(each.name, each.shape) for each in problem.inputs][-1] == ("b", (6,))
        assert problem.key().endswith("dtype=bfloat16 groups=2 bias=yes relu=yes")

    @pytest.mark.parametrize(
        ("fields", "says"),
        [
            ({"weight": (3, 4, 2, 3)}, "the weight is for 3 channels; the input has 4"),
            ({"input": (2, 4, 5)}, "input must be four positive sizes below 2.30, N,C_in,H,W; got 2x4x5"),
            ({"output_padding": 1}, "output_padding must be less than the stride or the dilation; got 1"),
            ({"output_padding": -1}, "output_padding must be a number from 0"),
            ({"padding": 4}, "a padding of 4 and 4 leaves nothing of the result"),
            (
                {"dilation": 3, "output_padding": 2, "padding": 1},
                "an output_padding of 2 with stride 1 and a padding of 1 reaches beyond every tap",
            ),
            ({"weight": (4, 2, 2, 3), "groups": 3}, "4 filters do not divide into 3 groups"),
        ],
    )
    def test_refusals_are_one_line(self, fields: dict[str, Any], says: str) -> None:
        with pytest.raises(BadArgument, match=says) as caught:
            Conv2d.transposed(**{"input": (2, 4, 5, 6), "weight": (4, 3, 2, 3), **fields})
        assert "\n" not in str(caught.value)


class TestDistance:
    def test_of_sizes_is_in_octaves_and_their_winners_answer(self) -> None:
        other = Conv2d((8, 8, 7, 36), (3, 8, 3, 2))
        assert LAYER.distance(LAYER) == 0
        assert LAYER.distance(other) == other.distance(LAYER) == 2 + 1 + 2 + 1
        assert LAYER.is_resized(other)

    @pytest.mark.parametrize(
        "fields",
        [
            {"stride": 2},
            {"padding": 1},
            {"dilation": 2},
            {"weight": (6, 2, 3, 2), "groups": 2},
            {"weight": (6, 4, 3, 3)},
            {"bias": True},
            {"relu": True},
            {"padding": "same", "accuracy": "elementwise"},
            {"padding": 1, "padding_mode": "reflect"},
        ],
    )
    def test_of_anything_else_is_something_and_not_a_size(self, fields: dict[str, Any]) -> None:
        other = conv2d(**fields)
        distance = LAYER.distance(other)
        assert distance is not None
        assert distance > 0
        assert not LAYER.is_resized(other)

    @pytest.mark.parametrize("fields", [{"accuracy": "elementwise"}, {"nonfinite": "window"}, {"workspace": 0}])
    def test_winners_of_another_accuracy_or_workspace_answer_where_their_families_solve_it(
        self, fields: dict[str, Any]
    ) -> None:
        assert LAYER.is_resized(conv2d(**fields))
        assert LAYER.distance(conv2d(**fields))

    def test_between_passes_precisions_dtypes_and_layouts_there_is_none(self) -> None:
        assert LAYER.distance(conv2d(pass_="dgrad")) is None
        for fields in ({"precision": "tf32"}, {"dtype": "float16"}, {"layout": "nhwc"}):
            assert LAYER.distance(conv2d(**fields)) is None
            assert LAYER.features() != conv2d(**fields).features()
        assert LAYER.distance(Filter2d((8, 8), (3, 3))) is None
        assert not LAYER.is_resized(Filter2d((8, 8), (3, 3)))
        assert LAYER.distance(conv2d(weight=(6, 4, 1, 1))) is None

    def test_another_padding_mode_is_further_than_the_same(self) -> None:
        zeros, mirrored = conv2d(padding=1), conv2d(padding=1, padding_mode="reflect")
        assert zeros.distance(mirrored) == mirrored.distance(zeros)
        assert mirrored.distance(mirrored) == 0
        assert zeros.distance(mirrored)
        assert not zeros.is_resized(mirrored)

    def test_layers_of_one_channel_a_group_are_alike_however_many_groups(self) -> None:
        one, other = (Conv2d((1, n, 8, 8), (n, 1, 3, 3), groups=n) for n in (16, 32))
        dense = Conv2d((1, 16, 8, 8), (16, 16, 3, 3))
        assert one.distance(other) == 2
        assert one.distance(dense) is None


REFUSED = [
    ({"input": (2, 4, 7)}, r"input must be four positive sizes below 2\^30, N,C,H,W; got 2x4x7"),
    ({"input": (2, 4, 7, 0)}, r"input must be four positive sizes below 2\^30, N,C,H,W; got 2x4x7x0"),
    ({"input": (2, 4, 7.0, 9)}, r"input must be four positive sizes"),
    ({"input": (1, 4, 3, 2**30)}, r"input must be four positive sizes"),
    ({"input": "2,4,7,9"}, r"input must be four positive sizes below 2\^30, N,C,H,W; got '2,4,7,9'"),
    ({"input": None}, "input must be four positive sizes"),
    ({"weight": (6, 4, 3)}, r"weight must be four positive sizes below 2\^30, K,C/G,R,S; got 6x4x3"),
    ({"weight": (6, -4, 3, 2)}, "weight must be four positive sizes"),
    ({"weight": (6, 3, 3, 2)}, "the weight is for 3 channels a group; the input has 4 in 1 group, 4 each"),
    ({"groups": 2}, "the weight is for 4 channels a group; the input has 4 in 2 groups, 2 each"),
    ({"groups": 3}, "4 channels do not divide into 3 groups"),
    ({"groups": 4, "weight": (6, 1, 3, 2)}, "6 filters do not divide into 4 groups"),
    ({"groups": 0}, "groups must be 1 or more; got 0"),
    ({"stride": 0}, "stride must be a number from 1 to 32767, or two of them, rows and columns; got 0"),
    ({"stride": (1, 2, 3)}, "stride must be a number from 1 to 32767, or two of them, rows and columns; got 1x2x3"),
    ({"stride": 1.5}, "stride must be a number from 1"),
    ({"stride": "2"}, "stride must be a number from 1"),
    ({"dilation": (0, 1)}, "dilation must be a number from 1 to 32767, or two of them, rows and columns; got 0x1"),
    ({"dilation": 2**15}, "dilation must be a number from 1"),
    ({"padding": -1}, "padding must be a number from 0 to 32767, rows and columns"),
    ({"padding": ((0, 1), (-1, 0))}, "padding must be a number from 0"),
    ({"padding": (1, 1, 1, 1)}, "padding must be a number from 0"),
    ({"padding": "full"}, "padding must be .* 'same' or 'valid'; got 'full'"),
    ({"padding": "same", "stride": 2}, "padding same keeps the size of the image, which a stride does not"),
    (
        {"padding": 1, "padding_mode": "torus"},
        "unknown padding_mode 'torus'; choose one of zeros, reflect, replicate",
    ),
    (
        {"padding": (7, 0), "padding_mode": "reflect"},
        "padding_mode reflect makes at most 6 rows on each side of an image of 7; got 7",
    ),
    (
        {"padding": (0, (1, 9)), "padding_mode": "reflect"},
        r"padding_mode reflect makes at most 8 columns on each side of an image of 9; got 1\+9",
    ),
    ({"padding": 8, "padding_mode": "circular"}, "padding_mode circular makes at most 7 rows on each side"),
    (
        {"input": (1, 1, 1, 2**30 - 1), "weight": (1, 1, 1, 1), "padding": (0, 1), "padding_mode": "replicate"},
        r"the padded x has 2\^30 elements or more in a row or a column",
    ),
    ({"pass_": "forward"}, "unknown pass 'forward'; choose one of fprop, dgrad, wgrad"),
    ({"nonfinite": "all"}, "unknown nonfinite 'all'; choose one of window, any"),
    ({"accuracy": "exact"}, "unknown accuracy 'exact'; choose one of elementwise, normwise"),
    ({"workspace": -1}, "workspace must be 0 or more; got -1"),
    ({"workspace": 1.5}, "workspace must be 0 or more; got 1.5"),
    (
        {"precision": "tf32", "dtype": "float16"},
        "precision tf32 is not for float16 data; choose one of ieee, f16",
    ),
    ({"precision": "bf16", "dtype": "float16"}, "precision bf16 is not for float16 data; choose one of ieee, f16"),
    ({"precision": "tf32", "dtype": "bfloat16"}, "precision tf32 is not for bfloat16 data; choose one of ieee, bf16"),
    ({"precision": "f16", "dtype": "bfloat16"}, "precision f16 is not for bfloat16 data; choose one of ieee, bf16"),
    ({"precision": "fp8"}, "unknown precision 'fp8'; choose one of ieee, tf32, f16, bf16"),
    ({"dtype": "uint8"}, "unknown dtype 'uint8'; choose one of float32, float16, bfloat16"),
    ({"dtype": None}, "unknown dtype None"),
    ({"layout": "chwn"}, "unknown layout 'chwn'; choose one of nchw, nhwc"),
    ({"pass_": "wgrad", "bias": True}, "pass wgrad has no bias: only fprop and dgrad have"),
    ({"pass_": "wgrad", "relu": True}, "pass wgrad has no relu: only fprop and dgrad have"),
    ({"weight": (6, 4, 8, 2)}, "the filter spans 8x2 and is larger than the padded input of 7x9"),
    ({"dilation": 4, "padding": (0, 1)}, "the filter spans 9x5 and is larger than the padded input of 7x11"),
    ({"input": (2**24, 4, 32, 32)}, r"x has 2\^36 elements or more; split the batch"),
    ({"input": (2**23, 4, 32, 32), "weight": (16, 4, 3, 2)}, r"y has 2\^36 elements or more; split the batch"),
    ({"input": (2**23, 4, 32, 32), "weight": (16, 4, 3, 2), "pass_": "wgrad"}, r"dy has 2\^36 elements or more"),
    (
        {"input": (1, 2**15, 3, 3), "weight": (2**13, 2**15, 3, 3), "pass_": "wgrad"},
        r"dw has 2\^31 elements or more; split the filters",
    ),
]


class TestRefusals:
    @pytest.mark.parametrize(("fields", "says"), REFUSED)
    def test_one_line_says_what_is_wrong(self, fields: dict[str, Any], says: str) -> None:
        with pytest.raises(BadArgument, match=says) as caught:
            conv2d(**fields)
        assert "\n" not in str(caught.value)

    def test_a_padding_wider_than_the_image_is_none_of_them(self) -> None:
        assert conv2d(padding=20).output.shape == (2, 6, 45, 48)
