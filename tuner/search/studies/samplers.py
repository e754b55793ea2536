"""Optuna samplers that propose only legal configs of a search space, each once."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import optuna
from optuna import Study
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.trial import FrozenTrial, TrialState

from warpsmith.generator.space import Config, Space
from warpsmith.tuner.search.neighbours import Neighbours
from warpsmith.tuner.search.random_order import RandomOrder
from warpsmith.tuner.search.studies.coding import Branched


@contextlib.contextmanager
def quiet_optuna() -> Iterator[None]:
    """Silences Optuna's log lines inside the block, such as the creation of a study.

    Optuna has one log level for the whole process. It is restored at the end of the block, so the user's own studies
    log as before; a level set at import would silence them too.
    """
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(verbosity)


class SpaceExhausted(Exception):
    """Every config of the space was tried."""


class FeasibleSampler(BaseSampler):
    """Draws configs at random. Not thread-safe.

    Its study has one objective, the time in ns, to be minimised, and the parameters of `Branched`. A trial that failed
    or was pruned marks a config to avoid.

    Args:
        order: the configs of the space, and those already tried, which are not proposed again.
    """

    def __init__(self, order: RandomOrder) -> None:
        self.order = order
        self.coding = Branched(order.space)
        self._others = RandomSampler()
        self._next: Config | None = None

    def learn(self, config: Config, time_ns: float | None) -> None:  # noqa: ARG002 - it draws whatever the times
        """Takes in a time in ns, above 0, or None for a failure. The last of several reports of one config counts."""
        self.order.tried.add(config)

    def proposal(self) -> Config | None:
        """The next config to try; None if every config was tried."""
        return self.order.next()

    def coming(self) -> Config:
        """The config that the study's next trial gets. Raises SpaceExhausted if none is left."""
        if self._next is None:
            self._next = self.proposal()
        if self._next is None:
            raise SpaceExhausted("every config of the space was tried")
        self.order.tried.add(self._next)
        return self._next

    def infer_relative_search_space(
        self,
        study: Study,  # noqa: ARG002 - whatever was tried, the space stays
        trial: FrozenTrial,  # noqa: ARG002
    ) -> dict[str, BaseDistribution]:
        """Distributions of the coming config's parameters. Raises SpaceExhausted if none is left."""
        return self.coding.distributions_of(self.coming())

    def sample_relative(
        self,
        study: Study,  # noqa: ARG002 - what came of trials was learned when they were told
        trial: FrozenTrial,  # noqa: ARG002
        search_space: dict[str, BaseDistribution],  # noqa: ARG002 - that of infer_relative_search_space
    ) -> dict[str, Any]:
        config, self._next = self.coming(), None
        return self.coding.params(config)

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """A random value of a parameter that the space does not have."""
        return self._others.sample_independent(study, trial, param_name, param_distribution)

    def after_trial(
        self,
        study: Study,  # noqa: ARG002 - every study with this sampler has its space
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> None:
        """Takes in the outcome of a trial."""
        self.learn(self.coding.config(trial.params), values[0] if state is TrialState.COMPLETE and values else None)


STARTUP = 10
"""Number of configs tried before the model is used: those that the caller brings and a seeded random sample."""
SMALL = 32
"""Number of untried configs up to which a seeded order tries all of them."""
BESIDE_EVERY = 5
"""One turn in this many takes the next single change of one of the fastest configs."""
BLIND_EVERY = 3
"""One turn in this many takes a random change, which the model does not rank. With 3, three recorded spaces need 41, 42
and 44 trials. Without random changes and random configs they need 58, 50 and 41; with a random change every second
turn, 59, 51 and 50.
"""
RANDOM_EVERY = 16
"""One turn in this many takes a random config of the space."""


def is_left_to_chance(order: RandomOrder, neighbours: Neighbours) -> bool:
    """True if a random config is as good as any proposal: too little is known, or too few configs are left."""
    # There are only failures before the first success, which cannot be ranked.
    starting = len(order.tried) < STARTUP or neighbours.best_ns is None
    return starting or (order.remaining is not None and order.remaining <= SMALL)


class AdditiveSampler(FeasibleSampler):
    """Proposes changes of the fastest configs, mostly those that an additive model of log time ranks first.

    It starts with a random sample. After that some turns take the next single change of the fastest config, a random
    change, or a random config, so that the search does not stall where the model is wrong. The shares are those that
    did best in replays of recorded spaces. Equal seeds and equal sequences of asks and tells give equal configs.

    Args:
        order: the configs of the space, and those already tried.
        neighbours: model of the same configs, with their known times.

    Source: see `Neighbours` and `Additive`.
    """

    def __init__(self, order: RandomOrder, neighbours: Neighbours) -> None:
        super().__init__(order)
        self._neighbours = neighbours
        self._turn = 0

    @classmethod
    def over(cls, space: Space, seed: int) -> AdditiveSampler:
        """Creates a sampler over a space without tried configs."""
        tried = set[Config]()
        neighbours = Neighbours(space, tried, random.Random(f"{seed} neighbours"))
        return cls(RandomOrder(space, tried, random.Random(seed)), neighbours)

    def learn(self, config: Config, time_ns: float | None) -> None:
        super().learn(config, time_ns)
        self._neighbours.learn(config, time_ns)

    def proposal(self) -> Config | None:
        config = None if is_left_to_chance(self.order, self._neighbours) else self._proposer()()
        return self.order.next() if config is None else config

    def _proposer(self) -> Callable[[], Config | None]:
        """The proposer whose turn it is; it may have nothing to propose."""
        self._turn += 1
        if self._turn % BESIDE_EVERY == 0:
            return self._neighbours.next_beside
        if self._turn % BLIND_EVERY == 0:
            return self._neighbours.next_blind
        if self._turn % RANDOM_EVERY == 0:
            return self.order.next
        return self._neighbours.next_likely
