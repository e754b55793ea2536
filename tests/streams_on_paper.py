"""A device of streams on paper: handles that name identities, and memory that is counted."""

from __future__ import annotations

import contextlib
import itertools
import weakref
from collections.abc import Iterator

from warpsmith.devices.module import Allocation
from warpsmith.devices.runtime import StreamIdentity
from warpsmith.errors import DeviceError, OutOfMemory


class Streams:
    """Stands for a `Runtime` where no kernel runs."""

    def __init__(self) -> None:
        self.identities: dict[int, StreamIdentity] = {}
        self.live: dict[int, int] = {}
        self.waited = 0
        self.is_capturing = False
        self.room = 1 << 30
        self._addresses = itertools.count(1 << 20, 1 << 20)
        self.shared: weakref.WeakValueDictionary[type, object] = weakref.WeakValueDictionary()
        self.finished: list[int | None] = []
        """Streams that were waited for by themselves."""
        self.unfinished: set[int | None] = set()
        """Streams that cannot be waited for."""

    @contextlib.contextmanager
    def ordered_work(self, stream: int | None) -> Iterator[None]:
        yield
        if stream in self.unfinished:
            raise DeviceError("it cannot be waited for")
        self.finished.append(stream)

    def identify(self, stream: int | None) -> StreamIdentity:
        return self.identities.get(stream or 0, StreamIdentity(stream or 0))

    def allocate(self, nbytes: int) -> Allocation:
        if nbytes > self.room:
            raise OutOfMemory("too much")
        address = next(self._addresses)  # no address is given twice
        self.live[address] = nbytes
        return Allocation(address, nbytes)

    def free(self, allocation: Allocation) -> None:
        if self.live.pop(allocation.address, None) is None:
            raise DeviceError("it is not there")

    def synchronize(self) -> None:
        if self.is_capturing:
            raise DeviceError("a stream is captured")
        self.waited += 1
