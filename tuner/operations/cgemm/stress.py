"""Matrices that are hard on rounding errors: magnitudes far apart side by side, cancellation, equal signs.

Normal deviates leave the terms of a sum alike, so that an error that is small against all of them looks small against
each. The error bound is measured against each result's own terms: these inputs meet it too, within `stress_slack`.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.cgemm import Cgemm
from warpsmith.generator.problem import Accuracy
from warpsmith.tuner.operations.drawing import hard_kinds

_OCTAVES = 10
"""Magnitudes are 2 to the power of minus so many up to so many: products of two, and sums of their squares, stay far
from the ends of float32."""
_DRAWN = (5, 67, 127)
"""Matrices, rows and columns that are drawn; larger operands repeat them. No powers of two, so that they begin anywhere
in a thread's results."""
_KINDS = 5
_SLACK = 0.4


def stress_slack(problem: Cgemm) -> float:
    """How many times the error bound right kernels may be off on these inputs.

    Sums of equal signs round the same way again and again: float32 sums of conv2d, one multiply-add after the other,
    are off by up to 2.4e-7 times the root of the number of terms, relative to the sum of their magnitudes, and those of
    cuBLAS by 2.9e-7 times (k = 5000, H200). A third more is allowed, where it is more than the bound of 1e-6. A complex
    term is two real ones in each part.
    """
    return max(1.0, _SLACK * math.sqrt(2 * problem.k))


def stress_inputs(problem: Cgemm, generator: np.random.Generator) -> dict[str, NDArray[np.complex64]]:
    """Inputs by the operand's name."""
    drawn = {operand.name: _matrices(operand.shape, generator) for operand in problem.inputs}
    if problem.accuracy is Accuracy.ROWWISE:
        _set_apart(drawn["a"].swapaxes(1, 2) if problem.a.transposes else drawn["a"])
    return drawn


def _set_apart(rows: NDArray[np.complex64]) -> None:
    """Makes every third row a million times as large as the others, which are not to feel it."""
    rows[:, 1::3] *= np.float32(2.0**20)


def _matrices(shape: tuple[int, ...], generator: np.random.Generator) -> NDArray[np.complex64]:
    """Matrices whose columns have five characters in turns, the rows of every other one with alternating signs:
    magnitudes of the whole range, log-normal ones, deviates of one magnitude, ones, and signs that alternate. Real and
    imaginary parts have the same character, and numbers of their own.
    """
    drawn = _drawn_matrices(tuple(map(min, zip(shape, _DRAWN, strict=True))), generator)
    places = [np.arange(size) % length for size, length in zip(shape, drawn.shape, strict=True)]
    return drawn[np.ix_(*places)]


def _drawn_matrices(shape: tuple[int, ...], generator: np.random.Generator) -> NDArray[np.complex64]:
    matrix, row, column = np.ogrid[: shape[0], : shape[1], : shape[2]]
    parts = (*shape, 2)
    # Of whole matrices, of rows and of columns, so that sums go along a character and across all of them.
    turn = np.choose(matrix % 3, (np.broadcast_to(matrix, shape), row + 0 * column, column + 0 * row)) % _KINDS
    level = generator.uniform(-_OCTAVES, _OCTAVES, shape[0]).astype(np.float32)[:, None, None, None]
    sign = np.where((row + column) % 2 == 0, np.float32(1), np.float32(-1))[..., None]
    deviates = generator.standard_normal(parts, np.float32)
    uniform = generator.random(parts, np.float32)
    kinds = hard_kinds(deviates, uniform, level, sign, _OCTAVES)
    values = np.asarray(np.choose(turn[..., None], kinds), np.float32)
    return np.ascontiguousarray(values).view(np.complex64)[..., 0]
