"""Padding of images in NumPy, by its own modes, and the adjoint of it, which folds the gradient of padded images."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.conv2d import Conv2d, PaddingMode

Values = NDArray[np.float64]
Numbers = Callable[[NDArray[Any]], Values]
"""What is added up of an operand's part: its values, or their magnitudes; a copy of it."""

_MODES: dict[PaddingMode, Literal["constant", "reflect", "edge", "wrap"]] = {
    PaddingMode.ZEROS: "constant",
    PaddingMode.REFLECT: "reflect",
    PaddingMode.REPLICATE: "edge",
    PaddingMode.CIRCULAR: "wrap",
}


def standing(problem: Conv2d, axis: int) -> NDArray[np.int64]:
    """The row, or the column, of x that stands at each place of the padded image; -1 for zeros."""
    if problem.padding_mode is not PaddingMode.ZEROS:
        return sources(problem, axis)
    return np.pad(np.arange(problem.input[2 + axis]), problem.padding[axis], constant_values=-1)


def window(images: NDArray[Any], rows: NDArray[np.int64], columns: NDArray[np.int64], of: Numbers) -> Values:
    """Some rows and columns of images (..., rows, columns), with `of` applied to them; zeros for those of number -1."""
    found = of(images[..., rows[:, None], columns[None, :]])
    found[..., rows < 0, :] = 0.0
    found[..., columns < 0] = 0.0
    return found


def folded(problem: Conv2d, gradients: Values) -> Values:
    """The gradients of images (..., rows, columns) of x, from those of the padded ones."""
    for axis in (0, 1):
        by_place = np.moveaxis(gradients, axis - 2, 0)
        before, size = problem.padding[axis][0], problem.input[2 + axis]
        inside = by_place[before : before + size]
        if problem.padding_mode is not PaddingMode.ZEROS:
            inside = inside.copy()
            standing = sources(problem, axis)
            for place in (*range(before), *range(before + size, len(standing))):
                inside[standing[place]] += by_place[place]
        gradients = np.moveaxis(inside, 0, axis - 2)
    return gradients


def most_places(problem: Conv2d) -> int:
    """At how many places of a padded image one pixel stands, at the most."""
    if problem.padding_mode is PaddingMode.ZEROS:
        return 1
    return math.prod(int(np.bincount(sources(problem, axis)).max()) for axis in (0, 1))


def sources(problem: Conv2d, axis: int) -> NDArray[np.int64]:
    """The row, or the column, that stands at each place."""
    return np.pad(np.arange(problem.input[2 + axis]), problem.padding[axis], _MODES[problem.padding_mode])
