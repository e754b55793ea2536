"""Padding of images by NumPy's own modes, and its adjoint, which folds the gradient of a padded image back."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.conv2d import Conv2d, PaddingMode

Values = NDArray[np.float64]
Numbers = Callable[[NDArray[Any]], Values]
"""Function that maps an operand's part to a float64 copy of its values or of their magnitudes."""

_MODES: dict[PaddingMode, Literal["constant", "reflect", "edge", "wrap"]] = {
    PaddingMode.ZEROS: "constant",
    PaddingMode.REFLECT: "reflect",
    PaddingMode.REPLICATE: "edge",
    PaddingMode.CIRCULAR: "wrap",
}


def standing(problem: Conv2d, axis: int) -> NDArray[np.int64]:
    """Row or column index of x at each position of the padded image along `axis`; -1 for zero padding."""
    if problem.padding_mode is not PaddingMode.ZEROS:
        return sources(problem, axis)
    return np.pad(np.arange(problem.input[2 + axis]), problem.padding[axis], constant_values=-1)


def window(images: NDArray[Any], rows: NDArray[np.int64], columns: NDArray[np.int64], of: Numbers) -> Values:
    """Selected rows and columns of images (..., rows, columns), mapped by `of`; zeros at index -1."""
    found = of(images[..., rows[:, None], columns[None, :]])
    found[..., rows < 0, :] = 0.0
    found[..., columns < 0] = 0.0
    return found


def folded(problem: Conv2d, gradients: Values) -> Values:
    """Gradients of x, from those of the padded images (..., rows, columns)."""
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
    """Largest number of positions of the padded image at which one pixel appears."""
    if problem.padding_mode is PaddingMode.ZEROS:
        return 1
    return math.prod(int(np.bincount(sources(problem, axis)).max()) for axis in (0, 1))


def sources(problem: Conv2d, axis: int) -> NDArray[np.int64]:
    """Row or column index of x at each position along `axis`."""
    return np.pad(np.arange(problem.input[2 + axis]), problem.padding[axis], _MODES[problem.padding_mode])
