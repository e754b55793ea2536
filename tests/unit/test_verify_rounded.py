"""Verification of float16, bfloat16 and uint8: a result is right if some number within the bound rounds to it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from warpsmith.devices.elements import numpy_dtype
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.problem import PIXELS, DType
from warpsmith.tuner.evaluate.verify import Verdict, verify
from warpsmith.tuner.operations.judge import FLOAT32_BOUND, Reference
from warpsmith.tuner.operations.registry import random_operands, reference

TINY = 2.0**-24
"""The smallest float16 above 0."""


def check(got: float, expected: float, dtype: DType, scale: float = 1e-3) -> Verdict:
    """Verdict on one element; the default scale allows an error of 1e-9."""
    return verify(
        np.full((1, 1), got, numpy_dtype(dtype)), Reference(np.full((1, 1), expected), np.full((1, 1), scale)), dtype
    )


def rounded(exact: NDArray[np.float64], dtype: DType) -> NDArray[np.generic]:
    """Rounds as a kernel must at its end: to nearest, half to even, saturated."""
    if dtype is DType.UINT8:
        return np.clip(np.rint(exact), 0, 255).astype(np.uint8)
    return exact.astype(numpy_dtype(dtype))


class TestUint8:
    @pytest.mark.parametrize(
        ("expected", "right"),
        [
            (0.0, {0}),
            (0.499, {0}),
            (0.5, {0, 1}),
            (0.501, {1}),
            (2.5, {2, 3}),
            (3.5, {3, 4}),
            (7.0, {7}),
            (127.4999, {127}),
            (254.5, {254, 255}),
            (255.0, {255}),
            (255.7, {255}),
            (1e6, {255}),
            (-0.4, {0}),
            (-0.5, {0}),
            (-300.0, {0}),
        ],
    )
    def test_which_bytes_are_right(self, expected: float, right: set[int]) -> None:
        assert {got for got in range(256) if check(got, expected, DType.UINT8).right} == right

    def test_integers_are_exact(self) -> None:
        """A sum of integers has no rounding: one off is wrong, whatever the bound makes of it."""
        verdict = check(101, 100.0, DType.UINT8, scale=1000.0)
        assert verdict.wrong == 1
        assert verdict.max_error == 0.5 / 1000

    def test_a_tie_goes_either_way_only_within_the_bound(self) -> None:
        scale = 100.0  # allows 1e-4
        for beside, up, down in ((0.99e-4, True, True), (1.01e-4, True, False)):
            assert check(11, 10.5 + beside, DType.UINT8, scale).right is up
            assert check(10, 10.5 + beside, DType.UINT8, scale).right is down
            assert check(10, 10.5 - beside, DType.UINT8, scale).right is up
            assert check(11, 10.5 - beside, DType.UINT8, scale).right is down

    def test_the_error_is_what_rounding_does_not_explain(self) -> None:
        assert check(12, 10.25, DType.UINT8, scale=10.0).max_error == pytest.approx(1.25 / 10)
        assert check(10, 10.25, DType.UINT8).max_error == 0

    def test_wrapping_around_is_wrong(self) -> None:
        assert not check(0, 256.0, DType.UINT8).right
        assert not check(255, -1.0, DType.UINT8).right
        assert (
            check(0, 256.0, DType.UINT8).message
            == "1 of 1 elements are wrong; the worst, at (0, 0), is 0 and should be 256"
        )

    @pytest.mark.filterwarnings("error")
    def test_without_terms_only_what_zero_rounds_to_is_right(self) -> None:
        assert check(0, 0.0, DType.UINT8, scale=0.0).right
        assert check(1, 0.0, DType.UINT8, scale=0.0).max_error == math.inf


class TestFloat16:
    @pytest.mark.parametrize(
        ("expected", "right", "wrong"),
        [
            (1.0, [1.0], [1 + 2.0**-10, 1 - 2.0**-11]),
            # Half a unit is 2^-11 above a power of two, and 2^-12 below it.
            (1 + 2.0**-11, [1.0, 1 + 2.0**-10], [1 - 2.0**-11, 1 + 2.0**-9]),
            (1 - 2.0**-12, [1.0, 1 - 2.0**-11], [1 + 2.0**-10, 1 - 2.0**-10]),
            (1 + 0.9 * 2.0**-11, [1.0], [1 + 2.0**-10]),
            (-3.0, [-3.0], [3.0, -3.0 + 2.0**-9]),
            (0.0, [0.0, -0.0], [TINY, -TINY]),
            (0.4 * TINY, [0.0, -0.0], [TINY]),
            (0.5 * TINY, [0.0, TINY], [-TINY, 2 * TINY]),
            (5.3 * TINY, [5 * TINY], [4 * TINY, 6 * TINY]),
            (2.0**-14, [2.0**-14], [2.0**-14 - TINY, 2.0**-14 + TINY]),
        ],
    )
    def test_which_halves_are_right(self, expected: float, right: list[float], wrong: list[float]) -> None:
        for sign in (1, -1):
            assert all(check(sign * got, sign * expected, DType.FLOAT16, scale=1e-9).right for got in right)
            assert not any(check(sign * got, sign * expected, DType.FLOAT16, scale=1e-9).right for got in wrong)

    @pytest.mark.parametrize(
        ("expected", "finite", "infinite"),
        [
            (65504.0, True, False),
            (65519.9, True, False),
            (65520.0, True, True),
            (65520.1, False, True),
            (1e9, False, True),
        ],
    )
    def test_overflow_begins_halfway_to_the_next_power(self, expected: float, finite: bool, infinite: bool) -> None:
        for sign in (1, -1):
            assert check(sign * 65504.0, sign * expected, DType.FLOAT16).right is finite
            assert check(sign * math.inf, sign * expected, DType.FLOAT16).right is infinite
            assert not check(-sign * math.inf, sign * expected, DType.FLOAT16).right

    def test_near_the_limit_the_bound_allows_either(self) -> None:
        scale = 1e6  # allows 1
        assert check(math.inf, 65519.5, DType.FLOAT16, scale).right
        assert check(65504.0, 65520.5, DType.FLOAT16, scale).right
        assert check(math.inf, 65518.5, DType.FLOAT16, scale).max_error == pytest.approx(1.5e-6)

    def test_the_bound_comes_on_top_of_rounding(self) -> None:
        scale = 100.0  # allows 1e-4
        assert check(1.0, 1 + 2.0**-11 + 0.99e-4, DType.FLOAT16, scale).right
        assert not check(1.0, 1 + 2.0**-11 + 1.01e-4, DType.FLOAT16, scale).right
        # Terms that cancel: the sum in float32 may lie in a coarser binade than the reference.
        assert check(2.0**-4 + 2.0**-14, 0.0, DType.FLOAT16, scale=6.3e4).right

    def test_a_sum_that_is_not_rounded_to_nearest_shows(self) -> None:
        exact = np.full((1, 1), 1 + 0.75 * 2.0**-10)
        truncated = np.ones((1, 1), np.float16)
        verdict = verify(truncated, Reference(exact, exact), DType.FLOAT16)
        assert verdict.max_error == pytest.approx(2.0**-12, rel=1e-3)
        assert not verdict.right

    @pytest.mark.filterwarnings("error")
    @pytest.mark.parametrize("pattern", [0x7E00, 0xFE00, 0x7C01, 0xFFFF])
    def test_not_a_number_is_wrong(self, pattern: int) -> None:
        got = np.full((2, 3), pattern, np.uint16).view(np.float16)
        verdict = verify(got, Reference(np.zeros((2, 3)), np.zeros((2, 3))), DType.FLOAT16)
        assert (verdict.wrong, verdict.max_error) == (6, math.inf)
        assert "is nan and should be 0" in verdict.message


LARGEST = float.fromhex("0x1.fep127")
"""Largest finite bfloat16 number."""


class TestBfloat16:
    @pytest.mark.parametrize(
        ("expected", "right", "wrong"),
        [
            (1.0, [1.0], [1 + 2.0**-7, 1 - 2.0**-8]),
            (1 + 2.0**-8, [1.0, 1 + 2.0**-7], [1 - 2.0**-8, 1 + 2.0**-6]),
            (1 - 2.0**-9, [1.0, 1 - 2.0**-8], [1 + 2.0**-7, 1 - 2.0**-7]),
            (1 + 0.9 * 2.0**-8, [1.0], [1 + 2.0**-7]),
            (0.4 * 2.0**-133, [0.0, -0.0], [2.0**-133]),
            (5.3 * 2.0**-133, [5 * 2.0**-133], [4 * 2.0**-133, 6 * 2.0**-133]),
        ],
    )
    def test_which_numbers_are_right(self, expected: float, right: list[float], wrong: list[float]) -> None:
        for sign in (1, -1):
            assert all(check(sign * got, sign * expected, DType.BFLOAT16, scale=1e-40).right for got in right)
            assert not any(check(sign * got, sign * expected, DType.BFLOAT16, scale=1e-40).right for got in wrong)

    @pytest.mark.parametrize(
        ("beyond", "finite", "infinite"),
        [(0.0, True, False), (0.99, True, False), (1.0, True, True), (1.01, False, True)],
    )
    def test_overflow_begins_halfway_to_the_next_power(self, beyond: float, finite: bool, infinite: bool) -> None:
        for sign in (1, -1):
            expected = sign * (LARGEST + beyond * 2.0**119)
            assert check(sign * LARGEST, expected, DType.BFLOAT16).right is finite
            assert check(sign * math.inf, expected, DType.BFLOAT16).right is infinite

    def test_not_a_number_is_wrong(self) -> None:
        assert not check(math.nan, 0.0, DType.BFLOAT16, scale=math.inf).right


class TestEveryType:
    @pytest.mark.parametrize("dtype", [*PIXELS, DType.BFLOAT16])
    def test_the_reference_rounded_is_right_and_its_neighbours_are_wrong(self, dtype: DType) -> None:
        problem = Filter2d(image=(60, 70), filter=(5, 5), result_dtype=dtype if dtype in PIXELS else None)
        exact = reference(problem, random_operands(problem, 0))
        result = rounded(exact.expected, dtype)
        verdict = verify(result, exact, dtype)
        assert verdict.right, verdict.message
        assert (verdict.max_error == 0) is (dtype is not DType.FLOAT32)
        if dtype is not DType.FLOAT32:
            off = result.view(np.uint8 if dtype is DType.UINT8 else np.uint16) ^ 1
            assert verify(off.view(result.dtype), exact, dtype).wrong > 0.9 * result.size

    @pytest.mark.parametrize("dtype", [*PIXELS, DType.BFLOAT16])
    def test_a_sum_in_float32_is_right(self, dtype: DType) -> None:
        """8100 terms, one after the other: the largest filter, and the roughest way to add."""
        generator = np.random.default_rng(0)
        terms = generator.integers(0, 256, (8100, 400)).astype(np.float32)
        weights = generator.standard_normal((8100, 1), dtype=np.float32) / np.float32(40)
        total = np.zeros(400, np.float32)
        for term, weight in zip(terms, weights, strict=True):
            total += term * weight
        products = terms.astype(np.float64) * weights
        exact = Reference(products.sum(axis=0)[None], np.abs(products).sum(axis=0)[None])
        verdict = verify(rounded(total[None].astype(np.float64), dtype), exact, dtype)
        assert verdict.right, verdict.message
        assert verdict.max_error <= FLOAT32_BOUND

    @pytest.mark.parametrize("shape", [(4, 5), (3, 4, 5), (4, 5, 3), (2, 4, 5, 3), (2, 6, 4, 5, 3)])
    def test_names_the_element_of_a_result_of_any_rank(self, shape: tuple[int, ...]) -> None:
        of = Reference(np.zeros(shape), np.ones(shape))
        result = np.zeros(shape, np.uint8)
        place = tuple(extent - 2 for extent in shape)
        result[place] = 9
        result[(0,) * len(shape)] = 3
        verdict = verify(result, of, DType.UINT8)
        assert (verdict.wrong, verdict.max_error) == (2, 8.5)
        assert f"the worst, at {place}, is 9 and should be 0" in verdict.message

    def test_a_part_of_a_larger_array_is_compared_element_by_element(self) -> None:
        exact = reference(
            problem := Filter2d(image=(9, 8), filter=(3, 3), border=Border.WRAP), random_operands(problem, 0)
        )
        around = np.full((20, 30), np.nan, np.float32)
        around[3:12, 4:12] = exact.expected
        assert verify(around[3:12, 4:12], exact, DType.FLOAT32).right
        assert verify(around[3:12, 5:13], exact, DType.FLOAT32).wrong > 0
