"""Neighbours of the fastest known configs, which a search mostly tries once it knows some.

Changing one to three parameters of a fast config is cheap and seldom good: most changes are slower, and many are
illegal. So many changes are made at once, and a model of each value's cost decides which are tried first.

Source: local search beside a model that screens its candidates, as in SMAC, Hutter, Hoos and Leyton-Brown 2011,
"Sequential model-based optimization for general algorithm configuration", section 4.3.
"""

from __future__ import annotations

import bisect
import itertools
import random
from collections.abc import Container, Iterator, Sequence

from warpsmith.generator.branching_space import BranchingSpace
from warpsmith.generator.space import Config, Space
from warpsmith.tuner.search.additive import Additive, Expected, Item

BEST = 8
"""Number of fastest configs whose neighbours are tried."""
CLOSEST = 3
"""Number of fastest configs whose neighbours are all tried, one after the other."""
POLISHED = 8
"""Number of fastest configs whose neighbours are tried at the end of a budget: as many as may be finalists."""
CHANGES = 3
"""Largest number of parameters that are changed at once."""
MOVED = 8
"""Configs in other branches of a space that the model ranks beside them, 2 ms each. One parameter of sixty chooses
between up to 900 branches."""
BLIND_MOVES = 0.3
"""Share of random changes that lead to another branch."""
CANDIDATES = 400
"""Changed configs that the model ranks at once, 5 us each."""
ASKS_A_FIT = 8
"""Configs taken from one ranking before the model is fitted again, which takes about 2 ms."""
BLIND_CHANGES = 100
"""Random changes in a row that may be illegal or already tried before the search for one gives up."""


class Neighbours:
    """Proposes configs that differ in few parameters from the fastest known ones. Not thread-safe.

    Args:
        space: space of the configs.
        tried: configs that are not proposed again; read at each call.
        rng: random source of the changes.
        expected: prediction of times used in addition to trials; see `Additive`.
    """

    def __init__(
        self, space: Space, tried: Container[Config], rng: random.Random, expected: Expected | None = None
    ) -> None:
        self._expected = expected
        self._space, self._tried, self._rng = space, tried, rng
        self._choices: dict[Space, list[list[Item]]] = {}
        """Possible items at each position of a config's items, for each branch of the space."""
        self._model = Additive(expected)
        self._times: dict[Config, float | None] = {}
        self._fastest: list[tuple[float, Config]] = []
        self._failed: list[Config] = []
        self._among = BEST
        self._ranked: list[tuple[tuple[Item, ...], tuple[str, ...]]] = []
        self._asks_left = 0
        self._beside: dict[Config, list[Config]] = {}

    @property
    def best_ns(self) -> float | None:
        """Nanoseconds of the shortest time learned; None if nothing has succeeded."""
        return self._fastest[0][0] if self._fastest else None

    def learn(self, config: Config, time_ns: float | None) -> None:
        """Takes in a config's time in ns, or None for a failure. The last of several reports of one config counts."""
        if config in self._times:
            if self._times[config] == time_ns:
                return
            self._forget(config)
        self._times[config] = time_ns
        if time_ns is None:
            self._failed.append(config)
        else:
            place = bisect.bisect_right(self._fastest, time_ns, key=_time)
            self._fastest.insert(place, (time_ns, config))
            self._among = BEST if place < BEST else self._among

    def next_beside(self) -> Config | None:
        """A config that differs in one parameter from one of the CLOSEST; None if all are tried.

        Because of these, a long enough search ends where no single change helps.
        """
        found = self._beside_one_of(self._fastest[:CLOSEST])
        return None if found is None else found[1]

    def beside(self, most_ns: float) -> tuple[float, Config] | None:
        """Time in ns and an untried single change of one of the POLISHED configs that take at most `most_ns`; None if
        all are tried.
        """
        return self._beside_one_of([known for known in self._fastest[:POLISHED] if known[0] <= most_ns])

    def next_likely(self) -> Config | None:
        """The changed config that the model ranks first; None if no time is known, or no candidate is legal and new."""
        if self._asks_left == 0 and self._fastest:
            self._asks_left = ASKS_A_FIT
            self._rank()
        self._asks_left = max(0, self._asks_left - 1)
        while self._ranked:
            if (config := self._checked(*self._ranked.pop())) is not None:
                return config
        # The next proposals start from more configs, whose neighbours are new.
        self._among = max(BEST, min(2 * self._among, len(self._fastest)))
        return None

    def next_blind(self) -> Config | None:
        """A random change of one of the best configs; None if BLIND_CHANGES changes in a row are illegal or tried."""
        moved = self._moved()
        for _ in range(BLIND_CHANGES):
            is_moved = isinstance(self._space, BranchingSpace) and self._rng.random() < BLIND_MOVES
            items, changed = next(moved) if is_moved else self._changed()
            if (config := self._checked(items, changed)) is not None:
                return config
        return None

    def _forget(self, config: Config) -> None:
        time_ns = self._times.pop(config)
        if time_ns is None:
            self._failed.remove(config)
        else:
            self._fastest.remove((time_ns, config))

    def _beside_one_of(self, among: Sequence[tuple[float, Config]]) -> tuple[float, Config] | None:
        """The first of `among` that has an untried single change: its time in ns and that change."""
        kept = [config for _, config in self._fastest[:POLISHED] if config in self._beside]
        self._beside = {config: self._beside[config] for config in kept}
        for _, config in among:
            if config not in self._beside:
                self._beside[config] = self._neighbours_of(config)
        for time_ns, config in among:
            changes = self._beside[config]
            while changes and changes[-1] in self._tried:
                changes.pop()
            if changes:
                return time_ns, changes[-1]
        return None

    def _neighbours_of(self, config: Config) -> list[Config]:
        neighbours = list(self._space.neighbours(config))
        self._rng.shuffle(neighbours)
        return neighbours[::-1]  # reversed, because changes are taken from the end

    def _checked(self, items: tuple[Item, ...], changed: tuple[str, ...]) -> Config | None:
        """The config if it is legal and new, else None."""
        config = Config(items)
        return config if config not in self._tried and self._space.allows(dict(items), changed) else None

    def _rank(self) -> None:
        candidates = dict(self._changed() for _ in range(CANDIDATES)) | dict(itertools.islice(self._moved(), MOVED))
        cost = self._model.costs(self._fastest, self._failed)
        scores = {items: sum(cost.get(item, 0.0) for item in items) for items in candidates}
        if self._expected is not None:
            scores = {items: score + self._expected(Config(items)) for items, score in scores.items()}
        order = sorted(scores, key=scores.__getitem__, reverse=True)  # pop() takes the likeliest
        self._ranked = [(items, candidates[items]) for items in order]

    def _changed(self) -> tuple[tuple[Item, ...], tuple[str, ...]]:
        """The items of one of the best configs with one to CHANGES parameters drawn anew, and the names of these."""
        draw = self._rng.random  # a tenth of the time of randrange
        config = self._drawn_best()
        items, among = list(config.items), self._choices_beside(config)
        changed = []
        for _ in range(1 + int(draw() * CHANGES)):
            place = int(draw() * len(items))
            choices = among[place]
            items[place] = choices[int(draw() * len(choices))]
            changed.append(items[place][0])
        return tuple(items), tuple(changed)

    def _moved(self) -> Iterator[tuple[tuple[Item, ...], tuple[str, ...]]]:
        """Yields the items of configs in drawn branches that are like one of the best ones, with no rule to check."""
        while isinstance(self._space, BranchingSpace):
            branch = {self._space.branching.name: self._space.drawn_branch(self._rng)}
            if (config := self._space.like({**self._drawn_best().values(), **branch})) is not None:
                yield config.items, ()

    def _drawn_best(self) -> Config:
        """A random one of the best configs."""
        return self._fastest[int(self._rng.random() * min(self._among, len(self._fastest)))][1]

    def _choices_beside(self, config: Config) -> list[list[Item]]:
        space = self._space.within(config)
        if space not in self._choices:
            values = {parameter.name: parameter.values for parameter in space.parameters}
            self._choices[space] = [[(name, value) for value in values[name]] for name in sorted(values)]
        return self._choices[space]


def _time(known: tuple[float, Config]) -> float:
    return known[0]
