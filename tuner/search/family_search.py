"""Search over one family's space: which config to try next.

An Optuna sampler proposes and this module decides: every config handed out is feasible and new. Nothing is stored here.
The store of trials is the durable record, and a search resumes by learning the stored trials."""

from __future__ import annotations

import collections
import random
from collections.abc import Callable, Iterable, Sequence

from warpsmith.generator.space import Config, Space
from warpsmith.tuner.search.additive import Expected
from warpsmith.tuner.search.neighbours import Neighbours
from warpsmith.tuner.search.random_order import RandomOrder
from warpsmith.tuner.search.sampler_choice import SamplerChoice

DOUBTED_AFTER = 8
"""Number of failures, without any success, after which a family is doubted."""


class FamilySearch:
    """Search over one family's space, which hands out each config at most once.

    The configs to try first come first, then the sampler's proposals. Equal seeds and equal sequences of asks and tells
    give equal configs. Not thread-safe.

    Args:
        study_name: names the Optuna study, together with the space's fingerprint, because a study's choices may
            not change.
        space: the family's space.
        firsts: configs to try first, beginning with the family's default. Others outside the space are skipped.
        seed: seed of all random choices, from 0 to 2^32 - 1.
        stored: earlier trials, each a config and its time in ns, or None for a failure; they are learned.
        sampler: sampler that proposes.
        expected: prediction of times that the additive sampler uses in addition to trials; see `Additive`.

    Raises:
        BadArgument: a package that the sampler needs is missing.
        ValueError: `firsts` is empty, or the default is not a point of `space`.
    """

    def __init__(
        self,
        study_name: str,
        space: Space,
        firsts: Sequence[Config],
        seed: int,
        stored: Iterable[tuple[Config, float | None]] = (),
        sampler: SamplerChoice = SamplerChoice.ADDITIVE,
        expected: Expected | None = None,
    ) -> None:
        # Importing Optuna takes 0.3 s, and much of the command line only needs names from this module.
        from warpsmith.tuner.search.studies.family_study import FamilyStudy

        if not firsts:
            raise ValueError(f"{study_name} has no config to try first")
        if reason := space.why_not(firsts[0]):
            raise ValueError(f"the default config of {study_name} is not feasible: {reason}")
        self.study_name = f"{study_name}/{space.fingerprint}"
        self.space = space
        self._firsts = [config for config in dict.fromkeys(firsts) if space.contains(config)]
        self._tried: set[Config] = set()
        self._outstanding: set[Config] = set()
        self._offered: collections.deque[Config] = collections.deque()
        self._failures = 0
        self._order = RandomOrder(space, self._tried, random.Random(seed))
        self._neighbours = Neighbours(space, self._tried, random.Random(f"{seed} neighbours"), expected)
        self._polishes = sampler is SamplerChoice.ADDITIVE
        self._study = FamilyStudy(self.study_name, sampler, seed, self._order, self._neighbours)
        self.study = self._study.study
        """The Optuna study in memory, with every trial."""
        for config, time_ns in stored:
            self.learn(config, time_ns)

    @property
    def size(self) -> int | None:
        """Number of feasible configs of the space; None if there are too many to list."""
        return self._order.size

    @property
    def tried(self) -> int:
        """Number of configs that were handed out or learned."""
        return len(self._tried)

    @property
    def settled(self) -> int:
        """Number of tried configs whose outcome is known."""
        return len(self._tried) - len(self._outstanding)

    @property
    def remaining(self) -> int | None:
        """Number of feasible configs that were not tried yet; None if there are too many to count."""
        return self._order.remaining

    @property
    def firsts_are_due(self) -> bool:
        """True if some of the configs to try first are untried."""
        return any(config not in self._tried for config in self._firsts)

    @property
    def best_ns(self) -> float | None:
        """Nanoseconds of the shortest time told or learned; None if nothing has succeeded."""
        return self._neighbours.best_ns

    @property
    def is_doubted(self) -> bool:
        """True if several configs have failed and none has succeeded."""
        return self.best_ns is None and self._failures >= DOUBTED_AFTER

    def ask(self) -> Config | None:
        """The next config to try, feasible and new; None once the space is exhausted. Asks may run ahead of tells."""
        due = self._due()
        return self._handed_out(due if due is not None or self.remaining == 0 else self._study.ask())

    def beside_ns(self, most_ns: float) -> float | None:
        """Time in ns of the config that `ask_beside` would change; None if it would return None."""
        found = self._beside(most_ns)
        return None if found is None else found[0]

    def take(self, config: Config) -> bool:
        """Hands out this config ahead of others. False if it was handed out or learned, or is illegal."""
        is_new = config not in self._tried and self.space.contains(config)
        self._handed_out(config if is_new else None)
        return is_new

    def ask_beside(self, most_ns: float) -> Config | None:
        """A new config that differs in one parameter from one of the fastest configs that take at most `most_ns`.

        The changes of the fastest config come first. None if all are tried, or if the sampler is one of Optuna's.
        """
        found = self._beside(most_ns)
        return self._handed_out(None if found is None else found[1])

    def tell(self, config: Config, time_ns: float | None) -> None:
        """Reports the outcome of an asked config: its time in ns, above 0, or None for a failure.

        Raises:
            ValueError: `config` was not asked for, or was told before.
        """
        if config not in self._outstanding:
            raise ValueError(f"{config} was told without being asked for")
        self._outstanding.remove(config)
        self._note(config, time_ns)

    def learn(self, config: Config, time_ns: float | None) -> None:
        """Takes in a trial of another search: its time in ns, above 0, or None for a failure.

        The config counts as tried. The last of several reports counts. A config outside the space is ignored.
        """
        if self.space.contains(config):
            self._tried.add(config)
            self._note(config, time_ns)

    def forgo(self, config: Config) -> None:
        """Marks an asked config as claimed by another search. Its outcome may be learned; it is not told."""
        self._outstanding.discard(config)

    def offer(self, config: Config) -> None:
        """Makes a forgone config the next one to try."""
        self._tried.discard(config)
        self._offered.append(config)

    def _handed_out(self, config: Config | None) -> Config | None:
        if config is not None:
            self._tried.add(config)
            self._outstanding.add(config)
        return config

    def _beside(self, most_ns: float) -> tuple[float, Config] | None:
        return self._neighbours.beside(most_ns) if self._polishes else None

    def _note(self, config: Config, time_ns: float | None) -> None:
        self._study.tell(config, time_ns)
        self._neighbours.learn(config, time_ns)
        self._failures += time_ns is None

    def _due(self) -> Config | None:
        """The next config that was offered again, or that is to be tried first; None if there is none."""
        while self._offered:
            if (offered := self._offered.popleft()) not in self._tried:
                return offered
        return next((config for config in self._firsts if config not in self._tried), None)


class NoSearch(Exception):
    """A family cannot be searched: it has no legal config to try first, or it failed.

    Args:
        family: the family's name.
    """

    def __init__(self, family: str) -> None:
        super().__init__(f"{family} cannot be searched")
        self.family = family


class LateSearch:
    """The search of one family, made when it is first needed. Making it takes the family's space, default and starts.

    Before that, it has tried nothing and has configs to try first. Not thread-safe.

    Args:
        make: makes the search. It raises NoSearch if the family cannot be searched.
    """

    def __init__(self, make: Callable[[], FamilySearch]) -> None:
        self._make = make
        self._made: FamilySearch | None = None

    @classmethod
    def of(cls, search: FamilySearch) -> LateSearch:
        """A search that is made already."""
        made = cls(lambda: search)
        made._made = search
        return made

    @property
    def made(self) -> FamilySearch:
        """The search itself, made now if it was not yet. Raises NoSearch."""
        if self._made is None:
            self._made = self._make()
        return self._made

    @property
    def parameters(self) -> int:
        """Number of parameters of its space; 0 before the search is made."""
        return 0 if self._made is None else len(self._made.space.names)

    @property
    def tried(self) -> int:
        """See `FamilySearch.tried`."""
        return 0 if self._made is None else self._made.tried

    @property
    def settled(self) -> int:
        """See `FamilySearch.settled`."""
        return 0 if self._made is None else self._made.settled

    @property
    def best_ns(self) -> float | None:
        """See `FamilySearch.best_ns`."""
        return None if self._made is None else self._made.best_ns

    @property
    def firsts_are_due(self) -> bool:
        """See `FamilySearch.firsts_are_due`."""
        return self._made is None or self._made.firsts_are_due

    @property
    def is_doubted(self) -> bool:
        """See `FamilySearch.is_doubted`."""
        return self._made is not None and self._made.is_doubted

    @property
    def is_exhausted(self) -> bool:
        """True if every config of the space was tried."""
        return self._made is not None and self._made.remaining == 0

    def beside_ns(self, most_ns: float) -> float | None:
        """See `FamilySearch.beside_ns`."""
        return None if self._made is None else self._made.beside_ns(most_ns)
