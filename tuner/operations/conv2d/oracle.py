"""Float64 references of `conv2d`: NumPy alone, nothing shared with the generator.

Each pass is a sum over taps: for a tap (r, s) the pixels that it meets are a strided slice of the padded image, and
what they contribute is a product of matrices, channels by filters. fprop adds these products up, dgrad adds them to the
slice that they come from, wgrad takes them for the tap's weights. Both the sum and the sum of |terms| are made in this
way. Large layers whose errors are told relative to the whole result are transformed instead (`fourier_oracle.py`).
"""

from __future__ import annotations

import dataclasses
import math
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.bounds import PEAK
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.problem import Accuracy
from warpsmith.tuner.operations.conv2d.fourier_oracle import by_transforms, is_by_transforms
from warpsmith.tuner.operations.conv2d.padding import folded, most_places, padded
from warpsmith.tuner.operations.strips import for_each_strip

Values = NDArray[np.float64]
Numbers = Callable[[NDArray[Any]], Values]
"""What is added up of an operand's part: its values, or their magnitudes."""

_PRODUCT_SIZE = 1 << 18
"""Multiply-adds of one product: OpenBLAS spreads larger ones over threads of its own, beside those that are here."""
_LEAST_WIDTH = 64
"""Columns of one product at the least: narrower ones are slow, whatever threads they take."""


def terms(problem: Conv2d) -> int:
    """Terms of one result that the oracle adds up, at the most."""
    filters, channels, rows, columns = problem.weight
    match problem.pass_:
        case Pass.FPROP:
            return channels * rows * columns
        case Pass.DGRAD:
            return filters // problem.groups * rows * columns * most_places(problem)
        case Pass.WGRAD:
            return problem.input[0] * math.prod(problem.output_size)


def smaller(problem: Conv2d) -> Conv2d:
    """A problem of a few elements of the same kind, for which libraries load and compile what they need."""
    rows, columns = (
        min(size, max((taps - 1) * dilation + 4 * stride, max(pads) + 1))
        for size, taps, dilation, stride, pads in zip(
            problem.input[2:], problem.weight[2:], problem.dilation, problem.stride, problem.padding, strict=True
        )
    )
    return dataclasses.replace(problem, input=(1, problem.input[1], rows, columns))


def reference(problem: Conv2d, operands: Mapping[str, NDArray[Any]]) -> tuple[Values, Values]:
    """The float64 result, and for each element what its error is relative to: the sum of its |terms|, the bias among
    them, or twice the root mean square of all results where that is larger and the problem's accuracy allows it.

    A ReLU moves no result further from another than their sums are, so that errors of its sum bound those of its
    result.

    Args:
        problem: of any pass.
        operands: the inputs by name, of the shapes that the problem gives them.
    """
    compute = {Pass.FPROP: _fprop, Pass.DGRAD: _dgrad, Pass.WGRAD: _wgrad}[problem.pass_]
    if is_by_transforms(problem):
        compute = by_transforms
    expected, scale = (compute(problem, operands, of) for of in (_values, _magnitudes))
    if problem.accuracy is Accuracy.NORMWISE:
        scale = np.maximum(scale, PEAK * math.sqrt(float(np.vdot(expected, expected)) / expected.size))
    if problem.relu:
        expected = np.maximum(expected, 0.0)
    return expected, scale


def _values(array: NDArray[Any]) -> Values:
    return array.astype(np.float64)


def _magnitudes(array: NDArray[Any]) -> Values:
    return np.abs(array.astype(np.float64))


def _fprop(problem: Conv2d, operands: Mapping[str, NDArray[Any]], of: Numbers) -> Values:
    x, weights = operands["x"], _by_group(problem, of(operands["w"]))
    result = np.zeros(problem.output.shape)

    def image(n: int) -> None:
        whole, y = _padded(problem, of(x[n])), _in_groups(problem, result[n])
        for r, s, meets in _taps(problem):
            pixels = whole[meets].reshape(problem.groups, problem.weight[1], -1)
            _add_product(weights[..., r, s], pixels, y)
        if problem.bias:
            result[n] += of(operands["b"])[:, None, None]

    _each_image(problem, image)
    return result


def _dgrad(problem: Conv2d, operands: Mapping[str, NDArray[Any]], of: Numbers) -> Values:
    gradients, weights = operands["dy"], _by_group(problem, of(operands["w"]))
    result = np.empty(problem.output.shape)
    rows, columns = problem.output_size

    def image(n: int) -> None:
        whole = np.zeros((problem.groups, problem.weight[1], *problem.padded_size))
        dy = _in_groups(problem, of(gradients[n]))
        for r, s, meets in _taps(problem):
            pixels = np.zeros((problem.groups, problem.weight[1], rows * columns))
            _add_product(weights[..., r, s].swapaxes(1, 2), dy, pixels)
            whole[meets] += pixels.reshape(problem.groups, problem.weight[1], rows, columns)
        result[n] = folded(problem, whole).reshape(problem.input[1:])
        if problem.bias:
            result[n] += of(operands["b"])[:, None, None]

    _each_image(problem, image)
    return result


def _wgrad(problem: Conv2d, operands: Mapping[str, NDArray[Any]], of: Numbers) -> Values:
    x, gradients = operands["x"], operands["dy"]
    result = np.zeros((problem.groups, problem.weight[0] // problem.groups, *problem.weight[1:]))
    lock = threading.Lock()

    def image(n: int) -> None:
        whole, dy = _padded(problem, of(x[n])), _in_groups(problem, of(gradients[n]))
        for r, s, meets in _taps(problem):
            pixels = whole[meets].reshape(problem.groups, problem.weight[1], -1)
            product = np.matmul(dy, pixels.swapaxes(1, 2))
            with lock:
                result[..., r, s] += product

    _each_image(problem, image)
    return result.reshape(problem.weight)


def _each_image(problem: Conv2d, work: Callable[[int], None]) -> None:
    """On many cores."""

    def images(part: slice) -> None:
        for n in range(part.start, part.stop):
            work(n)

    row_bytes = 8 * max(math.prod(operand.shape[1:]) for operand in problem.operands)
    for_each_strip(problem.input[0], row_bytes, images)


def _taps(problem: Conv2d) -> Iterator[tuple[int, int, tuple[Any, slice, slice]]]:
    """Row and column of each tap, and the slice of the padded image that it meets: one pixel for each output."""
    for r in range(problem.weight[2]):
        for s in range(problem.weight[3]):
            firsts = r * problem.dilation[0], s * problem.dilation[1]
            rows, columns = (
                slice(first, first + (count - 1) * stride + 1, stride)
                for first, count, stride in zip(firsts, problem.output_size, problem.stride, strict=True)
            )
            yield r, s, (..., rows, columns)


def _padded(problem: Conv2d, image: Values) -> Values:
    """One image of x with its padding, as (groups, channels, rows, columns)."""
    return padded(problem, image.reshape(problem.groups, problem.weight[1], *problem.input[2:]))


def _in_groups(problem: Conv2d, image: Values) -> Values:
    """A view of one image of y as (groups, filters, pixels)."""
    return image.reshape(problem.groups, problem.weight[0] // problem.groups, -1)


def _by_group(problem: Conv2d, weights: Values) -> Values:
    """(groups, filters, channels, R, S)."""
    return weights.reshape(problem.groups, problem.weight[0] // problem.groups, *problem.weight[1:])


def _add_product(weights: Values, pixels: Values, target: Values) -> None:
    """Adds `weights @ pixels`, a matrix a group, in products of _PRODUCT_SIZE."""
    _, rows, summed = weights.shape
    width = max(_LEAST_WIDTH, _PRODUCT_SIZE // (rows * summed))
    for start in range(0, pixels.shape[-1], width):
        part = slice(start, start + width)
        target[..., part] += np.matmul(weights, pixels[..., part])
