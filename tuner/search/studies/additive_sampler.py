"""The searcher: an Optuna sampler with an additive model and the neighbours of the fastest configs."""

from __future__ import annotations

import random
from collections.abc import Callable

from warpsmith.generator.space import Config, Space
from warpsmith.tuner.search.neighbours import Neighbours
from warpsmith.tuner.search.random_order import RandomOrder
from warpsmith.tuner.search.studies.feasible_sampler import FeasibleSampler

STARTUP = 10
"""Configs tried before the model is asked: those that the caller brings and a seeded random sample."""
SMALL = 32
"""With no more untried configs than this, a seeded order takes them all."""
BESIDE_EVERY = 5
"""Of so many turns one takes the next single change of one of the fastest configs."""
BLIND_EVERY = 3
"""Of so many turns one takes a random change, without asking which is likely. Three recorded spaces need 41, 42 and 44
trials so, and 58, 50 and 41 without these and the random configs; with every second turn 59, 51 and 50."""
RANDOM_EVERY = 16
"""Of so many turns one takes a random config of the space."""


def is_left_to_chance(order: RandomOrder, neighbours: Neighbours) -> bool:
    """Whether too little is known to propose anything, or too little is left: a random config is as good."""
    # Before the first success there is nothing to rank but failures.
    starting = len(order.tried) < STARTUP or neighbours.best_ns is None
    return starting or (order.remaining is not None and order.remaining <= SMALL)


class AdditiveSampler(FeasibleSampler):
    """Proposes changes of the fastest configs, mostly those that an additive model of log time ranks first.

    First comes a random sample, then turns: some take the next single change of the fastest, a random change, or a
    random config, which keeps the search from ending where the model is blind. The shares are those that did best in
    replays of recorded spaces. For a given seed and sequence of asks and tells the configs are the same.

    Args:
        order: the configs and those that were tried.
        neighbours: of the same configs and those tried; what is known of their times.

    Source: `Neighbours` and `Additive` name theirs.
    """

    def __init__(self, order: RandomOrder, neighbours: Neighbours) -> None:
        super().__init__(order)
        self._neighbours = neighbours
        self._turn = 0

    @classmethod
    def over(cls, space: Space, seed: int) -> AdditiveSampler:
        """A sampler over a space of which nothing was tried."""
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
        """Whose turn it is; it may have nothing to propose."""
        self._turn += 1
        if self._turn % BESIDE_EVERY == 0:
            return self._neighbours.next_beside
        if self._turn % BLIND_EVERY == 0:
            return self._neighbours.next_blind
        if self._turn % RANDOM_EVERY == 0:
            return self.order.next
        return self._neighbours.next_likely
