"""Float64 Fourier transforms by NumPy, with the scale of each result's error, and single results by direct sums."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.cgemm import Op
from warpsmith.generator.fft import Fft, Kind, Layout, Order, Product, Tiling
from warpsmith.generator.padding import PaddingMode
from warpsmith.generator.problem import PEAK
from warpsmith.tuner.operations.judge import Operands, Samples
from warpsmith.tuner.operations.strips import for_each_strip, room_beside

Index = tuple[Any, ...]


def tiles_of(problem: Fft, planes: NDArray[Any], part: slice) -> NDArray[Any]:
    """Signals of these transforms, (transforms, *valid), with zeros where a tile lies outside its plane."""
    assert problem.tiling is not None
    found = np.zeros((part.stop - part.start, *problem.signal_size), planes.dtype)
    for numbers, inside, there in _pieces(problem.tiling, problem.signal_size, part):
        found[(numbers, *inside)] = planes[there]
    return found


def put_tiles(problem: Fft, planes: NDArray[Any], part: slice, signals: NDArray[Any]) -> None:
    """Writes the signals of these transforms, (transforms, *valid), into `planes`, without the parts outside."""
    assert problem.tiling is not None
    for numbers, inside, there in _pieces(problem.tiling, problem.signal_size, part):
        planes[there] = signals[(numbers, *inside)]


def _pieces(tiling: Tiling, valid: tuple[int, ...], part: slice) -> Iterator[tuple[NDArray[Any], Index, Index]]:
    """Yields, for each tile of a plane, the transforms that use it, the tile's inside part, and that part's place in
    the planes.
    """
    numbers = np.arange(part.start, part.stop)
    tile = numbers // tiling.inner % tiling.tiles
    plane = numbers // (tiling.inner * tiling.tiles) * tiling.inner + numbers % tiling.inner
    for which, at in enumerate(np.ndindex(*tiling.count)):
        mine = np.flatnonzero(tile == which)
        begin = [n * step + origin for n, step, origin in zip(at, tiling.step, tiling.origin, strict=True)]
        first = [max(0, -b) for b in begin]
        end = [min(points, whole - b) for b, points, whole in zip(begin, valid, tiling.plane, strict=True)]
        if not len(mine) or any(e <= f for f, e in zip(first, end, strict=True)):
            continue
        inside = tuple(slice(f, e) for f, e in zip(first, end, strict=True))
        there = tuple(slice(b + f, b + e) for b, f, e in zip(begin, first, end, strict=True))
        yield mine, inside, (plane[mine], *there)


_MODES: dict[PaddingMode, Literal["reflect", "edge", "wrap"]] = {
    PaddingMode.REFLECT: "reflect",
    PaddingMode.REPLICATE: "edge",
    PaddingMode.CIRCULAR: "wrap",
}
"""NumPy's names of the borders."""


def reference_fft(problem: Fft, *sources: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Result of `problem` for its inputs and the scale of its errors, as real numbers: real and imaginary parts are
    side by side in an additional dimension.
    """
    output = problem.output.components
    room_beside(output.size, 1)
    expected = np.empty(problem.output.shape, np.float64 if problem.output == output else np.complex128)
    results = expected if problem.inverse else by_transform(problem, expected)
    product = None if problem.product is None else _Factors.of(problem.product, *sources)
    inputs = by_transform(problem, sources[0]) if problem.inverse and product is None else sources[0]
    squares = np.empty(problem.batch)  # mean square of each transform

    def strip(part: slice) -> None:
        if product is not None:
            result = product.with_offset(_inverse(problem, product.spectra(part)), part)
        elif problem.inverse:
            result = _inverse(problem, inputs[part])
        else:
            result = _forward(problem, inputs[part] if problem.tiling is None else tiles_of(problem, inputs, part))
        squares[part] = (np.abs(result) ** 2).reshape(len(result), -1).mean(axis=1)
        if problem.inverse and problem.tiling is not None:
            put_tiles(problem, results, part, result[signal_part(problem)])
        else:
            results[part] = result[signal_part(problem)] if problem.inverse else reordered(problem, result)

    for_each_strip(problem.batch, 16 * problem.points, strip)
    parts = expected.view(np.float64).reshape(output.shape)
    if problem.together is None:
        # One broadcast number for all results takes no memory.
        return parts, np.broadcast_to(np.float64(PEAK * math.sqrt(squares.mean())), parts.shape)
    return parts, _scale_of_groups(problem, squares.reshape(-1, problem.together).mean(axis=1), parts.shape)


def _scale_of_groups(problem: Fft, squares: NDArray[np.float64], shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Scale of the errors, group by group; NaN for a group whose results are not all finite, which is then not
    checked.
    """
    each = PEAK * np.sqrt(np.where(np.isfinite(squares), squares, np.nan))
    scale = np.empty(shape)
    is_last = not problem.inverse and problem.layout is Layout.FREQUENCY  # the batch's dimension, before the parts'
    signals = np.moveaxis(scale, -2, 0) if is_last else scale
    signals[...] = np.repeat(each, len(signals) // len(each)).reshape(-1, *(1,) * (signals.ndim - 1))
    return scale


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _Factors:
    """Factors of spectra that are matrix products, in the layout in which they are multiplied."""

    rows: NDArray[np.complex64]
    """Rows of the left factor, (rows, terms, *frequencies)."""
    columns: NDArray[np.complex64]
    """Columns of the right factor, (columns, terms, *frequencies)."""
    conjugates: tuple[bool, bool]
    """True for each of rows and columns that is conjugated."""
    offset: NDArray[np.float32] | None
    """Number added to the signals of each column, (columns)."""

    @classmethod
    def of(cls, product: Product, a: NDArray[Any], b: NDArray[Any], offset: NDArray[Any] | None = None) -> _Factors:
        if product.a.transposes:
            a = a.swapaxes(-2, -1)
        if product.b.transposes:
            b = b.swapaxes(-2, -1)
        conjugates = product.a is Op.C, product.b is Op.C
        return cls(np.moveaxis(a, (-2, -1), (0, 1)), np.moveaxis(b, (-1, -2), (0, 1)), conjugates, offset)

    def spectra(self, part: slice) -> NDArray[np.complex128]:
        """Spectra of some transforms of the batch, (transforms, *frequencies)."""
        rows, columns = np.divmod(np.arange(part.start, part.stop), len(self.columns))
        a, b = self.rows[rows].astype(np.complex128), self.columns[columns].astype(np.complex128)
        a, b = (each.conj() if turns else each for each, turns in zip((a, b), self.conjugates, strict=True))
        return np.asarray(np.einsum("tk...,tk...->t...", a, b))

    def with_offset(self, signals: NDArray[Any], part: slice) -> NDArray[Any]:
        """The signals of those transforms, (transforms, *size), plus their columns' offsets."""
        if self.offset is None:
            return signals
        columns = np.arange(part.start, part.stop) % len(self.columns)
        return np.asarray(signals + self.offset[columns].reshape(-1, *(1,) * (signals.ndim - 1)))


def signal_part(problem: Fft) -> tuple[Any, ...]:
    """Index of the valid part of the signals, with its border, in arrays of (batch, *size)."""
    if problem.start is None:
        return (slice(None), *map(slice, problem.bordered_size))
    axes = zip(problem.start, problem.bordered_size, problem.size, strict=True)
    points = [(np.arange(there) + start) % size for start, there, size in axes]
    # Open grids behind a slice select all transforms at each point.
    return (slice(None), *np.ix_(*points))


def with_border(problem: Fft, values: NDArray[Any], axes: Iterable[int]) -> NDArray[Any]:
    """Signals with their border along the given transform axes, which must be the last axes of `values` in that
    order.
    """
    if problem.border is None:
        return values
    pads = [problem.border.pads[axis] for axis in axes]
    return np.pad(values, (*((0, 0),) * (values.ndim - len(pads)), *pads), _MODES[problem.border.mode])


def by_transform(problem: Fft, spectrum: NDArray[Any]) -> NDArray[Any]:
    """View of a spectrum as (batch, rows, columns), whatever its layout; the order of its frequencies stays.

    A factor of a product has a matrix at each frequency; all numbers of these matrices form the batch.
    """
    match problem.layout:
        case Layout.FREQUENCY:
            return np.moveaxis(spectrum.reshape(*problem.spectrum_size, -1), -1, 0)
        case Layout.TRANSPOSED:
            return spectrum.swapaxes(1, 2)
        case _:
            return spectrum


def make_hermitian(problem: Fft, spectrum: NDArray[Any]) -> None:
    """Makes the self-mirrored columns of a spectrum those of a real signal. cuFFT does not ignore the redundant
    part.
    """
    if problem.kind is not Kind.C2R:
        return
    columns = by_transform(problem, spectrum)
    for column in (0, -1) if problem.size[-1] % 2 == 0 else (0,):
        values = columns[..., column]  # a view: (batch, rows), or (batch,)
        mirrored = values[:, _mirrored_rows(problem)] if values.ndim == 2 else values
        values[...] = np.float32(0.5) * (values + mirrored.conj())


def _mirrored_rows(problem: Fft) -> list[int]:
    """Position, for each position in a column, of the frequency that mirrors its own."""
    points = problem.size[0]
    order = list(range(points)) if problem.order is Order.NATURAL else _bit_reversed(points)
    return [order[-frequency % points] for frequency in order]


def _forward(problem: Fft, signal: NDArray[Any]) -> NDArray[Any]:
    """Whole spectra in natural order; missing signal elements are zero."""
    axes = tuple(range(1, signal.ndim))
    signal = with_border(problem, signal, range(len(problem.size)))
    if problem.start is not None:
        whole = np.zeros((len(signal), *problem.size), signal.dtype)
        whole[signal_part(problem)] = signal
        signal = whole
    transform = np.fft.rfftn if problem.kind is Kind.R2C else np.fft.fftn
    wide = signal.astype(np.float64 if problem.is_real else np.complex128)
    return transform(wide, s=problem.size, axes=axes, norm=problem.norm.value)


def _inverse(problem: Fft, spectrum: NDArray[Any]) -> NDArray[Any]:
    """Whole signals."""
    axes = tuple(range(1, spectrum.ndim))
    natural = reordered(problem, spectrum).astype(np.complex128)
    transform = np.fft.irfftn if problem.is_real else np.fft.ifftn
    return transform(natural, s=problem.size, axes=axes, norm=problem.norm.value)


def reordered(problem: Fft, spectrum: NDArray[Any]) -> NDArray[Any]:
    """Permutes a spectrum from natural order to the problem's, or back: bit reversal is its own inverse."""
    if problem.order is Order.NATURAL:
        return spectrum
    for axis, points in enumerate(problem.size, start=1):
        halved = problem.is_real and axis == len(problem.size)
        places = _bit_reversed(points // 2 if halved else points)
        spectrum = spectrum.take([*places, points // 2] if halved else places, axis)
    return spectrum


def _bit_reversed(points: int) -> list[int]:
    """The numbers 0 to points - 1 in bit-reversed order, built by doubling: evens first."""
    order = [0]
    while len(order) < points:
        order = [2 * each for each in order] + [2 * each + 1 for each in order]
    return order


Complex = NDArray[np.complex128]


def samples(problem: Fft, operands: Operands, indices: NDArray[np.int64]) -> Samples:
    """Results with these indices of real numbers; complex results have real and imaginary parts side by side. The scale
    of a transform does not depend on a result's own terms, so the least scale is 0.
    """
    find = _point if problem.inverse else _frequency
    parts = problem.output.components != problem.output
    expected = np.empty(len(indices))
    for number, index in enumerate(indices):
        element, part = divmod(int(index), 2) if parts else (int(index), 0)
        total = find(problem, operands, tuple(map(int, np.unravel_index(element, problem.output.shape))))
        expected[number] = total.imag if part else total.real
    return Samples(indices, expected, np.zeros(len(indices)))


def _frequency(problem: Fft, operands: Operands, place: tuple[int, ...]) -> complex:
    transform, *at = _spectrum_place(problem, place)
    signal = operands[problem.inputs[0].name]
    own = signal[transform][None] if problem.tiling is None else _tile(problem, problem.tiling, signal, transform)[None]
    whole = np.zeros((1, *problem.size), np.complex128)
    whole[signal_part(problem)] = with_border(problem, own, range(len(problem.size)))
    frequency = [_natural(problem, axis, number) for axis, number in enumerate(at)]
    return problem.scale * complex((whole[0] * _wave(problem, tuple(frequency), -1)).sum())


def _tile(problem: Fft, tiling: Tiling, planes: NDArray[Any], transform: int) -> NDArray[Any]:
    """Signal of one transform. `tiles_of` would go through all tiles of a plane, which takes 4 ms for 270 of them."""
    found = np.zeros(problem.signal_size, planes.dtype)
    outer, rest = divmod(transform, tiling.tiles * tiling.inner)
    tile, inner = divmod(rest, tiling.inner)
    begins = [
        int(number) * step + origin
        for number, step, origin in zip(np.unravel_index(tile, tiling.count), tiling.step, tiling.origin, strict=True)
    ]
    firsts = [max(0, -begin) for begin in begins]
    ends = [min(size, whole - begin) for size, whole, begin in zip(found.shape, tiling.plane, begins, strict=True)]
    if all(first < end for first, end in zip(firsts, ends, strict=True)):
        inside = tuple(slice(first, end) for first, end in zip(firsts, ends, strict=True))
        there = tuple(slice(b + first, b + end) for b, first, end in zip(begins, firsts, ends, strict=True))
        found[inside] = planes[outer * tiling.inner + inner][there]
    return found


def _point(problem: Fft, operands: Operands, place: tuple[int, ...]) -> complex:
    transform, at = _signal_place(problem, place)
    spectra = by_transform(problem, operands[problem.inputs[0].name])[transform : transform + 1]
    spectrum = reordered(problem, spectra)[0].astype(np.complex128)
    wave = _wave(problem, at, 1)
    if not problem.is_real:
        return problem.scale * complex((spectrum * wave).sum())
    columns = np.arange(problem.spectrum_size[-1])
    once = (columns == 0) | (2 * columns == problem.size[-1])
    terms = spectrum * wave[..., : len(columns)]
    return problem.scale * float((terms.real * np.where(once, 1.0, 2.0)).sum())


def _wave(problem: Fft, at: tuple[int, ...], sign: int) -> Complex:
    """The wave exp(sign 2 pi i j k / n) over all points of a transform."""
    axes = [
        np.exp(sign * 2j * np.pi * (np.arange(points) * number % points) / points)
        for points, number in zip(problem.size, at, strict=True)
    ]
    return np.asarray(functools.reduce(np.multiply.outer, axes))


def _spectrum_place(problem: Fft, place: tuple[int, ...]) -> tuple[int, ...]:
    """Transform, row and column of an element of a spectrum."""
    match problem.layout:
        case Layout.FREQUENCY:
            return (place[-1], *place[:-1])
        case Layout.TRANSPOSED:
            return (place[0], *place[:0:-1])
        case _:
            return place


def _natural(problem: Fft, axis: int, place: int) -> int:
    """Frequency at a position of an axis."""
    shape = (1, *problem.spectrum_size)
    line = np.arange(shape[1 + axis]).reshape([-1 if each == axis + 1 else 1 for each in range(len(shape))])
    found = np.moveaxis(reordered(problem, np.broadcast_to(line, shape)), axis + 1, -1)
    return int(found.reshape(-1, shape[axis + 1])[0, place])


def _signal_place(problem: Fft, place: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    """Transform, and point along each axis, of an element of a signal."""
    transform, at, tiling = place[0], place[1:], problem.tiling
    if tiling is not None:
        tile = 0
        for number, step, count in zip(at, tiling.step, tiling.count, strict=True):
            tile = tile * count + number // step
        outer, inner = divmod(transform, tiling.inner)
        transform = (outer * tiling.tiles + tile) * tiling.inner + inner
        at = tuple(number % step for number, step in zip(at, tiling.step, strict=True))
    start = problem.start or (0,) * len(at)
    points = zip(at, start, problem.size, strict=True)
    return transform, tuple((number + first) % size for number, first, size in points)
