"""Distance between two image filters in octaves of size: how far the winner of one is from fitting the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpsmith.generator.distances import FARTHEST, RULE_CHANGED, SIDE_CHANGED, TYPE_CHANGED, octaves

if TYPE_CHECKING:
    from warpsmith.generator.filter2d.problem import Filter2d

TAP_OCTAVE = 4.0
"""Octaves per factor of 2 in the rows or columns of a filter: registers and unrolled code grow with them."""
WEIGHTS_KNOWN = 3.0
"""Octaves between a filter with known weights, which become literals, and one without."""
WEIGHTS_OTHER = 1.5
"""Octaves between other literals: one filter may be separable or sparse where the other is not."""
BORDER_CHANGED = 0.5
"""Octaves between two borders with pixels outside the image; to or from `valid`, which has none, twice as much."""
NONFINITE_CHANGED = 2.0**-10
"""Octaves between rules for NaNs: the same config is the same kernel, wherever it is legal."""


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


def _between_weights(one: tuple[float, ...] | None, other: tuple[float, ...] | None) -> float:
    if one == other:
        return 0.0
    return WEIGHTS_KNOWN if one is None or other is None else WEIGHTS_OTHER
