"""Remembers stores that were locked during a look-up. The next look-ups skip them for a while.

A writer holds the lock for milliseconds. A longer lock belongs to a stopped process or to a database tool. A program
that looks up a kernel for each layer must not wait for it each time.
"""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 1.0
"""Seconds that a look-up waits for a lock. A transaction takes milliseconds, on a slow disk a few hundred."""

AGAIN_S = 0.05
"""Seconds that a look-up waits if the store was locked the last time too."""

REST_S = 10.0
"""Seconds for which a locked store is skipped."""


class BusyStores:
    """Remembers, by location, which stores were locked and when. Threads may use it at the same time.

    Args:
        clock: monotonic clock, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[str, float] = {}

    def rests(self, location: str) -> bool:
        """True if the store was locked so recently that it must be skipped."""
        until = self._until.get(location)
        return until is not None and self._clock() < until

    def patience_s(self, location: str) -> float:
        """Seconds to wait for the store's lock."""
        return AGAIN_S if location in self._until else PATIENCE_S

    def note(self, location: str) -> bool:
        """Notes that the store is locked. Returns True if that is new, so that the user should be warned."""
        is_new = location not in self._until
        self._until[location] = self._clock() + REST_S
        return is_new

    def answered(self, location: str) -> None:
        """Notes that the store is not locked."""
        self._until.pop(location, None)


BUSY_STORES = BusyStores()
