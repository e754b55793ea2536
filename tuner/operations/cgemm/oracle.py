"""Float64 products by NumPy, and how large an error of each result may look."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.cgemm import Cgemm, Op
from warpsmith.generator.problem import Accuracy
from warpsmith.tuner.operations.reference import Operands
from warpsmith.tuner.operations.strips import for_each_strip

_WIDE = 16
"""Bytes of a complex number of float64s."""
_PEAK = 2.0
"""As for `conv2d`: the largest of many normal errors is 1e-6 of so many times the root mean square of a result whose
relative error in the L2 norm is 5e-7."""


def reference(problem: Cgemm, operands: Operands) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The results and what their errors are measured against, as real numbers: real and imaginary parts lie side by
    side, in one dimension more. Both parts of a result are measured against its sum of |a| |b|, or twice the root mean
    square of the real numbers of its matrix where that is larger and the problem's accuracy allows it.
    """
    expected = np.empty(problem.output.shape, np.complex128)
    scale = np.empty((*problem.output.shape, 2))

    def strip(part: slice) -> None:
        a, b = _turned(operands["a"][part], problem.a), _turned(operands["b"][part], problem.b)
        np.matmul(a, b, out=expected[part])
        scale[part] = np.matmul(np.abs(a), np.abs(b))[..., None]
        if problem.accuracy is Accuracy.NORMWISE:
            squares = np.square(expected[part].view(np.float64)).mean(axis=(1, 2), keepdims=True)
            np.maximum(scale[part], _PEAK * np.sqrt(squares)[..., None], out=scale[part])

    largest = max(operand.size for operand in problem.operands) // problem.batch
    for_each_strip(problem.batch, _WIDE * largest, strip)
    return expected.view(np.float64).reshape(scale.shape), scale


def _turned(matrices: NDArray[np.complex64], op: Op) -> NDArray[np.complex128]:
    """Matrices as they are multiplied."""
    wide = matrices.astype(np.complex128)
    if op is Op.N:
        return wide
    turned = wide.swapaxes(1, 2)
    return turned.conj() if op is Op.C else turned
