"""Competition between families with made-up times."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from warpsmith.generator.space import Config
from warpsmith.tuner.search.competition import Competition

Trials = list[tuple[str, Config]]
Objective = Callable[[Config], float | None]


def trials(search: Competition, objectives: Mapping[str, Objective], budget: int, ahead: int) -> Trials:
    """Up to `budget` candidates in the order told. Up to `ahead` are asked for before one is told."""
    out: deque[tuple[str, Config]] = deque()
    told: Trials = []
    while len(told) < budget:
        while len(out) < ahead and (asked := search.ask()) is not None:
            out.append(asked)
        if not out:
            break
        name, config = out.popleft()
        search.tell(name, config, objectives[name](config))
        told.append((name, config))
    return told
