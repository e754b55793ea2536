"""Memory for the CALL workspaces of the programs of a device: one block for each stream, whoever calls there.

Source: Vasilache et al. 2014, "Fast Convolutional Nets With fbfft", section 3.3 (buffers that all layers reuse).
"""

from __future__ import annotations

import contextlib
import itertools
import weakref
from collections.abc import Iterable

from warpsmith.devices.module import Allocation
from warpsmith.devices.process import ForkLock
from warpsmith.devices.runtime import Runtime, StreamIdentity
from warpsmith.errors import DeviceError

MOST_STREAMS, MOST_PRIVATE_STREAMS = 16, 8
"""Number of streams that have a block at the same time, not counting captured ones: in the memory that programs share,
and in a private one. Without these limits a program that uses a new stream for each call would need more and more
memory. Beyond the limit each new stream costs a wait for the device, so that streams with plans of their own need room.
"""


class StreamBlock:
    """Memory of one stream, for a call at a time."""

    __slots__ = ("address", "allocations", "is_dropped", "last_call", "lock", "made", "nbytes", "users")

    def __init__(self) -> None:
        self.lock = ForkLock()
        """Held while a call queues its steps, and while the block grows or is dropped."""
        self.address = 0
        self.nbytes = 0
        self.allocations: list[Allocation] = []
        """The memory. In a captured graph also what was outgrown, because earlier calls in the graph use it."""
        self.is_dropped = False
        """True once another block takes its place. Threads that waited for the lock look for that one."""
        self.last_call = 0
        """Number of the latest call, counted over all streams."""
        self.made: set[str] = set()
        """Names of the workspaces whose contents a later call may read. The programs that write them add the names."""
        self.users: set[int] = set()
        """Users whose calls a captured graph contains; empty for a stream that runs now."""


class CallMemory:
    """One block for each stream, as large as the largest that a call there has needed so far.

    Stream order lets the calls of one stream use the same memory. Each stream has a block of its own, and so has each
    stream of a captured graph, because a graph may run at any time. A block that is too small is freed once its stream
    has finished; then a larger one is allocated.

    Args:
        runtime: the device.
        is_private: whether the users are parts of one program, which read in a block what the others left there. All
            streams of a captured graph then have one block, and every call needs the same number of bytes.
    """

    def __init__(self, runtime: Runtime, *, is_private: bool = False) -> None:
        self._runtime = runtime
        self._is_private = is_private
        self._lock = ForkLock()
        self._numbers = itertools.count(1)
        self._of_streams: dict[StreamIdentity, StreamBlock] = {}
        self._needs: dict[int, int] = {}
        """Bytes that a call of each user needs, by the user's number."""
        self._allocations: dict[int, Allocation] = {}
        """All allocations that must be freed, by address."""
        # The runtime frees everything itself at the end of the process.
        weakref.finalize(self, free_all, runtime, self._allocations).atexit = False

    @classmethod
    def shared(cls, runtime: Runtime) -> CallMemory:
        """The memory that all programs of a device share. It is freed with the last of them that has used it."""
        with _SHARING:
            found = runtime.shared.get(cls)
            if found is None:
                found = runtime.shared[cls] = cls(runtime)
        assert isinstance(found, cls)
        return found

    def join(self, nbytes: int) -> int:
        """Number of a new user, whose calls need up to `nbytes` bytes."""
        user = next(self._numbers)
        self._needs[user] = nbytes
        return user

    def leave(self, user: int) -> None:
        """Frees what no other user needs: blocks that are too large for the others, and those of graphs whose users
        have all left. Python's garbage collector may call it at any time, even in a thread that holds a lock of this
        object, so it waits for none. Blocks in use stay until another user leaves.
        """
        self._needs.pop(user, None)
        if self._lock.acquires_now():
            try:
                self._drop_unneeded()
            finally:
                self._lock.release()

    def locked(self, stream: int | None, nbytes: int, user: int) -> StreamBlock:
        """The block of a stream, with at least `nbytes` bytes. The caller holds its lock until it has queued its steps.

        Raises OutOfMemory, and DeviceError for a handle that is no stream.
        """
        identity = self._runtime.identify(stream)
        is_captured = identity.capture is not None
        if is_captured and not self._is_private:
            identity = StreamIdentity(stream or 0, identity.capture)  # branches of a graph run at the same time
        while True:
            block = self._of_streams.get(identity) or self._new(identity)
            block.lock.acquire()
            if not block.is_dropped:
                break
            block.lock.release()
        block.last_call = next(self._numbers)
        try:
            if is_captured:
                block.users.add(user)
            if block.nbytes < nbytes:
                self._grow(block, nbytes, stream, is_captured=is_captured)
        except BaseException:
            block.lock.release()
            raise
        return block

    def _new(self, identity: StreamIdentity) -> StreamBlock:
        """Block of a new stream, still without memory. Frees those of the streams that were not used for longest."""
        with self._lock:
            block = self._of_streams.setdefault(identity, StreamBlock())
            running = [each for each in self._of_streams if each.capture is None and each != identity]
            running.sort(key=lambda each: self._of_streams[each].last_call, reverse=True)
            most = MOST_PRIVATE_STREAMS if self._is_private else MOST_STREAMS
            if (oldest := running[most - 1 :]) and self._has_finished():
                self._drop(oldest)
        return block

    def _grow(self, block: StreamBlock, nbytes: int, stream: int | None, *, is_captured: bool) -> None:
        """Gives a block more memory, with undefined contents. The caller holds the block's lock."""
        block.made.clear()
        if not is_captured and block.allocations:
            block.nbytes = 0
            try:
                with self._runtime.ordered_work(stream):
                    pass  # its end waits for the stream alone: another one may be captured
            except DeviceError:
                block.allocations.clear()  # the memory is freed with the last user
            self._free(block)
        allocation = self._runtime.allocate(nbytes)
        self._allocations[allocation.address] = allocation
        block.allocations.append(allocation)
        block.address, block.nbytes = allocation.address, nbytes

    def _drop_unneeded(self) -> None:
        """Drops blocks as `leave` says. The caller holds `_lock`."""
        most = max(tuple(self._needs.values()), default=0)
        self._drop(
            identity
            for identity, block in tuple(self._of_streams.items())
            if (block.nbytes > most if identity.capture is None else block.users.isdisjoint(self._needs))
        )

    def _drop(self, identities: Iterable[StreamIdentity]) -> None:
        """Frees the blocks of streams, but for those in use. The caller holds `_lock`."""
        for identity in identities:
            block = self._of_streams[identity]
            if block.lock.acquires_now():
                block.is_dropped = True
                del self._of_streams[identity]
                self._free(block)
                block.lock.release()

    def _has_finished(self) -> bool:
        """Waits for the device. Returns False if that is impossible: after a fault, or while a stream is captured."""
        try:
            self._runtime.synchronize()
        except DeviceError:
            return False
        return True

    def _free(self, block: StreamBlock) -> None:
        free_all(self._runtime, {each.address: self._allocations.pop(each.address) for each in block.allocations})
        block.allocations.clear()


def free_all(runtime: Runtime, allocations: dict[int, Allocation]) -> None:
    """Frees all allocations. The driver frees memory once the work queued before is done."""
    while allocations:
        _, allocation = allocations.popitem()
        # A device that has failed or was closed has freed its memory already, and a forked child has none.
        with contextlib.suppress(DeviceError):
            runtime.free(allocation)


_SHARING = ForkLock()
"""Lock that keeps two threads from making two memories for one device."""
