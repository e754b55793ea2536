"""Single results of `filter2d` in float64, each by a direct sum over its window."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.problem import Accuracy
from warpsmith.tuner.operations.filter2d.oracle import stand_in
from warpsmith.tuner.operations.reference import Operands, Samples


def samples(problem: Filter2d, operands: Operands, indices: NDArray[np.int64]) -> Samples:
    """Results with these indices, in C order of planes, filters, rows, columns and channels."""
    planes = operands["image"].reshape(problem.planes, *problem.image, problem.channels)
    filters = operands["weights"].astype(np.float64).reshape(problem.filters, *problem.filter)
    shape = (problem.planes, problem.filters, *problem.output_shape, problem.channels)
    expected, scale = np.empty(len(indices)), np.empty(len(indices))
    for number, place in enumerate(zip(*np.unravel_index(indices, shape), strict=True)):
        plane, which, row, column, channel = map(int, place)
        taps = filters[which][::-1, ::-1] if problem.convolve else filters[which]
        rows, columns = (
            at - before + np.arange(count)
            for at, before, count in zip((row, column), problem.before, problem.filter, strict=True)
        )
        pixels = _pixels(problem, planes[plane, :, :, channel], rows, columns)
        expected[number] = np.vdot(taps, pixels)
        if problem.accuracy is Accuracy.NORMWISE:
            scale[number] = np.abs(taps).sum() * np.abs(pixels).max()
        else:
            scale[number] = np.abs(taps * pixels).sum()
    return Samples(indices, expected, scale)


def _pixels(
    problem: Filter2d, plane: NDArray[np.generic], rows: NDArray[np.int64], columns: NDArray[np.int64]
) -> NDArray[np.float64]:
    height, width = problem.image
    if problem.border in (Border.VALID, Border.CONSTANT):
        inside = ((rows >= 0) & (rows < height))[:, None] & ((columns >= 0) & (columns < width))[None, :]
        found = plane[np.clip(rows, 0, height - 1)[:, None], np.clip(columns, 0, width - 1)[None, :]]
        return np.where(inside, found.astype(np.float64), problem.cval)
    rows, columns = stand_in(problem.border, rows, height), stand_in(problem.border, columns, width)
    return plane[rows[:, None], columns[None, :]].astype(np.float64)
