"""Float64 Fourier transforms by NumPy, with the scale of each result's error."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.cgemm import Op
from warpsmith.generator.fft import Fft, Kind, Layout, Order, Product
from warpsmith.generator.padding import PaddingMode
from warpsmith.generator.problem import PEAK
from warpsmith.tuner.operations.fft.tiles import put_tiles, tiles_of
from warpsmith.tuner.operations.strips import for_each_strip, room_beside

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
    turned = list(range(points)) if problem.order is Order.NATURAL else _turned_bits(points)
    return [turned[-frequency % points] for frequency in turned]


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
        places = _turned_bits(points // 2 if halved else points)
        spectrum = spectrum.take([*places, points // 2] if halved else places, axis)
    return spectrum


def _turned_bits(points: int) -> list[int]:
    """The numbers 0 to points - 1 in bit-reversed order, built by doubling: evens first."""
    order = [0]
    while len(order) < points:
        order = [2 * each for each in order] + [2 * each + 1 for each in order]
    return order
