"""Lags of a filtered signal: where a window of taps lies on the signal, and the slices that SciPy's modes name."""

from __future__ import annotations

import enum
from typing import Any

from warpsmith.errors import BadArgument
from warpsmith.generator.canonical import integer


class Mode(enum.StrEnum):
    """Slice of the full result, by SciPy's names; `causal` is the models' name for outputs that look back only."""

    FULL = "full"
    """Every window that meets the signal: signal + taps - 1 outputs."""
    SAME = "same"
    """The middle of `full`, as long as the signal, as `scipy.signal.convolve` and `correlate` choose it."""
    VALID = "valid"
    """Only windows inside the signal: signal - taps + 1 outputs."""
    CAUSAL = "causal"
    """Windows that end at each sample, which lies under the last tap, in a convolution under tap 0: signal outputs."""


Lags = tuple[int, int]
"""First and last lag of a slice, both included. The window of lag l covers the samples l to l + taps - 1."""


def lags_of(mode: Mode, signal: int, taps: int) -> Lags:
    """Lags of a mode. The range is empty for `valid` if the filter is longer than the signal."""
    before = {Mode.FULL: taps - 1, Mode.SAME: taps // 2, Mode.VALID: 0, Mode.CAUSAL: taps - 1}[mode]
    count = {Mode.FULL: signal + taps - 1, Mode.VALID: signal - taps + 1}.get(mode, signal)
    return (-before, count - before - 1)


def kept(lags: Lags, down: int) -> Lags:
    """First and last lag of the outputs that are kept, if every `down`-th one is."""
    first, last = lags
    return (first, first + (last - first) // down * down)


def mode_of(lags: Lags, signal: int, taps: int, down: int) -> Mode | None:
    """The first mode with the same outputs; None if there is none."""
    wanted = kept(lags, down)
    return next((mode for mode in Mode if kept(lags_of(mode, signal, taps), down) == wanted), None)


def canonical_lags(value: Any, signal: int, taps: int) -> Lags:
    """Two integers. Raises BadArgument unless they are a slice of the full result."""
    first, last = lags_of(Mode.FULL, signal, taps)
    try:
        low, high = (integer(n) for n in value)
    except (TypeError, ValueError):
        raise BadArgument(f"lags must be two integers, the first and the last lag; got {value!r}") from None
    if not first <= low <= high <= last:
        raise BadArgument(
            f"lags must rise and lie in {first} to {last} for {signal} samples and {taps} taps; got {low} to {high}"
        )
    return (low, high)
