"""Float64 products by NumPy, and how large an error of each result may look."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.bounds import PEAK
from warpsmith.generator.cgemm import Cgemm, Op
from warpsmith.generator.problem import Accuracy
from warpsmith.tuner.operations.reference import Operands
from warpsmith.tuner.operations.strips import STRIP_BYTES, for_each_strip

_WIDE = 16
"""Bytes of a complex number of float64s."""

_ROWS = 512
"""Of a product that a thread makes: NumPy's own threads are switched off beside ours."""


def reference(problem: Cgemm, operands: Operands) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The results and what their errors are measured against, as real numbers: real and imaginary parts lie side by
    side, in one dimension more. Both parts of a result are measured against its sum of |a| |b|, or twice the root mean
    square of the real numbers of its matrix where that is larger and the problem's accuracy allows it.
    """
    expected = np.empty(problem.output.shape, np.complex128)
    scale = np.empty((*problem.output.shape, 2))
    parts = math.ceil(problem.m / _ROWS)

    def strip(numbers: slice) -> None:
        matrices = numbers if parts == 1 else slice(numbers.start // parts, (numbers.stop - 1) // parts + 1)
        a, b = turned(operands["a"][matrices], problem.a), turned(operands["b"][matrices], problem.b)
        # All rows of several matrices, or some rows of one.
        rows = slice(None) if parts == 1 else slice(numbers.start % parts * _ROWS, (numbers.start % parts + 1) * _ROWS)
        np.matmul(a[:, rows], b, out=expected[matrices, rows])
        scale[matrices, rows] = np.matmul(np.abs(a[:, rows]), np.abs(b))[..., None]

    largest = max(operand.size for operand in problem.operands) // problem.batch
    for_each_strip(problem.batch * parts, STRIP_BYTES if parts > 1 else _WIDE * largest, strip)
    if problem.accuracy is Accuracy.NORMWISE:  # of whole matrices, and so once all their rows are there
        squares = np.square(expected.view(np.float64)).mean(axis=(1, 2), keepdims=True)
        np.maximum(scale, PEAK * np.sqrt(squares)[..., None], out=scale)
    return expected.view(np.float64).reshape(scale.shape), scale


def turned(matrices: NDArray[np.complex64], op: Op) -> NDArray[np.complex128]:
    """Matrices as they are multiplied, (..., rows, columns)."""
    wide = matrices.astype(np.complex128)
    if op is Op.N:
        return wide
    transposed = wide.swapaxes(-2, -1)
    return transposed.conj() if op is Op.C else transposed
