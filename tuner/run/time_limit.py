"""Time limit of a search."""

from __future__ import annotations

import math
import time
from collections.abc import Callable


class TimeLimit:
    """A limit that starts when the device is ready.

    Opening the device and computing the float64 reference of a large problem take seconds that do not count as search.

    Args:
        limit_s: seconds; None for no limit.
        now: the clock, in seconds.
    """

    def __init__(self, limit_s: float | None, now: Callable[[], float] = time.monotonic) -> None:
        self._limit_s = math.inf if limit_s is None else limit_s
        self._now = now
        self._ends = math.inf

    def begin(self) -> None:
        """Starts the limit; call it when the device is ready."""
        self._ends = self._now() + self._limit_s

    @property
    def ends(self) -> float | None:
        """Clock time at which the limit passes; None if there is no limit, or before it begins."""
        return None if self._ends == math.inf else self._ends

    def is_late(self, share: float) -> bool:
        """True in the last `share` of the limit."""
        return self._ends < math.inf and self._now() >= self._ends - share * self._limit_s
