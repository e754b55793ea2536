"""A GPU's primary context, independent of the library that calls the driver."""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
from cuda.bindings import driver as cu
from numpy.typing import NDArray

from warpsmith.devices.cuda.status import call, outside_of_captures
from warpsmith.devices.process import HomeProcess
from warpsmith.errors import DeviceError

_DEFAULT_STREAM = 0


class PrimaryContext(abc.ABC):
    """A GPU's primary context, which PyTorch and CuPy use too, and the memory and events allocated in it.

    It is pushed before each operation and popped after it. So an operation works whatever context another library or
    thread has made current, and leaves that context as it was. Driver errors are raised as this package's errors;
    `doing` completes the sentence "cannot ...".
    """

    def __init__(self, ordinal: int) -> None:
        doing = f"open cuda:{ordinal}"
        self._home = HomeProcess(f"cuda:{ordinal}")
        handle = self._retain(ordinal, doing)
        self._handle: int | None = handle
        self._taken: set[int] = set()
        self._is_default = _make_current_if_none(handle)
        with self.active(doing):
            self._create_events(doing)

    @property
    @abc.abstractmethod
    def versions(self) -> dict[str, str]:
        """Versions of the libraries that call the driver."""

    @abc.abstractmethod
    def active(self, doing: str) -> contextlib.AbstractContextManager[None]:
        """Makes the context current on this thread. Raises DeviceError if it is closed, and in a forked child."""

    @abc.abstractmethod
    def empty_array(self, shape: tuple[int, ...], dtype: np.dtype[Any], strides: tuple[int, ...], nbytes: int) -> Any:
        """An uninitialised array of these strides in bytes, over `nbytes` bytes of memory that is freed with it."""

    def allocate(self, nbytes: int) -> int:
        """Allocates memory and returns its address. Raises OutOfMemory."""
        doing = f"allocate {nbytes:,} bytes on the GPU"
        # A plan may be created or dropped while its thread captures an unrelated graph.
        with self.active(doing), outside_of_captures(doing):
            address = self._allocate(nbytes, doing)
        self._taken.add(address)
        return address

    def free(self, address: int) -> None:
        """Frees an allocation. Raises DeviceError if the address was not allocated here, or is free already."""
        if address not in self._taken:
            raise DeviceError(f"there is no allocation at {address:#x}")
        self._taken.remove(address)
        doing = "free memory"
        with self.active(doing), outside_of_captures(doing):
            self._free(address, doing)

    def upload(self, address: int, source: NDArray[np.generic]) -> None:
        """Copies a C-contiguous array to the GPU and waits."""
        _check_contiguous(source)
        doing = "copy to the GPU"
        with self.active(doing):
            self._upload(address, source, doing)
            # The call returns once pageable memory is staged, before it has arrived on the GPU.
            self._synchronize(doing)

    def download(self, target: NDArray[np.generic], address: int) -> None:
        """Copies from the GPU into a C-contiguous array and waits."""
        _check_contiguous(target)
        doing = "copy from the GPU"
        with self.active(doing):
            self._download(target, address, doing)

    def fill(self, address: int, byte: int, nbytes: int) -> None:
        """Queues a fill on the default stream."""
        doing = "fill memory"
        with self.active(doing):
            self._fill(address, byte, nbytes, doing)

    def copy(self, target: int, source: int, nbytes: int, stream: int | None = None) -> None:
        """Queues a copy on a stream, given by its handle; None is the default stream."""
        doing = "copy on the GPU"
        with self.active(doing):
            # PyCUDA's copy accepts no stream of another library.
            call(cu.cuMemcpyDtoDAsync(target, source, nbytes, stream or _DEFAULT_STREAM), doing)

    def synchronize(self) -> None:
        """Waits for all work of the context."""
        doing = "finish the work on the GPU"
        with self.active(doing):
            self._synchronize(doing)

    def elapsed_ns(self, work: Callable[[], None], gate: contextlib.AbstractContextManager[None] | None) -> float:
        """Nanoseconds that the GPU takes for the launches of `work`. Inside `gate`, such as a `Gate`, nothing begins
        before all of them are queued.
        """
        doing = "time the work on the GPU"
        with self.active(doing):
            with gate or contextlib.nullcontext():
                self._record_begin(doing)
                work()
                self._record_end(doing)
            return self._elapsed_ms(doing) * 1e6

    def close(self) -> None:
        """Frees all memory and releases the context. It is safe to call twice, and after the GPU has failed."""
        handle, self._handle = self._handle, None
        if handle is None:
            return
        taken = tuple(self._taken)
        self._taken.clear()
        self._release(handle, taken)
        if self._is_default:
            _unset_current(handle)

    def _check_usable(self, doing: str) -> None:
        self._home.check()
        if self._handle is None:
            raise DeviceError(f"cannot {doing}: the device is closed")

    @abc.abstractmethod
    def _retain(self, ordinal: int, doing: str) -> int:
        """Retains the context and returns its handle."""

    @abc.abstractmethod
    def _release(self, handle: int, taken: tuple[int, ...]) -> None:
        """Frees memory and events and releases the context, whatever its state. Raises nothing."""

    @abc.abstractmethod
    def _create_events(self, doing: str) -> None:
        """Creates the two events that `elapsed_ns` records. This method and all below run with the context current."""

    @abc.abstractmethod
    def _allocate(self, nbytes: int, doing: str) -> int: ...

    @abc.abstractmethod
    def _free(self, address: int, doing: str) -> None: ...

    @abc.abstractmethod
    def _upload(self, address: int, source: NDArray[np.generic], doing: str) -> None: ...

    @abc.abstractmethod
    def _download(self, target: NDArray[np.generic], address: int, doing: str) -> None: ...

    @abc.abstractmethod
    def _fill(self, address: int, byte: int, nbytes: int, doing: str) -> None: ...

    @abc.abstractmethod
    def _synchronize(self, doing: str) -> None: ...

    @abc.abstractmethod
    def _record_begin(self, doing: str) -> None: ...

    @abc.abstractmethod
    def _record_end(self, doing: str) -> None: ...

    @abc.abstractmethod
    def _elapsed_ms(self, doing: str) -> float:
        """Waits for the second event and returns the milliseconds since the first."""


def _check_contiguous(array: NDArray[np.generic]) -> None:
    """Raises ValueError for gaps, because the driver copies consecutive bytes, whatever the strides."""
    if not array.flags.c_contiguous:
        raise ValueError("only C-contiguous arrays can be copied")


def _make_current_if_none(handle: int) -> bool:
    """Makes a context the thread's current one if it has none, as the CUDA runtime does. Returns True if it did.

    Arrays handed to callers, such as a GPUArray, can then be read without a context of the caller's own.
    """
    _, current = cu.cuCtxGetCurrent()
    if int(current) != 0:
        return False
    cu.cuCtxSetCurrent(handle)
    return True


def _unset_current(handle: int) -> None:
    """Leaves the thread without a current context if `handle` is still current: it may be destroyed by now."""
    _, current = cu.cuCtxGetCurrent()
    if int(current) == handle:
        cu.cuCtxSetCurrent(0)
