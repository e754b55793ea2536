"""Problems: canonical form, keys that cover every field, distances, operation counts."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import json
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from warpsmith.errors import BadArgument
from warpsmith.generator.fft import Fft
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.problem import Accuracy, DType, NonFinite, Operand, Problem, Role

EVERY_FIELD = Filter2d(
    image=(8, 9),
    filter=(2, 3),
    planes=2,
    border=Border.CONSTANT,
    cval=1.5,
    weights=tuple(float(i) for i in range(12)),
    channels=3,
    filters=2,
    result_dtype=DType.UINT8,
    convolve=True,
    anchor=(0, 2),
    pitch=128,
    result_pitch=32,
    accuracy=Accuracy.NORMWISE,
    nonfinite=NonFinite.ANY,
)
"""A problem in which every field matters: border `constant` reads cval, and the weights are known."""

CHANGES: dict[str, Any] = {
    "image": (9, 8),
    "filter": (3, 2),
    "planes": 3,
    "dtype": DType.FLOAT16,
    "border": Border.NEAREST,
    "cval": 1.25,
    "weights": (*(float(i) for i in range(11)), 11.5),
    "channels": 2,
    "filters": 3,
    "result_dtype": None,
    "convolve": False,
    "anchor": None,
    "pitch": 256,
    "result_pitch": None,
    "accuracy": Accuracy.ELEMENTWISE,
    "nonfinite": NonFinite.WINDOW,
}
"""Value per field that makes EVERY_FIELD another problem; set past the checks, as some need matching weights."""


def changed(problem: Filter2d, field: str) -> Filter2d:
    """`problem` with one field changed, past the checks that a constructor makes."""
    made = dataclasses.replace(problem)
    object.__setattr__(made, field, CHANGES[field])
    return copy.copy(made)  # drops values cached for the old field


def test_every_field_has_a_change() -> None:
    assert [field.name for field in dataclasses.fields(Filter2d)] == list(CHANGES)


class TestCanonicalForm:
    def test_words_become_members_and_lists_become_tuples(self) -> None:
        problem = Filter2d(image=[8, 9], filter=[3, 3], dtype="float32", border="wrap")  # type: ignore[arg-type]
        assert problem == Filter2d(image=(8, 9), filter=(3, 3), dtype=DType.FLOAT32, border=Border.WRAP)
        assert isinstance(problem.border, Border)
        assert isinstance(problem.dtype, DType)
        assert isinstance(problem.image, tuple)
        assert hash(problem) == hash(Filter2d(image=(8, 9), filter=(3, 3), border=Border.WRAP))

    def test_weights_may_come_in_rows_flat_or_as_an_array(self) -> None:
        flat = tuple(float(i) for i in range(6))
        nested = ((0.0, 1.0, 2.0), (3.0, 4.0, 5.0))
        array = np.arange(6, dtype=np.float64).reshape(2, 3)
        problems = {
            Filter2d(image=(8, 9), filter=(2, 3), weights=weights)  # type: ignore[arg-type]
            for weights in (flat, list(flat), nested, array, array.ravel(), array.astype(np.float32))
        }
        assert len(problems) == 1
        (problem,) = problems
        assert problem.weights == flat
        assert problem.taps == (nested,)
        assert problem.known == {"weights": flat}

    def test_weights_of_a_bank_may_come_in_filters_rows_or_flat(self) -> None:
        array = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
        forms = (array, array.reshape(4, 3), array.ravel(), array.tolist(), [list(map(tuple, each)) for each in array])
        problems = {Filter2d(image=(8, 9), filter=(2, 3), filters=2, weights=weights) for weights in forms}  # type: ignore[arg-type]
        assert len(problems) == 1
        assert problems.pop().taps == (((0, 1, 2), (3, 4, 5)), ((6, 7, 8), (9, 10, 11)))

    def test_the_taps_of_a_convolution_are_turned_filter_by_filter(self) -> None:
        problem = Filter2d(image=(8, 9), filter=(2, 3), filters=2, weights=tuple(range(12)), convolve=True)
        assert problem.taps == (((5, 4, 3), (2, 1, 0)), ((11, 10, 9), (8, 7, 6)))
        assert problem.weights == tuple(range(12))

    def test_unknown_weights_have_no_taps(self) -> None:
        problem = Filter2d(image=(8, 9), filter=(2, 3))
        assert problem.taps == ()
        assert problem.known == {}

    @pytest.mark.parametrize(
        ("fields", "usual"),
        [
            ({"result_dtype": "float32"}, {}),
            ({"dtype": "uint8", "result_dtype": DType.UINT8}, {"dtype": DType.UINT8}),
            ({"anchor": (1, 2)}, {}),
            ({"anchor": np.array([1, 2])}, {}),
            ({"pitch": 9 * 4}, {}),
            ({"result_pitch": 9 * 2, "result_dtype": "float16"}, {"result_dtype": DType.FLOAT16}),
            ({"pitch": np.int64(40), "channels": np.int32(1), "planes": np.uint8(1), "filters": 1}, {"pitch": 40}),
            ({"convolve": 0}, {}),
            ({"convolve": 1}, {"convolve": True}),
            ({"nonfinite": "window"}, {}),
            ({"nonfinite": "any", "dtype": "uint8"}, {"dtype": DType.UINT8}),  # it has no such pixels
        ],
    )
    def test_what_says_the_usual_is_not_said(self, fields: dict[str, Any], usual: dict[str, Any]) -> None:
        common: dict[str, Any] = {"image": (8, 9), "filter": (2, 5), "border": Border.WRAP}
        said, unsaid = Filter2d(**common, **fields), Filter2d(**common, **usual)
        assert said == unsaid
        assert said.key() == unsaid.key()
        assert json.dumps(said.spec()) == json.dumps(unsaid.spec())

    def test_values_are_rounded_to_float32(self) -> None:
        exact = float(np.float32(0.1))
        double = Filter2d(image=(4, 4), filter=(1, 1), border=Border.CONSTANT, cval=0.1, weights=(0.1,))
        single = Filter2d(image=(4, 4), filter=(1, 1), border=Border.CONSTANT, cval=exact, weights=(exact,))
        assert double == single
        assert double.key() == single.key()
        assert (double.cval, double.weights) == (exact, (exact,))

    def test_zero_has_no_sign(self) -> None:
        # -0.0 == 0.0, so that two equal problems would have two keys.
        minus = Filter2d(image=(4, 4), filter=(1, 2), border=Border.CONSTANT, cval=-0.0, weights=(-0.0, 1.0))
        plus = Filter2d(image=(4, 4), filter=(1, 2), border=Border.CONSTANT, cval=0.0, weights=(0.0, 1.0))
        assert minus == plus
        assert minus.key() == plus.key()

    @pytest.mark.parametrize("border", Border)
    def test_cval_is_of_border_constant_alone(self, border: Border) -> None:
        plain, other = (Filter2d(image=(4, 4), filter=(3, 3), border=border, cval=cval) for cval in (0.0, 7.0))
        assert (plain == other) is (border is not Border.CONSTANT)
        assert (plain.key() == other.key()) is (border is not Border.CONSTANT)


class TestKey:
    @pytest.mark.parametrize("field", CHANGES)
    def test_changing_any_field_changes_the_key(self, field: str) -> None:
        assert changed(EVERY_FIELD, field).key() != EVERY_FIELD.key()

    @pytest.mark.parametrize(
        ("fields", "key"),
        [
            (
                {"image": (9216, 9216)},
                "filter2d image=9216x9216 filter=3x3 planes=1 dtype=float32 border=valid",
            ),
            (
                {"image": (8, 9), "planes": 4, "border": "constant", "cval": 0.5, "weights": range(9)},
                "filter2d image=8x9 filter=3x3 planes=4 dtype=float32 border=constant cval=0.5 "
                "weights=sha256:eb5e38fa46a224f6",
            ),
            ({"image": (8, 9), "border": "wrap"}, "filter2d image=8x9 filter=3x3 planes=1 dtype=float32 border=wrap"),
        ],
    )
    def test_a_problem_of_the_first_version_keeps_its_key(self, fields: dict[str, Any], key: str) -> None:
        assert Filter2d(filter=(3, 3), **fields).key() == key

    def test_names_what_is_unusual(self) -> None:
        assert EVERY_FIELD.key().rpartition(" ")[0] == (
            "filter2d image=8x9 filter=2x3 planes=2 dtype=float32 border=constant cval=1.5 channels=3 filters=2 "
            "result_dtype=uint8 convolve=yes anchor=0,2 pitch=128 result_pitch=32 accuracy=normwise nonfinite=any"
        )

    def test_tells_any_two_problems_apart(self) -> None:
        problems = [
            Filter2d(image=image, filter=size, planes=planes, border=border, cval=cval, weights=weights)
            for image, size, planes, border, cval, weights in itertools.product(
                ((11, 1), (1, 11), (11, 11), (111, 1)), ((1, 1),), (1, 11), Border, (0.0, 1.0), (None, (1.0,), (2.0,))
            )
        ]
        assert len({problem.key() for problem in problems}) == len(set(problems)) > 100


class TestSpec:
    def test_of_the_first_version_is_still_read(self) -> None:
        spec = {"image": [8, 9], "filter": [1, 2], "planes": 2, "dtype": "float32", "border": "mirror", "cval": 0.0}
        problem = Filter2d(image=(8, 9), filter=(1, 2), planes=2, border=Border.MIRROR, weights=(1.0, 2.0))
        assert Problem.from_spec("filter2d", {**spec, "weights": [1.0, 2.0]}) == problem

    @pytest.mark.parametrize("problem", [EVERY_FIELD, Filter2d(image=(512, 512), filter=(3, 3))])
    def test_comes_back_through_json(self, problem: Filter2d) -> None:
        spec = json.loads(json.dumps(problem.spec()))
        back = Problem.from_spec("filter2d", spec)
        assert back == problem
        assert back.key() == problem.key()
        assert list(spec) == [field.name for field in dataclasses.fields(Filter2d)]

    def test_names_what_it_does_not_know(self) -> None:
        with pytest.raises(BadArgument, match=r"unknown operation 'fft3d'; this version knows .*filter2d"):
            Problem.from_spec("fft3d", {})


class TestDistance:
    def test_of_a_problem_to_itself_is_nothing(self) -> None:
        assert EVERY_FIELD.distance(dataclasses.replace(EVERY_FIELD)) == 0

    def test_is_measured_in_octaves(self) -> None:
        base = Filter2d(image=(64, 128), filter=(3, 3), planes=2)
        assert base.distance(Filter2d(image=(128, 128), filter=(3, 3), planes=2)) == 1
        assert base.distance(Filter2d(image=(32, 512), filter=(3, 3), planes=2)) == 3
        assert base.distance(Filter2d(image=(64, 128), filter=(3, 3), planes=16)) == 3

    def test_is_the_same_both_ways(self) -> None:
        sizes = ((3, 3), (64, 64), (100, 37), (1, 1000))
        problems = [Filter2d(image=size, filter=(1, 1), planes=planes) for size in sizes for planes in (1, 3)]
        for one, other in itertools.combinations(problems, 2):
            there, back = one.distance(other), other.distance(one)
            assert there is not None
            assert there > 0
            assert there == pytest.approx(back)

    @pytest.mark.parametrize("field", CHANGES)
    def test_of_any_other_field_is_more_than_nothing_and_the_same_both_ways(self, field: str) -> None:
        other = changed(EVERY_FIELD, field)
        there, back = EVERY_FIELD.distance(other), other.distance(EVERY_FIELD)
        assert there == pytest.approx(back)
        assert there is None or there > 0

    def test_of_what_moves_the_best_config_more_is_longer(self) -> None:
        base = Filter2d(image=(1000, 1000), filter=(9, 9), border=Border.REFLECT)
        nearest_first: list[dict[str, Any]] = [
            {"anchor": (0, 0)},
            {"border": Border.WRAP},
            {"border": Border.VALID},
            {"filter": (10, 10)},
            {"filter": (11, 11)},
            {"dtype": DType.FLOAT16},
        ]
        distances = [base.distance(dataclasses.replace(base, **change)) for change in nearest_first]
        assert None not in distances
        assert distances == sorted(distances, key=lambda each: each or 0)

    @pytest.mark.parametrize(
        "change", [{"filter": (5, 5)}, {"dtype": DType.UINT8, "filter": (4, 4)}, {"filters": 16}], ids=str
    )
    def test_is_none_where_the_best_config_is_another(self, change: dict[str, Any]) -> None:
        base = Filter2d(image=(1000, 1000), filter=(3, 3))
        other = dataclasses.replace(base, **change)
        assert base.distance(other) is other.distance(base) is None

    def test_a_gap_between_rows_is_nearer_than_half_the_image(self) -> None:
        dense, padded, half = (
            Filter2d(image=(64, columns), filter=(3, 3), pitch=pitch)
            for columns, pitch in ((130, None), (130, 768), (65, None))
        )
        assert 0 < (dense.distance(padded) or 0) < (dense.distance(half) or 0)

    def test_is_none_where_the_others_filter_would_not_fit_this_image(self) -> None:
        small, large = Filter2d(image=(4, 4), filter=(3, 3)), Filter2d(image=(64, 64), filter=(5, 5))
        assert small.distance(large) is None
        assert large.distance(small) is None


class TestCounts:
    """Counts of 2 planes of 4x5 float32 with a 3x3 filter, worked out by hand."""

    VALID = Filter2d(image=(4, 5), filter=(3, 3), planes=2)
    REFLECT = Filter2d(image=(4, 5), filter=(3, 3), planes=2, border=Border.REFLECT)

    def test_operands(self) -> None:
        assert self.VALID.operands == (
            Operand("image", Role.INPUT, (2, 4, 5), DType.FLOAT32),
            Operand("weights", Role.INPUT, (3, 3), DType.FLOAT32),
            Operand("result", Role.OUTPUT, (2, 2, 3), DType.FLOAT32),
        )
        assert [operand.name for operand in self.VALID.inputs] == ["image", "weights"]
        assert self.VALID.output.name == "result"

    def test_a_single_plane_has_no_dimension_of_its_own(self) -> None:
        single = dataclasses.replace(self.REFLECT, planes=1)
        assert [operand.shape for operand in single.operands] == [(4, 5), (3, 3), (4, 5)]

    def test_bytes(self) -> None:
        assert self.VALID.bytes == 2 * 20 * 4 + 9 * 4 + 2 * 6 * 4 == 244
        assert self.REFLECT.bytes == 2 * 20 * 4 + 9 * 4 + 2 * 20 * 4 == 356

    def test_flops(self) -> None:
        assert self.VALID.flops == 216  # 2 planes of 2x3 outputs, 9 taps, 2 each
        assert self.REFLECT.flops == 720

    def test_the_paper_s_image(self) -> None:
        problem = Filter2d(image=(9216, 9216), filter=(3, 3))
        assert problem.bytes == 4 * (9216 * 9216 + 9 + 9214 * 9214)
        assert problem.flops == 18 * 9214 * 9214

    @pytest.mark.parametrize("convolve", [False, True])
    @pytest.mark.parametrize("border", Border)
    @pytest.mark.parametrize("size", [(1, 1), (2, 3), (4, 5)])
    def test_output_shape_and_reach(self, border: Border, size: tuple[int, int], convolve: bool) -> None:
        problem = Filter2d(image=(4, 5), filter=size, border=border, convolve=convolve)
        valid = border is Border.VALID
        assert problem.output_shape == ((5 - size[0], 6 - size[1]) if valid else (4, 5))
        # A convolution turns the filter: an even one then reaches further right.
        around = tuple((extent - 1) // 2 if convolve else extent // 2 for extent in size)
        assert problem.before == ((0, 0) if valid else around)

    def test_an_anchor_is_as_far_from_the_windows_first_pixel_or_its_last(self) -> None:
        problem = Filter2d(image=(4, 5), filter=(4, 5), border=Border.WRAP, anchor=(3, 1))
        assert problem.before == (3, 1)
        assert dataclasses.replace(problem, convolve=True).before == (0, 3)


class TestLayout:
    """Layout of 2 planes of 4x5 pixels with 3 channels and six 3x3 filters, worked out by hand."""

    PROBLEM = Filter2d(
        image=(4, 5), filter=(3, 3), planes=2, channels=3, filters=6, dtype=DType.UINT8, result_dtype=DType.FLOAT16
    )

    def test_dense(self) -> None:
        image, weights, result = self.PROBLEM.operands
        assert (image.shape, image.dtype, image.strides) == ((2, 4, 5, 3), DType.UINT8, (60, 15, 3, 1))
        assert (weights.shape, weights.dtype, weights.strides) == ((6, 3, 3), DType.FLOAT32, (36, 12, 4))
        assert (result.shape, result.dtype) == ((2, 6, 2, 3, 3), DType.FLOAT16)
        assert result.strides == (2 * 6 * 18 * 1, 2 * 18, 18, 6, 2)
        assert [operand.span_bytes for operand in self.PROBLEM.operands] == [120, 216, 432]
        assert self.PROBLEM.bytes == 120 + 216 + 432
        assert self.PROBLEM.flops == 2 * 9 * 216

    def test_with_gaps_between_rows(self) -> None:
        problem = dataclasses.replace(self.PROBLEM, pitch=16, result_pitch=32)
        image, _, result = problem.operands
        assert image.strides == (64, 16, 3, 1)
        assert result.strides == (2 * 6 * 32, 2 * 32, 32, 6, 2)
        # Gaps are not moved, and there is none after the last row.
        assert (image.nbytes, image.span_bytes) == (120, 127)
        assert (result.nbytes, result.span_bytes) == (432, 24 * 32 - 14)
        assert problem.bytes == self.PROBLEM.bytes

    def test_dimensions_of_one_are_left_out(self) -> None:
        for name, shape in (("planes", (6, 2, 3, 3)), ("filters", (2, 2, 3, 3)), ("channels", (2, 6, 2, 3))):
            assert dataclasses.replace(self.PROBLEM, **{name: 1}).output.shape == shape

    def test_strides_are_those_of_numpy(self) -> None:
        for counts in itertools.product((1, 3), repeat=3):
            planes, filters, channels = counts
            problem = dataclasses.replace(self.PROBLEM, planes=planes, filters=filters, channels=channels)
            for operand in problem.operands:
                assert np.empty(operand.shape, str(operand.dtype)).strides == operand.strides


class TestBorderNames:
    @pytest.mark.parametrize(
        ("name", "border"),
        [
            ("BORDER_CONSTANT", Border.CONSTANT),
            ("BORDER_REPLICATE", Border.NEAREST),
            ("BORDER_REFLECT", Border.REFLECT),
            ("BORDER_REFLECT_101", Border.MIRROR),
            ("BORDER_REFLECT101", Border.MIRROR),
            ("BORDER_DEFAULT", Border.MIRROR),
            ("BORDER_WRAP", Border.WRAP),
            ("replicate", Border.NEAREST),
            ("edge", Border.NEAREST),
            ("symmetric", Border.REFLECT),
            ("circular", Border.WRAP),
            ("Reflect101", Border.MIRROR),
            ("grid-constant", Border.CONSTANT),
            ("grid-mirror", Border.REFLECT),
            ("grid-wrap", Border.WRAP),
            *((border.value, border) for border in Border),
            *((border, border) for border in Border),
        ],
    )
    def test_means_what_it_means_there(self, name: str, border: Border) -> None:
        assert Border.of(name) is border
        problem = Filter2d(image=(8, 8), filter=(3, 3), border=name)  # type: ignore[arg-type]
        assert problem.border is border
        assert problem.key() == Filter2d(image=(8, 8), filter=(3, 3), border=border).key()

    def test_every_name_in_the_readmes_table_is_accepted(self) -> None:
        text = (Path(__file__).parents[2] / "docs/guide/filters.md").read_text()
        rows = re.findall(r"^\| `(\w+)` \| .* \| (.*) \|$", text[text.index("| `--border` |") :], re.MULTILINE)
        assert [name for name, _ in rows[: len(Border)]] == list(Border)
        found = {(name, other) for name, told in rows[: len(Border)] for other in re.findall(r"`(\w+)`", told)}
        assert {("nearest", "edge"), ("reflect", "symmetric"), ("wrap", "circular")} <= found
        for name, other in found - {("mirror", "reflect")}:
            assert Border.of(other) is Border(name)


class TestElementTypes:
    @pytest.mark.parametrize(
        "named",
        [np.float16, np.dtype("float16"), np.dtype("f2"), np.str_("float16"), DType.FLOAT16],
        ids=["scalar type", "dtype", "short", "numpy string", "member"],
    )
    def test_numpys_are_understood_and_stored_by_name(self, named: Any) -> None:
        problem = Filter2d(image=(8, 8), filter=(3, 3), dtype=named)
        assert problem.dtype is DType.FLOAT16
        assert problem.key() == Filter2d(image=(8, 8), filter=(3, 3), dtype=DType.FLOAT16).key()
        given = Filter2d(image=(8, 8), filter=(3, 3), result_dtype=named)
        assert given.result_dtype is DType.FLOAT16
        assert Problem.from_spec("filter2d", given.spec()) == given

    def test_a_result_dtype_that_is_the_images_is_none(self) -> None:
        problem = Filter2d(image=(8, 8), filter=(3, 3), dtype=np.uint8, result_dtype=np.dtype("uint8"))  # type: ignore[arg-type]
        assert problem.result_dtype is None

    def test_pytorchs_are_understood(self) -> None:
        torch = pytest.importorskip("torch")
        problem = Filter2d(image=(8, 8), filter=(3, 3), dtype=torch.uint8, result_dtype=torch.float32)
        assert (problem.dtype, problem.result_dtype) == (DType.UINT8, DType.FLOAT32)
        with pytest.raises(BadArgument, match="unknown dtype 'bfloat16'; choose one of float32, float16, uint8"):
            Filter2d(image=(8, 8), filter=(3, 3), dtype=torch.bfloat16)

    @pytest.mark.parametrize(
        ("named", "told"),
        [
            (np.float64, "float64"),
            (np.dtype("complex64"), "complex64"),
            (np.dtype(">f4"), ">f4"),
            (float, "float"),
            (32, "32"),
        ],
    )
    def test_others_are_refused_with_the_choices(self, named: Any, told: str) -> None:
        with pytest.raises(BadArgument) as caught:
            Filter2d(image=(8, 8), filter=(3, 3), dtype=named)
        assert str(caught.value) == f"unknown dtype '{told}'; choose one of float32, float16, uint8"


class TestWhatIsKept:
    """Operands and hashes are made once for a problem, and are no part of it."""

    @pytest.fixture(params=[EVERY_FIELD, Fft(size=(8, 8), batch=3)], ids=["filter2d", "fft"])
    def problem(self, request: pytest.FixtureRequest) -> Problem:
        made: Problem = dataclasses.replace(request.param)
        return made

    def test_operands_are_made_once(self, problem: Problem) -> None:
        assert problem.operands is problem.operands
        assert problem.inputs is problem.inputs

    def test_equality_and_hash_see_the_fields_alone(self, problem: Problem) -> None:
        other = dataclasses.replace(problem)
        _ = problem.operands, problem.inputs, hash(problem)
        assert other == problem
        assert hash(other) == hash(problem)
        assert {problem: 1}[other] == 1

    def test_a_problem_of_another_operation_is_another(self) -> None:
        assert Fft(size=(8, 8), batch=3) != EVERY_FIELD
        assert EVERY_FIELD.__eq__("a problem") is NotImplemented

    @pytest.mark.parametrize("name", CHANGES)
    def test_equality_compares_every_field(self, name: str) -> None:
        assert changed(EVERY_FIELD, name) != EVERY_FIELD

    def test_the_hash_counts_every_field(self) -> None:
        hashes = {hash(changed(EVERY_FIELD, name)) for name in CHANGES}
        assert len(hashes | {hash(EVERY_FIELD)}) == len(CHANGES) + 1

    @pytest.mark.parametrize("copied", [lambda x: pickle.loads(pickle.dumps(x)), copy.copy, copy.deepcopy])
    def test_a_copy_takes_nothing_of_it_along(self, problem: Problem, copied: Any) -> None:
        _ = problem.operands, problem.inputs, hash(problem)
        made = copied(problem)
        assert set(vars(made)) == {field.name for field in dataclasses.fields(problem)}  # type: ignore[arg-type]
        assert made == problem

    def test_another_problem_has_its_own(self) -> None:
        _ = EVERY_FIELD.operands, hash(EVERY_FIELD)
        assert dataclasses.replace(EVERY_FIELD, planes=5).operands[0].shape[0] == 5
