"""A GPU's primary context, whichever library stands between this package and the driver."""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from cuda.bindings import driver as cu
from numpy.typing import NDArray

from warpsmith.devices.cuda.status import call, outside_of_captures
from warpsmith.devices.process import HomeProcess
from warpsmith.errors import DeviceError

if TYPE_CHECKING:
    from warpsmith.devices.cuda.gate import Gate


_DEFAULT_STREAM = 0


class PrimaryContext(abc.ABC):
    """A GPU's primary context, the one that PyTorch and CuPy use, with the memory and events taken in it.

    It is pushed for each operation and popped after it: an operation thus works whatever context another library or
    another thread made current meanwhile, and leaves that as it was. Errors of the driver are raised as ours; `doing`
    completes the sentence "cannot ...".
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
        """The versions of the libraries that are used."""

    @abc.abstractmethod
    def active(self, doing: str) -> contextlib.AbstractContextManager[None]:
        """Makes the context current on this thread. Raises DeviceError where it is closed, and in a forked child."""

    @abc.abstractmethod
    def empty_array(self, shape: tuple[int, ...], dtype: np.dtype[Any], strides: tuple[int, ...], nbytes: int) -> Any:
        """An uninitialised array of these strides in bytes, over `nbytes` bytes of memory, freed with it."""

    def allocate(self, nbytes: int) -> int:
        """The address of memory of its own. Raises OutOfMemory."""
        doing = f"allocate {nbytes:,} bytes on the GPU"
        # A plan may be made, or let go of, while its thread captures a graph that is none of its business.
        with self.active(doing), outside_of_captures(doing):
            address = self._allocate(nbytes, doing)
        self._taken.add(address)
        return address

    def free(self, address: int) -> None:
        """Raises DeviceError where the address was not allocated here, or is free already."""
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
            # From pageable memory the call returns once the data are staged, before they have arrived.
            self._synchronize(doing)

    def download(self, target: NDArray[np.generic], address: int) -> None:
        """Copies from the GPU into a C-contiguous array and waits."""
        _check_contiguous(target)
        doing = "copy from the GPU"
        with self.active(doing):
            self._download(target, address, doing)

    def fill(self, address: int, byte: int, nbytes: int) -> None:
        """Queues it on the default stream."""
        doing = "fill memory"
        with self.active(doing):
            self._fill(address, byte, nbytes, doing)

    def copy(self, target: int, source: int, nbytes: int, stream: int | None = None) -> None:
        """Queues it on a stream, by its handle; None is the default one."""
        doing = "copy on the GPU"
        with self.active(doing):
            # Not PyCUDA's copy, which accepts no stream of another library.
            call(cu.cuMemcpyDtoDAsync(target, source, nbytes, stream or _DEFAULT_STREAM), doing)

    def synchronize(self) -> None:
        """Waits for all work of the context."""
        doing = "finish the work on the GPU"
        with self.active(doing):
            self._synchronize(doing)

    def elapsed_ns(self, work: Callable[[], None], gate: Gate | None) -> float:
        """The GPU's time for what `work` launches, all of it queued behind the gate before the first begins."""
        doing = "time the work on the GPU"
        with self.active(doing):
            if gate is not None:
                gate.shut()
            try:
                self._record_begin(doing)
                work()
                self._record_end(doing)
            finally:
                if gate is not None:
                    gate.open()
            return self._elapsed_ms(doing) * 1e6

    def close(self) -> None:
        """Frees what was taken and lets go of the context. Safe to call twice, and after the GPU has failed."""
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
        """Takes hold of the context; its handle."""

    @abc.abstractmethod
    def _release(self, handle: int, taken: tuple[int, ...]) -> None:
        """Frees memory and events and lets go of the context, whatever its state. Raises nothing."""

    @abc.abstractmethod
    def _create_events(self, doing: str) -> None:
        """Makes the two events that `elapsed_ns` records. From here on all with the context current."""

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
        """Waits for the second event; the time from the first."""


def _check_contiguous(array: NDArray[np.generic]) -> None:
    """The driver copies bytes from the first element on, whatever the strides."""
    if not array.flags.c_contiguous:
        raise ValueError("only C-contiguous arrays can be copied")


def _make_current_if_none(handle: int) -> bool:
    """Makes a context the thread's default where it has none, as the CUDA runtime does; says whether it did.

    Arrays handed to callers, such as a GPUArray, can then be read without a context of the caller's own.
    """
    _, current = cu.cuCtxGetCurrent()
    if int(current) != 0:
        return False
    cu.cuCtxSetCurrent(handle)
    return True


def _unset_current(handle: int) -> None:
    """Leaves the thread without a current context where `handle` still is it: it may be gone by now."""
    _, current = cu.cuCtxGetCurrent()
    if int(current) == handle:
        cu.cuCtxSetCurrent(0)
