"""Optuna sampler that searches with an additive model and with neighbours of the fastest configs."""

from __future__ import annotations

import random
from collections.abc import Callable

from warpsmith.generator.space import Config, Space
from warpsmith.tuner.search.neighbours import Neighbours
from warpsmith.tuner.search.random_order import RandomOrder
from warpsmith.tuner.search.studies.feasible_sampler import FeasibleSampler

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
