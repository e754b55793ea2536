"""Stores that were locked when a look-up asked them: the next look-ups do without them for a while.

A writer holds the lock for milliseconds. A lock that lasts is held by a stopped process or by somebody's database tool,
and a program that looks up a kernel for each layer must not wait for it each time.
"""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 1.0
"""How long a look-up waits for a lock: a transaction takes milliseconds, on a slow disk a few hundred."""

AGAIN_S = 0.05
"""How long it waits where the store was locked the last time too."""

REST_S = 10.0
"""How long a store that was locked is not asked again."""


class BusyStores:
    """Remembers, by location, which stores were locked and when. Threads may use it at the same time.

    Args:
        clock: monotonic, in s.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[str, float] = {}

    def rests(self, location: str) -> bool:
        """Whether the store was locked so lately that it is not to be asked."""
        until = self._until.get(location)
        return until is not None and self._clock() < until

    def patience_s(self, location: str) -> float:
        """How long to wait for the store's lock."""
        return AGAIN_S if location in self._until else PATIENCE_S

    def note(self, location: str) -> bool:
        """Notes that the store is locked; whether that is new, so that the user is to be told."""
        is_new = location not in self._until
        self._until[location] = self._clock() + REST_S
        return is_new

    def answered(self, location: str) -> None:
        """Notes that the store is not locked."""
        self._until.pop(location, None)


BUSY_STORES = BusyStores()
