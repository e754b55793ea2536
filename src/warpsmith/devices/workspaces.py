"""Workspaces of programs, laid out in one block. Calls that overlap get different memory."""

from __future__ import annotations

import contextlib
import dataclasses
import weakref
from collections.abc import Iterable, Iterator, Mapping

from warpsmith.devices.module import Allocation
from warpsmith.devices.process import ForkLock
from warpsmith.devices.runtime import Runtime, StreamIdentity
from warpsmith.errors import BadArgument, DeviceError
from warpsmith.generator.steps import ALIGNMENT, Lifetime, Workspace, aligned

MOST_STREAMS = 8
"""Number of streams that have memory of their own at the same time, not counting captured ones. Without this limit a
program that uses a new stream for each call would need more and more memory.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Block:
    """Layout of several workspaces in one piece of memory."""

    offsets: Mapping[str, int]
    """Offset of each workspace, in bytes, by name."""
    nbytes: int
    """Bytes of all workspaces together."""

    @classmethod
    def of(cls, workspaces: Iterable[Workspace], lifetime: Lifetime) -> Block:
        """Lays out the workspaces of one lifetime, one after the other."""
        offsets, end = {}, 0
        for each in workspaces:
            if each.lifetime is lifetime:
                offsets[each.name] = end
                end += aligned(each.nbytes)
        return cls(offsets, end)

    def at(self, address: int) -> dict[str, int]:
        """Address of each workspace if the memory begins at `address`."""
        return {name: address + offset for name, offset in self.offsets.items()}


@dataclasses.dataclass(frozen=True, slots=True)
class StreamBlock:
    """The CALL workspaces of one stream."""

    allocation: Allocation
    made: set[str] = dataclasses.field(default_factory=set)
    """Names of the workspaces whose contents a later call may read. The programs that write them add the names."""


class Workspaces:
    """The workspaces of one loaded program, allocated when first needed and freed with this object.

    Args:
        runtime: the device.
        workspaces: workspaces of the program's steps (`Executable.workspaces`).
    """

    def __init__(self, runtime: Runtime, workspaces: Iterable[Workspace]) -> None:
        listed = tuple(workspaces)
        self._runtime = runtime
        self.block = Block.of(listed, Lifetime.CALL)
        """Layout of the CALL workspaces."""
        self._kept = Block.of(listed, Lifetime.KEPT)
        self._lock = ForkLock()
        self._of_streams: dict[StreamIdentity, StreamBlock] = {}
        """Blocks by stream. The most recently used is last."""
        self._allocations: dict[int, Allocation] = {}
        """All allocations that must be freed, by address."""
        self._free = weakref.finalize(self, _free_all, runtime, self._allocations)
        # The runtime frees everything itself at the end of the process.
        self._free.atexit = False

    @contextlib.contextmanager
    def borrow(self, stream: int | None, own: Allocation | None = None) -> Iterator[Mapping[str, int]]:
        """Lends the CALL workspaces to steps that are queued on `stream` inside this context, and yields their
        addresses.

        Calls on one stream share the memory, so their steps must not interleave: only one thread at a time is inside.
        Another stream has other memory. A captured graph has memory that nothing else gets from then on, because the
        graph may run at any time.

        Args:
            stream: its handle; None for the default stream.
            own: the caller's own memory for this call, which no overlapping call may use.

        Raises:
            BadArgument: `own` is too small, or not aligned to 256 bytes.
            OutOfMemory: there is too little memory.
        """
        with self.borrow_block(stream, own) as address:
            yield self.block.at(address)

    @contextlib.contextmanager
    def borrow_block(self, stream: int | None, own: Allocation | None = None) -> Iterator[int]:
        """Like `borrow`, but yields the address of `block`; 0 if that is empty."""
        if not self.block.nbytes:
            yield 0
        elif own is not None:
            yield self._checked(own)
        else:
            with self._lock:
                yield self._of(stream).allocation.address

    def _checked(self, own: Allocation) -> int:
        if own.nbytes < self.block.nbytes or own.address % ALIGNMENT:
            needed = f"{self.block.nbytes} bytes at a multiple of {ALIGNMENT}"
            raise BadArgument(f"workspace: must have {needed}; got {own.nbytes} bytes at {own.address:#x}")
        return own.address

    @contextlib.contextmanager
    def borrow_shared(self, stream: int | None) -> Iterator[tuple[Mapping[str, int], set[str]]]:
        """Like `borrow`, for programs that leave results for each other in a stream's memory.

        Yields: the addresses, and the names of the workspaces with valid contents; the program that writes one adds its
        name. The set is empty for a new stream or capture, and for a stream whose memory was freed for others meanwhile
        (MOST_STREAMS).
        """
        with self._lock:
            block = self._of(stream)
            yield self.block.at(block.allocation.address), block.made

    def allocate_kept(self) -> KeptWorkspaces:
        """Allocates KEPT workspaces for one bound program, with undefined contents. Raises OutOfMemory."""
        if not self._kept.offsets:
            return KeptWorkspaces({}, None)
        with self._lock:
            allocation = self._allocated(self._kept.nbytes)
        return KeptWorkspaces(self._kept.at(allocation.address), allocation)

    def release(self, kept: KeptWorkspaces) -> None:
        """Frees what `kept` allocated, once the device has finished the work queued with it."""
        if kept.allocation is not None:
            with self._lock:
                self._freed(kept.allocation)

    def close(self) -> None:
        """Frees everything, once the device has finished the queued work. Graphs that use it must not run again."""
        self._of_streams.clear()
        self._free()

    def _of(self, stream: int | None) -> StreamBlock:
        identity = self._runtime.identify(stream)
        found = self._of_streams.pop(identity, None) or StreamBlock(self._allocated(self.block.nbytes))
        self._of_streams[identity] = found
        running = [each for each in self._of_streams if each.capture is None]
        for oldest in running[:-MOST_STREAMS]:
            if self._freed(self._of_streams[oldest].allocation):
                del self._of_streams[oldest]
        return found

    def _allocated(self, nbytes: int) -> Allocation:
        allocation = self._runtime.allocate(nbytes)
        self._allocations[allocation.address] = allocation
        return allocation

    def _freed(self, allocation: Allocation) -> bool:
        """Frees an allocation. Returns False if the device cannot be waited for: after a fault, or while a stream is
        captured.
        """
        try:
            self._runtime.synchronize()
        except DeviceError:
            return False
        self._runtime.free(self._allocations.pop(allocation.address))
        return True


@dataclasses.dataclass(frozen=True, slots=True)
class KeptWorkspaces:
    """KEPT workspaces of one bound program."""

    addresses: Mapping[str, int]
    """Address of each workspace, by name."""
    allocation: Allocation | None
    """Memory that holds them; None if there are none."""


def _free_all(runtime: Runtime, allocations: dict[int, Allocation]) -> None:
    """Frees all allocations. The driver frees memory once the work queued before is done."""
    while allocations:
        _, allocation = allocations.popitem()
        # A device that has failed or was closed has freed its memory already, and a forked child has none.
        with contextlib.suppress(DeviceError):
            runtime.free(allocation)
