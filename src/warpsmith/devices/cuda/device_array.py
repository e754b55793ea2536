"""A GPU array for callers that use no array library."""

from __future__ import annotations

import contextlib
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
from cuda.bindings import driver as cu
from numpy.typing import NDArray

from warpsmith.devices.cuda.status import call
from warpsmith.errors import DeviceError

if TYPE_CHECKING:
    from warpsmith.devices.cuda.primary_context import PrimaryContext


class DeviceArray:
    """Uninitialised GPU memory with a shape, a dtype and strides in bytes, freed with the last reference to it.

    Other libraries read it through `__cuda_array_interface__`, without a copy; `get` copies it into a NumPy array.

    Args:
        context: context in which it is allocated.
        shape: extents.
        dtype: element type.
        strides: bytes from one element to the next, for each dimension.
        nbytes: bytes to allocate, which may reach beyond the last element.

    Raises:
        OutOfMemory: the memory does not fit.
    """

    def __init__(
        self,
        context: PrimaryContext,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        strides: tuple[int, ...],
        nbytes: int,
    ) -> None:
        self.shape = shape
        self.dtype = dtype
        self.strides = strides
        doing = f"allocate an array of shape {shape}"
        # The context does not free this when it is closed: another library may still read it then.
        with context.active(doing):
            self.address = int(call(cu.cuMemAlloc(nbytes), doing))
        self._context = context
        self._nbytes = nbytes
        # The driver frees it at the end of the process.
        weakref.finalize(self, _free, context, self.address).atexit = False

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Version 3 of the protocol. It names no stream, because the array does not know which stream wrote to it."""
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address, False),
            "strides": self.strides,
            "version": 3,
        }

    def get(self) -> NDArray[np.generic]:
        """A dense copy of this shape in host memory. It waits for all work on the GPU."""
        self._context.synchronize()
        memory = np.empty(self._nbytes, np.uint8)
        self._context.download(memory, self.address)
        there: NDArray[np.generic] = np.ndarray(self.shape, self.dtype, memory, strides=self.strides)
        return np.ascontiguousarray(there)


def _free(context: PrimaryContext, address: int) -> None:
    # A context that has failed or was released has already freed its memory.
    with contextlib.suppress(DeviceError), context.active("free memory"):
        cu.cuMemFree(address)
