"""Workspaces of programs, laid out in one block. Calls that overlap get different memory."""

from __future__ import annotations

import contextlib
import dataclasses
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping

from warpsmith.devices.call_memory import CallMemory, StreamBlock, free_all
from warpsmith.devices.module import Allocation
from warpsmith.devices.process import ForkLock
from warpsmith.devices.runtime import Runtime
from warpsmith.errors import BadArgument, DeviceError
from warpsmith.generator.steps import ALIGNMENT, Lifetime, Workspace, aligned


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


class Workspaces:
    """The workspaces of one loaded program. KEPT ones are allocated for it, and freed with this object. CALL ones lie
    in memory that all programs of the device share, unless they are private.

    Args:
        runtime: the device.
        workspaces: workspaces of the program's steps (`Executable.workspaces`).
        is_private: whether CALL workspaces have memory of their own, because later calls read what earlier ones left.
    """

    def __init__(self, runtime: Runtime, workspaces: Iterable[Workspace], *, is_private: bool = False) -> None:
        listed = tuple(workspaces)
        self._runtime = runtime
        self.block = Block.of(listed, Lifetime.CALL)
        """Layout of the CALL workspaces."""
        self._kept = Block.of(listed, Lifetime.KEPT)
        self._is_private = is_private
        self._lock = ForkLock()
        self._membership: Membership | None = None
        """Use of the memory for calls. The first call makes it, so that only programs that are called keep memory."""
        self._allocations: dict[int, Allocation] = {}
        """Allocations of KEPT workspaces that must be freed, by address."""
        self._free = weakref.finalize(self, free_all, runtime, self._allocations)
        # The runtime frees everything itself at the end of the process.
        self._free.atexit = False

    @contextlib.contextmanager
    def borrow(self, stream: int | None, own: Allocation | None = None) -> Iterator[Mapping[str, int]]:
        """Lends the CALL workspaces to steps that are queued on `stream` inside this context, and yields their
        addresses.

        Calls on one stream share the memory, so their steps must not interleave: only one thread at a time is inside,
        whatever program it calls. Another stream has other memory. A captured graph has memory that nothing else gets
        from then on, because the graph may run at any time.

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
            block = self._locked(stream)
            try:
                yield block.address
            finally:
                block.lock.release()

    def _checked(self, own: Allocation) -> int:
        if own.nbytes < self.block.nbytes or own.address % ALIGNMENT:
            needed = f"{self.block.nbytes} bytes at a multiple of {ALIGNMENT}"
            raise BadArgument(f"workspace: must have {needed}; got {own.nbytes} bytes at {own.address:#x}")
        return own.address

    @contextlib.contextmanager
    def borrow_made(self, stream: int | None) -> Iterator[tuple[Mapping[str, int], set[str]]]:
        """Like `borrow`, for private workspaces in which programs leave results for each other.

        Yields: the addresses, and the names of the workspaces with valid contents; the program that writes one adds its
        name. The set is empty for a new stream or capture, and for a stream whose memory was freed for others meanwhile
        (MOST_PRIVATE_STREAMS).
        """
        assert self._is_private  # others write to shared memory
        block = self._locked(stream)
        try:
            yield self.block.at(block.address), block.made
        finally:
            block.lock.release()

    def allocate_kept(self) -> KeptWorkspaces:
        """Allocates KEPT workspaces for one bound program, with undefined contents. Raises OutOfMemory."""
        if not self._kept.offsets:
            return KeptWorkspaces({}, None)
        allocation = self._runtime.allocate(self._kept.nbytes)
        self._allocations[allocation.address] = allocation
        return KeptWorkspaces(self._kept.at(allocation.address), allocation)

    def release(self, kept: KeptWorkspaces) -> None:
        """Frees what `kept` allocated, once the device has finished the work queued with it. If the device cannot be
        waited for, after a fault or while a stream is captured, that is freed with this object.
        """
        if kept.allocation is None:
            return
        with contextlib.suppress(DeviceError):
            self._runtime.synchronize()
            self._runtime.free(self._allocations.pop(kept.allocation.address))

    def close(self) -> None:
        """Frees what no other program needs, once the device has finished the queued work. Graphs that use it must not
        run again.
        """
        if (membership := self._membership) is not None:
            self._membership = None
            membership.end()
        self._free()

    def _locked(self, stream: int | None) -> StreamBlock:
        """The block of a stream, whose lock the caller must release."""
        membership = self._membership or self._joined()
        return membership.memory.locked(stream, self.block.nbytes, membership.user)

    def _joined(self) -> Membership:
        with self._lock:
            if self._membership is None:
                runtime = self._runtime
                memory = CallMemory(runtime, is_private=True) if self._is_private else CallMemory.shared(runtime)
                user = memory.join(self.block.nbytes)
                end = weakref.finalize(self, memory.leave, user)
                end.atexit = False
                self._membership = Membership(memory, user, end)
            return self._membership


@dataclasses.dataclass(frozen=True, slots=True)
class Membership:
    """A program's use of memory for calls."""

    memory: CallMemory
    user: int
    end: Callable[[], object]
    """Gives the memory up: at once, or when the program is dropped."""


@dataclasses.dataclass(frozen=True, slots=True)
class KeptWorkspaces:
    """KEPT workspaces of one bound program."""

    addresses: Mapping[str, int]
    """Address of each workspace, by name."""
    allocation: Allocation | None
    """Memory that holds them; None if there are none."""
