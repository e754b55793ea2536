"""Work of our own between a caller's: memory and copies in the order of one stream, which is waited for."""

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
"""Bytes; memory of a work begins at multiples. Textures want no more (`signature.TEXTURE_ALIGNMENT`)."""


class Work(abc.ABC):
    """Copies and fills in the order of one stream, and memory that is given back at the end."""

    stream: int | None = None
    """Handle of the stream; None for the default one."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._taken: list[Allocation] = []
        self._next, self._end = 0, 0

    def reserve(self, nbytes: int) -> None:
        """Takes memory for so many bytes of later allocations at once: each by itself costs a GPU 0.1 ms.

        Raises OutOfMemory.
        """
        allocation = self._runtime.allocate(nbytes + ALIGNMENT)
        self._taken.append(allocation)
        self._next, self._end = _aligned(allocation.address), allocation.address + allocation.nbytes

    def allocate(self, nbytes: int) -> Allocation:
        """Memory until the end of the work. Raises OutOfMemory."""
        if self._next + nbytes > self._end:
            self.reserve(nbytes)
        address, self._next = self._next, _aligned(self._next + max(1, nbytes))
        return Allocation(address, nbytes)

    @abc.abstractmethod
    def upload(self, address: int, source: NDArray[np.generic]) -> None:
        """Copies a C-contiguous array to the device; it may be changed when this returns."""

    @abc.abstractmethod
    def download(self, target: NDArray[np.generic], address: int) -> None:
        """Copies into a C-contiguous array, behind all that is queued on the stream, and waits."""

    @abc.abstractmethod
    def fill(self, address: int, byte: int, nbytes: int) -> None:
        """Sets bytes."""

    @abc.abstractmethod
    def finish(self) -> None:
        """Waits for the stream."""

    def uploaded(self, source: NDArray[np.generic]) -> int:
        """The address of a copy of an array."""
        address = self.allocate(source.nbytes).address
        self.upload(address, source)
        return address

    def close(self) -> None:
        """Gives the memory back."""
        while self._taken:
            self._runtime.free(self._taken.pop())


def _aligned(address: int) -> int:
    return -(-address // ALIGNMENT) * ALIGNMENT


class DefaultWork(Work):
    """Work by the functions of a device that has no streams."""

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
    """The work; its memory is given back once its stream is done, also behind an error."""
    try:
        yield work
    finally:
        try:
            work.finish()
        finally:
            work.close()
