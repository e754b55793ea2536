"""Matrices that are hard on rounding errors: very different magnitudes side by side, cancellation, equal signs.

Normal deviates make all terms of a sum alike, so an error that is small against the whole sum looks small against each
term. The error bound applies to each result's own terms, and on these inputs too, within `stress_slack`.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.cgemm import Cgemm
from warpsmith.generator.problem import Accuracy
from warpsmith.tuner.operations.drawing import hard_kinds

_OCTAVES = 10
"""Magnitudes range from 2^-10 to 2^10: products of two, and sums of their squares, stay far from float32's limits."""
_DRAWN = (5, 67, 127)
"""Matrices, rows and columns that are drawn; larger operands repeat them. They are no powers of two, so that repeats
begin at any position of a thread's results.
"""
_KINDS = 5
_SLACK = 0.4


def stress_slack(problem: Cgemm) -> float:
    """Factor on the error bound that right kernels may need on these inputs.

    Sums of equal signs round the same way again and again. Float32 sums of conv2d, one multiply-add after the other,
    are off by up to 2.4e-7 times the root of the number of terms, relative to the sum of their magnitudes, and those of
    cuBLAS by 2.9e-7 times (k = 5000, H200). A third more is allowed, if that exceeds the bound of 1e-6. A complex term
    is two real terms in each part.
    """
    return max(1.0, _SLACK * math.sqrt(2 * problem.k))


def stress_inputs(problem: Cgemm, generator: np.random.Generator) -> dict[str, NDArray[np.complex64]]:
    drawn = {operand.name: _matrices(operand.shape, generator) for operand in problem.inputs}
    if problem.accuracy is Accuracy.ROWWISE:
        _set_apart(drawn["a"].swapaxes(1, 2) if problem.a.transposes else drawn["a"])
    return drawn


def _set_apart(rows: NDArray[np.complex64]) -> None:
    """Makes every third row a million times as large as the others, so that errors that spread across rows show."""
    rows[:, 1::3] *= np.float32(2.0**20)


def _matrices(shape: tuple[int, ...], generator: np.random.Generator) -> NDArray[np.complex64]:
    """Matrices whose columns (or rows, or whole matrices) take five kinds of numbers in turns; see `hard_kinds`.

    Matrices take turns in whether the kind varies by matrix, row or column. Real and imaginary parts have the same kind
    and different numbers.
    """
    drawn = _drawn_matrices(tuple(map(min, zip(shape, _DRAWN, strict=True))), generator)
    places = [np.arange(size) % length for size, length in zip(shape, drawn.shape, strict=True)]
    return drawn[np.ix_(*places)]


def _drawn_matrices(shape: tuple[int, ...], generator: np.random.Generator) -> NDArray[np.complex64]:
    matrix, row, column = np.ogrid[: shape[0], : shape[1], : shape[2]]
    parts = (*shape, 2)
    # The kind varies by matrix, row or column in turns, so that sums run along one kind and across all of them.
    turn = np.choose(matrix % 3, (np.broadcast_to(matrix, shape), row + 0 * column, column + 0 * row)) % _KINDS
    level = generator.uniform(-_OCTAVES, _OCTAVES, shape[0]).astype(np.float32)[:, None, None, None]
    sign = np.where((row + column) % 2 == 0, np.float32(1), np.float32(-1))[..., None]
    deviates = generator.standard_normal(parts, np.float32)
    uniform = generator.random(parts, np.float32)
    kinds = hard_kinds(deviates, uniform, level, sign, _OCTAVES)
    values = np.asarray(np.choose(turn[..., None], kinds), np.float32)
    return np.ascontiguousarray(values).view(np.complex64)[..., 0]
