"""Interfaces of an open device: its runtime, and this package's own memory, copies and fills on one stream of it."""

from __future__ import annotations

import abc
import contextlib
import functools
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, NamedTuple

from warpsmith.devices.compiler import Binaries, Binary
from warpsmith.devices.module import Allocation, CallArguments, DeviceLibrary, Graph, Launches, Module
from warpsmith.errors import DeviceError, LaunchError
from warpsmith.generator.device import Device
from warpsmith.generator.library_calls import Library
from warpsmith.generator.program import Program
from warpsmith.generator.steps import Workspace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ALIGNMENT = 512
"""Bytes; alignment of a work's memory. Textures need no more (`signature.TEXTURE_ALIGNMENT`)."""


class StreamIdentity(NamedTuple):
    """Identifies an ordered queue of work: work with equal identities runs in the order in which it was queued."""

    stream: int = -1
    """Unique number of a stream in this process; 0 for captured work. -1: the default stream.

    The driver reuses handles of destroyed streams, but not this number.
    """
    capture: int | None = None
    """Unique number of the capture whose graph takes the work; None if the work runs now."""


class Runtime(abc.ABC):
    """One open device. A process normally has one.

    Several threads may bind and launch loaded binaries at the same time. Everything else is for one thread.
    """

    device: Device
    ordinal: int = 0
    """GPU number, as in `DeviceRef`; 0 for the host."""

    @functools.cached_property
    def shared(self) -> weakref.WeakValueDictionary[type, object]:
        """Objects that the programs of this device share, by class. Each lives as long as a program holds it."""
        return weakref.WeakValueDictionary()

    def check_process(self) -> None:
        """Raises DeviceError in a forked child of the process that opened the device, if the device does not work
        there.
        """
        return

    def current(self) -> AbstractContextManager[None]:
        """Makes the device this thread's current one inside the context. It does nothing if the device has no such
        notion.
        """
        return contextlib.nullcontext()

    @abc.abstractmethod
    def environment(self) -> dict[str, str]:
        """Facts about this machine that a record stores and that may differ: driver, toolkit, operating system."""

    def soft_facts(self, binaries: Binaries) -> dict[str, str]:  # noqa: ARG002 - some read the compiler
        """The facts of `environment` that may change times, for a program compiled here. It is fast."""
        return self.environment()

    @abc.abstractmethod
    def load(self, binary: Binary) -> Module:
        """Loads a binary. Raises LaunchError if it does not fit this device."""

    def compiled_launches(
        self,
        program: Program,  # noqa: ARG002 - for devices with such launches
        modules: Mapping[str, Module],  # noqa: ARG002
        arguments: CallArguments,  # noqa: ARG002
        workspaces: tuple[Workspace, ...],  # noqa: ARG002
    ) -> Launches | None:
        """Launches of a program by compiled code, which writes each call's own addresses and values.

        Args:
            program: a program without library calls.
            modules: its units by name, loaded on this device.
            arguments: arguments of a call.
            workspaces: the program's workspaces.

        Returns: None if the device, the program or the installation does not allow it; `BoundLaunches` then fix the
        arguments of each call with `Module.bind`.
        """
        return None

    def library(self, library: Library) -> DeviceLibrary:
        """The implementation of a library on this device.

        Raises LaunchError if it is missing, naming what to install. Devices with libraries override this.
        """
        raise LaunchError(f"{self.device.name} has no {library}")

    def identify(self, stream: int | None) -> StreamIdentity:  # noqa: ARG002 - for devices with streams
        """Identity of the stream of a handle, and whether it is being captured. None is the default stream.

        Raises DeviceError if the handle is no stream of this device.
        """
        return StreamIdentity()

    def is_being_captured(self) -> bool:
        """True if the caller's current stream is being captured into a graph. Only devices with graphs override
        this.
        """
        return False

    @abc.abstractmethod
    def free_bytes(self) -> int | None:
        """Bytes of memory that can be allocated now; None if the device does not tell."""

    @abc.abstractmethod
    def independent_work(self) -> AbstractContextManager[Work]:
        """Work on a stream of its own, independent of all the caller's streams. Its memory is freed at the end of the
        context.
        """

    @abc.abstractmethod
    def ordered_work(self, stream: int | None) -> AbstractContextManager[Work]:
        """Work that runs after everything queued on a stream. The stream must not be captured."""

    @abc.abstractmethod
    def allocate(self, nbytes: int) -> Allocation:
        """Allocates memory, aligned to 256 bytes. Raises OutOfMemory."""

    @abc.abstractmethod
    def free(self, allocation: Allocation) -> None:
        """Gives memory back."""

    @abc.abstractmethod
    def upload(self, address: int, source: NDArray[np.generic]) -> None:
        """Copies a C-contiguous array to the device and waits."""

    @abc.abstractmethod
    def download(self, target: NDArray[np.generic], address: int) -> None:
        """Copies from the device into a C-contiguous array and waits."""

    @abc.abstractmethod
    def fill(self, address: int, byte: int, nbytes: int) -> None:
        """Sets `nbytes` bytes to `byte`, in stream order on the default stream."""

    @abc.abstractmethod
    def copy(self, target: int, source: int, nbytes: int, stream: int | None = None) -> None:
        """Copies between two device addresses, in the order of `stream`, a handle; None is the default one."""

    @abc.abstractmethod
    def synchronize(self) -> None:
        """Waits for all work. Raises DeviceError if some of it failed."""

    @abc.abstractmethod
    def elapsed_ns(self, work: Callable[[], None]) -> float:
        """Nanoseconds that the device takes for `work`, which launches on the default stream."""

    @property
    def queues_work(self) -> bool:
        """True if `elapsed_ns` starts the work only when all of it is queued, so that launch overhead is not
        measured.
        """
        return False

    def captured(self, work: Callable[[int], None], *, rehearse: bool = False) -> Graph:  # noqa: ARG002 - see below
        """Captures the launches of `work` on the stream that it receives into a graph.

        If `rehearse` is set, the work first runs once on that stream: libraries create handles and allocate memory at
        the first use of a stream, which is not allowed during a capture. Devices with graphs override this.

        Raises DeviceError if the device has no graphs, or cannot capture this work.
        """
        raise DeviceError(f"{self.device.name} has no graphs")

    def throttled(self) -> bool:
        """True if a power or temperature limit is reducing the clocks now; False if that cannot be read."""
        return False

    @abc.abstractmethod
    def clock_mhz(self) -> int | None:
        """MHz of the SM clock now; None if it cannot be read."""

    @abc.abstractmethod
    def close(self) -> None:
        """Closes the device."""


class Work(abc.ABC):
    """Copies and fills in the order of one stream, and memory that is freed at the end."""

    stream: int | None = None
    """Handle of the stream; None for the default one."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._taken: list[Allocation] = []
        self._next, self._end = 0, 0

    def reserve(self, nbytes: int) -> None:
        """Allocates memory for later allocations of `nbytes` bytes in total, because each allocation costs a GPU 0.1
        ms.

        Raises OutOfMemory.
        """
        allocation = self._runtime.allocate(nbytes + ALIGNMENT)
        self._taken.append(allocation)
        self._next, self._end = _aligned(allocation.address), allocation.address + allocation.nbytes

    def allocate(self, nbytes: int) -> Allocation:
        """Memory that lives until the end of the work. Raises OutOfMemory."""
        if self._next + nbytes > self._end:
            self.reserve(nbytes)
        address, self._next = self._next, _aligned(self._next + max(1, nbytes))
        return Allocation(address, nbytes)

    @abc.abstractmethod
    def upload(self, address: int, source: NDArray[np.generic]) -> None:
        """Copies a C-contiguous array to the device. The array may be changed when this returns."""

    @abc.abstractmethod
    def download(self, target: NDArray[np.generic], address: int) -> None:
        """Copies into a C-contiguous array, after everything queued on the stream, and waits."""

    @abc.abstractmethod
    def fill(self, address: int, byte: int, nbytes: int) -> None:
        """Sets `nbytes` bytes to `byte`."""

    @abc.abstractmethod
    def finish(self) -> None:
        """Waits for the stream."""

    def uploaded(self, source: NDArray[np.generic]) -> int:
        """Copies an array into new memory and returns its address."""
        address = self.allocate(source.nbytes).address
        self.upload(address, source)
        return address

    def close(self) -> None:
        """Frees the memory."""
        while self._taken:
            self._runtime.free(self._taken.pop())


def _aligned(address: int) -> int:
    return -(-address // ALIGNMENT) * ALIGNMENT


class DefaultWork(Work):
    """Work through the runtime of a device that has no streams."""

    def upload(self, address: int, source: NDArray[np.generic]) -> None:
        self._runtime.upload(address, source)

    def download(self, target: NDArray[np.generic], address: int) -> None:
        self._runtime.download(target, address)

    def fill(self, address: int, byte: int, nbytes: int) -> None:
        self._runtime.fill(address, byte, nbytes)

    def finish(self) -> None:
        self._runtime.synchronize()


@contextlib.contextmanager
def closing(work: Work) -> Iterator[Work]:
    """Yields the work. Its memory is freed once its stream is done, also after an error."""
    try:
        yield work
    finally:
        try:
            work.finish()
        finally:
            work.close()
