"""Result of a look-up. Loads no third-party package, so that bundles can use it."""

from __future__ import annotations

import dataclasses
import enum

from warpsmith.generator.program import Program
from warpsmith.store.record import Record


class MatchKind(enum.StrEnum):
    """How well the stored answer fits the problem and the device, best first."""

    EXACT = "exact"
    """This problem was tuned on this device."""
    NEAR = "near"
    """Another size of this problem, or this problem with an earlier kernel source, was tuned on this device: its
    configuration, or the most similar legal one.
    """
    DEVICE = "device"
    """This problem, or another size of it, was tuned on another device of the same kind: its configuration, or the most
    similar legal one.
    """
    DEFAULT = "default"
    """Nothing that fits is stored. The configuration was not measured for this problem: it is the winner's of a similar
    problem, such as one with another border, or else the default of the family that is likely to win.
    """


@dataclasses.dataclass(frozen=True, slots=True)
class Match:
    """An answer and how it was found."""

    kind: MatchKind
    program: Program
    """The kernel: its family, configuration, CUDA source (`source`) and launches."""
    record: Record | None
    """The stored winner that the answer comes from; None for a default."""
    reasons: tuple[str, ...]
    """Reasons why each better kind of match was not available, best kind first. If stored times of several families
    chose this one, a last reason `family: ` gives the expected times of both.
    """
