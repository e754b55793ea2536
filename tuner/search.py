"""Search: which config to try next.

Others propose, this module decides: every config handed out is feasible and new. Nothing here is kept, since the store
of trials is the durable record; a search goes on by being told the stored trials again.
"""

from __future__ import annotations

import collections
import random
from collections.abc import Callable, Iterable, Iterator, Sequence

from warpsmith.generator.space import Config, Space
from warpsmith.tuner.neighbours import Neighbours
from warpsmith.tuner.studies import Model

STARTUP = 10
"""Configs tried before anything is proposed: the first ones and a seeded random sample."""
LISTED = 5_000
"""Feasible configs up to which a space is listed at once, in 40 ms; a larger one is drawn from at random."""
LISTED_LATE = 500_000
"""Feasible configs up to which a space is listed, in seconds, once only tried ones are drawn from it."""
DRAWS = 200
"""Tried configs in a row that may be drawn from a space before it is listed after all."""
SMALL = 32
"""With no more untried configs than this, a seeded order takes them all."""
DOUBTED_AFTER = 8
"""Failures, with no success beside them, after which a family is doubted."""

MODEL_EVERY, MODEL_FIRST = 128, 64
"""Of so many turns one goes to Optuna, and which: 10 to 30 ms a suggestion. Replays of three recorded spaces need 39
trials, the geometric mean, with it and without it, and 43 where it has one turn in 8."""
BESIDE_EVERY = 5
"""Of so many turns one takes the next single change of one of the fastest configs."""
BLIND_EVERY = 3
"""Of so many turns one takes a random change, without asking which is likely. Those three spaces need 41, 42 and 44
trials so, and 58, 50 and 41 without these and the random configs; with every second turn 59, 51 and 50."""
RANDOM_EVERY = 16
"""Of so many turns one takes a random config of the space."""


class FamilySearch:
    """The search over one family's space: never a config twice, until none is left.

    First come those to try first, then a random sample, then turns: mostly changes of the fastest configs that a model
    ranks first; the others keep it from ending where the model is blind. The shares are those that did best in replays
    of recorded spaces. For a given seed and sequence of asks and tells the configs are the same. Not thread-safe.

    Args:
        study_name: names the Optuna study, together with the space's fingerprint, because a study's choices may
            not change.
        space: the family's space.
        firsts: the configs to try first, the family's default before all. Others that are outside the space are passed
            over.
        seed: of everything random, from 0 to 2^32 - 1.
        stored: earlier trials, each a config and its time in ns, or None for a failure; `learn` takes them.
        studies: URL of a server's database where Optuna's study is shared with other tuners; None to keep it in memory.

    Raises:
        ValueError: the default is not a point of `space`, or there is none.

    Source of Optuna's sampler: Watanabe 2023, "Tree-Structured Parzen Estimator", arXiv 2304.11127.
    """

    def __init__(
        self,
        study_name: str,
        space: Space,
        firsts: Sequence[Config],
        seed: int,
        stored: Iterable[tuple[Config, float | None]] = (),
        studies: str | None = None,
    ) -> None:
        if not firsts:
            raise ValueError(f"{study_name} has no config to try first")
        if reason := space.why_not(firsts[0]):
            raise ValueError(f"the default config of {study_name} is not feasible: {reason}")
        self.study_name = f"{study_name}/{space.fingerprint}"
        self._space = space
        self._firsts = [config for config in dict.fromkeys(firsts) if space.contains(config)]
        self._tried: set[Config] = set()
        self._outstanding: set[Config] = set()
        self._offered: collections.deque[Config] = collections.deque()
        self._failures = 0
        self._turn = 0
        self._rng = random.Random(seed)
        self._listing: tuple[Config, ...] | None = None
        self._order: Iterator[Config] = iter(())
        self._list(LISTED)
        self._neighbours = Neighbours(space, self._tried, random.Random(f"{seed} neighbours"))
        self._model = Model(self.study_name, space, self._tried, seed, studies)
        for config, time_ns in stored:
            self.learn(config, time_ns)

    @property
    def size(self) -> int | None:
        """Feasible configs of the space; None where they are too many to list."""
        return None if self._listing is None else len(self._listing)

    @property
    def tried(self) -> int:
        """Configs that were handed out or learned."""
        return len(self._tried)

    @property
    def settled(self) -> int:
        """Of those tried, the ones whose outcome is known."""
        return len(self._tried) - len(self._outstanding)

    @property
    def remaining(self) -> int | None:
        """Feasible configs that were not tried yet; None where they are too many to count."""
        return None if self._listing is None else len(self._listing) - len(self._tried)

    @property
    def firsts_are_due(self) -> bool:
        """Whether the next ask returns one of those to try first."""
        return any(config not in self._tried for config in self._firsts)

    @property
    def best_ns(self) -> float | None:
        """The shortest time told or learned, in ns; None where nothing has succeeded."""
        return self._neighbours.best_ns

    @property
    def is_doubted(self) -> bool:
        """Whether several configs have failed and none has succeeded."""
        return self.best_ns is None and self._failures >= DOUBTED_AFTER

    def ask(self) -> Config | None:
        """The next config to try, feasible and new; None once the space is exhausted. Asks may run ahead of tells."""
        return self._handed_out(None if self.remaining == 0 else self._next())

    def beside_ns(self, most_ns: float) -> float | None:
        """The time, in ns, of the config of which `ask_beside` returns a change; None where it returns None."""
        found = self._neighbours.beside(most_ns)
        return None if found is None else found[0]

    def ask_beside(self, most_ns: float) -> Config | None:
        """A new config that differs in one parameter from one of the fastest that take `most_ns` at most.

        The changes of the fastest one come first. None where all are tried.
        """
        found = self._neighbours.beside(most_ns)
        return self._handed_out(None if found is None else found[1])

    def tell(self, config: Config, time_ns: float | None) -> None:
        """Reports what came of an asked config: its time in ns, above 0, or None for a failure.

        Raises:
            ValueError: `config` was not asked for, or was told before.
        """
        if config not in self._outstanding:
            raise ValueError(f"{config} was told without being asked for")
        self._outstanding.remove(config)
        self._note(config, time_ns)

    def learn(self, config: Config, time_ns: float | None) -> None:
        """Takes in a trial that another search did: its time in ns, above 0, or None for a failure.

        It counts as tried. Of several for one config the last counts; one outside the space is passed over.
        """
        if self._space.contains(config):
            self._tried.add(config)
            self._note(config, time_ns)

    def forgo(self, config: Config) -> None:
        """An asked config is being tried by another search, which may be learned; it is not told."""
        self._outstanding.discard(config)

    def offer(self, config: Config) -> None:
        """A config that was forgone is to be tried after all, as the next one."""
        self._tried.discard(config)
        self._offered.append(config)

    def _handed_out(self, config: Config | None) -> Config | None:
        if config is not None:
            self._tried.add(config)
            self._outstanding.add(config)
        return config

    def _note(self, config: Config, time_ns: float | None) -> None:
        self._neighbours.learn(config, time_ns)
        self._failures += time_ns is None

    def _next(self) -> Config | None:
        while self._offered:
            if (offered := self._offered.popleft()) not in self._tried:
                return offered
        if (due := next((config for config in self._firsts if config not in self._tried), None)) is not None:
            return due
        # Before the first success there is nothing to rank but failures.
        starting = self.tried < STARTUP or self.best_ns is None
        if starting or (self.remaining is not None and self.remaining <= SMALL):
            return self._next_in_order()
        config = self._proposer()()
        return self._next_in_order() if config is None else config

    def _proposer(self) -> Callable[[], Config | None]:
        """Whose turn it is; it may have nothing to propose."""
        self._turn += 1
        if self._turn % MODEL_EVERY == MODEL_FIRST:
            return lambda: self._model.next(self._neighbours)
        if self._turn % BESIDE_EVERY == 0:
            return self._neighbours.next_beside
        if self._turn % BLIND_EVERY == 0:
            return self._neighbours.next_blind
        if self._turn % RANDOM_EVERY == 0:
            return self._next_in_order
        return self._neighbours.next_likely

    def _next_in_order(self) -> Config | None:
        """A random config of the space."""
        if self._listing is None:
            drawn = (self._space.drawn(self._rng) for _ in range(DRAWS))
            if (new := next((config for config in drawn if config not in self._tried), None)) is not None:
                return new
            self._list(LISTED_LATE)
        return next((config for config in self._order if config not in self._tried), None)

    def _list(self, most: int) -> None:
        self._listing = self._space.listed(most)
        if self._listing is not None:
            self._order = iter(self._rng.sample(self._listing, len(self._listing)))
