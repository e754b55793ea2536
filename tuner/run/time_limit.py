"""A limit on the time that a search takes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable


class TimeLimit:
    """Counts from when the device is ready: to open it and to compute the float64 reference of a large problem takes
    seconds, which say nothing of how long somebody wants to search.

    Args:
        limit_s: seconds; None for no limit.
        now: the clock, in seconds.
    """

    def __init__(self, limit_s: float | None, now: Callable[[], float] = time.monotonic) -> None:
        self._limit_s = math.inf if limit_s is None else limit_s
        self._now = now
        self._ends = math.inf

    def begin(self) -> None:
        """The device is ready."""
        self._ends = self._now() + self._limit_s

    @property
    def ends(self) -> float | None:
        """When it has passed, by the clock; None where there is no limit, or before it begins."""
        return None if self._ends == math.inf else self._ends

    def is_late(self, share: float) -> bool:
        """Whether the last `share` of it has come."""
        return self._ends < math.inf and self._now() >= self._ends - share * self._limit_s
