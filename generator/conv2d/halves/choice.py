"""A config with its expected clocks, as the performance models of layers on 16-bit operands return it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

from warpsmith.generator.space import Config, Space


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """A config, and the clocks that an SM is expected to take for its share of all blocks."""

    config: Config
    clocks: float


def best_split(space: Space, whole: Config, splits: Iterable[int], clocks: Callable[[int], float]) -> Choice:
    """The split-K factor of a wgrad tile that is legal and expected to take least time.

    Args:
        space: space of wgrad.
        whole: config of the tile with a split-K factor of 1, which is legal.
        splits: split-K factors to compare, 1 among them.
        clocks: expected clocks of the tile for a split-K factor.
    """
    times = {number: clocks(number) for number in splits}
    for number in sorted(times, key=times.__getitem__):
        config = Config.of({**whole.values(), "splits": number})
        if space.contains(config):
            return Choice(config, times[number])
    return Choice(whole, times[1])
