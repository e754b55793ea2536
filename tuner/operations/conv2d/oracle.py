"""Float64 references of `conv2d` by NumPy alone; nothing is shared with the generator.

Each pass is a sum over taps. The pixels that a tap (r, s) reads are a strided slice of the padded image, and their
contribution is a matrix product of channels by filters. fprop adds these products up, dgrad adds them to the slice that
they come from, wgrad takes them for the tap's weights. Both the sum and the sum of |terms| are computed this way. Large
layers whose errors are relative to the whole result use transforms instead (`fourier_oracle.py`)."""

from __future__ import annotations

import dataclasses
import math
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.conv2d import Conv2d
from warpsmith.generator.problem import PEAK, Accuracy
from warpsmith.tuner.operations.conv2d.fourier_oracle import by_transforms, is_by_transforms
from warpsmith.tuner.operations.conv2d.padding import Numbers, folded, most_places, standing, window
from warpsmith.tuner.operations.judge import Operands, Samples
from warpsmith.tuner.operations.strips import STRIP_BYTES, for_each_strip, room_beside, threads

Values = NDArray[np.float64]
_PRODUCT_SIZE = 1 << 18
"""Multiply-adds of one product: OpenBLAS spreads larger ones over its own threads, which would compete with ours."""
_STRIP_BYTES = 64 << 20
"""Largest number of bytes of scratch memory per thread."""
_LEAST_WIDTH = 64
"""Least number of columns of one product: narrower ones are slow on any number of threads."""


def terms(problem: Conv2d) -> int:
    """Largest number of terms of one result that the oracle adds up."""
    return problem.terms * (most_places(problem) if problem.pass_.is_transposed else 1)


def smaller(problem: Conv2d) -> Conv2d:
    """A problem of the same kind with only a few elements, for which libraries load and compile what they need."""
    rows, columns = (
        min(size, max((taps - 1) * dilation + 4 * stride, max(pads) + 1))
        for size, taps, dilation, stride, pads in zip(
            problem.input[2:], problem.weight[2:], problem.dilation, problem.stride, problem.padding, strict=True
        )
    )
    return dataclasses.replace(problem, input=(1, problem.input[1], rows, columns))


def reference(problem: Conv2d, operands: Mapping[str, NDArray[Any]]) -> tuple[Values, Values]:
    """The float64 result, and the scale of each element's error.

    The scale is the sum of the element's |terms|, including the bias. If the problem's accuracy allows it, the scale is
    at least twice the root mean square of the image's results, or of the whole weight gradient.

    The scale of an image whose results are not all finite is NaN, so these results are not checked. A ReLU never
    increases the difference of two values, so a bound for the sums is also one for the results.

    Args:
        problem: a problem of any pass.
        operands: the inputs by name, in the problem's shapes.
    """
    compute = problem.pass_.select(_fprop, _dgrad, _wgrad)
    if is_by_transforms(problem):
        compute = by_transforms
    room = room_beside(problem.output.size)
    expected, scale = (compute(problem, operands, of, room) for of in (_values, _magnitudes))
    if problem.accuracy is Accuracy.NORMWISE:
        scale = np.maximum(scale, PEAK * _root_mean_squares(problem, expected))
    if problem.relu:
        expected = np.maximum(expected, 0.0)
    return expected, scale


def _root_mean_squares(problem: Conv2d, results: Values) -> Values:
    """Root mean square of each image's results, (images, 1, 1, 1), or of the whole weight gradient; NaN if they are not
    all finite.
    """
    rows = results.reshape(problem.scales, -1)
    squares = np.array([float(np.vdot(row, row)) / row.size for row in rows])
    return np.sqrt(np.where(np.isfinite(squares), squares, np.nan)).reshape(-1, 1, 1, 1)


def _values(array: NDArray[Any]) -> Values:
    return array.astype(np.float64)


def _magnitudes(array: NDArray[Any]) -> Values:
    return np.abs(array.astype(np.float64))


def _fprop(problem: Conv2d, operands: Mapping[str, NDArray[Any]], of: Numbers, room: int) -> Values:
    x, weights = operands["x"], _by_group(problem, of(operands["w"]))
    result = np.zeros(problem.output.shape)

    def rows(n: int, part: slice) -> None:
        whole = _window(problem, x[n], part, of)
        pixels_of_y = (part.stop - part.start) * problem.output_size[1]
        y = np.zeros((problem.groups, problem.weight[0] // problem.groups, pixels_of_y))
        for r, s, meets in _taps(problem, part.stop - part.start):
            pixels = whole[meets].reshape(problem.groups, problem.weight[1], -1)
            _add_product(weights[..., r, s], pixels, y)
        result[n, :, part] = y.reshape(problem.weight[0], -1, problem.output_size[1])
        if problem.bias:
            result[n, :, part] += of(operands["b"])[:, None, None]

    _each_strip_of_rows(problem, rows, room)
    return result


def _dgrad(problem: Conv2d, operands: Mapping[str, NDArray[Any]], of: Numbers, room: int) -> Values:
    gradients, weights = operands["dy"], _by_group(problem, of(operands["w"]))
    result = np.empty(problem.output.shape)
    by_group = result.reshape(problem.input[0], problem.groups, problem.weight[1], *problem.input[2:])
    rows, columns = problem.output_size

    def block(n: int, groups: slice, channels: slice) -> None:
        own = weights[groups, :, channels]
        whole = np.zeros((own.shape[0], own.shape[2], *problem.padded_size))
        dy = _in_groups(problem, gradients[n])[groups]
        for r, s, meets in _taps(problem, rows):
            pixels = np.zeros((own.shape[0], own.shape[2], rows * columns))
            _add_product(own[..., r, s].swapaxes(1, 2), dy, pixels, of)
            whole[meets] += pixels.reshape(own.shape[0], own.shape[2], rows, columns)
        by_group[n, groups, channels] = folded(problem, whole)

    _each_block_of_channels(problem, block, room)
    if problem.bias:
        result += of(operands["b"])[:, None, None]
    return result


def _wgrad(problem: Conv2d, operands: Mapping[str, NDArray[Any]], of: Numbers, room: int) -> Values:
    x, gradients = operands["x"], operands["dy"]
    result = np.zeros((problem.groups, problem.weight[0] // problem.groups, *problem.weight[1:]))
    lock = threading.Lock()

    def rows(n: int, part: slice) -> None:
        whole, dy = _window(problem, x[n], part, of), _in_groups(problem, of(gradients[n, :, part]))
        for r, s, meets in _taps(problem, part.stop - part.start):
            pixels = whole[meets].reshape(problem.groups, problem.weight[1], -1)
            product = np.matmul(dy, pixels.swapaxes(1, 2))
            with lock:
                result[..., r, s] += product

    _each_strip_of_rows(problem, rows, room)
    return result.reshape(problem.weight)


def _each_strip_of_rows(problem: Conv2d, work: Callable[[int, slice], None], room: int) -> None:
    """Calls `work` on strips of rows of y, image by image on many cores, using at most `room` bytes in all."""
    rows, columns = problem.output_size
    beside = (problem.weight[2] - 1) * problem.dilation[0]
    # Bytes of a window, of its copy as values or magnitudes, and of a tap's pixels; of dy or y, and of a product.
    row_bytes = 8 * (
        3 * problem.input[1] * problem.stride[0] * problem.padded_size[1] + 3 * problem.weight[0] * columns
    )
    most = min(_STRIP_BYTES, room // threads()) - 24 * problem.input[1] * beside * problem.padded_size[1]
    step = min(rows, max(1, most // row_bytes))
    parts = math.ceil(rows / step)

    def strips(numbers: slice) -> None:
        for number in range(numbers.start, numbers.stop):
            first = number % parts * step
            work(number // parts, slice(first, min(first + step, rows)))

    for_each_strip(problem.input[0] * parts, min(step * row_bytes, STRIP_BYTES), strips)


def _each_block_of_channels(problem: Conv2d, work: Callable[[int, slice, slice], None], room: int) -> None:
    """Calls `work` on blocks of channels of x, image by image on many cores: several groups, or some channels of a
    group.
    """
    # Bytes of a padded plane with its folded gradients, and twice a tap's pixels.
    channel_bytes = 8 * (3 * math.prod(problem.padded_size) + 2 * math.prod(problem.output_size))
    most = max(1, min(_STRIP_BYTES, room // threads()) // channel_bytes)
    channels, groups = min(problem.weight[1], most), min(problem.groups, max(1, most // problem.weight[1]))
    blocks = [
        (n, slice(group, group + groups), slice(channel, channel + channels))
        for n in range(problem.input[0])
        for group in range(0, problem.groups, groups)
        for channel in range(0, problem.weight[1], channels)
    ]

    def strips(numbers: slice) -> None:
        for block in blocks[numbers]:
            work(*block)

    for_each_strip(len(blocks), min(channels * groups * channel_bytes, STRIP_BYTES), strips)


def _taps(problem: Conv2d, rows: int) -> Iterator[tuple[int, int, tuple[Any, slice, slice]]]:
    """Row and column of each tap, and the slice of the padded image that it reads for `rows` rows of outputs."""
    for r in range(problem.weight[2]):
        for s in range(problem.weight[3]):
            firsts = r * problem.dilation[0], s * problem.dilation[1]
            met_rows, columns = (
                slice(first, first + (count - 1) * stride + 1, stride)
                for first, count, stride in zip(firsts, (rows, problem.output_size[1]), problem.stride, strict=True)
            )
            yield r, s, (..., met_rows, columns)


def _window(problem: Conv2d, image: NDArray[Any], part: slice, of: Numbers) -> Values:
    """Pixels of one padded image of x that some rows of y read, as (groups, channels, rows, columns)."""
    first = part.start * problem.stride[0]
    last = (part.stop - 1) * problem.stride[0] + (problem.weight[2] - 1) * problem.dilation[0]
    rows = standing(problem, 0)[first : last + 1]
    found = window(image, rows, standing(problem, 1), of)
    return found.reshape(problem.groups, problem.weight[1], *found.shape[1:])


def _in_groups(problem: Conv2d, image: NDArray[Any]) -> NDArray[Any]:
    """Some rows of one image of y as (groups, filters, pixels)."""
    return image.reshape(problem.groups, problem.weight[0] // problem.groups, -1)


def _by_group(problem: Conv2d, weights: Values) -> Values:
    """Weights as (groups, filters, channels, R, S)."""
    return weights.reshape(problem.groups, problem.weight[0] // problem.groups, *problem.weight[1:])


def _add_product(weights: Values, pixels: NDArray[Any], target: Values, of: Numbers | None = None) -> None:
    """Adds `weights @ of(pixels)`, one matrix per group, in products of _PRODUCT_SIZE."""
    _, rows, summed = weights.shape
    width = max(_LEAST_WIDTH, _PRODUCT_SIZE // (rows * summed))
    for start in range(0, pixels.shape[-1], width):
        part = slice(start, start + width)
        target[..., part] += np.matmul(weights, pixels[..., part] if of is None else of(pixels[..., part]))


Terms = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Factors of one result's products, two arrays of one shape."""
Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]


def samples(problem: Conv2d, operands: Operands, indices: NDArray[np.int64]) -> Samples:
    """Results with these indices, in C order of the output's shape."""
    terms_of = problem.pass_.select(_fprop_terms, _dgrad_terms, _wgrad_terms)
    expected, scale = np.empty(len(indices)), np.empty(len(indices))
    for number, place in enumerate(zip(*np.unravel_index(indices, problem.output.shape), strict=True)):
        a, b = terms_of(problem, operands, *map(int, place))
        bias = float(operands["b"][place[1]]) if problem.bias else 0.0
        expected[number] = np.vdot(a, b) + bias
        scale[number] = np.vdot(np.abs(a), np.abs(b)) + abs(bias)
    if problem.relu:
        expected = np.maximum(expected, 0.0)
    return Samples(indices, expected, scale)


def _fprop_terms(problem: Conv2d, operands: Operands, n: int, k: int, p: int, q: int) -> Terms:
    channels = _channels_of(problem, k)
    rows, columns = (_pixels(problem, axis, at) for axis, at in enumerate((p, q)))
    return window(operands["x"][n, channels], rows, columns, _wide), _wide(operands["w"][k])


def _dgrad_terms(problem: Conv2d, operands: Operands, n: int, c: int, h: int, w: int) -> Terms:
    group = c // problem.group_channels
    filters = slice(group * problem.group_filters, (group + 1) * problem.group_filters)
    (ps, rs), (qs, ss) = (_meetings(problem, axis, at) for axis, at in enumerate((h, w)))
    gradients = operands["dy"][n, filters][:, ps[:, None], qs[None, :]]
    weights = operands["w"][filters, c % problem.group_channels][:, rs[:, None], ss[None, :]]
    return _wide(gradients), _wide(weights)


def _wgrad_terms(problem: Conv2d, operands: Operands, k: int, c: int, r: int, s: int) -> Terms:
    channel = _channels_of(problem, k).start + c
    rows, columns = (
        standing(problem, axis)[at * dilation :][: (size - 1) * stride + 1 : stride]
        for axis, (at, dilation, stride, size) in enumerate(
            zip((r, s), problem.dilation, problem.stride, problem.output_size, strict=True)
        )
    )
    return window(operands["x"][:, channel], rows, columns, _wide), _wide(operands["dy"][:, k])


def _channels_of(problem: Conv2d, filter_: int) -> slice:
    group = filter_ // problem.group_filters
    return slice(group * problem.group_channels, (group + 1) * problem.group_channels)


def _wide(values: NDArray[Any]) -> NDArray[np.float64]:
    return values.astype(np.float64)


def _pixels(problem: Conv2d, axis: int, at: int) -> NDArray[np.int64]:
    """Rows or columns of x that the taps of a result read."""
    places = at * problem.stride[axis] + np.arange(problem.weight[2 + axis]) * problem.dilation[axis]
    return np.asarray(standing(problem, axis)[places])


def _meetings(problem: Conv2d, axis: int, at: int) -> Pairs:
    """Rows or columns of y that a pixel of x contributes to, each with the tap that it uses."""
    taps = np.arange(problem.weight[2 + axis])
    places = np.flatnonzero(standing(problem, axis) == at)
    steps = places[:, None] - taps[None, :] * problem.dilation[axis]
    there = steps // problem.stride[axis]
    meets = (steps % problem.stride[axis] == 0) & (steps >= 0) & (there < problem.output_size[axis])
    _, which = np.nonzero(meets)
    return there[meets], taps[which]
