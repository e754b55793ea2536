"""Minimal filtering algorithms F(m, r): m results of a filter of r taps by m + r - 1 products.

A^T [(G g) * (B^T d)] are the results of the filter g over the m + r - 1 numbers d, where * is the element-wise product.
G and B^T evaluate d and g, as polynomials, at m + r - 2 points and at infinity. A^T is the transposed interpolation
(Toom and Cook). In two dimensions each matrix is applied from both sides, to rows and to columns.

The rows of B^T and of G are scaled by powers of two, which A^T undoes, so that the magnitudes of each row add up to at
most 1 and to more than 1/2. So no transformed number is larger than the largest number before, and the power of two
that scales images or weights for the fp16 split serves the transformed numbers too. No second pass looks for their
largest.

Source: Winograd 1980, "Arithmetic Complexity of Computations"; Lavin and Gray 2016, "Fast Algorithms for Convolutional
Neural Networks"; Barabasz, Anderson, Soodhalter and Gregg 2020, "Error Analysis and Improving the Accuracy of Winograd
Convolution for Deep Neural Networks" (points decide the error).
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from fractions import Fraction

from warpsmith.generator.render import float_literal

TAPS = 3
POINTS: dict[int, tuple[Fraction, ...]] = {
    4: (Fraction(0), Fraction(1), Fraction(-1)),
    6: (Fraction(0), Fraction(3, 4), Fraction(-3, 4), Fraction(3, 2), Fraction(-3, 2)),
}
"""Finite evaluation points, by the size m + r - 1 of a window. For a layer of 64 channels with normal deviates and
fp16x3 products, F(4x4, 3x3) with these points has a relative L2 error of 5.3e-7 (log-normal data: 5.4e-7). The usual
points 0, 1, -1, 2, -2 give 1.04e-6 (9.3e-7), and 0, 1, -1, 1/2, -2 give 7.2e-7 (7.2e-7).
"""

Row = tuple[Fraction, ...]
Matrix = tuple[Row, ...]


@dataclasses.dataclass(frozen=True)
class Minimal:
    """One algorithm F(m, r), in exact fractions."""

    tile: int
    """m: results along an axis."""
    taps: int
    """r: taps along an axis."""
    pixels: Matrix
    """B^T: (m + r - 1) x (m + r - 1). It is the same for all algorithms with this window size."""
    weights: Matrix
    """G: (m + r - 1) x r."""
    results: Matrix
    """A^T: m x (m + r - 1)."""

    @classmethod
    @functools.lru_cache(maxsize=8)
    def of(cls, tile: int, taps: int = TAPS) -> Minimal:
        """The algorithm with the points of POINTS. Raises KeyError for another window size."""
        points = POINTS[tile + taps - 1]
        others = [[q for q in points if q != p] for p in points]
        pixels = [[*_product_of(each), Fraction(0)] for each in others] + [_product_of(points)]
        weights = [
            [p**k / math.prod((p - q for q in each), start=Fraction(1)) for k in range(taps)]
            for p, each in zip(points, others, strict=True)
        ]
        weights.append([Fraction(0)] * (taps - 1) + [Fraction(1)])
        scales = [_scale(one) * _scale(two) for one, two in zip(pixels, weights, strict=True)]
        at_infinity = [Fraction(i == tile - 1) for i in range(tile)]
        results = [[*(p**i for p in points), at_infinity[i]] for i in range(tile)]
        return cls(
            tile=tile,
            taps=taps,
            pixels=tuple(_scaled(row) for row in pixels),
            weights=tuple(_scaled(row) for row in weights),
            results=tuple(tuple(each / scale for each, scale in zip(row, scales, strict=True)) for row in results),
        )

    @property
    def window(self) -> int:
        """Pixels of a tile along an axis, which is also the number of points."""
        return self.tile + self.taps - 1

    @property
    def pixel_rows(self) -> tuple[str, ...]:
        """B^T as CUDA expressions."""
        return rows_text(self.pixels)

    @property
    def weight_rows(self) -> tuple[str, ...]:
        """G as CUDA expressions."""
        return rows_text(self.weights)

    @property
    def weight_numbers(self) -> tuple[tuple[str, ...], ...]:
        """G as float literals."""
        return tuple(tuple(float_literal(float(each)) for each in row) for row in self.weights)

    @property
    def result_rows(self) -> tuple[str, ...]:
        """A^T as CUDA expressions."""
        return rows_text(self.results)

    @property
    def products(self) -> int:
        """Products per tile and pair of channels."""
        return self.window**2


def rows_text(matrix: Matrix) -> tuple[str, ...]:
    """Each row times the numbers of an array d, as a CUDA expression; constants are rounded to float32 once."""
    return tuple(map(_row_text, matrix))


def _row_text(row: Row) -> str:
    text = ""
    for i, factor in enumerate(row):
        if factor == 0:
            continue
        size = abs(factor)
        term = f"d[{i}]" if size == 1 else f"{float_literal(float(size))} * d[{i}]"
        if text:
            text += f" {'-' if factor < 0 else '+'} {term}"
        else:
            text = f"-{term}" if factor < 0 else term
    return text


def _product_of(points: Sequence[Fraction]) -> list[Fraction]:
    """Coefficients of the product of (x - q) over all points q, the constant one first."""
    found = [Fraction(1)]
    for q in points:
        found = [low - q * high for low, high in zip([Fraction(0), *found], [*found, Fraction(0)], strict=True)]
    return found


def _scale(row: Sequence[Fraction]) -> Fraction:
    """The power of two that brings the sum of a row's magnitudes to at most 1 and to more than 1/2."""
    total, scale = sum(map(abs, row)), Fraction(1)
    while total * scale > 1:
        scale /= 2
    while total * scale <= Fraction(1, 2):
        scale *= 2
    return scale


def _scaled(row: Sequence[Fraction]) -> Row:
    scale = _scale(row)
    return tuple(each * scale for each in row)
