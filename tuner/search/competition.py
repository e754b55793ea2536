"""Competition of several families for one problem by successive halving: which family tries next, and which leaves.

Families that promise more try their first configs earlier. In 23 short searches of layers, of 14 families each, the
winner's default was within 1.07 times the fastest default in 22, and 1.28 times in one. With equal turns for all, nine
trials in ten went to other families. The sum of the times of the stages was within 2% of the best time of the whole
pipeline (docs/lab/tuning-notes.md).
"""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping

from warpsmith.generator.space import Config
from warpsmith.tuner.search.family_search import FamilySearch, LateSearch, NoSearch

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


FIRST_RUNG_SHARE = 8
"""Divisor of the number of trials that gives the first rung's trials, however many families share them."""
FIRST_RUNG_MOST = 64
"""Largest number of trials per family in the first rung. In 23 earlier tuning runs a family's best time after 64 trials
was 2% above its final one (median), and 6% in the worst fifth.
"""
SLACK_TRIALS = 4.0
"""Numerator of the slack: a family stays while its best time is within 4 / trials of the fastest, at equal numbers of
trials. In those 23 runs the worst fifth still gained 18% after 32 trials, 6% after 64 and 3% after 128.
"""
SLACK_MOST = 0.25
"""Largest slack, however few the trials: a family's default takes 1.3 times as long as its best config (median of those
runs).
"""
POLISH_SHARE = 0.3
"""Share of the trials, or of a time limit, at the end in which single changes of the fastest configs come first. On
models of three whole spaces, 300 trials, 20 seeds each, all single changes of the best were tried in 23% of the
searches without it, in 67% with 0.15, in 80% with 0.3, and in 85% with 0.4, which ended a little slower.
"""
POLISH_AFTER = 100
"""Least number of trials before that part: a young search gains more elsewhere. Of 40 replays of the window with 100
trials, 18 ended with the best when the last 30 trials went to single changes, and 32 without; with 150 trials, 39 and
40.
"""
NEAR = 1.03
"""Ratio to the best time within which a config's single changes are tried too. It may be the winner, since search times
of one kernel differ by 2%.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Standing:
    family: str
    tried: int
    """Number of configs handed out, including those stored before."""
    best_ns: float | None
    """Nanoseconds of its shortest time; None if nothing has succeeded."""
    left_after: int | None
    """Number of known trials of all families when it left; None if it is still competing."""
    why: str
    """Reason why it left, in one line; empty if it is still competing."""


class Competition:
    """Several families that compete for one problem, by successive halving.

    Known configs come first. Then each family tries its first configs; a family that is slow, or is expected to be, has
    fewer turns, and those far behind wait. Then come rungs: every competing family gets the same number of trials,
    after which the slower half leaves, except families nearly as fast as the fastest. The trials per family double from
    rung to rung, until one family is left or the trials are used up. A family that only fails leaves as soon as another
    succeeds. An exhausted family passes its trials on. If all competing families are exhausted, those that left
    continue.

    In the last part of the trials, or of the time, single changes come first: those of the best config, then those of
    configs near it. A config that turns out faster takes the place of the best. If the budget allows, the search then
    ends where no single change helps.

    Asks may run ahead of tells, so a rung is judged once all its results have arrived. Until then the trials of the
    next rung go to the families that would stay by the results so far. Not thread-safe.

    Args:
        families: searches by family name; a LateSearch is made at its first turn, and leaves if it cannot be made.
            Stored trials count as trials of the rungs, so that a resumed search continues where it stopped.
        seed: seed of the order among families of equal standing, so that none is favoured by its place in the registry.
        budget: number of trials to come. If there are few, the rungs are short.
        is_late: true once the last part of a time limit has come.
        known: families and configs that are tried before all others, in this order; illegal ones are skipped.
        prospects: expectations of families before their trials, by name.

    Source: Jamieson and Talwalkar 2016, "Non-stochastic best arm identification and hyperparameter optimization", arXiv
    1502.07943, figure 1.
    """

    def __init__(
        self,
        families: Mapping[str, FamilySearch | LateSearch],
        seed: int,
        budget: int,
        is_late: Callable[[], bool] = lambda: False,
        known: Iterable[tuple[str, Config]] = (),
        prospects: Mapping[str, Prospect] | None = None,
    ) -> None:
        self.families = {
            name: LateSearch.of(each) if isinstance(each, FamilySearch) else each for name, each in families.items()
        }
        self._prospects = Prospects(prospects or {})
        self._known = iter(known)
        self._is_late = is_late
        self._in = list(families)
        random.Random(seed).shuffle(self._in)
        self._left: dict[str, tuple[int, str]] = {}
        self._abandoned: set[str] = set()
        """Families that were given up for good."""
        total = max(0, budget) + self.tried
        self._total = total
        """Trials of the whole run, including those stored before."""
        share = total // (FIRST_RUNG_SHARE * max(1, len(families)))
        self._quota = max(1, min(FIRST_RUNG_MOST, share))
        """Trials per family, including those of earlier rungs, after which the rung is judged."""

    @property
    def size(self) -> int | None:
        """Number of feasible configs of all families; None if there are too many to list."""
        return _sum(family.size for family in self._all_made())

    def size_up_to(self, most: int) -> int:
        """Number of feasible configs of all families, or `most` if there are more."""
        total = 0
        for family in self._all_made():
            total = most if family.size is None else min(most, total + family.size)
            if total == most:
                break
        return total

    @property
    def remaining(self) -> int | None:
        """Number of feasible configs of all families that are neither stored nor handed out; None if there are too
        many.
        """
        return _sum(family.remaining for family in self._all_made())

    @property
    def tried(self) -> int:
        """Number of configs that were handed out or learned."""
        return sum(family.tried for family in self.families.values())

    @property
    def standings(self) -> tuple[Standing, ...]:
        """Standings of all families: competing ones first, each group fastest first."""
        standings = [
            Standing(name, family.tried, family.best_ns, *self._left.get(name, (None, "")))
            for name, family in self.families.items()
        ]
        return tuple(sorted(standings, key=lambda each: (each.left_after is not None, _or_never(each.best_ns))))

    def ask(self) -> tuple[str, Config] | None:
        """The next family, by name, and its config; None once every space is exhausted."""
        while self.families:
            try:
                return self._ask_known() or self._ask_in_turn()
            except NoSearch as error:
                self._drop(error.family)
        return None

    def _ask_known(self) -> tuple[str, Config] | None:
        for name, config in self._known:
            if name in self.families and name not in self._abandoned and self.families[name].made.take(config):
                return name, config
        return None

    def _ask_in_turn(self) -> tuple[str, Config] | None:
        turn = self._first_turn()
        if turn is None:
            self._dismiss_failing()
            while self._rung_is_settled():
                self._judge()
            if self._is_ending and (beside := self._ask_beside()) is not None:
                return beside
            turn = self._next_turn()
        config = self.families[turn].made.ask() if turn is not None else None
        return None if turn is None or config is None else (turn, config)

    def tell(self, family: str, config: Config, time_ns: float | None) -> None:
        """Reports the outcome of an asked config: its time in ns, above 0, or None for a failure.

        Raises:
            ValueError: `config` was not asked of `family`, or was told before.
        """
        self.families[family].made.tell(config, time_ns)

    def learn(self, family: str, config: Config, time_ns: float | None) -> None:
        """Takes in a trial of another tuner; see `FamilySearch.learn`."""
        try:
            self.families[family].made.learn(config, time_ns)
        except NoSearch:
            self._drop(family)

    def abandon(self, family: str, why: str) -> None:
        """Gives a family up for good, for example because it generates no programs."""
        if family in self._in:
            self._dismiss(family, why)
        self._abandoned.add(family)

    def forgo(self, family: str, config: Config) -> None:
        """Marks an asked config as claimed by another tuner."""
        self.families[family].made.forgo(config)

    def offer(self, family: str, config: Config) -> None:
        """Makes a forgone config available again."""
        self.families[family].made.offer(config)

    def _all_made(self) -> Iterator[FamilySearch]:
        """Yields the search of every family. Those that are made come first, since making one takes long. Of these the
        ones with the most parameters come first: their spaces are soon found to be too large to list.
        """
        for name in sorted(self.families, key=lambda name: -self.families[name].parameters):
            try:
                yield self.families[name].made
            except NoSearch:
                self._drop(name)

    def _drop(self, name: str) -> None:
        """Removes a family that cannot be searched, as if it had never been there."""
        del self.families[name]
        if name in self._in:
            self._in.remove(name)

    @property
    def _is_ending(self) -> bool:
        """True in the last part of the trials or of the time; outstanding trials count as done."""
        tried = self.tried
        return tried >= POLISH_AFTER and (self._total - tried <= POLISH_SHARE * self._total or self._is_late())

    def _ask_beside(self) -> tuple[str, Config] | None:
        """A single change of the fastest config, of any family and NEAR the best, that has an untried one."""
        most_ns = NEAR * min(map(self._best, self.families))
        staying = {name: family for name, family in self.families.items() if name not in self._abandoned}
        if not staying:
            return None
        beside = {name: family.beside_ns(most_ns) for name, family in staying.items()}
        name = min(beside, key=lambda name: _or_never(beside[name]))
        config = self.families[name].made.ask_beside(most_ns)
        return None if config is None else (name, config)

    def _first_turn(self) -> str | None:
        """The family that tries its next first config; None if only slow families have any left."""
        rarities = self._prospects.rarities({name: family.best_ns for name, family in self.families.items()})
        staying = {name: family for name, family in self.families.items() if name not in self._abandoned}
        due = [name for name, family in staying.items() if rarities[name] <= RARE and family.firsts_are_due]
        return min(due, key=lambda name: self._tried(name) * rarities[name], default=None)

    def _tried(self, name: str) -> int:
        return self.families[name].tried

    def _best(self, name: str) -> float:
        return _or_never(self.families[name].best_ns)

    def _has_more(self, name: str) -> bool:
        return name not in self._abandoned and not self.families[name].is_exhausted

    def _dismiss_failing(self) -> None:
        if any(self._best(name) < math.inf for name in self._in):
            for name in [name for name in self._in if self.families[name].is_doubted]:
                self._dismiss(name, "all its candidates failed")

    def _rung_is_settled(self) -> bool:
        """True if all results of the rung have arrived and there is something to decide."""
        is_settled = all(
            family.settled >= self._quota or (family.is_exhausted and family.settled == family.tried)
            for family in map(self.families.__getitem__, self._in)
        )
        return is_settled and len(self._in) > 1 and any(map(self._has_more, self._in))

    def _judge(self) -> None:
        staying, fastest = self._staying(), min(map(self._best, self._in))
        for name in [name for name in self._in if name not in staying]:
            best = self._best(name)
            why = f"{best / fastest:.2f} times the best time" if best < math.inf else "no candidate succeeded"
            self._dismiss(name, f"{why} after {self.families[name].settled} trials")
        self._quota *= 2

    def _staying(self) -> list[str]:
        """Competing families that would stay if the rung were judged now."""
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
        """The eligible family that has tried the fewest configs."""
        short = [name for name in self._in if self._has_more(name) and self.families[name].tried < self._quota]
        staying = [name for name in self._staying() if self._has_more(name)] if not short else []
        back = [name for name in self.families if self._has_more(name)] if not short + staying else []
        contenders = short or staying or back
        return min(contenders, key=self._tried, default=None)


def _or_never(time_ns: float | None) -> float:
    return math.inf if time_ns is None else time_ns


def _sum(counts: Iterable[int | None]) -> int | None:
    """The sum of the counts; None if one of them is unknown."""
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return total
