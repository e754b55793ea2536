"""A competition of families whose times are made up."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from warpsmith.generator.space import Config
from warpsmith.tuner.search.competition import Competition

Trials = list[tuple[str, Config]]
Objective = Callable[[Config], float | None]


def trials(search: Competition, objectives: Mapping[str, Objective], budget: int, ahead: int) -> Trials:
    """What was tried, with so many asks out before the first is told; what is out at the end is given up."""
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
