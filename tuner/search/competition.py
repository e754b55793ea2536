"""Several families that compete for one problem: whose turn it is, and who leaves."""

from __future__ import annotations

import collections
import dataclasses
import math
import random
from collections.abc import Callable, Iterable, Mapping

from warpsmith.generator.space import Config
from warpsmith.tuner.search.family_search import FamilySearch
from warpsmith.tuner.search.prospects import RARE, Prospect, Prospects

FIRST_RUNG_SHARE = 8
"""One in so many of all trials makes the first rung, however many families share it."""
FIRST_RUNG_MOST = 64
"""Trials a family, at most, in the first rung. In 23 earlier runs of tuning a family's best time after 64 trials was 2%
above its final one, the median, and 6% in the worst fifth."""
SLACK_TRIALS = 4.0
"""A family stays where its best time is within 4 / trials of the fastest, both having tried so many: in those 23 runs
the worst fifth still gained 18% after 32 trials, 6% after 64 and 3% after 128."""
SLACK_MOST = 0.25
"""However few the trials; a family's default takes 1.3 times as long as its best config, the median of those runs."""
POLISH_SHARE = 0.3
"""The last part of the trials, or of a time limit, in which single changes of the fastest configs come first. On models
of three whole spaces, 300 trials, 20 seeds each, all those of the best were tried in 23% of the searches without it, in
67% with 0.15, in 80% with 0.3, and in 85% with 0.4, which ended a little slower."""
POLISH_AFTER = 100
"""Trials before that: a young search gains more elsewhere. Of 40 replays of the window with 100 trials 18 ended with
the best where the last 30 went to single changes, and 32 without; with 150 trials 39 and 40."""
NEAR = 1.03
"""Times of the best within which a config's changes are tried too: it may be the winner, since search times of one
kernel differ by 2%."""


@dataclasses.dataclass(frozen=True, slots=True)
class Standing:
    """How a family does in a competition."""

    family: str
    tried: int
    """Configs handed out, and those stored before."""
    best_ns: float | None
    """Its shortest time, in ns; None where nothing has succeeded."""
    left_after: int | None
    """The trials of all families that were known when it left; None where it is still in."""
    why: str
    """Why it left, in one line; empty where it is still in."""


class Competition:
    """Several families that compete for one problem, by successive halving.

    What is known from elsewhere comes first, then what each family is to try first, in turns that are the rarer the
    slower a family is, or is expected to be; those far behind wait. Then come rungs: every family still in gets as many
    trials as the others, then the slower half leaves, except those that are nearly as fast as the fastest. From rung to
    rung the trials of a family double, until one family is left or the trials are used up. A family that only fails
    leaves as soon as another succeeds. An exhausted one passes its trials on, and where all that are in are exhausted,
    those that left take their turns again.

    The last part of the trials, or of the time, goes to single changes first: of the best config, then of those near
    it, and, as soon as one is faster, of that. So a search ends where no single change helps, as far as that allows.

    Asks may run ahead of their tells, so a rung is judged once it has been told. Until then the trials of the next rung
    are handed out, to the families that would stay by what is known. Not thread-safe.

    Args:
        families: one search a family, by the family's name. Stored trials count as trials of the rungs, so that a
            resumed search does not begin anew.
        seed: of the order in which families of equal standing take their turns, so that none is favoured by its
            place in the registry.
        budget: trials to come. With few of them the rungs are short.
        is_late: whether the last part of a time limit has come.
        known: families and configs that are tried before all others, in this order; those not legal are passed over.
        prospects: what is known of families before their trials, by name.

    Source: Jamieson and Talwalkar 2016, "Non-stochastic best arm identification and hyperparameter optimization",
    arXiv 1502.07943, figure 1.
    """

    def __init__(
        self,
        families: Mapping[str, FamilySearch],
        seed: int,
        budget: int,
        is_late: Callable[[], bool] = lambda: False,
        known: Iterable[tuple[str, Config]] = (),
        prospects: Mapping[str, Prospect] | None = None,
    ) -> None:
        self.families = dict(families)
        self._prospects = Prospects(prospects or {})
        self._known = collections.deque(known)
        self._is_late = is_late
        self._in = list(families)
        random.Random(seed).shuffle(self._in)
        self._left: dict[str, tuple[int, str]] = {}
        self._abandoned: set[str] = set()
        """Families that never come back."""
        total = max(0, budget) + sum(family.tried for family in families.values())
        self._total = total
        """Trials of the whole run, those stored before with them."""
        share = total // (FIRST_RUNG_SHARE * max(1, len(families)))
        self._quota = max(1, min(FIRST_RUNG_MOST, share))
        """Trials of a family, those of earlier rungs with them, after which the rung is judged."""

    @property
    def size(self) -> int | None:
        """Feasible configs of all families; None where they are too many to list."""
        return _sum(family.size for family in self.families.values())

    @property
    def remaining(self) -> int | None:
        """Feasible configs of all families that are neither stored nor handed out yet; None where they are too many."""
        return _sum(family.remaining for family in self.families.values())

    @property
    def tried(self) -> int:
        """Configs that were handed out or learned."""
        return sum(family.tried for family in self.families.values())

    @property
    def standings(self) -> tuple[Standing, ...]:
        """The families, those that are in first, the fastest of each first."""
        standings = [
            Standing(name, family.tried, family.best_ns, *self._left.get(name, (None, "")))
            for name, family in self.families.items()
        ]
        return tuple(sorted(standings, key=lambda each: (each.left_after is not None, _or_never(each.best_ns))))

    def ask(self) -> tuple[str, Config] | None:
        """The next family, by name, and its config; None once every space is exhausted."""
        while self._known:
            name, config = self._known.popleft()
            if name not in self._abandoned and self.families[name].take(config):
                return name, config
        turn = self._first_turn()
        if turn is None:
            self._dismiss_failing()
            while self._rung_is_told():
                self._judge()
            if self._is_ending and (beside := self._ask_beside()) is not None:
                return beside
            turn = self._next_turn()
        asked = self.families[turn].ask() if turn is not None else None
        return None if turn is None or asked is None else (turn, asked)

    def tell(self, family: str, config: Config, time_ns: float | None) -> None:
        """Reports what came of an asked config: its time in ns, above 0, or None for a failure.

        Raises:
            ValueError: `config` was not asked of `family`, or was told before.
        """
        self.families[family].tell(config, time_ns)

    def learn(self, family: str, config: Config, time_ns: float | None) -> None:
        """Takes in a trial of another tuner; see `FamilySearch.learn`."""
        self.families[family].learn(config, time_ns)

    def abandon(self, family: str, why: str) -> None:
        """Gives a family up for good, as one of which no program can be made."""
        if family in self._in:
            self._dismiss(family, why)
        self._abandoned.add(family)

    def forgo(self, family: str, config: Config) -> None:
        """An asked config is being tried by another tuner."""
        self.families[family].forgo(config)

    def offer(self, family: str, config: Config) -> None:
        """A config that was forgone is to be tried after all."""
        self.families[family].offer(config)

    @property
    def _is_ending(self) -> bool:
        """Whether the last part has come; trials on their way are counted as done."""
        tried = self.tried
        return tried >= POLISH_AFTER and (self._total - tried <= POLISH_SHARE * self._total or self._is_late())

    def _ask_beside(self) -> tuple[str, Config] | None:
        """A single change of the fastest config that has an untried one, of all families, and NEAR the best."""
        most_ns = NEAR * min(map(self._best, self.families))
        staying = {name: family for name, family in self.families.items() if name not in self._abandoned}
        if not staying:
            return None
        beside = {name: family.beside_ns(most_ns) for name, family in staying.items()}
        name = min(beside, key=lambda name: _or_never(beside[name]))
        config = self.families[name].ask_beside(most_ns)
        return None if config is None else (name, config)

    def _first_turn(self) -> str | None:
        """The family that tries the next of its first configs; None where only slow ones have some left."""
        rarities = self._prospects.rarities({name: family.best_ns for name, family in self.families.items()})
        staying = {name: family for name, family in self.families.items() if name not in self._abandoned}
        due = [name for name, family in staying.items() if rarities[name] <= RARE and family.firsts_are_due]
        return min(due, key=lambda name: self._tried(name) * rarities[name], default=None)

    def _tried(self, name: str) -> int:
        return self.families[name].tried

    def _best(self, name: str) -> float:
        return _or_never(self.families[name].best_ns)

    def _has_more(self, name: str) -> bool:
        return name not in self._abandoned and self.families[name].remaining != 0

    def _dismiss_failing(self) -> None:
        if any(self._best(name) < math.inf for name in self._in):
            for name in [name for name in self._in if self.families[name].is_doubted]:
                self._dismiss(name, "all its candidates failed")

    def _rung_is_told(self) -> bool:
        """Whether the rung can be judged, and there is something to decide."""
        told = all(
            family.settled >= self._quota or (family.remaining == 0 and family.settled == family.tried)
            for family in map(self.families.__getitem__, self._in)
        )
        return told and len(self._in) > 1 and any(map(self._has_more, self._in))

    def _judge(self) -> None:
        staying, fastest = self._staying(), min(map(self._best, self._in))
        for name in [name for name in self._in if name not in staying]:
            best = self._best(name)
            why = f"{best / fastest:.2f} times the best time" if best < math.inf else "no candidate succeeded"
            self._dismiss(name, f"{why} after {self.families[name].settled} trials")
        self._quota *= 2

    def _staying(self) -> list[str]:
        """Those of the families still in that would stay, were the rung judged now."""
        if not self._in:
            return []
        ranked = sorted(self._in, key=self._best)
        bound = self._best(ranked[0]) * (1 + min(SLACK_MOST, SLACK_TRIALS / self._quota))
        faster = ranked[: (len(ranked) + 1) // 2]
        return [
            name for name in ranked if self._best(name) <= bound or (name in faster and self._best(name) < math.inf)
        ]

    def _dismiss(self, name: str, why: str) -> None:
        self._in.remove(name)
        self._left[name] = (sum(family.settled for family in self.families.values()), why)

    def _next_turn(self) -> str | None:
        """The family that has tried the fewest configs, of those whose turn it may be."""
        short = [name for name in self._in if self._has_more(name) and self.families[name].tried < self._quota]
        staying = [name for name in self._staying() if self._has_more(name)] if not short else []
        back = [name for name in self.families if self._has_more(name)] if not short + staying else []
        contenders = short or staying or back
        return min(contenders, key=self._tried, default=None)


def _or_never(time_ns: float | None) -> float:
    return math.inf if time_ns is None else time_ns


def _sum(counts: Iterable[int | None]) -> int | None:
    """The sum of counts that are all known."""
    known = list(counts)
    return None if None in known else sum(count for count in known if count is not None)
