"""Distance between two problems in octaves of size: how far the winner of one is from fitting the other.

A difference other than size counts as a number of octaves. The number is a guess of how much the difference moves the
best config: of two stored winners the nearer one is likelier to be good. Nothing here is measured.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warpsmith.generator.device import Device

FARTHEST = 5.0
"""Octaves that all differences besides size may add up to; past these a winner says nothing here."""
TYPE_CHANGED = 3.0
"""Octaves for another element type: vector widths differ, and other kernels may win."""
RULE_CHANGED = 2.0
"""Octaves for another error bound, kind of transform, layout or order of a spectrum."""
SIDE_CHANGED = 0.25
"""Octaves for a change of an index or a factor: anchor, convolution, value outside, scale, direction. Loads stay
equal."""
NONFINITE_CHANGED = 2.0**-10
"""Octaves between rules for NaNs: the same config is the same kernel, wherever it is legal."""

OTHER_DEVICE = 5.0
"""Octaves for a winner from another device: one for an image 32 times as large, tuned on this device, is as near."""
OTHER_ARCHITECTURE = 1.5
"""Octaves for another architecture, besides OTHER_DEVICE."""


def octaves(one: float, other: float) -> float:
    """Absolute logarithm to base 2 of the ratio of two numbers."""
    return abs(math.log2(one / other))


def between_devices(one: Device, other: Device) -> float:
    """Octaves of size that a winner on `one` is from fitting `other`; 0 for the same device."""
    if one.key() == other.key():
        return 0.0
    architecture = OTHER_ARCHITECTURE if one.arch != other.arch else 0.0
    return OTHER_DEVICE + architecture + octaves(one.multiprocessors, other.multiprocessors)
