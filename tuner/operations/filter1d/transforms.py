"""Float64 sums of long filters by Fourier transforms of padded blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.tuner.operations.strips import quick_length

_AT_ONCE = 1 << 16
"""Numbers whose spectra are made at once: they stay in a core's cache."""


def add_by_transforms(
    taps: NDArray[Any], samples: NDArray[Any], down: int, expected: NDArray[Any], scale: NDArray[np.float64]
) -> None:
    """Adds the correlations of rows of samples with taps to `expected`, and those of the magnitudes to `scale`.

    Args:
        taps: taps of one filter, in the order of a correlation.
        samples: (rows, samples), from the first window to the last one; those that are not finite are set to 0, and
            outputs whose windows contain them become NaN.
        down: samples from one output to the next.
        expected: (rows, outputs), real or complex.
        scale: (rows, outputs).
    """
    outputs = expected.shape[1]
    bad = ~np.isfinite(samples)
    samples[bad] = 0
    expected += _correlated(taps, samples, down, outputs)
    scale += np.maximum(0.0, _correlated(np.abs(taps), np.abs(samples), down, outputs))
    spoil(bad, len(taps), down, expected, scale)


def spoil(bad: NDArray[np.bool_], taps: int, down: int, expected: NDArray[Any], scale: NDArray[np.float64]) -> None:
    """Makes NaN of results and scales whose windows of so many taps contain a bad sample."""
    if bad.any():
        counts = np.pad(bad.cumsum(axis=1), ((0, 0), (1, 0)))
        starts = np.arange(expected.shape[1]) * down
        spoilt = counts[:, starts + taps] > counts[:, starts]
        expected[spoilt], scale[spoilt] = np.nan, np.nan


def _correlated(taps: NDArray[Any], samples: NDArray[Any], down: int, outputs: int) -> NDArray[Any]:
    """Every `down`-th output of windows inside the samples. The reversed taps are convolved: the first whole window
    ends at sample taps - 1, and only results before it wrap around.
    """
    size = quick_length(samples.shape[1])
    kept = slice(len(taps) - 1, len(taps) + (outputs - 1) * down, down)
    if np.iscomplexobj(taps) or np.iscomplexobj(samples):
        product = np.fft.fft(samples, size) * np.fft.fft(taps[::-1], size)
        return np.asarray(np.fft.ifft(product)[:, kept])
    spectrum = np.fft.rfft(samples, size) * np.fft.rfft(taps[::-1], size)
    return np.fft.irfft(spectrum, size)[:, kept]


def correlated_rows(rows: NDArray[np.float64], beside: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum over rows of their correlations: element k adds up rows[:, t] * beside[:, t + k]."""
    size = quick_length(beside.shape[1])
    spectrum = np.zeros(size // 2 + 1, np.complex128)
    some = max(1, _AT_ONCE // size)
    for first in range(0, len(rows), some):
        part = slice(first, first + some)
        spectrum += (np.fft.rfft(beside[part], size) * np.fft.rfft(rows[part], size).conj()).sum(axis=0)
    return np.fft.irfft(spectrum, size)[: beside.shape[1] - rows.shape[1] + 1]
