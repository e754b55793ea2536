"""Float64 transforms by NumPy, and how large an error of each result may look."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.fft import Fft, Kind, Layout, Order
from warpsmith.tuner.strips import for_each_strip

_PEAK = 2.0
"""Errors are small against so many times the root mean square of the whole result. With a relative L2 error of 5e-7,
the largest of 2^27 normal errors is 5.7 times 5e-7 / sqrt(2) of it: 1.0e-6 of twice the root mean square. Not of each
transform by itself: two real ones that are taken as one complex one share their errors."""


def reference_fft(problem: Fft, source: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The result of `problem` and what its errors are measured against, as real numbers: real and imaginary parts lie
    side by side, in one dimension more.
    """
    output = problem.output.components
    expected = np.empty(problem.output.shape, _wide(problem.output.dtype))
    last = problem.inverse is False and problem.layout is Layout.FREQUENCY
    # The batch first, however the spectrum lies: a view of the same memory.
    results = np.moveaxis(expected, -1, 0) if last else expected
    inputs = np.moveaxis(source, -1, 0) if problem.inverse and problem.layout is Layout.FREQUENCY else source
    squares: list[float] = []  # the mean square of each strip's transforms, times their number

    def strip(part: slice) -> None:
        result = _inverse(problem, inputs[part]) if problem.inverse else _forward(problem, inputs[part])
        squares.append(float(np.vdot(result, result).real) / result.size * len(result))
        results[part] = _laid_out(problem, result)

    for_each_strip(problem.batch, 16 * problem.points, strip)
    parts = expected.view(np.float64).reshape(output.shape)
    return parts, np.full(parts.shape, _PEAK * math.sqrt(sum(squares) / problem.batch))


def make_hermitian(problem: Fft, spectrum: NDArray[Any]) -> None:
    """Leaves of the columns that are their own mirror image what a real signal has. cuFFT does not ignore the rest."""
    if problem.kind is not Kind.C2R:
        return
    by_transform = np.moveaxis(spectrum, -1, 0) if problem.layout is Layout.FREQUENCY else spectrum
    by_transform = np.swapaxes(by_transform, 1, 2) if problem.layout is Layout.TRANSPOSED else by_transform
    for column in (0, -1) if problem.size[-1] % 2 == 0 else (0,):
        values = by_transform[..., column]  # a view: (batch, rows), or (batch,)
        mirrored = values[:, _mirrored_rows(problem)] if values.ndim == 2 else values
        values[...] = np.float32(0.5) * (values + mirrored.conj())


def _mirrored_rows(problem: Fft) -> list[int]:
    """For each place in a column the place of the frequency that mirrors its own."""
    points = problem.size[0]
    turned = list(range(points)) if problem.order is Order.NATURAL else _turned_bits(points)
    return [turned[-frequency % points] for frequency in turned]


def _wide(dtype: object) -> type[np.generic]:
    return np.complex128 if str(dtype) == "complex64" else np.float64


def _forward(problem: Fft, signal: NDArray[Any]) -> NDArray[Any]:
    """The whole spectra in natural order. What the signal lacks is zero."""
    axes = tuple(range(1, signal.ndim))
    transform = np.fft.rfftn if problem.kind is Kind.R2C else np.fft.fftn
    wide = signal.astype(np.float64 if problem.is_real else np.complex128)
    return transform(wide, s=problem.size, axes=axes, norm=problem.norm.value)


def _inverse(problem: Fft, spectrum: NDArray[Any]) -> NDArray[Any]:
    """The whole signals."""
    axes = tuple(range(1, spectrum.ndim))
    if problem.layout is Layout.TRANSPOSED:
        spectrum = np.swapaxes(spectrum, 1, 2)
    natural = _reordered(problem, spectrum).astype(np.complex128)
    transform = np.fft.irfftn if problem.is_real else np.fft.ifftn
    return transform(natural, s=problem.size, axes=axes, norm=problem.norm.value)


def _laid_out(problem: Fft, result: NDArray[Any]) -> NDArray[Any]:
    """Results as the problem wants them in memory, but for a batch that comes last."""
    if problem.inverse:
        return result[(slice(None), *map(slice, problem.signal_size))]
    ordered = _reordered(problem, result)
    return np.swapaxes(ordered, 1, 2) if problem.layout is Layout.TRANSPOSED else ordered


def _reordered(problem: Fft, spectrum: NDArray[Any]) -> NDArray[Any]:
    """From natural order to that of the problem, or back: turning bits round twice changes nothing."""
    if problem.order is Order.NATURAL:
        return spectrum
    for axis, points in enumerate(problem.size, start=1):
        halved = problem.is_real and axis == len(problem.size)
        places = _turned_bits(points // 2 if halved else points)
        spectrum = spectrum.take([*places, points // 2] if halved else places, axis)
    return spectrum


def _turned_bits(points: int) -> list[int]:
    """0 to points - 1 in bit-reversed order, by doubling: evens first."""
    order = [0]
    while len(order) < points:
        order = [2 * each for each in order] + [2 * each + 1 for each in order]
    return order
