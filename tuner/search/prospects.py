"""Turns of families before a search knows them: families that promise more try their first configs earlier.

In 23 short searches of layers, of 14 families each, the winner's default was within 1.07 times the fastest default in
22, and 1.28 times in one. With equal turns for all, nine trials in ten went to other families. The sum of the times of
the stages was within 2% of the best time of the whole pipeline (docs/lab/tuning-notes.md).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

EVEN = 1.1
"""Ratio to the fastest time up to which families have equal turns."""
POWER = 4
"""Exponent of the rarity: a family that takes r times as long as those has r^4 times fewer turns."""
RARE = 2.0
"""Largest rarity that has turns before the rungs. A family from 1.31 times the fastest time on exceeds it, and tries
its first configs as part of its rungs.
"""
UNLIKELY = 4.0
"""Rarity of a family whose time is unknown and that is not likely, if another family is likely."""


@dataclasses.dataclass(frozen=True, slots=True)
class Prospect:
    """Expectations of a family before its trials."""

    expected_ns: float | None = None
    """Nanoseconds that its best config is expected to take, such as the sum of the best times of its stages."""
    is_likely: bool = False
    """True if most winners of similar problems are of this family (`Family.is_likely`)."""


class Prospects:
    """Converts the expectations of several families into their shares of turns.

    Args:
        families: expectations by family name; nothing is known of other families.
    """

    def __init__(self, families: Mapping[str, Prospect]) -> None:
        self._families = dict(families)
        self._some_are_likely = any(each.is_likely for each in families.values())

    def rarities(self, best_ns: Mapping[str, float | None]) -> dict[str, float]:
        """Rarity of each family: it has one turn while the most promising families have this many, 1 or more.

        Args:
            best_ns: shortest time of each competing family, in ns; None if no trial has succeeded.
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
