"""Warpgroup products: both matrices match on pixels and weights, for one warp in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.filter2d.warpgroup_family import Filter2dWarpgroup
from warpsmith.generator.filter2d.warpgroup_geometry import Filter2dWarpgroupGeometry
from warpsmith.generator.presets import H200
from warpsmith.generator.problem import NonFinite

WARPGROUP = Filter2dWarpgroup()
LANE = np.arange(32)

PROBLEMS = [
    Filter2d(image=(40, 640), filter=(2, 1), nonfinite=NonFinite.ANY),
    Filter2d(image=(40, 640), filter=(9, 9), nonfinite=NonFinite.ANY),
    Filter2d(image=(40, 640), filter=(4, 7), border=Border.REFLECT, nonfinite=NonFinite.ANY),  # one element of lead
    Filter2d(image=(40, 640), filter=(3, 16), border=Border.WRAP, anchor=(1, 3), nonfinite=NonFinite.ANY),
    Filter2d(image=(40, 640), filter=(5, 25), nonfinite=NonFinite.ANY),
    Filter2d(image=(40, 640), filter=(5, 31), nonfinite=NonFinite.ANY),
    Filter2d(image=(40, 640), filter=(3, 57), nonfinite=NonFinite.ANY),
    Filter2d(image=(40, 640), filter=(6, 4), channels=2, border=Border.MIRROR, anchor=(0, 3), nonfinite=NonFinite.ANY),
    Filter2d(image=(40, 640), filter=(3, 6), channels=3, border=Border.NEAREST, nonfinite=NonFinite.ANY),
    Filter2d(image=(40, 640), filter=(3, 7), channels=4, nonfinite=NonFinite.ANY),
]


def cut(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """The upper 19 bits, which a product reads."""
    return (values.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def with_tf32_rounding(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Values that `cut` then rounds to the nearest 11 bits; the arithmetic of the kernel's function of that name."""
    return (values.view(np.uint32) + np.uint32(0x1000)).view(np.float32)


def to_tf32(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rounds to the nearest TF32 number."""
    return cut(with_tf32_rounding(values))


def factors(
    g: Filter2dWarpgroupGeometry, weights: NDArray[np.float32], channels: int
) -> tuple[NDArray[np.float32], ...]:
    """Both parts of matrix B as they lie in shared memory: the arithmetic of split() in the template."""
    rows, columns = weights.shape
    i = np.arange(g.depth * 8 * rows)
    holder, column, part = i % 4, i // 4 % (8 * rows), i // (32 * rows)
    away = holder * (g.depth // 4) + part - g.lead - column % 8
    s = away // channels
    is_tap = (away >= 0) & (away % channels == 0) & (s < columns)
    values = np.where(is_tap, weights[column // 8, np.where(is_tap, s, 0)], np.float32(0))
    high = to_tf32(values)
    return high, to_tf32(values - high)


def segments(g: Filter2dWarpgroupGeometry, row: NDArray[np.float32]) -> NDArray[np.float32]:
    """Pixel of each step, lane and register: the arithmetic of read() and segments_of()."""
    share = g.depth // 4
    held = np.empty((g.depth // 8, 32, 4), np.float32)
    for i in range(2):
        for j in range(share):
            held[j // 2, :, j % 2 * 2 + i] = row[LANE // 4 * 8 + LANE % 4 * share + i * 64 + j]
    return held


def multiply(a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.float64]:
    """One product of a warp, 16 rows by 8 elements of matrix A, by 8 elements of matrix B. Registers of A: PTX manual,
    matrix fragments for wgmma.m64nNk8; core matrices of B: 8 columns by 4 elements, those of 4 elements adjacent.
    """
    columns = b.size // 8
    left, right = np.empty((16, 8)), np.empty((8, columns))
    for register in range(4):
        left[LANE // 4 + register % 2 * 8, LANE % 4 + register // 2 * 4] = cut(a[:, register])
    for k in range(8):
        right[k] = cut(b)[k // 4 * 4 * columns + np.arange(columns) * 4 + k % 4]
    product: NDArray[np.float64] = left @ right
    return product


def outputs(
    g: Filter2dWarpgroupGeometry, row: NDArray[np.float32], weights: NDArray[np.float32], channels: int
) -> NDArray[np.float64]:
    """A warp's 128 products with each row of weights, in the order of store()."""
    high, low = factors(g, weights, channels)
    pixels = segments(g, row)
    upper, lower = with_tf32_rounding(pixels), pixels - to_tf32(pixels)
    step = 8 * 8 * len(weights)
    total = np.zeros((16, 8 * len(weights)))
    for n in range(g.depth // 8):
        behind = slice(n * step, (n + 1) * step)
        for a, b in ((upper, low), (lower, high), (upper, high)):
            total += multiply(a[n], b[behind])
    result = np.empty((len(weights), 128))
    for n in range(4 * len(weights)):
        column, second = n // 4 * 8 + LANE % 4 * 2 + n % 2, n % 4 // 2  # of a lane's sum in matrix D
        i = second * 2 + n % 2  # of the four outputs that belong to one row of weights
        result[n // 4, i // 2 * 64 + i % 2 + LANE // 4 * 8 + LANE % 4 * 2] = total[LANE // 4 + second * 8, column]
    return result


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.key().replace(" ", ","))
class TestProducts:
    def draw(self, problem: Filter2d) -> tuple[Filter2dWarpgroupGeometry, NDArray[np.float32], NDArray[np.float32]]:
        """Geometry of the default, with a random row as one warp reads it and random weights."""
        g, generator = Filter2dWarpgroupGeometry.of(problem, WARPGROUP.default(problem, H200)), np.random.default_rng(5)
        row = generator.standard_normal(120 + g.depth, np.float32)
        return g, row, generator.standard_normal(problem.filter, np.float32)

    def windows(self, problem: Filter2d, g: Filter2dWarpgroupGeometry, row: NDArray[np.float32]) -> NDArray[np.float64]:
        """Pixels of the window of each of a warp's outputs."""
        taps = np.arange(problem.filter[1]) * problem.channels
        return row.astype(np.float64)[g.lead + np.arange(128)[:, None] + taps]

    def test_are_a_row_correlated_with_each_row_of_weights(self, problem: Filter2d) -> None:
        """Exact up to products of two low parts, and bits that both parts of a number together do not represent."""
        g, row, weights = self.draw(problem)
        windows = self.windows(problem, g, row)
        terms = np.abs(weights.astype(np.float64)) @ np.abs(windows).T
        error = np.abs(outputs(g, row, weights, problem.channels) - weights.astype(np.float64) @ windows.T)
        assert (error <= 2.0**-21 * terms).all()
        assert error.max() > 0

    def test_are_exact_for_numbers_of_11_bits(self, problem: Filter2d) -> None:
        """Float16 numbers and bytes have no more than 11 significant bits."""
        g, row, weights = self.draw(problem)
        row, weights = cut(row), cut(weights)
        expected = weights.astype(np.float64) @ self.windows(problem, g, row).T
        np.testing.assert_allclose(outputs(g, row, weights, problem.channels), expected, rtol=1e-12, atol=1e-12)
