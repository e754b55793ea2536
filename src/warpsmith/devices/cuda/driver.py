"""PyCUDA, behind this one module: which GPUs there are, their primary contexts, memory and events.

Importing it needs PyCUDA and a driver; `available.gpu_count` says what is missing. Modules and launches are in
`module.py`, on cuda-bindings: PyCUDA 2026.1 launches only on streams that it made itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pycuda
import pycuda.driver as cuda
from cuda.bindings import driver as bindings
from numpy.typing import NDArray

from warpsmith.devices.cuda.status import call
from warpsmith.errors import DeviceError, OutOfMemory
from warpsmith.generator.device import Device, DeviceKind

if TYPE_CHECKING:
    from warpsmith.devices.cuda.gate import Gate


@contextlib.contextmanager
def _reported(doing: str) -> Iterator[None]:
    """Raises PyCUDA's errors as ours. `doing` completes the sentence "cannot ..."."""
    try:
        yield
    except cuda.MemoryError as error:
        raise OutOfMemory(f"cannot {doing}: {error}") from None
    except cuda.Error as error:
        raise DeviceError(f"cannot {doing}: {error}") from None


def count() -> int:
    """How many GPUs the driver offers, at least one. Raises DeviceError where it offers none."""
    try:
        cuda.init()
        found = int(cuda.Device.count())
    except cuda.Error as error:
        raise DeviceError(
            f"the NVIDIA driver offers no GPU ({error}): see nvidia-smi and CUDA_VISIBLE_DEVICES"
        ) from None
    if found == 0:
        raise DeviceError("the NVIDIA driver offers no GPU: see nvidia-smi and CUDA_VISIBLE_DEVICES")
    return found


def describe(ordinal: int) -> Device:
    """What the generator may know of a GPU."""
    attribute = cuda.device_attribute
    with _reported(f"read cuda:{ordinal}"):
        gpu = cuda.Device(ordinal)
        major, minor = gpu.compute_capability()
        return Device(
            name=gpu.name(),
            kind=DeviceKind.CUDA,
            compute_capability=(major, minor),
            multiprocessors=gpu.get_attribute(attribute.MULTIPROCESSOR_COUNT),
            l2_bytes=gpu.get_attribute(attribute.L2_CACHE_SIZE),
            memory_bytes=gpu.total_memory(),
            shared_per_block_bytes=gpu.get_attribute(attribute.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
            shared_per_multiprocessor_bytes=gpu.get_attribute(attribute.MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
            registers_per_multiprocessor=gpu.get_attribute(attribute.MAX_REGISTERS_PER_MULTIPROCESSOR),
            threads_per_multiprocessor=gpu.get_attribute(attribute.MAX_THREADS_PER_MULTIPROCESSOR),
            clock_mhz=gpu.get_attribute(attribute.CLOCK_RATE) // 1000,  # the driver counts in kHz
            memory_clock_mhz=gpu.get_attribute(attribute.MEMORY_CLOCK_RATE) // 1000,
        )


def pci_bus_id(ordinal: int) -> str:
    """Where the GPU sits, which names it to NVML whatever CUDA_VISIBLE_DEVICES says."""
    return str(cuda.Device(ordinal).pci_bus_id())


def versions() -> dict[str, str]:
    """The newest CUDA that the driver knows, and PyCUDA's version."""
    number = cuda.get_driver_version()
    return {"cuda": f"{number // 1000}.{number % 1000 // 10}", "pycuda": pycuda.VERSION_TEXT}


class PrimaryContext:
    """A GPU's primary context, the one that PyTorch and CuPy use, with the memory and events taken in it.

    It is pushed for each operation and popped after it: a context left on PyCUDA's stack aborts the process at its
    end, and an operation thus works whatever context another library or another thread made current meanwhile.
    """

    def __init__(self, ordinal: int) -> None:
        with _reported(f"open cuda:{ordinal}"):
            self._context = cuda.Device(ordinal).retain_primary_context()
        self._allocations: dict[int, Any] = {}
        self._is_default = _make_current_if_none(self._context.handle)
        with self.active(f"open cuda:{ordinal}"):
            self._events = (cuda.Event(), cuda.Event())

    @contextlib.contextmanager
    def active(self, doing: str) -> Iterator[None]:
        """Makes the context current on this thread, for PyCUDA and the driver alike; raises PyCUDA's errors as ours.

        Args:
            doing: completes the sentence "cannot ...".
        """
        if self._context is None:
            raise DeviceError(f"cannot {doing}: the device is closed")
        with _reported(doing):
            self._context.push()
            try:
                yield
            finally:
                cuda.Context.pop()

    def allocate(self, nbytes: int) -> int:
        with self.active(f"allocate {nbytes:,} bytes on the GPU"):
            allocation = cuda.mem_alloc(nbytes)
        self._allocations[int(allocation)] = allocation
        return int(allocation)

    def free(self, address: int) -> None:
        """Raises DeviceError where the address was not allocated here, or is free already."""
        allocation = self._allocations.pop(address, None)
        if allocation is None:
            raise DeviceError(f"there is no allocation at {address:#x}")
        with self.active("free memory"):
            allocation.free()

    def upload(self, address: int, source: NDArray[np.generic]) -> None:
        with self.active("copy to the GPU"):
            cuda.memcpy_htod(address, source)
            # From pageable memory the call returns once the data are staged, before they have arrived.
            cuda.Context.synchronize()

    def download(self, target: NDArray[np.generic], address: int) -> None:
        with self.active("copy from the GPU"):
            cuda.memcpy_dtoh(target, address)

    def fill(self, address: int, byte: int, nbytes: int) -> None:
        with self.active("fill memory"):
            cuda.memset_d8_async(address, byte, nbytes)

    def copy(self, target: int, source: int, nbytes: int, stream: int | None) -> None:
        doing = "copy on the GPU"
        with self.active(doing):
            # PyCUDA's own copies accept no stream of another library.
            call(bindings.cuMemcpyDtoDAsync(target, source, nbytes, stream or 0), doing)

    def synchronize(self) -> None:
        with self.active("finish the work on the GPU"):
            cuda.Context.synchronize()

    def elapsed_ns(self, work: Callable[[], None], gate: Gate | None) -> float:
        """The GPU's time for what `work` launches, all of it queued behind the gate before the first begins."""
        begin, end = self._events
        with self.active("time the work on the GPU"):
            if gate is not None:
                gate.shut()
            try:
                begin.record()
                work()
                end.record()
            finally:
                if gate is not None:
                    gate.open()
            end.synchronize()
            return float(end.time_since(begin)) * 1e6  # from ms

    def empty_array(self, shape: tuple[int, ...], dtype: np.dtype[Any], strides: tuple[int, ...], nbytes: int) -> Any:
        """An uninitialised `pycuda.gpuarray.GPUArray` of these strides in bytes, over `nbytes` bytes of memory."""
        import pycuda.gpuarray  # half a second of imports that only callers without arrays of their own need

        with self.active(f"allocate an array of shape {shape}"):
            # Left to itself it allocates room for the elements alone.
            return pycuda.gpuarray.GPUArray(shape, dtype, gpudata=cuda.mem_alloc(nbytes), strides=strides)

    def close(self) -> None:
        """Frees what was taken and lets go of the context. Safe to call twice, and after the GPU has failed."""
        context, self._context = self._context, None
        if context is None:
            return
        with contextlib.suppress(cuda.Error):
            context.push()
            self._allocations.clear()
            del self._events
            # PyCUDA lets go of the context that is on its stack but leaves it on the driver's: take it off there.
            bindings.cuCtxPopCurrent()
            context.detach()
        if self._is_default:
            _unset_current(context.handle)


def _make_current_if_none(handle: int) -> bool:
    """Makes a context the thread's default where it has none, as the CUDA runtime does; says whether it did.

    Arrays handed to callers, such as a GPUArray, can then be read without a context of the caller's own.
    """
    _, current = bindings.cuCtxGetCurrent()
    if int(current) != 0:
        return False
    bindings.cuCtxSetCurrent(handle)
    return True


def _unset_current(handle: int) -> None:
    """Leaves the thread without a current context where `handle` still is it: it may be gone by now."""
    _, current = bindings.cuCtxGetCurrent()
    if int(current) == handle:
        bindings.cuCtxSetCurrent(0)
