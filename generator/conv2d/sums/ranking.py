"""The legal configs of a side that a model expects to be fastest, one for each shape of a thread."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable

from warpsmith.generator.space import Config

MOST_STARTS = 10


def best_of_each_shape(
    configs: Iterable[Config], shape: Callable[[Config], Hashable], time_ns: Callable[[Config], float]
) -> tuple[Config, ...]:
    """The config of each thread shape that takes least time, sorted by time; of equals, the first."""
    best: dict[Hashable, tuple[float, Config]] = {}
    for config in configs:
        mine, key = (time_ns(config), config), shape(config)
        best[key] = min(best.get(key, mine), mine, key=lambda each: each[0])
    return tuple(config for _, config in sorted(best.values(), key=lambda each: each[0]))


def shape_of(*names: str) -> Callable[[Config], Hashable]:
    """The thread shape of a config: its values of these parameters."""
    return lambda config: tuple(map(config.values().__getitem__, names))


THREAD_SHAPE = shape_of("vector", "columns", "rows", "tap_rows")


def mixed(others: Iterable[Config], portions: Iterable[Config]) -> tuple[Config, ...]:
    """Starts of a search: configs of both kinds by turns, MOST_STARTS at the most."""
    starts = itertools.chain.from_iterable(itertools.zip_longest(others, portions))
    return tuple(dict.fromkeys(each for each in starts if each is not None))[:MOST_STARTS]
