"""Checks that one unusual image of a batch does not affect the results of the others."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.conv2d import Conv2d
from warpsmith.generator.problem import DType, Operand
from warpsmith.tuner.operations.conv2d.oracle import reference
from warpsmith.tuner.operations.registry import random_operands

Numbers = NDArray[Any]
Call = Callable[[Mapping[str, Numbers]], Numbers]
"""Function that computes a layer's result from its inputs by name."""
UNLIKE = 1
"""Index of the unusual image."""
CHECKED = 3
"""Most images whose results are compared with float64 sums while all images are alike."""


class Unlike(enum.Enum):
    """Kind of unusual image. LARGER, FAR_LARGER and SMALLER are factors of the usual one."""

    LARGER = 1e6
    FAR_LARGER = 1e12
    SMALLER = 1e-6
    HUGE = 1e38
    """Largest magnitude of the image."""
    TINY = 1e-38
    """Largest magnitude of the image."""
    NANS = "a NaN in its corners"
    ALL_NANS = "nothing else"
    INFINITIES = "infinities in its corners"

    def of(self, image: Numbers) -> Numbers:
        """Unusual image made from `image`, with shape (channels, rows, columns)."""
        found = image.astype(np.float64)
        if self in (Unlike.LARGER, Unlike.FAR_LARGER, Unlike.SMALLER):
            found *= self.value
        elif self in (Unlike.HUGE, Unlike.TINY):
            found *= float(self.value) / np.abs(found).max()
        elif self is Unlike.ALL_NANS:
            found[...] = np.nan
        else:
            for row, column in ((0, 0), (0, -1), (-1, 0), (-1, -1)):
                found[:, row, column] = np.nan if self is Unlike.NANS else np.inf
        return found.astype(image.dtype)

    @property
    def is_held_to_bounds(self) -> bool:
        """Whether float32 can represent all results of the image."""
        return self in (Unlike.LARGER, Unlike.FAR_LARGER, Unlike.SMALLER, Unlike.TINY)


def laid_out(numbers: Numbers, operand: Operand) -> Numbers:
    """Copy of the numbers with the strides of the operand."""
    memory = np.empty(operand.nbytes, np.uint8)
    found: Numbers = np.ndarray(operand.shape, numbers.dtype, memory.data, 0, operand.strides)
    found[...] = numbers
    return found


def check_apart(problem: Conv2d, call: Call) -> None:
    """Fails unless the other images' results keep all their bits, whatever the unusual image contains.

    float32 results must also be as accurate in each image as if the image were a batch of its own.

    Args:
        problem: fprop or dgrad with at least two images.
        call: function that computes it.
    """
    given = dict(random_operands(problem, 3))
    source = problem.inputs[0].name
    usual = call(given)
    is_checked = problem.dtype is DType.FLOAT32
    for image in range(min(problem.input[0], CHECKED) if is_checked else 0):
        _check_image(problem, given, usual, image)
    others = np.arange(problem.input[0]) != UNLIKE
    bits = np.dtype(f"u{usual.dtype.itemsize}")
    for unlike in Unlike:
        changed = given[source].copy()
        changed[UNLIKE] = unlike.of(changed[UNLIKE])
        operands = {**given, source: changed}
        found = call(operands)
        assert np.array_equal(found[others].view(bits), usual[others].view(bits)), unlike
        if is_checked and unlike.is_held_to_bounds:
            _check_image(problem, operands, found, UNLIKE)


def _check_image(problem: Conv2d, operands: Mapping[str, Numbers], found: Numbers, image: int) -> None:
    """Checks the error of one image, relative to the results of that image alone."""
    alone = dataclasses.replace(problem, input=(1, *problem.input[1:]))
    source = problem.inputs[0].name
    expected, scale = reference(alone, {**operands, source: operands[source][image : image + 1]})
    error = np.abs(found[image : image + 1].astype(np.float64) - expected)
    steps = np.finfo(np.float32).smallest_subnormal
    assert (error <= problem.error_bound * scale + steps).all(), (image, float((error / scale).max()))
