"""Float64 references by NumPy, and single results by direct sums. Nothing is shared with the generator.

References are products with band matrices or, for large filters whose sums over taps would take minutes, products of
Fourier transforms. For these an image is padded by its border first, and transformed in strips of rows; only discarded
rows wrap around. Their errors are some 1e-16 of the strip's largest pixel times the filter's gain, so the scale must be
at least as large as that.

Source: the correlation theorem; overlap-save (Stockham 1966), in rows alone.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.devices.elements import numpy_dtype
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.problem import Accuracy
from warpsmith.tuner.operations.judge import Operands, Reference, Samples
from warpsmith.tuner.operations.strips import STRIP_BYTES, for_each_strip, quick_length, room_beside

Steps = tuple[NDArray[np.int64], NDArray[np.int64]]

_LARGE = 1 << 33
"""Multiply-adds over taps above which this way is faster: direct sums of so many take about two seconds on 16 cores."""
_LEAST_ROWS = 256
"""Least number of rows of a strip, including padding."""


def is_by_transforms(problem: Filter2d) -> bool:
    """True if the reference of a problem is computed here."""
    return problem.accuracy is Accuracy.IMAGEWISE and problem.flops // 2 > _LARGE


def correlate(
    padded: NDArray[Any],
    weights: NDArray[np.float64],
    steps: Steps,
    target: NDArray[np.float64],
    *,
    absolute: bool,
    room: int,
) -> None:
    """Writes to target[y, x] the sum over r, s of weights[r, s] * padded[y + steps[0][r], x + steps[1][s]].

    Args:
        padded: rows and elements of an image, including every pixel that a window can read.
        weights: the filter, R rows and S columns.
        steps: offset of each filter row downwards and of each filter column to the right, 0 or more.
        target: rows and elements of the result.
        absolute: use |weights| and |padded|, which gives the sum of |terms|.
        room: bytes that all threads may take together.
    """
    (rows, elements), (reach, beyond) = target.shape, (int(each.max()) for each in steps)
    size = (quick_length(max(_LEAST_ROWS, 4 * reach)), quick_length(elements + beyond))
    taps = np.zeros((reach + 1, beyond + 1))
    taps[np.ix_(*steps)] = np.abs(weights) if absolute else weights
    factor = np.fft.rfft2(taps, size).conj()
    step = size[0] - reach

    def strips(numbers: slice) -> None:
        for top in range(numbers.start * step, min(numbers.stop * step, rows), step):
            count = min(step, rows - top)
            window = padded[top : top + count + reach].astype(np.float64)
            found = np.fft.irfft2(np.fft.rfft2(np.abs(window) if absolute else window, size) * factor, size)
            target[top : top + count] = found[:count, :elements]

    # Bytes of a window and its magnitudes, its spectrum, the product, and the inverse transform.
    scratch = 5 * 8 * (size[0] + 2) * (size[1] + 2)
    for_each_strip(math.ceil(rows / step), STRIP_BYTES, strips, scratch_bytes=scratch, room=room)


_TILE_ROWS = 16
"""Output rows of one product with a band matrix."""
_PRODUCT_SIZE = 1 << 18
"""Multiply-adds of one product: OpenBLAS spreads larger ones over its own threads, which would compete with ours."""

_FINENESS = 8
"""Frequencies per tap, along rows and columns, at which a filter's gain is sampled."""


def reference_filter2d(problem: Filter2d, image: NDArray[Any], weights: NDArray[Any]) -> Reference:
    """The filtered image and the scale of its errors; see `Filter2d.accuracy`."""
    planes = image.reshape(problem.planes, *problem.image, problem.channels)
    filters = weights.astype(np.float64).reshape(problem.filters, *problem.filter)
    rows, columns = problem.output_shape
    # Channels are treated as columns: a tap one column to the right is `channels` elements to the right.
    shape = (problem.planes, problem.filters, rows, columns * problem.channels)
    room = room_beside(math.prod(shape)) - _padded_bytes(problem)
    expected, scale = np.zeros(shape), np.zeros(shape)
    row_steps, column_steps = (_steps(problem, axis) for axis in (0, 1))
    for plane, of_plane, scale_of_plane in zip(planes, expected, scale, strict=True):
        padded = _padded(problem, plane, row_steps, column_steps)
        for taps, target, scale_of_target in zip(filters, of_plane, scale_of_plane, strict=True):
            steps = (row_steps - row_steps.min(), (column_steps - column_steps.min()) * problem.channels)
            if is_by_transforms(problem):
                correlate(padded, taps, steps, target, absolute=False, room=room)
                correlate(padded, taps, steps, scale_of_target, absolute=True, room=room)
            else:
                _accumulate(padded, taps, steps, target, scale_of_target, problem.accuracy)
            if problem.accuracy is Accuracy.IMAGEWISE:
                np.maximum(scale_of_target, _largest_gain(taps) * _largest_pixel(problem, plane), out=scale_of_target)
    return Reference(expected.reshape(problem.output.shape), scale.reshape(problem.output.shape))


def _largest_gain(taps: NDArray[np.float64]) -> float:
    """Largest factor by which a filter multiplies a wave: the largest magnitude of its transform, which is the norm of
    the correlation. The frequency grid is so fine that it is missed by less than one in a hundred.
    """
    grid = tuple(_FINENESS * size for size in taps.shape)
    return float(np.abs(np.fft.rfft2(taps, grid)).max())


def _largest_pixel(problem: Filter2d, plane: NDArray[Any]) -> float:
    """Largest |pixel| of a plane; `cval` counts if it surrounds the image."""
    outside = abs(problem.cval) if problem.border is Border.CONSTANT else 0.0
    return max(float(np.abs(plane.astype(np.float64)).max()), outside)


def _steps(problem: Filter2d, axis: int) -> NDArray[np.int64]:
    """Distance from an output pixel to each tap of a row or column of the filter.

    As in scipy.ndimage, correlate reads the pixel at +(tap - anchor), convolve at -(tap - anchor).
    """
    size = problem.filter[axis]
    anchor = problem.anchor[axis] if problem.anchor is not None else size // 2
    away = np.arange(size) - anchor
    return -away if problem.convolve else away


def _padded(
    problem: Filter2d, plane: NDArray[Any], row_steps: NDArray[np.int64], column_steps: NDArray[np.int64]
) -> NDArray[Any]:
    """The plane with every pixel that a window can read, one row of pixels as one row of elements."""
    rows, columns, channels = plane.shape
    if problem.border is Border.VALID:
        return plane.reshape(rows, -1)
    (above, below), (left, right) = ((-int(steps.min()), int(steps.max())) for steps in (row_steps, column_steps))
    padded = np.empty((above + rows + below, left + columns + right, channels), _padded_dtype(problem))
    middle = padded[above : above + rows]
    middle[:, left : left + columns] = plane
    outside_rows, outside_columns = _outside(rows, above, below), _outside(columns, left, right)
    if problem.border is Border.CONSTANT:
        middle[:, left + outside_columns] = problem.cval
        padded[above + outside_rows] = problem.cval
    else:
        middle[:, left + outside_columns] = plane[:, stand_in(problem.border, outside_columns, columns)]
        padded[above + outside_rows] = middle[stand_in(problem.border, outside_rows, rows)]
    return padded.reshape(len(padded), -1)


def _padded_dtype(problem: Filter2d) -> np.dtype[Any]:
    """The image's own type, unless the border's constant needs another one."""
    if problem.border is not Border.CONSTANT:
        return numpy_dtype(problem.dtype)
    return np.dtype(np.float32 if float(np.float32(problem.cval)) == problem.cval else np.float64)


def _padded_bytes(problem: Filter2d) -> int:
    """Bytes of a plane with its border; 0 if it has none."""
    if problem.border is Border.VALID:
        return 0
    sizes = (size + taps for size, taps in zip(problem.image, problem.filter, strict=True))
    return math.prod(sizes) * problem.channels * _padded_dtype(problem).itemsize


def _outside(size: int, before: int, after: int) -> NDArray[np.int64]:
    """Indices before 0 and from `size` on."""
    return np.concatenate([np.arange(-before, 0), np.arange(size, size + after)])


def stand_in(border: Border, index: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Index inside 0 to size-1 of the pixel that stands at `index`.

    It replaces `numpy.pad`, which in NumPy 1.26 is wrong if the frame is several times as wide as the image.
    """
    match border:
        case Border.NEAREST:
            return np.clip(index, 0, size - 1)
        case Border.REFLECT:
            there = index % (2 * size)  # forward and back, with both ends twice
            return np.minimum(there, 2 * size - 1 - there)
        case Border.MIRROR:
            there = index % max(1, 2 * size - 2)  # both ends once; a single pixel is its own mirror image
            return np.minimum(there, 2 * size - 2 - there)
        case Border.WRAP:
            return index % size
        case _:
            raise ValueError(f"border {border} has no pixels of the image outside")


def _accumulate(
    padded: NDArray[Any],
    weights: NDArray[np.float64],
    steps: tuple[NDArray[np.int64], NDArray[np.int64]],
    expected: NDArray[np.float64],
    scale: NDArray[np.float64],
    accuracy: Accuracy,
) -> None:
    """Adds weights[r, s] * padded, `steps[0][r]` rows down and `steps[1][s]` elements right, and computes the scale.

    It uses one product with a band matrix per column of the filter: at 15x15 six times as fast as tap by tap.
    """
    rows, elements = expected.shape
    bands = _bands(weights, steps[0])
    absolute, total = np.abs(bands), np.abs(weights).sum()
    reach, beyond = int(steps[0].max()), int(steps[1].max())
    width = max(1, STRIP_BYTES // (8 * (_TILE_ROWS + reach)))

    def tile(part: slice, across: slice) -> None:
        count = part.stop - part.start
        window = padded[part.start : part.stop + reach, across.start : across.stop + beyond].astype(np.float64)
        magnitudes = np.abs(window)
        for s, right in enumerate(steps[1]):
            columns = slice(int(right), int(right) + across.stop - across.start)
            expected[part, across] += _product(bands[s, :count, : count + reach], window[:, columns])
            if accuracy is not Accuracy.NORMWISE:
                scale[part, across] += _product(absolute[s, :count, : count + reach], magnitudes[:, columns])
        if accuracy is Accuracy.NORMWISE:
            tallest = np.max([magnitudes[down : down + count] for down in steps[0]], axis=0)
            widest = np.max([tallest[:, right : right + across.stop - across.start] for right in steps[1]], axis=0)
            scale[part, across] = total * widest

    def strip(tiles: slice) -> None:
        for top in range(tiles.start * _TILE_ROWS, min(tiles.stop * _TILE_ROWS, rows), _TILE_ROWS):
            for left in range(0, elements, width):
                bottom, end = min(top + _TILE_ROWS, rows), min(left + width, elements)
                tile(slice(top, bottom), slice(left, end))

    for_each_strip(math.ceil(rows / _TILE_ROWS), _TILE_ROWS * elements * 8, strip)


def _product(band: NDArray[np.float64], window: NDArray[np.float64]) -> NDArray[np.float64]:
    """The product `band @ window` as products of _PRODUCT_SIZE, nearly all of them in one call."""
    (rows, terms), columns = band.shape, window.shape[1]
    width = max(1, _PRODUCT_SIZE // (rows * terms))
    even = columns // width * width
    result = np.empty((rows, columns))
    pieces, inputs = (array[:, :even].reshape(len(array), -1, width).swapaxes(0, 1) for array in (result, window))
    np.matmul(band, inputs, out=pieces)
    np.matmul(band, window[:, even:], out=result[:, even:])
    return result


def _bands(weights: NDArray[np.float64], steps: NDArray[np.int64]) -> NDArray[np.float64]:
    """One matrix per column of the filter: row i holds its taps, each `steps` columns to the right of i."""
    bands = np.zeros((weights.shape[1], _TILE_ROWS, _TILE_ROWS + int(steps.max())))
    for (r, s), weight in np.ndenumerate(weights):
        np.fill_diagonal(bands[s, :, steps[r] :], weight)
    return bands


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
