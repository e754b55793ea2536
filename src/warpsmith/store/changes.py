"""Whether stores may answer otherwise by now than they did: told without reading them."""

from __future__ import annotations

import os
from pathlib import Path

from warpsmith.errors import StoreError
from warpsmith.store import sqlite
from warpsmith.store.busy import BUSY_STORES
from warpsmith.store.location import look_up_locations
from warpsmith.store.shown import is_url

State = tuple[tuple[str, object], ...]
"""Of each store's file its path and what `_of_file` says of it; two equal ones mean equal answers."""

_LOCKED = "locked"
"""The state of a store that look-ups leave alone, since another process keeps it locked."""

_HEADER_BYTES = 28
_COUNTER_OFFSET = 24
"""SQLite raises this number of its header in every transaction that changes the file (file format, section 1.3.8).
Times of files alone would not do: two changes within 4 ms may have one time."""


def state_of(explicit: str | None) -> State | None:
    """What the stores are like that a look-up asks where the user names `explicit`; it takes 40 us.

    Returns: None where that cannot be told: a store is on a server, or a file cannot be looked at.
    """
    found = []
    try:
        for location in look_up_locations(explicit):
            if is_url(location):
                return None
            path = sqlite.path_of(location).absolute()
            # A store that is left alone for a while answers otherwise once it is asked again.
            found.append((str(path), _LOCKED if BUSY_STORES.rests(str(path)) else _of_file(path)))
    except (OSError, StoreError):
        return None
    return tuple(found)


def _of_file(path: Path) -> object:
    """What changes with the content of a file; None where there is none."""
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
    """The same of a write-ahead log, which no store of ours has, but one may that somebody else has worked on."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns
