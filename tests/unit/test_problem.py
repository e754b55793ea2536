"""Problems: canonical form, keys that cover every field, distances, operation counts."""

from __future__ import annotations

import dataclasses
import itertools
import json
from typing import Any

import numpy as np
import pytest

from warpsmith.errors import BadArgument
from warpsmith.generator.filter2d import MAX_WEIGHTS_BYTES, Border, Filter2d
from warpsmith.generator.problem import DType, Operand, Problem, Role

EVERY_FIELD = Filter2d(
    image=(8, 9), filter=(2, 3), planes=2, border=Border.CONSTANT, cval=1.5, weights=(0.0, 1.0, 2.0, 3.0, 4.0, 5.0)
)
"""A problem in which every field is alive: border `constant` reads cval, and the weights are known."""

CHANGES: dict[str, Any] = {
    "image": (9, 8),
    "filter": (3, 2),
    "planes": 3,
    "dtype": "float64",  # of which this version has no kernels: set past the checks
    "border": Border.NEAREST,
    "cval": 1.25,
    "weights": (0.0, 1.0, 2.0, 3.0, 4.0, 5.5),
}
"""For each field, a value that makes EVERY_FIELD another problem."""


def changed(problem: Filter2d, field: str) -> Filter2d:
    """`problem` with one field changed, past the checks that a constructor makes."""
    copy = dataclasses.replace(problem)
    object.__setattr__(copy, field, CHANGES[field])
    return copy


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
        assert problem.weight_rows == nested

    def test_unknown_weights_have_no_rows(self) -> None:
        assert Filter2d(image=(8, 9), filter=(2, 3)).weight_rows == ()

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


class TestRefusals:
    @pytest.mark.parametrize(
        ("fields", "says"),
        [
            ({"image": (0, 8)}, r"image must be two positive sizes below 2\^30, ROWSxCOLUMNS; got 0x8"),
            ({"image": (8, -1)}, r"image must be two positive sizes below 2\^30, ROWSxCOLUMNS; got 8x-1"),
            ({"image": (8,)}, r"image must be two positive sizes below 2\^30, ROWSxCOLUMNS; got 8"),
            ({"image": (8, 8, 8)}, r"image must be two positive sizes below 2\^30, ROWSxCOLUMNS; got 8x8x8"),
            ({"image": (8, 8.0)}, r"image must be two positive sizes below 2\^30, ROWSxCOLUMNS; got 8x8.0"),
            ({"image": 512}, r"image must be two positive sizes below 2\^30, ROWSxCOLUMNS; got 512"),
            ({"image": (1, 2**30)}, r"image must be two positive sizes below 2\^30"),
            ({"filter": (3, 0)}, r"filter must be two positive sizes below 2\^30, ROWSxCOLUMNS; got 3x0"),
            ({"filter": (-3, 3)}, r"filter must be two positive sizes below 2\^30, ROWSxCOLUMNS; got -3x3"),
            ({"filter": (9, 1)}, r"the filter \(9x1\) is larger than the image \(8x8\)"),
            ({"filter": (1, 9)}, r"the filter \(1x9\) is larger than the image \(8x8\)"),
            ({"filter": (1, 9), "border": "wrap"}, r"the filter \(1x9\) is larger than the image \(8x8\)"),
            ({"planes": 0}, "planes must be 1 or more; got 0"),
            ({"planes": -2}, "planes must be 1 or more; got -2"),
            ({"planes": 1.0}, r"planes must be 1 or more; got 1\.0"),
            ({"dtype": "float99"}, "unknown dtype 'float99'; choose one of float32"),
            (
                {"border": "replicate"},
                "unknown border 'replicate'; choose one of valid, constant, nearest, reflect, mirror, wrap",
            ),
            ({"weights": (1.0,) * 8}, "weights hold 8 values; a filter of 3x3 needs 9"),
            ({"weights": np.ones((3, 4))}, "weights hold 12 values; a filter of 3x3 needs 9"),
            ({"weights": ()}, "weights hold 0 values; a filter of 3x3 needs 9"),
            ({"weights": (float("nan"),) * 9}, "weights must be finite"),
            ({"weights": (float("-inf"),) * 9}, "weights must be finite"),
            ({"image": (65536, 32768)}, r"1 planes of 65536x32768 are 2\^31 pixels or more; split the batch"),
            ({"image": (1024, 1024), "planes": 2048}, r"2048 planes of 1024x1024 are 2\^31 pixels or more"),
        ],
    )
    def test_one_line_says_what_is_wrong(self, fields: dict[str, Any], says: str) -> None:
        with pytest.raises(BadArgument, match=says) as caught:
            Filter2d(**{"image": (8, 8), "filter": (3, 3), **fields})
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize("value", [1e39, -1e39])
    def test_a_number_that_float32_cannot_hold(self, value: float) -> None:
        with pytest.raises(BadArgument, match="weights must be finite"):
            Filter2d(image=(8, 8), filter=(1, 1), weights=(value,))
        with pytest.raises(BadArgument, match="cval must be finite"):
            Filter2d(image=(8, 8), filter=(1, 1), border=Border.CONSTANT, cval=value)

    @pytest.mark.parametrize("value", [float("nan"), float("inf")])
    def test_a_border_value_that_is_no_number(self, value: float) -> None:
        with pytest.raises(BadArgument, match="cval must be finite"):
            Filter2d(image=(8, 8), filter=(1, 1), border=Border.CONSTANT, cval=value)

    def test_weights_of_another_shape_with_as_many_values(self) -> None:
        with pytest.raises(BadArgument, match="weights"):
            Filter2d(image=(8, 8), filter=(3, 5), weights=np.ones((5, 3)))  # type: ignore[arg-type]

    def test_the_largest_filter_fills_a_kernel_parameter_block(self) -> None:
        taps = MAX_WEIGHTS_BYTES // 4
        assert Filter2d(image=(taps, 1), filter=(taps, 1)).operands[1].nbytes == MAX_WEIGHTS_BYTES
        with pytest.raises(BadArgument, match=f"too large for a kernel parameter \\({MAX_WEIGHTS_BYTES} bytes\\)"):
            Filter2d(image=(taps + 1, 1), filter=(taps + 1, 1))

    def test_the_largest_image_is_just_short_of_2_to_the_31_pixels(self) -> None:
        assert Filter2d(image=(2, 2**30 - 1), filter=(1, 1)).output.size == 2**31 - 2


class TestKey:
    @pytest.mark.parametrize("field", CHANGES)
    def test_changing_any_field_changes_the_key(self, field: str) -> None:
        assert changed(EVERY_FIELD, field).key() != EVERY_FIELD.key()

    def test_is_one_readable_line(self) -> None:
        assert EVERY_FIELD.key().startswith(
            "filter2d image=8x9 filter=2x3 planes=2 dtype=float32 border=constant cval=1.5 weights=sha256:"
        )
        assert Filter2d(image=(512, 512), filter=(3, 3)).key() == (
            "filter2d image=512x512 filter=3x3 planes=1 dtype=float32 border=valid"
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

    # Not dtype: no second one can be constructed yet.
    @pytest.mark.parametrize("field", [field for field in CHANGES if field != "dtype"])
    def test_is_none_where_anything_but_the_size_differs(self, field: str) -> None:
        other = changed(EVERY_FIELD, field)
        near = field in ("image", "planes")
        for distance in (EVERY_FIELD.distance(other), other.distance(EVERY_FIELD)):
            assert (distance is not None) is near

    def test_is_none_where_the_others_filter_would_not_fit_this_image(self) -> None:
        small, large = Filter2d(image=(4, 4), filter=(3, 3)), Filter2d(image=(64, 64), filter=(5, 5))
        assert small.distance(large) is None
        assert large.distance(small) is None


class TestCounts:
    """By hand: 2 planes of 4x5 float32, a filter of 3x3."""

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

    @pytest.mark.parametrize("border", Border)
    @pytest.mark.parametrize("size", [(1, 1), (2, 3), (4, 5)])
    def test_output_shape_and_anchor(self, border: Border, size: tuple[int, int]) -> None:
        problem = Filter2d(image=(4, 5), filter=size, border=border)
        valid = border is Border.VALID
        assert problem.output_shape == ((5 - size[0], 6 - size[1]) if valid else (4, 5))
        assert problem.anchor == ((0, 0) if valid else (size[0] // 2, size[1] // 2))
