"""Handles forks: objects that a forked child must not use, locks that are open in it, tables that are empty in it."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any, TypeVar

from warpsmith.errors import DeviceError

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class HomeProcess:
    """The process in which something was opened. It cannot be used in any other.

    Python's fork hook detects a forked child. Comparing process ids would add 0.2 us to each call of a plan.

    Args:
        what: name of what was opened, such as `cuda:0`, for the message.
    """

    __slots__ = ("__weakref__", "_what", "is_current")

    def __init__(self, what: str) -> None:
        self._what = what
        self.is_current = True
        """True in the process that created this object, False in a forked child."""
        _HOMES.add(self)

    def leave(self) -> None:
        """Marks this object as inherited. Call it in a forked child."""
        self.is_current = False

    def check(self) -> None:
        """Raises DeviceError in any other process, which can only be a forked child."""
        if not self.is_current:
            remedy = "start processes with the spawn method"
            raise DeviceError(f"{self._what} cannot be used in a forked child; {remedy}")


class ForkLock:
    """A lock, for `with`. It is open in a forked child, because the thread that held it does not exist there."""

    __slots__ = ("__weakref__", "_lock")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        _LOCKS.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def acquire(self) -> None:
        self._lock.acquire()

    def acquires_now(self) -> bool:
        """Acquires the lock if it is open. Returns False, without waiting, if it is not."""
        return self._lock.acquire(blocking=False)

    def release(self) -> None:
        self._lock.release()

    def renew(self) -> None:
        """Replaces the lock by an open one, whoever holds it."""
        self._lock = threading.Lock()


class HomeTable(dict[_Key, _Value]):
    """A table that is empty in a forked child, because its entries belong to the process that filled it."""

    __slots__ = ("__weakref__",)

    def __init__(self) -> None:
        super().__init__()
        _TABLES.append(weakref.ref(self, _TABLES.remove))


_LOCKS: weakref.WeakSet[ForkLock] = weakref.WeakSet()
_HOMES: weakref.WeakSet[HomeProcess] = weakref.WeakSet()
_TABLES: list[weakref.ref[HomeTable[Any, Any]]] = []  # no set: tables have no hash


def _renew_all() -> None:
    for lock in list(_LOCKS):
        lock.renew()
    for home in list(_HOMES):
        home.leave()
    for each in list(_TABLES):
        table = each()
        if table is not None:
            table.clear()


os.register_at_fork(after_in_child=_renew_all)
