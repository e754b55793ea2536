"""An array on a GPU for callers who have no array library of their own."""

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
    """Uninitialised memory of a GPU with a shape, a dtype and strides in bytes; freed with the last reference to it.

    Other libraries read it by `__cuda_array_interface__`, without a copy; `get` copies it into a NumPy array.

    Args:
        context: in which it is allocated.
        shape: extents.
        dtype: of an element.
        strides: bytes from one element to the next, for each dimension.
        nbytes: the memory that is taken, which may reach beyond the last element.

    Raises:
        OutOfMemory: there is not that much.
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
        # Not among what the context frees when it is closed: another library may still read it then.
        with context.active(doing):
            self.address = int(call(cu.cuMemAlloc(nbytes), doing))
        self._context = context
        self._nbytes = nbytes
        # At the process's end the driver frees it.
        weakref.finalize(self, _free, context, self.address).atexit = False

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Version 3 of the protocol. It names no stream: the array does not know which one wrote to it."""
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address, False),
            "strides": self.strides,
            "version": 3,
        }

    def get(self) -> NDArray[np.generic]:
        """A copy in host memory, of this shape, without gaps. Waits for all work on the GPU."""
        self._context.synchronize()
        memory = np.empty(self._nbytes, np.uint8)
        self._context.download(memory, self.address)
        there: NDArray[np.generic] = np.ndarray(self.shape, self.dtype, memory, strides=self.strides)
        return np.ascontiguousarray(there)


def _free(context: PrimaryContext, address: int) -> None:
    # A context that has failed or was let go takes its memory along.
    with contextlib.suppress(DeviceError), context.active("free memory"):
        cu.cuMemFree(address)
