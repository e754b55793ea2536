"""Scratch memory of programs: laid out in one block, given to calls so that those that overlap share none."""

from __future__ import annotations

import contextlib
import dataclasses
import weakref
from collections.abc import Iterable, Iterator, Mapping

from warpsmith.devices.base import Allocation, Runtime, StreamIdentity
from warpsmith.devices.process import ForkLock
from warpsmith.errors import BadArgument, DeviceError
from warpsmith.generator.steps import ALIGNMENT, Lifetime, Workspace, aligned

MOST_STREAMS = 8
"""That have memory of their own at a time, but for those that are captured: who uses a new stream for each call would
otherwise take more and more of it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Block:
    """Several workspaces in one piece of memory."""

    offsets: Mapping[str, int]
    """Of each, in bytes, by name."""
    nbytes: int
    """Of all of them."""

    @classmethod
    def of(cls, workspaces: Iterable[Workspace], lifetime: Lifetime) -> Block:
        """Those of a lifetime, one behind the other."""
        offsets, end = {}, 0
        for each in workspaces:
            if each.lifetime is lifetime:
                offsets[each.name] = end
                end += aligned(each.nbytes)
        return cls(offsets, end)

    def at(self, address: int) -> dict[str, int]:
        """The address of each, where the memory begins at `address`."""
        return {name: address + offset for name, offset in self.offsets.items()}


@dataclasses.dataclass(frozen=True, slots=True)
class StreamBlock:
    """The CALL workspaces of one stream."""

    allocation: Allocation
    made: set[str] = dataclasses.field(default_factory=set)
    """Names of those that a later call may read, as their users say."""


class Workspaces:
    """The workspaces of one loaded program, made when they are first needed, and given back with this object.

    Args:
        runtime: the device.
        workspaces: those that the program's steps share (`Executable.workspaces`).
    """

    def __init__(self, runtime: Runtime, workspaces: Iterable[Workspace]) -> None:
        listed = tuple(workspaces)
        self._runtime = runtime
        self.block = Block.of(listed, Lifetime.CALL)
        """The CALL workspaces."""
        self._kept = Block.of(listed, Lifetime.KEPT)
        self._lock = ForkLock()
        self._of_streams: dict[StreamIdentity, StreamBlock] = {}
        """The latest used last."""
        self._taken: dict[int, Allocation] = {}
        """Everything that is to be given back, by address."""
        self._give_back = weakref.finalize(self, _free_all, runtime, self._taken)
        # At the end of the process the runtime gives everything back itself.
        self._give_back.atexit = False

    @contextlib.contextmanager
    def lent(self, stream: int | None, given: Allocation | None = None) -> Iterator[Mapping[str, int]]:
        """The addresses of the CALL workspaces for steps that are queued on `stream` within this context.

        Calls on one stream share them, and so must not queue their steps in between each other's: one thread at a time
        is in here. Another stream has other memory. What is captured in a graph has memory that nothing else is given
        from then on, since the graph may run at any time.

        Args:
            stream: its handle; None for the default stream.
            given: the caller's own memory for this call, which no overlapping call may be given too.

        Raises:
            BadArgument: `given` is too small, or not aligned to 256 bytes.
            OutOfMemory: there is too little memory.
        """
        with self.lent_block(stream, given) as address:
            yield self.block.at(address)

    @contextlib.contextmanager
    def lent_block(self, stream: int | None, given: Allocation | None = None) -> Iterator[int]:
        """As `lent`: the address of `block`; 0 where that is empty."""
        if not self.block.nbytes:
            yield 0
        elif given is not None:
            yield self._checked(given)
        else:
            with self._lock:
                yield self._of(stream).allocation.address

    def _checked(self, given: Allocation) -> int:
        if given.nbytes < self.block.nbytes or given.address % ALIGNMENT:
            told = f"{self.block.nbytes} bytes at a multiple of {ALIGNMENT}"
            raise BadArgument(f"workspace: must have {told}; got {given.nbytes} bytes at {given.address:#x}")
        return given.address

    @contextlib.contextmanager
    def shared(self, stream: int | None) -> Iterator[tuple[Mapping[str, int], set[str]]]:
        """As `lent`, for programs that leave something in the memory of a stream for each other.

        Yields: the addresses, and the names of what is there, which whoever writes it adds. A stream, or a capture,
        that was not seen before finds none; neither does one whose memory was given to others meanwhile (MOST_STREAMS).
        """
        with self._lock:
            block = self._of(stream)
            yield self.block.at(block.allocation.address), block.made

    def kept(self) -> Kept:
        """KEPT workspaces for one bound program, their contents undefined. Raises OutOfMemory."""
        if not self._kept.offsets:
            return Kept({}, None)
        with self._lock:
            allocation = self._allocated(self._kept.nbytes)
        return Kept(self._kept.at(allocation.address), allocation)

    def let_go(self, kept: Kept) -> None:
        """Gives back what `kept` gave, once the device has done what was queued with it."""
        if kept.allocation is not None:
            with self._lock:
                self._freed(kept.allocation)

    def close(self) -> None:
        """Gives everything back, once the device has done what was queued. Graphs that use it may no longer run."""
        self._of_streams.clear()
        self._give_back()

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
        self._taken[allocation.address] = allocation
        return allocation

    def _freed(self, allocation: Allocation) -> bool:
        """Gives it back, unless the device cannot be waited for: after a fault, or while some stream is captured."""
        try:
            self._runtime.synchronize()
        except DeviceError:
            return False
        self._runtime.free(self._taken.pop(allocation.address))
        return True


@dataclasses.dataclass(frozen=True, slots=True)
class Kept:
    """KEPT workspaces of one bound program."""

    addresses: Mapping[str, int]
    """Of each, by name."""
    allocation: Allocation | None
    """What they lie in; None where there are none."""


def _free_all(runtime: Runtime, taken: dict[int, Allocation]) -> None:
    """The driver frees memory once the work that was queued before is done."""
    while taken:
        _, allocation = taken.popitem()
        # A device that has failed or was closed has taken its memory back, and a forked child has none.
        with contextlib.suppress(DeviceError):
            runtime.free(allocation)
