"""What this process knows of stores without reading them: which were locked, and whether their answers may differ.

A writer holds the lock for milliseconds. A longer lock belongs to a stopped process or to a database tool. A program
that looks up a kernel for each layer must not wait for it each time: look-ups skip a locked store for a while.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from warpsmith.errors import StoreError
from warpsmith.store import sqlite
from warpsmith.store.location import file_of, is_url, look_up_locations

State = tuple[tuple[str, object], ...]
"""Path and state (see `file_state`) of each store's file. Equal values mean equal answers."""

_LOCKED = "locked"
"""State of a store that look-ups skip because another process keeps it locked."""

_HEADER_BYTES = 28
_COUNTER_OFFSET = 24
"""Offset of SQLite's change counter in the file header, which every transaction that changes the file increments (file
format, section 1.3.8). File times alone would not suffice: two changes within 4 ms may have the same time.
"""

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


def busy_key(location: str) -> str:
    """Name under which `BUSY_STORES` knows a store: the same one for every spelling of a file's path."""
    file = file_of(location)
    try:
        return location if file is None else str(sqlite.path_of(file).absolute())
    except StoreError:  # not a valid file name
        return location


class OwnWrites:
    """The counter. Threads may note at the same time: all that matters is that the number changes."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0
        """Transactions that have ended, also with an error."""

    def note(self) -> None:
        """Counts a transaction. Call it when one has ended."""
        self.count += 1


OWN_WRITES = OwnWrites()


def state_of(explicit: str | None) -> State | None:
    """State of the stores that a look-up reads if the user names `explicit`; it takes 40 us.

    Returns: None if it is unknown: a store is on a server, or a file cannot be examined.
    """
    found = []
    try:
        for location in look_up_locations(explicit):
            if is_url(location):
                return None
            path = sqlite.path_of(location).absolute()
            # A store that is skipped for a while answers differently once it is read again.
            found.append((str(path), _LOCKED if BUSY_STORES.rests(str(path)) else file_state(path)))
    except (OSError, StoreError):
        return None
    return tuple(found)


def file_state(path: Path) -> object:
    """Value that changes with the content of a file; None if there is no file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        status = os.fstat(descriptor)
        counter = os.pread(descriptor, _HEADER_BYTES, 0)[_COUNTER_OFFSET:]
    finally:
        os.close(descriptor)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, counter, _of_log(Path(f"{path}-wal"))


def _of_log(path: Path) -> object:
    """Value that changes with a write-ahead log. This package's stores have none, but another tool may have created
    one.
    """
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns
