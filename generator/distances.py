"""How far the winner of one problem is from fitting another, in octaves of size.

What differs beside the size counts as so many octaves: a guess of how much it moves the best config, from which of two
stored winners is likelier to be good here. Nothing here is a measured number.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warpsmith.generator.device import Device
    from warpsmith.generator.fft import Fft
    from warpsmith.generator.filter2d import Filter2d

FARTHEST = 5.0
"""Octaves that differences beside the size may count as, all together: past these a winner says nothing here."""

TAP_OCTAVE = 4.0
"""Twice the rows, or columns, of a filter: registers and unrolled code grow with them."""
TYPE_CHANGED = 3.0
"""Another element type: other vectors, and other kernels may win."""
WEIGHTS_KNOWN = 3.0
"""Weights as literals on one side only."""
WEIGHTS_OTHER = 1.5
"""Other literals: one filter may be separable or sparse where the other is not."""
RULE_CHANGED = 2.0
"""Another bound of errors, kind of transform, layout or order of a spectrum."""
SIDE_CHANGED = 0.25
"""What changes an index or a factor and not what is loaded: anchor, convolution, value outside, scale, direction."""
BORDER_CHANGED = 0.5
"""Between two borders that make pixels up; from or to `valid`, which makes none, twice as much."""
NONFINITE_CHANGED = 2.0**-10
"""Whether a NaN may spread beyond its window: the same config is the same kernel, wherever it is legal."""
POINTS_OCTAVE = 4.0
"""Twice the points of a transform: it has other radices."""
POINTS_CHANGED = 1.0
"""Any other number of points, as close as it may be."""

OTHER_DEVICE = 5.0
"""What a winner from another device counts as, in octaves of size (`Problem.distance`): one of an image 32 times as
large, tuned on this device, is as near."""
OTHER_ARCHITECTURE = 1.5
"""And of another architecture, beside that."""


def octaves(one: float, other: float) -> float:
    """The logarithm of their ratio, to base 2, without its sign."""
    return abs(math.log2(one / other))


def between_devices(one: Device, other: Device) -> float:
    """How little a winner on one says of the other, in octaves of size; 0 for the same device."""
    if one.key() == other.key():
        return 0.0
    architecture = OTHER_ARCHITECTURE if one.arch != other.arch else 0.0
    return OTHER_DEVICE + architecture + octaves(one.multiprocessors, other.multiprocessors)


def between_filters(one: Filter2d, other: Filter2d) -> float | None:
    """`Problem.distance` of two filters; None past FARTHEST."""
    gaps, other_gaps = ([each.span_bytes / each.nbytes for each in problem.operands] for problem in (one, other))
    size = (
        octaves(one.image[0], other.image[0])
        + octaves(one.image[1], other.image[1])
        + octaves(one.planes, other.planes)
        + sum(octaves(gap, other_gap) for gap, other_gap in zip(gaps, other_gaps, strict=True))
    )
    taps = octaves(one.filter[0], other.filter[0]) + octaves(one.filter[1], other.filter[1])
    is_made_up = (one.border != "valid") + (other.border != "valid")
    rest = (
        TAP_OCTAVE * taps
        + TYPE_CHANGED * (one.dtype is not other.dtype)
        + TYPE_CHANGED / 2 * (one.output.dtype.itemsize != other.output.dtype.itemsize)
        + TYPE_CHANGED / 2 * ((one.output.dtype is one.dtype) != (other.output.dtype is other.dtype))
        + NONFINITE_CHANGED * (one.nonfinite is not other.nonfinite)
        + BORDER_CHANGED * (one.border is not other.border) * (2 if is_made_up == 1 else 1)
        + _between_weights(one.weights, other.weights)
        + 2 * octaves(one.channels, other.channels)
        + 2 * octaves(one.filters, other.filters)
        + RULE_CHANGED * (one.accuracy is not other.accuracy)
        + SIDE_CHANGED * sum(getattr(one, name) != getattr(other, name) for name in ("cval", "convolve", "anchor"))
    )
    return size + rest if rest <= FARTHEST else None


def between_transforms(one: Fft, other: Fft) -> float | None:
    """`Problem.distance` of two transforms; None past FARTHEST."""
    if len(one.size) != len(other.size):
        return None
    points = sum(octaves(here, there) for here, there in zip(one.size, other.size, strict=True))
    there = sum(octaves(*each) for each in zip(_valid_parts(one), _valid_parts(other), strict=True))
    is_real = one.kind != "c2c", other.kind != "c2c"
    rest = (
        POINTS_CHANGED * (one.size != other.size)
        + POINTS_OCTAVE * points
        + there
        + SIDE_CHANGED * ((one.valid is None) != (other.valid is None))
        + RULE_CHANGED * (one.kind is not other.kind) * (2 if is_real[0] != is_real[1] else 1)
        + SIDE_CHANGED * (one.kind is other.kind and one.inverse != other.inverse)
        + SIDE_CHANGED * (one.norm is not other.norm)
        + RULE_CHANGED * (one.layout is not other.layout)
        + RULE_CHANGED * (one.order is not other.order)
    )
    return octaves(one.batch, other.batch) + rest if rest <= FARTHEST else None


def _valid_parts(problem: Fft) -> tuple[float, ...]:
    """How much of each axis is there."""
    return tuple(there / points for there, points in zip(problem.signal_size, problem.size, strict=True))


def _between_weights(one: tuple[float, ...] | None, other: tuple[float, ...] | None) -> float:
    if one == other:
        return 0.0
    return WEIGHTS_KNOWN if one is None or other is None else WEIGHTS_OTHER
