"""The float64 oracle, against SciPy and against sums written out by hand."""

from __future__ import annotations

import dataclasses
import itertools
import os
import threading
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.problem import PIXELS, DType, Operand, Problem
from warpsmith.tuner.operations.drawing import noise
from warpsmith.tuner.operations.registry import random_operands, reference
from warpsmith.tuner.operations.strips import for_each_strip

ndimage = pytest.importorskip("scipy.ndimage")

SAME_SIZE = [border for border in Border if border is not Border.VALID]

SHAPES = [
    ((9, 11), (1, 1)),
    ((9, 11), (3, 3)),
    ((9, 11), (2, 2)),
    ((9, 11), (4, 3)),
    ((9, 11), (1, 6)),
    ((9, 11), (5, 1)),
    ((9, 11), (9, 11)),
    ((8, 6), (8, 6)),
    ((2, 2), (2, 2)),
    ((1, 7), (1, 3)),
    ((7, 1), (4, 1)),
    ((1, 1), (1, 1)),
]
"""Image and filter: odd, even, rectangular, as large as the image, one pixel."""

STRIP_BYTES = 1 << 20
"""Bytes of one of the oracle's strips; three strips show its boundaries."""


def float32(row: Sequence[float]) -> NDArray[np.float32]:
    """An image, or a filter, of one row, as float32."""
    return np.array([row], np.float32)


def scipy_correlate(problem: Filter2d, image: NDArray[Any], weights: NDArray[Any], cval: float) -> NDArray[np.float64]:
    """The problem by SciPy, plane by plane, in float64."""
    planes = image.astype(np.float64).reshape(problem.planes, *problem.image)
    mode = "constant" if problem.border is Border.VALID else str(problem.border)
    same = np.stack([ndimage.correlate(plane, weights.astype(np.float64), mode=mode, cval=cval) for plane in planes])
    if problem.border is Border.VALID:
        (r, s), (rows, columns) = problem.filter, problem.output_shape
        same = same[:, r // 2 : r // 2 + rows, s // 2 : s // 2 + columns]
    return same.reshape(problem.output.shape)


def assert_as_scipy(problem: Filter2d, seed: int = 0) -> None:
    operands = random_operands(problem, seed)
    image, weights = operands["image"], operands["weights"]
    got = reference(problem, operands)
    expected = scipy_correlate(problem, image, weights, problem.cval)
    scale = scipy_correlate(problem, np.abs(image), np.abs(weights), abs(problem.cval))
    assert got.expected.shape == got.scale.shape == problem.output.shape
    assert got.expected.dtype == got.scale.dtype == np.float64
    # A sum of n terms is exact to n * 2^-53 of the sum of |terms|; 1e-13 is room for 900 terms.
    assert np.all(np.abs(got.expected - expected) <= 1e-13 * scale)
    np.testing.assert_allclose(got.scale, scale, rtol=1e-13)


class TestReference:
    @pytest.mark.parametrize("planes", [1, 3])
    @pytest.mark.parametrize("border", Border)
    @pytest.mark.parametrize(("image", "filter_shape"), SHAPES)
    def test_agrees_with_scipy(
        self, image: tuple[int, int], filter_shape: tuple[int, int], border: Border, planes: int
    ) -> None:
        assert_as_scipy(Filter2d(image=image, filter=filter_shape, planes=planes, border=border, cval=-2.5))

    @pytest.mark.parametrize("image", [(403, 1000), (60, 9001)])
    @pytest.mark.parametrize("border", Border)
    def test_agrees_with_scipy_over_several_strips(self, image: tuple[int, int], border: Border) -> None:
        problem = Filter2d(image=image, filter=(3, 2), border=border)
        assert problem.output.size * 8 > 3 * STRIP_BYTES
        assert_as_scipy(problem)

    @pytest.mark.parametrize(
        ("border", "by_hand"),
        [
            (Border.VALID, [21, 32]),
            (Border.CONSTANT, [7 + 10, 21, 32]),
            (Border.NEAREST, [1 + 10, 21, 32]),
            (Border.REFLECT, [1 + 10, 21, 32]),
            (Border.MIRROR, [2 + 10, 21, 32]),
            (Border.WRAP, [3 + 10, 21, 32]),
        ],
    )
    def test_an_even_filter_reaches_further_left(self, border: Border, by_hand: list[int]) -> None:
        problem = Filter2d(image=(1, 3), filter=(1, 2), border=border, cval=7.0)
        operands = {"image": float32([1, 2, 3]), "weights": float32([1, 10])}
        assert reference(problem, operands).expected.tolist() == [by_hand]

    def test_is_a_correlation_not_a_convolution(self) -> None:
        problem = Filter2d(image=(3, 3), filter=(3, 3), border=Border.CONSTANT)
        impulse, weights = np.zeros((3, 3), np.float32), np.arange(9, dtype=np.float32).reshape(3, 3)
        impulse[1, 1] = 1
        assert np.array_equal(reference(problem, {"image": impulse, "weights": weights}).expected, weights[::-1, ::-1])

    def test_valid_is_the_inside_of_every_other_border(self) -> None:
        valid = Filter2d(image=(9, 11), filter=(4, 3))
        operands = random_operands(valid, 5)
        inside = reference(valid, operands)
        for border in SAME_SIZE:
            same = reference(dataclasses.replace(valid, border=border), operands)
            assert np.array_equal(same.expected[2:8, 1:10], inside.expected)
            assert np.array_equal(same.scale[2:8, 1:10], inside.scale)

    def test_the_scale_is_the_sum_of_absolute_terms(self) -> None:
        problem = Filter2d(image=(1, 2), filter=(1, 2))
        operands = {"image": float32([3, 2]), "weights": float32([2, -3])}
        result = reference(problem, operands)
        assert (result.expected.item(), result.scale.item()) == (0.0, 12.0)

    def test_products_are_exact_in_float64(self) -> None:
        """The product of two float32 numbers has 48 bits, and a sum has bits that float32 would lose."""
        problem = Filter2d(image=(1, 2), filter=(1, 2))
        pixel, weight = 1 + 2.0**-23, 1 - 2.0**-24
        operands = {"image": float32([pixel, 1]), "weights": float32([weight, 2.0**-40])}
        assert reference(problem, operands).expected.item() == pixel * weight + 2.0**-40

    def test_each_plane_is_filtered_by_itself(self) -> None:
        three = Filter2d(image=(5, 6), filter=(3, 3), planes=3, border=Border.WRAP)
        one = dataclasses.replace(three, planes=1)
        operands = random_operands(three, 1)
        whole = reference(three, operands)
        for plane in range(3):
            alone = reference(one, {"image": operands["image"][plane], "weights": operands["weights"]})
            assert np.array_equal(whole.expected[plane], alone.expected)

    def test_inputs_are_left_as_they_were(self) -> None:
        problem = Filter2d(image=(5, 6), filter=(3, 3))
        operands = random_operands(problem, 1)
        reference(problem, operands)
        again = random_operands(problem, 1)
        assert all(np.array_equal(operands[name], again[name]) for name in again)

    def test_an_operation_without_an_oracle_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Problem, "_operations", {})  # the class below registers itself

        class Unheard(Problem):
            operation: ClassVar[str] = "unheard"
            flops = 0

            def spec(self) -> dict[str, Any]:
                return {}

            @classmethod
            def of(cls, spec: dict[str, Any]) -> Problem:  # noqa: ARG003
                return cls()

            def key(self) -> str:
                return "unheard"

            @property
            def operands(self) -> tuple[Operand, ...]:
                return ()

            def distance(self, other: Problem) -> float | None:  # noqa: ARG002
                return None

        with pytest.raises(TypeError, match="no judge for unheard"):
            reference(Unheard(), {})


class TestRandomOperands:
    PROBLEM = Filter2d(image=(40, 50), filter=(3, 5), planes=2)

    def test_are_the_inputs_in_shape_and_dtype(self) -> None:
        operands = random_operands(self.PROBLEM, 0)
        assert {name: (array.shape, array.dtype) for name, array in operands.items()} == {
            "image": ((2, 40, 50), np.dtype(np.float32)),
            "weights": ((3, 5), np.dtype(np.float32)),
        }
        assert all(array.flags.c_contiguous for array in operands.values())

    def test_one_seed_gives_the_same_values_and_another_gives_others(self) -> None:
        first, again, other = (random_operands(self.PROBLEM, seed) for seed in (7, 7, 8))
        for name in first:
            assert np.array_equal(first[name], again[name])
            assert not np.any(first[name] == other[name])

    def test_every_value_matters_to_the_result(self) -> None:
        """A zero would hide a tap that is left out; a repeated value one that is read twice."""
        operands = random_operands(self.PROBLEM, 0)
        for array in operands.values():
            assert np.all(array != 0)
            # 4000 float32 normals: some pairs fall on the same value.
            assert np.unique(array).size > 0.99 * array.size

    @pytest.mark.parametrize("dtype", PIXELS)
    def test_every_strip_of_a_large_image_is_drawn_anew_whatever_the_cores(
        self, dtype: DType, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        problem = Filter2d(image=(3, STRIP_BYTES), filter=(1, 1), dtype=dtype)
        rows = random_operands(problem, 0)["image"]
        for above, below in itertools.combinations(rows, 2):
            # One in 900 pairs of float16 numbers is equal, one in 256 of bytes.
            assert np.count_nonzero(above == below) < above.size / 200
        monkeypatch.setattr("warpsmith.tuner.operations.strips.cores", lambda: 1)
        assert np.array_equal(random_operands(problem, 0)["image"], rows)

    def test_noise_has_every_byte_about_as_often(self) -> None:
        counts = np.bincount(noise(3 * STRIP_BYTES + 5, seed=0), minlength=256)
        assert counts.sum() == 3 * STRIP_BYTES + 5
        assert np.all(np.abs(counts / counts.mean() - 1) < 0.06)  # six standard deviations

    def test_weights_that_the_problem_knows_are_used(self) -> None:
        weights = (0.1, -2.0, 3e-8, 4.0, 5.0, 6.5)
        problem = Filter2d(image=(8, 8), filter=(2, 3), weights=weights)
        operands = random_operands(problem, 3)
        assert np.array_equal(operands["weights"], np.array(weights, np.float32).reshape(2, 3))
        assert operands["weights"].dtype == np.float32
        open_problem = dataclasses.replace(problem, weights=None)
        assert np.array_equal(operands["image"], random_operands(open_problem, 3)["image"])
        assert_as_scipy(problem)


class TestForEachStrip:
    @pytest.mark.parametrize("rows", [0, 1, 2, 131, 132, 700])
    @pytest.mark.parametrize("row_bytes", [0, 1, 8000, STRIP_BYTES, 3 * STRIP_BYTES])
    def test_covers_every_row_once_in_strips_that_fit(self, rows: int, row_bytes: int) -> None:
        strips: list[slice] = []
        for_each_strip(rows, row_bytes, strips.append)
        covered = [row for strip in sorted(strips, key=lambda s: s.start) for row in range(rows)[strip]]
        assert covered == list(range(rows))
        assert all((strip.stop - strip.start) * row_bytes <= max(STRIP_BYTES, row_bytes) for strip in strips)

    def test_an_error_in_a_strip_is_raised_here(self) -> None:
        def work(part: slice) -> None:
            if part.start > 1:
                raise MemoryError(f"strip {part.start}")

        with pytest.raises(MemoryError, match="strip 2"):
            for_each_strip(4, STRIP_BYTES, work)

    @pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
    def test_strips_run_side_by_side(self) -> None:
        both = threading.Barrier(2)

        def work(_: slice) -> None:
            both.wait(timeout=30)  # one strip after the other would never pass

        for_each_strip(2, STRIP_BYTES, work)
