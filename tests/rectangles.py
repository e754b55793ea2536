"""Counts how often rectangles cover each point of a plane, without an array of the plane."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray


def cover(shape: tuple[int, int], rectangles: Iterable[tuple[slice, slice]]) -> NDArray[np.int64]:
    """Number of `rectangles` that contain each point of a plane of `shape`.

    One entry stands for all points between two neighbouring rows and columns at which a rectangle begins or ends,
    because the count is the same there. Parts of rectangles beyond the plane do not count.
    """
    ends = np.array([(y.start, y.stop, x.start, x.stop) for y, x in rectangles]).reshape(-1, 2, 2)
    ends = np.minimum(ends, np.array(shape)[:, None])
    rows, columns = (np.unique(np.append(ends[:, axis], [0, extent])) for axis, extent in enumerate(shape))
    (top, bottom), (left, right) = np.searchsorted(rows, ends[:, 0]).T, np.searchsorted(columns, ends[:, 1]).T
    steps = np.zeros((len(rows), len(columns)), np.int64)
    for row, column, step in ((top, left, 1), (bottom, left, -1), (top, right, -1), (bottom, right, 1)):
        np.add.at(steps, (row, column), step)
    return steps.cumsum(0).cumsum(1)[:-1, :-1]
