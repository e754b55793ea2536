"""Forks: what a forked child must not use, and locks that it does not find shut."""

from __future__ import annotations

import os
import threading
import weakref

from warpsmith.errors import DeviceError


class HomeProcess:
    """The process that something was opened in, and outside of which it cannot be used.

    Args:
        what: what was opened, for the message: `cuda:0`.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._pid = os.getpid()

    @property
    def is_current(self) -> bool:
        """Whether this is that process."""
        return os.getpid() == self._pid

    def check(self) -> None:
        """Raises DeviceError in any other process, which can only be a forked child."""
        if os.getpid() != self._pid:
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


_LOCKS: weakref.WeakSet[ForkLock] = weakref.WeakSet()


def _renew_all() -> None:
    for lock in list(_LOCKS):
        lock.renew()


os.register_at_fork(after_in_child=_renew_all)
