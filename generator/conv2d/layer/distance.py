"""Distance from the winner of one convolution to fitting another, in the octaves of `generator.distances`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpsmith.generator.distances import FARTHEST, RULE_CHANGED, SIDE_CHANGED, octaves

if TYPE_CHECKING:
    from warpsmith.generator.conv2d.layer.problem import Conv2d

TAP_OCTAVE = 4.0
"""Octaves per doubling of a filter's rows or columns: registers and unrolled code grow with them."""
NEAR_REACH = 3.0
"""`Problem.near_reach` of layers, in octaves. In 15 pairs that differ by up to 3 octaves of N, C, H, W and K (H200),
the winner of one took 1.03 times the best of the other, the default 1.06; farther off, other families win.
"""
DEFAULT_REACH = 0.5
"""`Family.default_reach` of layer families, in octaves: two changes among `_SIDES`, but no other size. The default took
1.01 times the best where a winner from 0.8 octaves away with another padding took 1.15.
"""
NONFINITE_CHANGED = 2.0**-10
"""Octaves for another `nonfinite`: the same config is the same kernel, wherever its family solves both problems."""
_SIDES = ("padding", "padding_mode", "bias", "relu", "accuracy", "workspace")


def between_convolutions(one: Conv2d, other: Conv2d) -> float | None:
    """`Problem.distance` of two convolutions; None past FARTHEST, and between passes, precisions, layouts or dtypes."""
    if any(getattr(one, name) != getattr(other, name) for name in ("pass_", "precision", "layout", "dtype")):
        return None
    pairs = zip((*one.input, one.weight[0]), (*other.input, other.weight[0]), strict=True)
    size = sum(octaves(here, there) for here, there in pairs)
    taps = sum(octaves(here, there) for here, there in zip(one.weight[2:], other.weight[2:], strict=True))
    steps = sum(getattr(one, name) != getattr(other, name) for name in ("stride", "dilation"))
    rest = (
        TAP_OCTAVE * taps
        + NONFINITE_CHANGED * (one.nonfinite is not other.nonfinite)
        + RULE_CHANGED * steps
        + _between_groups(one, other)
        + SIDE_CHANGED * sum(getattr(one, name) != getattr(other, name) for name in _SIDES)
    )
    return size + rest if rest <= FARTHEST else None


def _between_groups(one: Conv2d, other: Conv2d) -> float:
    """Octaves between the groups of two layers. The work of a thread depends on the channels and filters per group, not
    on the number of groups: the channels of all groups together count as sizes.
    """
    kinds = one.groups == 1, other.groups == 1
    own = octaves(one.group_channels, other.group_channels) + octaves(one.group_filters, other.group_filters)
    return RULE_CHANGED * (kinds[0] != kinds[1]) + (own if False in kinds else 0.0)
