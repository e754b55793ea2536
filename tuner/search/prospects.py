"""How much a family promises before a search knows it: whose first configs come before those of others.

In 23 short searches of layers, of 14 families each, the winner's default was within 1.07 times the fastest default in
22, and 1.28 times in one; nine trials in ten went to other families where all took equal turns, and the sum of what
stages take was within 2% of the best of the whole pipeline (docs/tuning-notes.md).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

EVEN = 1.1
"""Families whose times are within so many times of the fastest have equal turns."""
POWER = 4
"""A family that takes r times as long as those has r^4 times fewer turns."""
RARE = 2.0
"""Families with fewer turns than half of those, so from 1.31 times the fastest time on, have none before the rungs:
what they try first is in their share of these."""
UNLIKELY = 4.0
"""The same of a family that is not likely where others are, while nothing says how long it takes."""


@dataclasses.dataclass(frozen=True, slots=True)
class Prospect:
    """What is known of a family before its trials."""

    expected_ns: float | None = None
    """What its best config is expected to take, in ns, such as the sum of the best times of its stages."""
    is_likely: bool = False
    """Whether winners of like problems are mostly of this family (`Family.is_likely`)."""


class Prospects:
    """What is known of several families, and how many turns that makes for each.

    Args:
        families: by name; nothing is known of others.
    """

    def __init__(self, families: Mapping[str, Prospect]) -> None:
        self._families = dict(families)
        self._some_are_likely = any(each.is_likely for each in families.values())

    def rarities(self, best_ns: Mapping[str, float | None]) -> dict[str, float]:
        """How rarely each family has its turn: once while those that promise the most have it so many times, 1 or more.

        Args:
            best_ns: the shortest time of each family that competes, in ns; None where no trial has succeeded.
        """
        times = {name: self._expected_ns(name) if ns is None else ns for name, ns in best_ns.items()}
        fastest = min((ns for ns in times.values() if ns is not None), default=None)
        return {
            name: self._unknown(name) if ns is None or fastest is None else max(1.0, ns / (EVEN * fastest)) ** POWER
            for name, ns in times.items()
        }

    def _expected_ns(self, name: str) -> float | None:
        return self._of(name).expected_ns

    def _unknown(self, name: str) -> float:
        return 1.0 if self._of(name).is_likely or not self._some_are_likely else UNLIKELY

    def _of(self, name: str) -> Prospect:
        return self._families.get(name, Prospect())
