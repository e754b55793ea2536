"""An NVIDIA GPU as an open device."""

from __future__ import annotations

import functools
import platform
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.devices.base import Allocation, Binary, BinaryKind, Graph, Runtime
from warpsmith.devices.cuda.available import require_gpu
from warpsmith.devices.cuda.compiler import nvrtc_name
from warpsmith.devices.cuda.nvml import Monitor
from warpsmith.errors import CompileError, LaunchError
from warpsmith.generator.device import Device

if TYPE_CHECKING:
    from warpsmith.devices.cuda.gate import Gate
    from warpsmith.devices.cuda.module import CudaModule


def cuda_device(ordinal: int = 0) -> Device:
    """What the generator may know of `cuda:ordinal`.

    Raises:
        DeviceError: it is not there; the message says how many are, or what is missing.
    """
    require_gpu(ordinal)
    from warpsmith.devices.cuda import driver

    return driver.describe(ordinal)


class CudaRuntime(Runtime):
    """`cuda:ordinal`, in the primary context that it shares with PyTorch and CuPy.

    Raises:
        DeviceError: it is not there; the message says how many are, or what is missing.
    """

    def __init__(self, ordinal: int = 0) -> None:
        self.device = cuda_device(ordinal)
        from warpsmith.devices.cuda import driver

        self._versions = driver.versions()
        self._monitor = Monitor(driver.pci_bus_id(ordinal))
        self._context = driver.PrimaryContext(ordinal)
        self._modules: weakref.WeakSet[CudaModule] = weakref.WeakSet()
        # Also where nobody closes it: PyCUDA complains of contexts that outlive the interpreter.
        self._let_go = weakref.finalize(self, self._context.close)

    def environment(self) -> dict[str, str]:
        try:
            toolkit = nvrtc_name()
        except CompileError:
            toolkit = "unknown"
        return {
            "driver": self._monitor.driver_version() or "unknown",
            "toolkit": toolkit,
            **self._versions,
            "system": platform.platform(),
        }

    def load(self, binary: Binary) -> CudaModule:
        from warpsmith.devices.cuda.module import CudaModule

        if binary.kind is not BinaryKind.CUBIN:
            raise LaunchError(f"a {binary.kind} of {binary.compiler} does not run on {self.device.name}")
        module = CudaModule(self._context, self.device, binary.image)
        self._modules.add(module)
        return module

    def allocate(self, nbytes: int) -> Allocation:
        return Allocation(self._context.allocate(nbytes), nbytes)

    def free(self, allocation: Allocation) -> None:
        self._context.free(allocation.address)

    def upload(self, address: int, source: NDArray[np.generic]) -> None:
        self._context.upload(address, source)

    def download(self, target: NDArray[np.generic], address: int) -> None:
        self._context.download(target, address)

    def fill(self, address: int, byte: int, nbytes: int) -> None:
        self._context.fill(address, byte, nbytes)

    def copy(self, target: int, source: int, nbytes: int, stream: int | None = None) -> None:
        self._context.copy(target, source, nbytes, stream)

    def synchronize(self) -> None:
        self._context.synchronize()

    def elapsed_ns(self, work: Callable[[], None]) -> float:
        return self._context.elapsed_ns(work, self._gate)

    @property
    def queues_work(self) -> bool:
        return self._gate is not None

    @functools.cached_property
    def _gate(self) -> Gate | None:
        from warpsmith.devices.cuda.gate import gate_of

        return gate_of(self._context, self.device)

    def clock_mhz(self) -> int | None:
        return self._monitor.clock_mhz()

    def captured(self, work: Callable[[int], None], *, rehearse: bool = False) -> Graph:
        from warpsmith.devices.cuda.graph import CudaGraph

        return CudaGraph(self._context, work, rehearse=rehearse)

    def throttled(self) -> bool:
        return self._monitor.throttled() or False

    def empty_array(self, shape: tuple[int, ...], dtype: np.dtype[Any], strides: tuple[int, ...], nbytes: int) -> Any:
        """An uninitialised `pycuda.gpuarray.GPUArray` of these strides in bytes, over `nbytes` bytes of memory.

        Raises:
            OutOfMemory: there is not that much.
        """
        return self._context.empty_array(shape, dtype, strides, nbytes)

    def close(self) -> None:
        # Only one that was made: asking would make it.
        if gate := self.__dict__.pop("_gate", None):
            gate.close()
        for module in self._modules:
            module.close()
        self._let_go()
