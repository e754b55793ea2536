"""Single results of `cgemm` in float64, each by a direct sum."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.cgemm import Cgemm
from warpsmith.tuner.operations.cgemm.oracle import turned
from warpsmith.tuner.operations.reference import Operands, Samples


def samples(problem: Cgemm, operands: Operands, indices: NDArray[np.int64]) -> Samples:
    """Results with these indices of real numbers, with real and imaginary parts side by side."""
    expected, scale = np.empty(len(indices)), np.empty(len(indices))
    for number, place in enumerate(zip(*np.unravel_index(indices, (*problem.output.shape, 2)), strict=True)):
        product, row, column, part = map(int, place)
        left, right = operands["a"][product], operands["b"][product]
        a = turned(left[:, row : row + 1] if problem.a.transposes else left[row : row + 1], problem.a)[0]
        b = turned(right[column : column + 1] if problem.b.transposes else right[:, column : column + 1], problem.b)[
            :, 0
        ]
        total = (a * b).sum()
        expected[number] = total.imag if part else total.real
        scale[number] = np.vdot(np.abs(a), np.abs(b))
    return Samples(indices, expected, scale)
