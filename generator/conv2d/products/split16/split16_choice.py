"""What models of layers by products of halves choose: a config with the time that it is expected to take."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

from warpsmith.generator.space import Config, Space


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """A config, and the ns that a multiprocessor is expected to take for its share of all blocks."""

    config: Config
    ns: float


def best_split(space: Space, whole: Config, splits: Iterable[int], time_ns: Callable[[int], float]) -> Choice:
    """A tile of wgrad with the number of parts of its sums that is legal and expected to take least.

    Args:
        space: of wgrad.
        whole: the tile with sums in one part, which is legal.
        splits: numbers of parts, 1 among them.
        time_ns: what the tile is expected to take with so many parts.
    """
    times = {number: time_ns(number) for number in splits}
    for number in sorted(times, key=times.__getitem__):
        config = Config.of({**whole.values(), "splits": number})
        if space.contains(config):
            return Choice(config, times[number])
    return Choice(whole, times[1])
