"""How long a family takes for a problem, as stores hold it beside the winner: columns alone, which are read fast."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple, Self

from warpsmith.store.record import Record


class FamilyTime(NamedTuple):
    """The time of a family's fastest candidate."""

    problem_key: str
    """`Problem.key()`."""
    device_key: str
    """`Device.key()`."""
    conditions: str
    """One of `conditions.USUAL_FIRST`."""
    family: str
    median_ns: float

    @classmethod
    def of(cls, record: Record) -> Self:
        """That of a record."""
        trial = record.trial
        return cls(record.problem.key(), record.device.key(), record.conditions, trial.family, record.timing.median_ns)

    @classmethod
    def readable(cls, found: Iterable[Iterable[Any]]) -> tuple[Self, ...]:
        """Rows of a table; those of a damaged file that have no time are left out."""
        made = map(cls._make, found)
        return tuple(each for each in made if isinstance(each.median_ns, float) and 0 < each.median_ns < math.inf)
