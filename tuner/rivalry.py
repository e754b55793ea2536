"""Several families that compete for one problem: whose turn it is."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping

from warpsmith.generator.space import Config
from warpsmith.tuner.search import FamilySearch

LEADER_SHARE = 4
"""Asks that the fastest family gets for every one that the others get between them; four in five."""
DOUBTED_WEIGHT = 0.2
"""Asks that a family which only fails gets for every one that another slow family gets."""


class Search:
    """Several families that compete for one problem.

    The default config of every family comes first. Then of every five asks four go to the family with the best time
    so far and one to the others in turn, so that a slow starter gets its chance. A family that only fails gets few,
    an exhausted one none. Not thread-safe.

    Args:
        families: one search a family, by the family's name.
        seed: of the order in which families of equal standing take their turns, so that none is favoured by its
            place in the registry.
    """

    def __init__(self, families: Mapping[str, FamilySearch], seed: int) -> None:
        self._families = dict(families)
        self._turns = list(families)
        random.Random(seed).shuffle(self._turns)
        self._credit = dict.fromkeys(families, 0.0)

    @property
    def size(self) -> int | None:
        """Feasible configs of all families; None where they are too many to list."""
        return _sum(family.size for family in self._families.values())

    @property
    def remaining(self) -> int | None:
        """Feasible configs of all families that are neither stored nor handed out yet; None where they are too many."""
        return _sum(family.remaining for family in self._families.values())

    def ask(self) -> tuple[str, Config] | None:
        """The next family, by name, and its config; None once every space is exhausted."""
        due = (name for name, family in self._families.items() if family.default_is_due)
        name = next(due, None) or self._next_turn()
        config = self._families[name].ask() if name is not None else None
        return None if name is None or config is None else (name, config)

    def tell(self, family: str, config: Config, time_ns: float | None) -> None:
        """Reports what came of an asked config: its time in ns, above 0, or None for a failure.

        Raises:
            ValueError: `config` was not asked of `family`, or was told before.
        """
        self._families[family].tell(config, time_ns)

    def _next_turn(self) -> str | None:
        """Smooth weighted round robin: credit grows by weight, and the turn costs what all have gained."""
        contenders = [name for name in self._turns if self._families[name].remaining != 0]
        if not contenders:
            return None
        weights = self._weights(contenders)
        for name, weight in weights.items():
            self._credit[name] += weight
        chosen = max(contenders, key=self._credit.__getitem__)
        self._credit[chosen] -= sum(weights.values())
        return chosen

    def _weights(self, contenders: list[str]) -> dict[str, float]:
        weights = {name: DOUBTED_WEIGHT if self._families[name].is_doubted else 1.0 for name in contenders}
        times = {name: best for name in contenders if (best := self._families[name].best_ns) is not None}
        if times:
            # Per other family, so that the share of the fastest does not shrink with their number.
            weights[min(times, key=times.__getitem__)] = LEADER_SHARE * (len(contenders) - 1)
        return weights


def _sum(counts: Iterable[int | None]) -> int | None:
    """The sum of counts that are all known."""
    known = list(counts)
    return None if None in known else sum(count for count in known if count is not None)
