"""Float64 matrix products by NumPy, with the scale of each result's error, and single results by direct sums."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.cgemm import Cgemm, Op
from warpsmith.generator.problem import PEAK, Accuracy
from warpsmith.tuner.operations.judge import Operands, Samples
from warpsmith.tuner.operations.strips import STRIP_BYTES, for_each_strip, room_beside, threads

_WIDE = 16
"""Bytes of a complex128 number."""

_ROWS = 512
"""Rows of a product that one thread computes at once; NumPy's own threads are off while ours run."""


def reference(problem: Cgemm, operands: Operands) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The results and the scales of their errors, as real numbers: real and imaginary parts are side by side in an
    additional dimension.

    The scale of both parts is the sum of |a| |b|. If the problem's accuracy allows it, the scale is at least twice the
    root mean square of the real numbers of the result's matrix or row.
    """
    room = room_beside(2 * problem.output.size)
    expected = np.empty(problem.output.shape, np.complex128)
    scale = np.empty((*problem.output.shape, 2))
    rows, columns = _tile(problem, room)
    tiles = [(top, left) for top in range(0, problem.m, rows) for left in range(0, problem.n, columns)]

    def strip(numbers: slice) -> None:
        # Each call handles all of several matrices, or one tile of a matrix.
        if len(tiles) == 1:
            _multiply(problem, operands, expected, scale, numbers, slice(None), slice(None))
            return
        for number in range(numbers.start, numbers.stop):
            matrix, (top, left) = number // len(tiles), tiles[number % len(tiles)]
            which = slice(matrix, matrix + 1)
            _multiply(problem, operands, expected, scale, which, slice(top, top + rows), slice(left, left + columns))

    largest = max(operand.size for operand in problem.operands) // problem.batch
    for_each_strip(problem.batch * len(tiles), STRIP_BYTES if len(tiles) > 1 else _WIDE * largest, strip)
    if problem.accuracy is not Accuracy.ELEMENTWISE:  # needs whole matrices or rows
        axes = (1,) if problem.accuracy is Accuracy.ROWWISE else (0, 1)
        for matrix, terms in zip(expected.view(np.float64).reshape(scale.shape), scale, strict=True):
            squares = np.square(matrix).mean(axis=(*axes, 2), keepdims=True)
            np.maximum(terms, PEAK * np.sqrt(squares), out=terms)
    return expected.view(np.float64).reshape(scale.shape), scale


def _tile(problem: Cgemm, room: int) -> tuple[int, int]:
    """Rows and columns of a product that a thread computes at once."""
    rows = min(problem.m, _ROWS)
    # Both factors and the product exist as complex numbers, and as magnitudes of half the size, computed through a
    # copy.
    most = room // threads() // (2 * _WIDE)
    columns = max(1, (most - rows * problem.k) // (problem.k + rows))
    while columns < 64 < rows:  # if the rows take most of the memory
        rows //= 2
        columns = max(1, (most - rows * problem.k) // (problem.k + rows))
    return rows, min(problem.n, columns)


def _multiply(
    problem: Cgemm,
    operands: Operands,
    expected: NDArray[np.complex128],
    scale: NDArray[np.float64],
    matrices: slice,
    rows: slice,
    columns: slice,
) -> None:
    """Computes some rows and columns of some matrices."""
    a, b = operands["a"][matrices], operands["b"][matrices]
    a = op_of(a[..., rows] if problem.a.transposes else a[:, rows], problem.a)
    b = op_of(b[:, columns] if problem.b.transposes else b[..., columns], problem.b)
    there = (matrices, rows, columns)
    expected[there] = np.matmul(a, b)
    scale[there] = np.matmul(np.abs(a), np.abs(b))[..., None]


def op_of(matrices: NDArray[np.complex64], op: Op) -> NDArray[np.complex128]:
    """The matrices after their operation (none, transpose, conjugate transpose), as (..., rows, columns)."""
    wide = matrices.astype(np.complex128)
    if op is Op.N:
        return wide
    transposed = wide.swapaxes(-2, -1)
    return transposed.conj() if op is Op.C else transposed


def samples(problem: Cgemm, operands: Operands, indices: NDArray[np.int64]) -> Samples:
    """Results with these indices of real numbers, with real and imaginary parts side by side."""
    expected, scale = np.empty(len(indices)), np.empty(len(indices))
    for number, place in enumerate(zip(*np.unravel_index(indices, (*problem.output.shape, 2)), strict=True)):
        product, row, column, part = map(int, place)
        left, right = operands["a"][product], operands["b"][product]
        a = op_of(left[:, row : row + 1] if problem.a.transposes else left[row : row + 1], problem.a)[0]
        b = op_of(right[column : column + 1] if problem.b.transposes else right[:, column : column + 1], problem.b)[
            :, 0
        ]
        total = (a * b).sum()
        expected[number] = total.imag if part else total.real
        scale[number] = np.vdot(np.abs(a), np.abs(b))
    return Samples(indices, expected, scale)
