"""Lower bounds of the scales of errors: what a channel's largest sample and its filter's gain make of it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.problem import Accuracy, NonFinite

MOST_FREQUENCIES = 8192
"""Most frequencies at which a filter's gain is sampled. There are two for each tap at least, if it has at most 4096: a
gain is then missed by at most a tenth."""
_CHUNK = 1 << 22
"""Samples whose magnitudes are taken at once."""


def all_floors(problem: Filter1d, signal: NDArray[Any], taps: NDArray[Any]) -> NDArray[np.float64] | None:
    """Scale of each channel, (batch, channels), below which no result's scale is, as `Filter1d.accuracy` and
    `nonfinite` say; NaN for a channel that is not checked. None if there are no such bounds.

    Args:
        problem: the filter.
        signal: (batch, channels, time), behind the samples of a state that is read.
        taps: (filters, taps).
    """
    if not has_floors(problem):
        return None
    gains = gains_of(problem, taps).repeat(problem.channels // problem.filters)
    found, some = np.empty(signal.shape[:2]), max(1, _CHUNK // signal.shape[2])
    for batch, channels in enumerate(signal):
        for first in range(0, len(channels), some):
            rows = slice(first, first + some)
            found[batch, rows] = gains[rows] * peaks_of(problem, channels[rows])
    return found


def has_floors(problem: Filter1d) -> bool:
    """False for packed sequences: only direct sums solve these."""
    if problem.packed is not None:
        return False
    return problem.accuracy is Accuracy.SIGNALWISE or problem.nonfinite is NonFinite.ANY


def gains_of(problem: Filter1d, taps: NDArray[Any]) -> NDArray[np.float64]:
    """Largest factor by which each filter multiplies a wave: the largest magnitude of its transform, on a grid of a
    power of two of frequencies; 0 with another accuracy. A filter longer than the grid is folded, which leaves the
    transform there as it is.
    """
    if problem.accuracy is not Accuracy.SIGNALWISE:
        return np.zeros(len(taps))
    length = taps.shape[1]
    frequencies = min(MOST_FREQUENCIES, 1 << (2 * length - 1).bit_length())
    wide = np.complex128 if np.iscomplexobj(taps) else np.float64
    transform = np.fft.fft if wide is np.complex128 else np.fft.rfft
    gains = np.empty(len(taps))
    for number, filter_ in enumerate(taps):
        padded = np.zeros(-(-length // frequencies) * frequencies, wide)
        padded[:length] = filter_
        gains[number] = np.abs(transform(padded.reshape(-1, frequencies).sum(axis=0))).max()
    return gains


def peaks_of(problem: Filter1d, samples: NDArray[Any]) -> NDArray[np.float64]:
    """Largest finite magnitude along the last axis; NaN if a sample that is not finite may reach all results."""
    wide = np.complex128 if np.iscomplexobj(samples) else np.float64
    magnitudes = np.abs(samples.astype(wide))
    bad = ~np.isfinite(magnitudes)
    magnitudes[bad] = np.nan if problem.nonfinite is NonFinite.ANY else 0.0
    largest: NDArray[np.float64] = magnitudes.max(axis=-1)
    return largest
