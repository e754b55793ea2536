"""Windows of all phases of an axis together: all phases read one tile."""

from __future__ import annotations

from warpsmith.generator.conv2d.layer.axes import Axis


def low_of(axis: Axis) -> int:
    """The source row, or column, at which the first window begins; negative in the padding."""
    return min((taps.low for taps in axis.phases if taps.count), default=0)


def window_of(axis: Axis, steps: int) -> int:
    """Source rows, or columns, from the first to the last that `steps` steps of all phases read; at least 1."""
    low = low_of(axis)
    ends = (taps.low - low + taps.span for taps in axis.phases if taps.count)
    return max(ends, default=1) + axis.multiple * (steps - 1)
