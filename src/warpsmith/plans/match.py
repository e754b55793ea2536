"""How an answer was found. Loads no third-party package, so that bundles can use it."""

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
    """Another size of this problem, or this problem with an earlier kernel text, was tuned on this device: its
    configuration, or the legal one most like it."""
    DEVICE = "device"
    """This problem, or another size of it, was tuned on another device of the same kind: its configuration, or the
    legal one most like it."""
    DEFAULT = "default"
    """Nothing that fits is stored: a configuration that was not measured for this problem. Where a similar problem was
    tuned, such as one with another border, its winner's; else the default of the family that is likely to win."""


@dataclasses.dataclass(frozen=True, slots=True)
class Match:
    """An answer and how it was found."""

    kind: MatchKind
    """How well it fits."""
    program: Program
    """The kernel: its family, configuration, CUDA text (`source`) and launches."""
    record: Record | None
    """The stored winner that the answer comes from; None for a default."""
    reasons: tuple[str, ...]
    """Why each better kind of match was not available, best kind first; then, where stored times of several families
    chose this one instead of the one that would have answered, `family: ` with what both are expected to take."""
