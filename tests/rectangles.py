"""How often rectangles cover each point of a plane, counted without an array of the plane."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray


def cover(shape: tuple[int, int], rectangles: Iterable[tuple[slice, slice]]) -> NDArray[np.int64]:
    """How many of the `rectangles` each point of a plane of `shape` lies in. Between two neighbouring rows or columns
    where any begins or ends all points are alike, and one stands for them. What lies outside of the plane is left out.
    """
    ends = np.array([(y.start, y.stop, x.start, x.stop) for y, x in rectangles]).reshape(-1, 2, 2)
    ends = np.minimum(ends, np.array(shape)[:, None])
    rows, columns = (np.unique(np.append(ends[:, axis], [0, extent])) for axis, extent in enumerate(shape))
    (top, bottom), (left, right) = np.searchsorted(rows, ends[:, 0]).T, np.searchsorted(columns, ends[:, 1]).T
    steps = np.zeros((len(rows), len(columns)), np.int64)
    for row, column, step in ((top, left, 1), (bottom, left, -1), (top, right, -1), (bottom, right, 1)):
        np.add.at(steps, (row, column), step)
    return steps.cumsum(0).cumsum(1)[:-1, :-1]
