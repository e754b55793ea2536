"""How far the winner of one problem is from fitting another, in octaves of size.

What differs beside the size counts as so many octaves: a guess of how much it moves the best config, from which of two
stored winners is likelier to be good here. Nothing here is a measured number.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warpsmith.generator.device import Device

FARTHEST = 5.0
"""Octaves that differences beside the size may count as, all together: past these a winner says nothing here."""
TYPE_CHANGED = 3.0
"""Another element type: other vectors, and other kernels may win."""
RULE_CHANGED = 2.0
"""Another bound of errors, kind of transform, layout or order of a spectrum."""
SIDE_CHANGED = 0.25
"""What changes an index or a factor and not what is loaded: anchor, convolution, value outside, scale, direction."""

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
