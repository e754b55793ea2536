"""Time of a family's fastest candidate for a problem, as a few columns that are fast to read."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple, Self

from warpsmith.store.record import Record


class FamilyTime(NamedTuple):
    """Time of a family's fastest candidate."""

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
        """Makes the time of a record."""
        trial = record.trial
        return cls(record.problem.key(), record.device.key(), record.conditions, trial.family, record.timing.median_ns)

    @classmethod
    def readable(cls, found: Iterable[Iterable[Any]]) -> tuple[Self, ...]:
        """Makes times from rows of a table. Rows of a damaged file without a valid time are left out."""
        made = map(cls._make, found)
        return tuple(each for each in made if isinstance(each.median_ns, float) and 0 < each.median_ns < math.inf)
