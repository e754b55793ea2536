"""Verification: a right result passes, and one wrong element among many does not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.problem import DType
from warpsmith.tuner.evaluate.verify import Verdict, verify
from warpsmith.tuner.operations.judge import FLOAT32_BOUND, Reference
from warpsmith.tuner.operations.registry import random_operands, reference

BOUND = FLOAT32_BOUND
LARGEST_RIGHT = np.float32(1e-6)
"""The float32 next to the bound is 9.99999997e-7, just under it."""
SMALLEST_WRONG = np.nextafter(LARGEST_RIGHT, np.float32(1))


def of_zeros(*shape: int, scale: float = 1.0) -> tuple[NDArray[np.float32], Reference]:
    """A right result and its reference: zeros everywhere."""
    return np.zeros(shape, np.float32), Reference(np.zeros(shape), np.full(shape, scale))


def check(result: NDArray[np.float32], of: Reference) -> Verdict:
    return verify(result, of, DType.FLOAT32)


class TestRight:
    def test_an_exact_result_has_no_error(self) -> None:
        result, of = of_zeros(5, 7)
        assert check(result, of) == Verdict(0.0, 0, "")
        assert check(result, of).right

    def test_a_rounded_result_is_right_and_its_error_is_told(self) -> None:
        problem = Filter2d(image=(60, 70), filter=(5, 5))
        exact = reference(problem, random_operands(problem, 0))
        rounded = exact.expected.astype(np.float32)
        verdict = check(rounded, exact)
        assert verdict.right
        assert verdict.message == ""
        assert verdict.max_error == np.max(np.abs(rounded - exact.expected) / exact.scale)
        assert 0 < verdict.max_error < 2.0**-24

    def test_the_bound_is_an_error_that_sums_in_float32_stay_under(self) -> None:
        """The longest filter of a kernel parameter block, summed in float32 one term after the other."""
        generator = np.random.default_rng(0)
        terms = generator.standard_normal((8191, 200), dtype=np.float32)
        weights = generator.standard_normal((8191, 1), dtype=np.float32)
        total = np.zeros(200, np.float32)
        for term, weight in zip(terms, weights, strict=True):
            total += term * weight
        products = terms.astype(np.float64) * weights
        exact = Reference(products.sum(axis=0)[None], np.abs(products).sum(axis=0)[None])
        assert check(total[None], exact).right


class TestBound:
    @pytest.mark.parametrize("sign", [1, -1])
    def test_an_element_just_under_is_right_and_just_over_is_wrong(self, sign: int) -> None:
        result, of = of_zeros(5, 7)
        result[3, 2] = sign * LARGEST_RIGHT
        assert check(result, of).right
        assert check(result, of).max_error == pytest.approx(BOUND, rel=1e-7)
        result[3, 2] = sign * SMALLEST_WRONG
        verdict = check(result, of)
        assert (verdict.right, verdict.wrong) == (False, 1)
        assert BOUND < verdict.max_error < 1.001 * BOUND

    @pytest.mark.parametrize("scale", [1e-6, 0.25, 4096.0])
    def test_the_error_is_measured_against_the_sum_of_terms(self, scale: float) -> None:
        result, of = of_zeros(5, 7, scale=scale)
        result[0, 0] = 0.99 * BOUND * scale
        assert check(result, of).right
        result[0, 0] = 1.01 * BOUND * scale
        assert not check(result, of).right

    def test_nothing_is_asked_where_the_scale_is_nan(self) -> None:
        result, of = of_zeros(5, 7)
        of.scale[1], of.expected[1, 3], result[1] = np.nan, np.nan, 1.0
        result[1, 2:5] = np.nan, np.inf, -np.inf
        assert verify(result, of, DType.FLOAT32).right
        result[2, 0] = np.nan
        assert verify(result, of, DType.FLOAT32).wrong == 1

    def test_each_element_has_a_scale_of_its_own(self) -> None:
        result, of = of_zeros(2, 2)
        of.scale[0, 1] = 1e6
        result[0, 1] = 0.5
        assert check(result, of).right
        result[1, 0] = 0.5
        assert check(result, of).message.startswith("1 of 4 elements are wrong; the worst, at (1, 0),")

    def test_an_error_in_a_large_value_is_seen(self) -> None:
        result, of = np.full((3, 3), 1e6, np.float32), Reference(np.full((3, 3), 1e6), np.full((3, 3), 1e6))
        result[1, 1] += 0.9375
        assert check(result, of).right
        result[1, 1] = 1e6 + 1.0625
        assert not check(result, of).right


class TestNotNumbers:
    @pytest.mark.filterwarnings("error")
    def test_a_signalling_nan_is_wrong_without_a_warning(self) -> None:
        result, of = of_zeros(5, 7)
        result.view(np.uint32)[3, 2] = 0x7F800001
        assert check(result, of).wrong == 1

    @pytest.mark.parametrize(("value", "text"), [(np.nan, "nan"), (np.inf, "inf"), (-np.inf, "-inf")])
    def test_are_wrong_and_infinitely_so(self, value: float, text: str) -> None:
        result, of = of_zeros(4, 6)
        result[2, 5] = value
        verdict = check(result, of)
        assert (verdict.right, verdict.wrong, verdict.max_error) == (False, 1, math.inf)
        assert verdict.message == f"1 of 24 elements are wrong; the worst, at (2, 5), is {text} and should be 0"

    def test_a_result_that_was_never_written_is_wrong_everywhere(self) -> None:
        _, of = of_zeros(4, 6)
        poison = np.frombuffer(b"\xff" * 4 * 24, np.float32).reshape(4, 6)
        assert check(poison, of).wrong == 24

    @pytest.mark.filterwarnings("error")
    def test_give_no_warnings(self) -> None:
        result, of = of_zeros(2, 2, scale=0.0)
        result[:] = [[np.nan, np.inf], [-np.inf, 1.0]]
        assert check(result, of).wrong == 4


class TestNoTerms:
    """A filter of zeros: the sum of |terms| is 0, and so must be the result."""

    def test_zero_is_right(self) -> None:
        result, of = of_zeros(3, 3, scale=0.0)
        result[1, 1] = -0.0
        assert check(result, of) == Verdict(0.0, 0, "")

    def test_the_smallest_other_value_is_wrong(self) -> None:
        result, of = of_zeros(3, 3, scale=0.0)
        result[1, 2] = np.finfo(np.float32).smallest_subnormal
        verdict = check(result, of)
        assert (verdict.wrong, verdict.max_error) == (1, math.inf)
        assert "at (1, 2)" in verdict.message


class TestMessage:
    def test_names_the_worst_element_and_both_values(self) -> None:
        result, of = of_zeros(20, 30)
        result[3, 4], result[17, 29], result[19, 0] = 0.5, -0.75, 0.25
        of.expected[17, 29] = 0.125
        verdict = check(result, of)
        assert verdict.message == "3 of 600 elements are wrong; the worst, at (17, 29), is -0.75 and should be 0.125"
        assert (verdict.wrong, verdict.max_error) == (3, 0.875)

    def test_tells_float32_values_to_the_last_bit(self) -> None:
        result, of = np.ones((1, 1), np.float32), Reference(np.full((1, 1), 2 / 3), np.ones((1, 1)))
        result[0, 0] = 1 + 2.0**-23
        assert check(result, of).message.endswith("is 1.00000012 and should be 0.666666667")

    def test_names_the_plane_of_a_result_of_planes(self) -> None:
        result, of = of_zeros(3, 4, 5)
        result[1, 2, 3] = 1
        result[2, 0, 1] = -9
        verdict = check(result, of)
        assert verdict.wrong == 2
        assert "2 of 60 elements are wrong; the worst, at (2, 0, 1), is -9" in verdict.message


class TestLargeResults:
    """700 rows of 1000 float64 are five strips and a half."""

    SHAPE = (700, 1000)

    @pytest.mark.parametrize("row", [0, 130, 131, 132, 261, 262, 524, 655, 699])
    @pytest.mark.parametrize("column", [0, 999])
    def test_no_row_is_passed_over(self, row: int, column: int) -> None:
        result, of = of_zeros(*self.SHAPE)
        result[row, column] = 1
        verdict = check(result, of)
        assert verdict.wrong == 1
        assert f"at ({row}, {column}), is 1 and should be 0" in verdict.message

    def test_wrong_elements_of_all_strips_are_counted_and_the_worst_found(self) -> None:
        result, of = of_zeros(*self.SHAPE)
        result[::7, ::11] = 1
        result[600, 500] = np.nan
        verdict = check(result, of)
        assert verdict.wrong == 100 * 91 + 1
        assert "at (600, 500), is nan" in verdict.message

    def test_planes_run_across_strips(self) -> None:
        result, of = of_zeros(70, 10, 1000)
        result[69, 9, 999] = 2
        verdict = check(result, of)
        assert verdict.wrong == 1
        assert "at (69, 9, 999), is 2" in verdict.message
