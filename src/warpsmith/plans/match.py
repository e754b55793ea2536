"""How an answer was found. Loads no third-party package, so that bundles can use it."""

from __future__ import annotations

import dataclasses
import enum

from warpsmith.generator.program import Program
from warpsmith.store.record import Record


class MatchKind(enum.StrEnum):
    """How well the stored answer fits the question, best first."""

    EXACT = "exact"
    """This problem was tuned on this device."""
    NEAR = "near"
    """Another size of this problem, or this one with an older kernel text, was tuned here; its config, or the legal one
    most like it."""
    DEVICE = "device"
    """This problem, or another size of it, was tuned on another device of the same kind; its config, or the legal one
    most like it."""
    DEFAULT = "default"
    """Nothing is stored: a config which no one measured for this problem. Where a like one was tuned, such as one with
    another border, its winner's; else the default of the family that is likely to win."""


@dataclasses.dataclass(frozen=True, slots=True)
class Match:
    """An answer and how it was found."""

    kind: MatchKind
    program: Program
    record: Record | None
    """The stored winner that the answer comes from; None for a default."""
    reasons: tuple[str, ...]
    """Why each better kind of match was passed over, in the order of the ladder."""
