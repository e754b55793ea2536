"""An NVIDIA GPU as an open device."""

from __future__ import annotations

import functools
import platform
import weakref
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.devices.compiler import Binaries, Binary, BinaryKind
from warpsmith.devices.cuda.available import require_gpu
from warpsmith.devices.cuda.driver_choice import DriverChoice, chosen_driver
from warpsmith.devices.cuda.nvml import Monitor, loaded_driver_version
from warpsmith.devices.module import Allocation, Graph
from warpsmith.devices.native import native
from warpsmith.devices.process import HomeProcess
from warpsmith.devices.runtime import Runtime, StreamIdentity
from warpsmith.errors import CompileError, LaunchError
from warpsmith.generator.device import Device
from warpsmith.generator.library_calls import Library
from warpsmith.generator.program import Launch, Program
from warpsmith.generator.steps import Workspace

if TYPE_CHECKING:
    from warpsmith.devices.cuda.gate import Gate
    from warpsmith.devices.cuda.module import CudaModule
    from warpsmith.devices.cuda.primary_context import PrimaryContext
    from warpsmith.devices.module import CallArguments, DeviceLibrary, Launches, Module
    from warpsmith.devices.runtime import Work


def cuda_device(ordinal: int = 0) -> Device:
    """Facts about `cuda:ordinal` for the generator.

    Raises:
        DeviceError: there is no such GPU; the message says how many there are, or what is missing.
    """
    require_gpu(ordinal)
    from warpsmith.devices.cuda import driver

    return driver.describe(ordinal)


def cuda_bus_id(ordinal: int = 0) -> str:
    """PCI address of `cuda:ordinal`, such as `0000:3b:00.0`. Raises DeviceError if there is no such GPU."""
    require_gpu(ordinal)
    from warpsmith.devices.cuda import driver

    return driver.pci_bus_id(ordinal)


class CudaRuntime(Runtime):
    """`cuda:ordinal`, in the primary context that it shares with PyTorch and CuPy.

    Args:
        ordinal: GPU number, as CUDA_VISIBLE_DEVICES numbers them.
        driver: library for its context, memory and events; None for the one that WARPSMITH_DRIVER names.

    Raises:
        BadArgument: WARPSMITH_DRIVER names no such library.
        DeviceError: there is no such GPU; the message says how many there are, or what is missing.
    """

    def __init__(self, ordinal: int = 0, driver: DriverChoice | None = None) -> None:
        choice = chosen_driver() if driver is None else driver
        self.device = cuda_device(ordinal)
        self.ordinal = ordinal
        self._home = HomeProcess(f"cuda:{ordinal}")
        from warpsmith.devices.cuda.driver import cuda_version, open_context

        self._cuda_version = cuda_version()
        self._context = open_context(ordinal, choice)
        self._modules: weakref.WeakSet[CudaModule] = weakref.WeakSet()
        # This also covers a runtime that nobody closes: PyCUDA complains of contexts that outlive the interpreter.
        self._release = weakref.finalize(self, _release, self._home, self._context)

    def check_process(self) -> None:
        self._home.check()

    def current(self) -> AbstractContextManager[None]:
        return self._context.active("make the GPU this thread's current one")

    @functools.cached_property
    def _monitor(self) -> Monitor:
        """NVML monitor, opened at its first use: a plan needs none, and NVML looks at every GPU of the machine."""
        from warpsmith.devices.cuda.driver import pci_bus_id

        return Monitor(pci_bus_id(self.ordinal))

    def environment(self) -> dict[str, str]:
        from warpsmith.devices.cuda.compiler import nvrtc_name

        try:
            toolkit = nvrtc_name()
        except CompileError:
            toolkit = "unknown"
        return {
            "driver": self._driver_version(),
            "toolkit": toolkit,
            "cuda": self._cuda_version,
            **self._context.versions,
            "system": platform.platform(),
        }

    def soft_facts(self, binaries: Binaries) -> dict[str, str]:
        # The binaries name NVRTC's version if it compiled them. Asking NVRTC itself would load its library of 100 MB.
        compilers = {each.compiler for each in binaries.values()}
        named = next(iter(compilers)) if len(compilers) == 1 else ""
        toolkit = named if named.startswith("nvrtc ") else self.environment()["toolkit"]
        return {"driver": self._driver_version(), "toolkit": toolkit}

    def _driver_version(self) -> str:
        return loaded_driver_version() or self._monitor.driver_version() or "unknown"

    def load(self, binary: Binary) -> CudaModule:
        from warpsmith.devices.cuda.module import CudaModule

        if binary.kind is not BinaryKind.CUBIN:
            raise LaunchError(f"a {binary.kind} of {binary.compiler} does not run on {self.device.name}")
        module = CudaModule(self._context, self.device, binary.image)
        self._modules.add(module)
        return module

    def compiled_launches(
        self,
        program: Program,
        modules: Mapping[str, Module],
        arguments: CallArguments,
        workspaces: tuple[Workspace, ...],
    ) -> Launches | None:
        from warpsmith.devices.cuda.compiled_launches import LAUNCH, CompiledLaunches, can_launch, driver_function
        from warpsmith.devices.cuda.module import CudaModule
        from warpsmith.devices.workspaces import Workspaces

        compiled = native()
        if compiled is None or not can_launch(program, arguments, compiled):
            return None

        def function_of(launch: Launch, sizes: list[int]) -> Any:
            module = modules[launch.unit]
            assert isinstance(module, CudaModule)  # `load` makes no other
            return module.checked_function(launch, sizes)

        memory, launch_kernel = Workspaces(self, workspaces), driver_function(*LAUNCH)
        return CompiledLaunches(self._context, program, arguments, memory, function_of, compiled, launch_kernel)

    def library(self, library: Library) -> DeviceLibrary:
        from warpsmith.devices.cuda.cublas import Cublas
        from warpsmith.devices.cuda.cufft import Cufft

        match library:
            case Library.CUFFT:
                return Cufft(self._context)
            case Library.CUBLAS:
                return Cublas(self._context)

    def identify(self, stream: int | None) -> StreamIdentity:
        from warpsmith.devices.cuda.status import identity_of

        with self._context.active("ask for a stream"):
            return identity_of(stream or 0)

    def is_being_captured(self) -> bool:
        from warpsmith.devices.cuda.streams import is_being_captured

        return is_being_captured()

    def free_bytes(self) -> int | None:
        from warpsmith.devices.cuda.streams import free_memory

        return free_memory(self._context)

    def independent_work(self) -> AbstractContextManager[Work]:
        from warpsmith.devices.cuda.streams import independent_work

        return independent_work(self, self._context)

    def ordered_work(self, stream: int | None) -> AbstractContextManager[Work]:
        from warpsmith.devices.cuda.streams import ordered_work

        return ordered_work(self, self._context, stream)

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
        from warpsmith.devices.cuda.streams import CudaGraph

        return CudaGraph(self._context, work, rehearse=rehearse)

    def throttled(self) -> bool:
        return self._monitor.throttled() or False

    def empty_array(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], strides: tuple[int, ...], nbytes: int, *, of_pycuda: bool
    ) -> Any:
        """An uninitialised array for a caller whose array library is unknown or PyCUDA.

        Args:
            shape: extents.
            dtype: element type.
            strides: bytes from one element to the next, for each dimension.
            nbytes: bytes to allocate, which may reach beyond the last element.
            of_pycuda: whether the caller's arrays are those of PyCUDA.

        Returns: a `pycuda.gpuarray.GPUArray` for PyCUDA's, else a `DeviceArray`.

        Raises:
            OutOfMemory: the memory does not fit.
        """
        context = self._pycuda_context if of_pycuda else self._context
        return context.empty_array(shape, dtype, strides, nbytes)

    @functools.cached_property
    def _pycuda_context(self) -> PrimaryContext:
        """The same context through PyCUDA, because only PyCUDA can allocate memory that a GPUArray owns."""
        from warpsmith.devices.cuda.driver import open_context

        opened = open_context(self.ordinal, DriverChoice.PYCUDA)
        # This also covers a runtime that nobody closes: PyCUDA complains of contexts that outlive the interpreter.
        weakref.finalize(self, opened.close)
        return opened

    def close(self) -> None:
        # Read from `__dict__`, because reading the attribute would make a gate.
        if gate := self.__dict__.pop("_gate", None):
            gate.close()
        for module in self._modules:
            module.close()
        if pycuda_context := self.__dict__.pop("_pycuda_context", None):
            pycuda_context.close()
        self._release()


def _release(home: HomeProcess, context: PrimaryContext) -> None:
    if home.is_current:  # a forked child must not call the driver
        context.close()
