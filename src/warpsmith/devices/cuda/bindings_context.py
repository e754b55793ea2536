"""Contexts, memory, events and arrays through cuda-bindings, NVIDIA's wheel of the driver API."""

from __future__ import annotations

import contextlib
import weakref
from types import TracebackType
from typing import Any

import cuda.bindings
import numpy as np
from cuda.bindings import driver as cu
from numpy.typing import NDArray

from warpsmith.devices.cuda.primary_context import PrimaryContext
from warpsmith.devices.cuda.status import SUCCESS, call
from warpsmith.errors import DeviceError


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


_DEFAULT_STREAM = 0


class BindingsContext(PrimaryContext):
    """A primary context through cuda-bindings. Its arrays are `DeviceArray`s."""

    @property
    def versions(self) -> dict[str, str]:
        return {"cuda-bindings": str(cuda.bindings.__version__)}

    def active(self, doing: str) -> contextlib.AbstractContextManager[None]:
        self._check_usable(doing)
        assert self._handle is not None
        return _Pushed(self._handle, doing)

    def empty_array(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], strides: tuple[int, ...], nbytes: int
    ) -> DeviceArray:
        return DeviceArray(self, shape, dtype, strides, nbytes)

    def _retain(self, ordinal: int, doing: str) -> int:
        self._device = call(cu.cuDeviceGet(ordinal), doing)
        return int(call(cu.cuDevicePrimaryCtxRetain(self._device), doing))

    def _release(self, handle: int, taken: tuple[int, ...]) -> None:
        (status,) = cu.cuCtxPushCurrent(handle)
        if status == SUCCESS:
            for address in taken:
                cu.cuMemFree(address)
            for event in self._events:
                cu.cuEventDestroy(event)
            cu.cuCtxPopCurrent()
        cu.cuDevicePrimaryCtxRelease(self._device)

    def _create_events(self, doing: str) -> None:
        flags = cu.CUevent_flags.CU_EVENT_DEFAULT
        self._events = (call(cu.cuEventCreate(flags), doing), call(cu.cuEventCreate(flags), doing))

    def _allocate(self, nbytes: int, doing: str) -> int:
        return int(call(cu.cuMemAlloc(nbytes), doing))

    def _free(self, address: int, doing: str) -> None:
        call(cu.cuMemFree(address), doing)

    def _upload(self, address: int, source: NDArray[np.generic], doing: str) -> None:
        call(cu.cuMemcpyHtoD(address, source.ctypes.data, source.nbytes), doing)

    def _download(self, target: NDArray[np.generic], address: int, doing: str) -> None:
        call(cu.cuMemcpyDtoH(target.ctypes.data, address, target.nbytes), doing)

    def _fill(self, address: int, byte: int, nbytes: int, doing: str) -> None:
        call(cu.cuMemsetD8Async(address, byte, nbytes, _DEFAULT_STREAM), doing)

    def _synchronize(self, doing: str) -> None:
        call(cu.cuCtxSynchronize(), doing)

    def _record_begin(self, doing: str) -> None:
        call(cu.cuEventRecord(self._events[0], _DEFAULT_STREAM), doing)

    def _record_end(self, doing: str) -> None:
        call(cu.cuEventRecord(self._events[1], _DEFAULT_STREAM), doing)

    def _elapsed_ms(self, doing: str) -> float:
        begin, end = self._events
        call(cu.cuEventSynchronize(end), doing)
        return float(call(cu.cuEventElapsedTime(begin, end), doing))


class _Pushed:
    """Pushes a context and pops it. This class costs 1.5 us; a generator would cost 3.5 us, and launches wait for
    it.
    """

    __slots__ = ("_doing", "_handle")

    def __init__(self, handle: int, doing: str) -> None:
        self._handle = handle
        self._doing = doing

    def __enter__(self) -> None:
        call(cu.cuCtxPushCurrent(self._handle), self._doing)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        cu.cuCtxPopCurrent()
