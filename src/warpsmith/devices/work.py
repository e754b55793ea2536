"""This package's own memory, copies and fills between a caller's work, in the order of one stream."""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warpsmith.devices.base import Allocation, Runtime

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


ALIGNMENT = 512
"""Bytes; alignment of a work's memory. Textures need no more (`signature.TEXTURE_ALIGNMENT`)."""


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
