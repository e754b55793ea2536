"""Forks: what a forked child must not use, locks that it does not find shut, tables that it finds empty."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any, TypeVar

from warpsmith.errors import DeviceError

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class HomeProcess:
    """The process that something was opened in, and outside of which it cannot be used.

    A forked child is told by Python's own hook, not by its id: asking for that takes 0.2 us of each call of a plan.

    Args:
        what: what was opened, for the message: `cuda:0`.
    """

    __slots__ = ("__weakref__", "_what", "is_current")

    def __init__(self, what: str) -> None:
        self._what = what
        self.is_current = True
        """Whether this is that process."""
        _HOMES.add(self)

    def leave(self) -> None:
        """To be called in a forked child."""
        self.is_current = False

    def check(self) -> None:
        """Raises DeviceError in any other process, which can only be a forked child."""
        if not self.is_current:
            remedy = "start processes with the spawn method"
            raise DeviceError(f"{self._what} cannot be used in a forked child; {remedy}")


class ForkLock:
    """A lock, for `with`. A forked child finds it open: the thread that held it does not live there."""

    __slots__ = ("__weakref__", "_lock")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        _LOCKS.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def renew(self) -> None:
        """Opens it, whoever holds it."""
        self._lock = threading.Lock()


class HomeTable(dict[_Key, _Value]):
    """A table that a forked child finds empty: what is in it serves the process that filled it."""

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
