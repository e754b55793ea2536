"""Contexts, memory and events through PyCUDA, of the extra `pycuda`. Importing it needs PyCUDA and a driver."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pycuda
import pycuda.driver as cuda
from cuda.bindings import driver as bindings
from numpy.typing import NDArray

from warpsmith.devices.cuda.primary_context import PrimaryContext
from warpsmith.errors import DeviceError, OutOfMemory


class PyCudaContext(PrimaryContext):
    """A primary context through PyCUDA. Its arrays are GPUArrays.

    A context that stays on PyCUDA's own stack would abort the process at its end.
    """

    @property
    def versions(self) -> dict[str, str]:
        return {"pycuda": str(pycuda.VERSION_TEXT)}

    @contextlib.contextmanager
    def active(self, doing: str) -> Iterator[None]:
        self._check_usable(doing)
        with _reported(doing):
            self._context.push()
            try:
                yield
            finally:
                cuda.Context.pop()

    def empty_array(self, shape: tuple[int, ...], dtype: np.dtype[Any], strides: tuple[int, ...], nbytes: int) -> Any:
        import pycuda.gpuarray  # half a second of imports, which only callers without arrays of their own need

        with self.active(f"allocate an array of shape {shape}"):
            # A GPUArray allocates by default only the size of its elements.
            return pycuda.gpuarray.GPUArray(shape, dtype, gpudata=cuda.mem_alloc(nbytes), strides=strides)

    def _retain(self, ordinal: int, doing: str) -> int:
        self._allocations: dict[int, Any] = {}
        with _reported(doing):
            cuda.init()
            self._context = cuda.Device(ordinal).retain_primary_context()
        return int(self._context.handle)

    def _release(self, handle: int, taken: tuple[int, ...]) -> None:  # noqa: ARG002 - the objects free themselves
        with contextlib.suppress(cuda.Error):
            self._context.push()
            self._allocations.clear()
            del self._events
            # PyCUDA releases the context on its own stack but leaves it on the driver's, so it is popped here.
            bindings.cuCtxPopCurrent()
            self._context.detach()

    def _create_events(self, doing: str) -> None:  # noqa: ARG002 - `active` reports PyCUDA's errors, here and below
        self._events = (cuda.Event(), cuda.Event())

    def _allocate(self, nbytes: int, doing: str) -> int:  # noqa: ARG002
        allocation = cuda.mem_alloc(nbytes)
        self._allocations[int(allocation)] = allocation
        return int(allocation)

    def _free(self, address: int, doing: str) -> None:  # noqa: ARG002
        self._allocations.pop(address).free()

    def _upload(self, address: int, source: NDArray[np.generic], doing: str) -> None:  # noqa: ARG002
        cuda.memcpy_htod(address, source)

    def _download(self, target: NDArray[np.generic], address: int, doing: str) -> None:  # noqa: ARG002
        cuda.memcpy_dtoh(target, address)

    def _fill(self, address: int, byte: int, nbytes: int, doing: str) -> None:  # noqa: ARG002
        cuda.memset_d8_async(address, byte, nbytes)

    def _synchronize(self, doing: str) -> None:  # noqa: ARG002
        cuda.Context.synchronize()

    def _record_begin(self, doing: str) -> None:  # noqa: ARG002
        self._events[0].record()

    def _record_end(self, doing: str) -> None:  # noqa: ARG002
        self._events[1].record()

    def _elapsed_ms(self, doing: str) -> float:  # noqa: ARG002
        begin, end = self._events
        end.synchronize()
        return float(end.time_since(begin))


@contextlib.contextmanager
def _reported(doing: str) -> Iterator[None]:
    """Converts PyCUDA's errors to this package's. `doing` completes the sentence "cannot ..."."""
    try:
        yield
    except cuda.MemoryError as error:
        raise OutOfMemory(f"cannot {doing}: {error}") from None
    except cuda.Error as error:
        raise DeviceError(f"cannot {doing}: {error}") from None
