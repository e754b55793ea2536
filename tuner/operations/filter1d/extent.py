"""Part of a signal that the windows of a problem read, the zeros beside it, and its results in a full convolution."""

from __future__ import annotations

import dataclasses
from typing import Any

from numpy.typing import NDArray

from warpsmith.generator.filter1d import Filter1d, SignalLayout


@dataclasses.dataclass(frozen=True, slots=True)
class Extent:
    """Samples of a signal from the first window to the last one."""

    signal: slice
    """Samples that some window reads."""
    left: int
    """Zeros before them, under the first window."""
    right: int
    """Zeros after them, under the last window."""
    results: slice
    """Elements of the full convolution of these samples with the reversed taps."""

    @classmethod
    def of(cls, problem: Filter1d) -> Extent:
        first = problem.first_lag
        last = first + (problem.result_length - 1) * problem.down
        left, right = max(0, -first), max(0, last + problem.taps - problem.signal)
        start = problem.taps - 1 - left
        return cls(
            signal=slice(max(0, first), min(problem.signal, last + problem.taps)),
            left=left,
            right=right,
            results=slice(start, start + last - first + 1, problem.down),
        )

    @property
    def samples(self) -> int:
        count: int = self.signal.stop - self.signal.start
        return count

    def of_signals(self, problem: Filter1d, signals: Any) -> Any:
        """These samples of all signals, with the dimensions batch, channels and time in the layout's order."""
        if problem.layout is SignalLayout.BTC:
            return signals.reshape(problem.batch, problem.signal, problem.channels)[:, self.signal]
        return signals.reshape(problem.batch, problem.channels, problem.signal)[..., self.signal]


def time_axis(problem: Filter1d) -> int:
    """Dimension of three that counts samples."""
    return 1 if problem.layout is SignalLayout.BTC else 2


def reversed_taps(problem: Filter1d, weights: NDArray[Any]) -> NDArray[Any]:
    """Taps in the order of a convolution, with the three dimensions of signals: one filter, or one for each channel."""
    filters = weights.reshape(problem.filters, problem.taps)
    filters = filters if problem.convolve else filters[:, ::-1]
    if problem.filters > 1:
        filters = filters.repeat(problem.channels // problem.filters, axis=0)
    return filters.T[None] if problem.layout is SignalLayout.BTC else filters[None]


def bias_along(problem: Filter1d, bias: Any) -> Any:
    """Bias that is added to results with the dimensions batch, channels and time in the layout's order."""
    return bias if problem.layout is SignalLayout.BTC else bias[:, None]
