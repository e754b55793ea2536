"""Random inputs and float64 references: NumPy alone, nothing shared with the generator."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.fft import Fft
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.problem import Accuracy, DType, Operand, Problem
from warpsmith.tuner.operations.fft.oracle import make_hermitian, reference_fft
from warpsmith.tuner.operations.strips import STRIP_BYTES, for_each_strip

Operands = Mapping[str, NDArray[Any]]
"""The input arrays of a problem by name."""

_TILE_ROWS = 16
"""Output rows of one product with a band matrix."""
_PRODUCT_SIZE = 1 << 18
"""Multiply-adds of one product: OpenBLAS spreads larger ones over threads of its own, beside those that are here."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """What a result must be: float64 values, and for each what its error is measured against: the sum of its |terms|,
    or, for a filter that is accurate in norm only, the sum of |weights| times the window's largest |pixel|, and for a
    Fourier transform twice the root mean square of its result. Of complex results real and imaginary parts, side by
    side in one dimension more.
    """

    expected: NDArray[np.float64]
    scale: NDArray[np.float64]


def random_operands(problem: Problem, seed: int) -> Operands:
    """Inputs for `problem`, dense and never all zeros: the values that it knows where it does, else random ones.

    Pixels are normal deviates; where the image or the result is uint8 they spread over 0 to 255, and the filters sum
    to 1.1, so that most results fall inside that range, and some on either side.
    """
    generator = np.random.default_rng(seed)
    pixels = any(operand.dtype is DType.UINT8 for operand in problem.operands)
    drawn = {}
    for operand in problem.inputs:
        if operand.name in problem.known:
            values = np.array(problem.known[operand.name], dtype=str(operand.dtype)).reshape(operand.shape)
        elif operand.name == "weights":
            values = generator.standard_normal(operand.shape, dtype=np.float32)
            if problem.output.dtype is DType.UINT8:
                values = _spreading(values)
        elif operand.dtype is DType.COMPLEX64:
            parts = _drawn(operand.components.shape, np.float32, generator, _deviates)
            values = parts.view(np.complex64).reshape(operand.shape)
            if isinstance(problem, Fft):
                make_hermitian(problem, values)
        else:
            values = _pixels(operand, generator) if pixels else _drawn(operand.shape, np.float32, generator, _deviates)
        drawn[operand.name] = values.astype(str(operand.dtype), copy=False)
    return drawn


def _pixels(operand: Operand, generator: np.random.Generator) -> NDArray[Any]:
    """Uniform over what uint8 holds, with a fraction where the image has one."""
    if operand.dtype is DType.UINT8:
        return _drawn(operand.shape, np.uint8, generator, _bytes)
    return _drawn(operand.shape, np.float32, generator, _fractions)


def noise(nbytes: int, seed: int) -> NDArray[np.uint8]:
    """Random bytes."""
    return _drawn((nbytes,), np.uint8, np.random.default_rng(seed), _bytes)


def _drawn(
    shape: tuple[int, ...],
    dtype: type[np.generic],
    generator: np.random.Generator,
    draw: Callable[[np.random.Generator, int], NDArray[Any]],
) -> NDArray[Any]:
    """Random values, each strip of them from a generator of its own: on one core 600 MB take two seconds."""
    values = np.empty(math.prod(shape), dtype)
    length = STRIP_BYTES // values.itemsize
    generators = generator.spawn(math.ceil(values.size / length))

    def strips(numbers: slice) -> None:
        for number in range(numbers.start, numbers.stop):
            part = values[number * length : (number + 1) * length]
            part[...] = draw(generators[number], part.size)

    for_each_strip(len(generators), STRIP_BYTES, strips)
    return values.reshape(shape)


def _deviates(generator: np.random.Generator, count: int) -> NDArray[Any]:
    return generator.standard_normal(count, np.float32)


def _bytes(generator: np.random.Generator, count: int) -> NDArray[Any]:
    return generator.integers(0, 256, count, dtype=np.uint8)


def _fractions(generator: np.random.Generator, count: int) -> NDArray[Any]:
    return generator.random(count, dtype=np.float32) * np.float32(255)


def _spreading(weights: NDArray[np.float32]) -> NDArray[np.float32]:
    """Normal deviates as filters that sum to 1.1 and spread uniform pixels as far as they are spread.

    A result is then 140 on average, give or take 74: 3% are under 0 and 6% above 255. Each filter is scaled by itself:
    four deviates may lie so close together that nothing would leave the range.
    """
    taps = weights.shape[-2] * weights.shape[-1]
    around = weights - weights.mean(axis=(-2, -1), keepdims=True)
    norm = np.linalg.norm(around, axis=(-2, -1), keepdims=True)  # zero where there is one tap
    return np.asarray(around / np.where(norm > 0, norm, 1) + np.float32(1.1 / taps), dtype=np.float32)


def reference(problem: Problem, operands: Operands) -> Reference:
    """The float64 answer. Raises TypeError for an operation without an oracle."""
    if isinstance(problem, Filter2d):
        return _filter2d(problem, operands["image"], operands["weights"])
    if isinstance(problem, Fft):
        return Reference(*reference_fft(problem, operands[problem.inputs[0].name]))
    raise TypeError(f"no oracle for {problem.operation}")


def _filter2d(problem: Filter2d, image: NDArray[Any], weights: NDArray[Any]) -> Reference:
    planes = image.reshape(problem.planes, *problem.image, problem.channels)
    filters = weights.astype(np.float64).reshape(problem.filters, *problem.filter)
    rows, columns = problem.output_shape
    # Channels are columns here: a tap one column right is `channels` elements right.
    shape = (problem.planes, problem.filters, rows, columns * problem.channels)
    expected, scale = np.zeros(shape), np.zeros(shape)
    row_steps, column_steps = (_steps(problem, axis) for axis in (0, 1))
    for plane, of_plane, scale_of_plane in zip(planes, expected, scale, strict=True):
        padded = _padded(problem, plane, row_steps, column_steps)
        for taps, target, scale_of_target in zip(filters, of_plane, scale_of_plane, strict=True):
            steps = (row_steps - row_steps.min(), (column_steps - column_steps.min()) * problem.channels)
            _accumulate(padded, taps, steps, target, scale_of_target, problem.accuracy)
    return Reference(expected.reshape(problem.output.shape), scale.reshape(problem.output.shape))


def _steps(problem: Filter2d, axis: int) -> NDArray[np.int64]:
    """How far from an output pixel each tap of a row or column of the filter lies.

    scipy.ndimage: correlate meets the pixel at +(tap - anchor), convolve at -(tap - anchor).
    """
    size = problem.filter[axis]
    anchor = problem.anchor[axis] if problem.anchor is not None else size // 2
    away = np.arange(size) - anchor
    return -away if problem.convolve else away


def _padded(
    problem: Filter2d, plane: NDArray[Any], row_steps: NDArray[np.int64], column_steps: NDArray[np.int64]
) -> NDArray[Any]:
    """The plane, a row of pixels as a row of elements, with every pixel that a window can touch."""
    rows, columns, channels = plane.shape
    if problem.border is Border.VALID:
        return plane.reshape(rows, -1)
    (above, below), (left, right) = ((-int(steps.min()), int(steps.max())) for steps in (row_steps, column_steps))
    padded = np.empty((above + rows + below, left + columns + right, channels))
    middle = padded[above : above + rows]
    middle[:, left : left + columns] = plane
    outside_rows, outside_columns = _outside(rows, above, below), _outside(columns, left, right)
    if problem.border is Border.CONSTANT:
        middle[:, left + outside_columns] = problem.cval
        padded[above + outside_rows] = problem.cval
    else:
        middle[:, left + outside_columns] = plane[:, _stand_in(problem.border, outside_columns, columns)]
        padded[above + outside_rows] = middle[_stand_in(problem.border, outside_rows, rows)]
    return padded.reshape(len(padded), -1)


def _outside(size: int, before: int, after: int) -> NDArray[np.int64]:
    """The indices ahead of 0 and from `size` on."""
    return np.concatenate([np.arange(-before, 0), np.arange(size, size + after)])


def _stand_in(border: Border, index: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """The index inside 0 to size-1 whose pixel stands at `index`.

    Not `numpy.pad`: that of NumPy 1.26 errs where the frame is several times as wide as the image.
    """
    match border:
        case Border.NEAREST:
            return np.clip(index, 0, size - 1)
        case Border.REFLECT:
            there = index % (2 * size)  # there and back again, both ends twice
            return np.minimum(there, 2 * size - 1 - there)
        case Border.MIRROR:
            there = index % max(1, 2 * size - 2)  # both ends once; one pixel is its own mirror
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
    """Adds weights[r, s] * padded, `steps[0][r]` rows down and `steps[1][s]` elements right, and makes the scale.

    By products with a band matrix for each column of the filter: at 15x15 six times as fast as tap by tap.
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
            if accuracy is Accuracy.ELEMENTWISE:
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
    """`band @ window` as products of _PRODUCT_SIZE, nearly all of them in one call."""
    (rows, terms), columns = band.shape, window.shape[1]
    width = max(1, _PRODUCT_SIZE // (rows * terms))
    even = columns // width * width
    result = np.empty((rows, columns))
    pieces, inputs = (array[:, :even].reshape(len(array), -1, width).swapaxes(0, 1) for array in (result, window))
    np.matmul(band, inputs, out=pieces)
    np.matmul(band, window[:, even:], out=result[:, even:])
    return result


def _bands(weights: NDArray[np.float64], steps: NDArray[np.int64]) -> NDArray[np.float64]:
    """For each column of the filter a matrix: row i has its taps, each as many places right of i as its step."""
    bands = np.zeros((weights.shape[1], _TILE_ROWS, _TILE_ROWS + int(steps.max())))
    for (r, s), weight in np.ndenumerate(weights):
        np.fill_diagonal(bands[s, :, steps[r] :], weight)
    return bands
