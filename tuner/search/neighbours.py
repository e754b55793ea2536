"""Configs like the fastest known ones: what a search mostly tries once it knows some.

A change of one to three parameters of a fast config is cheap to make and seldom good: most are slower, and many break a
rule. So many are made at once, and those tried first that a model of what each value costs ranks first.

Source: local search beside a model that screens its candidates, as in SMAC, Hutter, Hoos and Leyton-Brown 2011,
"Sequential model-based optimization for general algorithm configuration", section 4.3.
"""

from __future__ import annotations

import bisect
import random
from collections.abc import Container, Sequence

from warpsmith.generator.space import Config, Space
from warpsmith.tuner.search.additive import Additive, Expected, Item

BEST = 8
"""The fastest configs, whose neighbours are tried."""
CLOSEST = 3
"""Of those, the ones whose neighbours are all tried, one after the other."""
POLISHED = 8
"""Of those, the ones whose neighbours are tried at the end of a budget: as many as may be finalists."""
CHANGES = 3
"""The most parameters that are changed at once."""
CANDIDATES = 400
"""Changed configs that the model ranks at once, 5 us each."""
ASKS_A_FIT = 8
"""Configs that are taken from one ranking before the model is fitted again, in about 2 ms."""
BLIND_CHANGES = 100
"""Random changes in a row that may be illegal or tried."""


class Neighbours:
    """Proposes configs that differ in few parameters from the fastest known ones. Not thread-safe.

    Args:
        space: where they lie.
        tried: what is not to be proposed again; read at each call.
        rng: of the changes.
        expected: what is known of times beside those that are learned; see `Additive`.
    """

    def __init__(
        self, space: Space, tried: Container[Config], rng: random.Random, expected: Expected | None = None
    ) -> None:
        self._expected = expected
        self._space, self._tried, self._rng = space, tried, rng
        values = {parameter.name: parameter.values for parameter in space.parameters}
        self._choices = [[(name, value) for value in values[name]] for name in sorted(values)]
        """What may stand at each place of a config's items."""
        self._model = Additive(space, expected)
        self._times: dict[Config, float | None] = {}
        self._fastest: list[tuple[float, Config]] = []
        self._failed: list[Config] = []
        self._among = BEST
        self._ranked: list[tuple[tuple[Item, ...], tuple[str, ...]]] = []
        self._asks_left = 0
        self._beside: dict[Config, list[Config]] = {}

    @property
    def best_ns(self) -> float | None:
        """The shortest time learned, in ns; None where nothing has succeeded."""
        return self._fastest[0][0] if self._fastest else None

    def learn(self, config: Config, time_ns: float | None) -> None:
        """A config's time in ns, or None for a failure; of several for one config the last counts."""
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
        """A config that differs in one parameter from one of the CLOSEST; None where all are tried.

        So a search that goes on long enough ends where no single change helps.
        """
        found = self._beside_one_of(self._fastest[:CLOSEST])
        return None if found is None else found[1]

    def beside(self, most_ns: float) -> tuple[float, Config] | None:
        """The same for those of the POLISHED that take `most_ns` at most, with the time in ns of the one changed."""
        return self._beside_one_of([known for known in self._fastest[:POLISHED] if known[0] <= most_ns])

    def next_likely(self) -> Config | None:
        """The changed config that the model ranks first; None where it knows no time, or none that is legal and new."""
        if self._asks_left == 0 and self._fastest:
            self._asks_left = ASKS_A_FIT
            self._rank()
        self._asks_left = max(0, self._asks_left - 1)
        while self._ranked:
            if (config := self._checked(*self._ranked.pop())) is not None:
                return config
        # More of the best have neighbours that are new.
        self._among = max(BEST, min(2 * self._among, len(self._fastest)))
        return None

    def next_blind(self) -> Config | None:
        """A random change of one of the best configs; None where none in a row of many is legal and new."""
        for _ in range(BLIND_CHANGES):
            items, changed = self._changed()
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
        """The first of `among` that has an untried single change, by its time, and that change."""
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
        return neighbours[::-1]  # taken from its end

    def _checked(self, items: tuple[Item, ...], changed: tuple[str, ...]) -> Config | None:
        """The config, where it is legal and new."""
        config = Config(items)
        return config if config not in self._tried and self._space.allows(dict(items), changed) else None

    def _rank(self) -> None:
        candidates = dict(self._changed() for _ in range(CANDIDATES))
        cost = self._model.costs(self._fastest, self._failed)
        scores = {items: sum(map(cost.__getitem__, items)) for items in candidates}
        if self._expected is not None:
            scores = {items: score + self._expected(Config(items)) for items, score in scores.items()}
        order = sorted(scores, key=scores.__getitem__, reverse=True)  # the likeliest is popped first
        self._ranked = [(items, candidates[items]) for items in order]

    def _changed(self) -> tuple[tuple[Item, ...], tuple[str, ...]]:
        """One of the best with one to CHANGES parameters drawn anew, and which."""
        draw = self._rng.random  # a tenth of the time of randrange
        items = list(self._fastest[int(draw() * min(self._among, len(self._fastest)))][1].items)
        changed = []
        for _ in range(1 + int(draw() * CHANGES)):
            place = int(draw() * len(items))
            choices = self._choices[place]
            items[place] = choices[int(draw() * len(choices))]
            changed.append(items[place][0])
        return tuple(items), tuple(changed)


def _time(known: tuple[float, Config]) -> float:
    return known[0]
