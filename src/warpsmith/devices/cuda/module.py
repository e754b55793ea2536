"""Cubins on a GPU: loading, binding arguments and launching, through cuda-bindings.

PyCUDA is not used: its launches accept no stream of another library, and its functions expose no handle.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import math
import weakref
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from cuda.bindings import driver as cu

from warpsmith.devices.cuda.constants import BoundConstant, Constants, ModuleCopies
from warpsmith.devices.cuda.descriptors import TextureObject, Textures, tensor_map_bytes
from warpsmith.devices.cuda.driver import can_begin_early
from warpsmith.devices.cuda.status import NOT_CURRENT, SUCCESS, call, failure, is_capturing
from warpsmith.devices.module import BoundLaunch, Module, argument_bytes, required
from warpsmith.devices.process import ForkLock
from warpsmith.errors import DeviceError, LaunchError
from warpsmith.generator.device import Device
from warpsmith.generator.program import Launch, Texture

if TYPE_CHECKING:
    from warpsmith.devices.cuda.primary_context import PrimaryContext

_FUNCTION = cu.CUfunction_attribute

_MAX_GRID = (2**31 - 1, 65535, 65535)
_MAX_BLOCK = (1024, 1024, 64)  # CUDA programming guide, technical specifications, all compute capabilities


class CudaModule(Module):
    """A cubin loaded into a context. Threads may bind and launch at the same time."""

    def __init__(self, context: PrimaryContext, device: Device, image: bytes) -> None:
        self._context = context
        self._device = device
        doing = f"load a binary on {device.name} ({device.arch})"
        with context.active(doing):
            self._handle = call(cu.cuModuleLoadData(image), doing)
        self._state = _State(ForkLock(), Textures(), Constants(self._handle), ModuleCopies(image))
        self._unload = weakref.finalize(self, _unload, context, self._handle, self._state)

    def bind(self, launch: Launch, addresses: Mapping[str, int], values: Mapping[str, bytes]) -> BoundLaunch:
        with self._binding(launch) as function, self._state.lock:
            textures = {
                each: self._state.textures.at(required(launch, each.buffer, addresses), each)
                for each in launch.arguments
                if isinstance(each, Texture)
            }
            handles = {texture: made.handle for texture, made in textures.items()}
            data = [
                argument_bytes(launch, each, addresses, values, handles, tensor_map_bytes) for each in launch.arguments
            ]
            _check(function, launch, [len(each) for each in data], self._device)
            constants = tuple(
                self._state.constants.bind(launch, each, required(launch, each.operand, values))
                for each in launch.constants
            )
        bound = _BoundKernel(self, self._context, function, launch, data)
        if not textures and not constants:
            return bound
        return _KernelWithState(bound, self._context, self._state, launch, tuple(textures.values()), constants)

    def checked_function(self, launch: Launch, sizes: list[int]) -> Any:
        """A launch's kernel. Raises LaunchError if the device would refuse it with arguments of these sizes, in
        bytes.
        """
        with self._binding(launch) as function:
            _check(function, launch, sizes, self._device)
        return function

    @contextlib.contextmanager
    def _binding(self, launch: Launch) -> Iterator[Any]:
        """Yields a launch's kernel, in the module's context. Raises LaunchError if there is none."""
        if not self._unload.alive:
            raise LaunchError(f"kernel {launch.entry} was bound after its module was closed")
        doing = f"bind kernel {launch.entry}"
        with self._context.active(doing):
            yield call(cu.cuModuleGetFunction(self._handle, launch.entry.encode()), doing)

    def close(self) -> None:
        self._unload()


@dataclasses.dataclass(frozen=True, slots=True)
class _State:
    """Mutable state of a module. Whoever uses any of it, or launches a kernel that does, holds the lock meanwhile."""

    lock: ForkLock
    textures: Textures
    constants: Constants
    copies: ModuleCopies


def _unload(context: PrimaryContext, handle: Any, state: _State) -> None:
    # A context that has failed or was released has already unloaded its modules.
    with contextlib.suppress(DeviceError), context.active("unload a binary"):
        state.textures.close()
        state.constants.close()
        state.copies.close()
        cu.cuModuleUnload(handle)


class _BoundKernel:
    """A launch with prepared arguments: calling it costs one driver call."""

    __slots__ = ("_arguments", "_begins_early", "_context", "_function", "_geometry", "_kept", "doing")

    def __init__(
        self, module: CudaModule, context: PrimaryContext, function: Any, launch: Launch, data: list[bytes]
    ) -> None:
        buffers = [ctypes.create_string_buffer(each, len(each)) for each in data]
        pointers = (ctypes.c_void_p * max(1, len(buffers)))(*map(ctypes.addressof, buffers))
        self._context = context
        self.doing = f"launch kernel {launch.entry}"
        self._function = function
        self._geometry = (*launch.grid, *launch.block, launch.shared_bytes)
        self._begins_early = launch.begins_early and can_begin_early()
        self._arguments = ctypes.addressof(pointers)
        # The driver reads code and arguments through addresses, which keep nothing alive.
        self._kept = (module, buffers, pointers)

    def __call__(self, stream: int | None) -> None:
        self.launch(self._function, stream)

    def launch(self, function: Any, stream: int | None) -> None:
        """Launches `function`: this kernel, or the same kernel of a copy of the module."""
        status = self._queue(function, stream)
        if status == SUCCESS:
            return
        if status in NOT_CURRENT:
            with self._context.active(self.doing):
                status = self._queue(function, stream)
        if status != SUCCESS:
            raise failure(status, self.doing)

    def _queue(self, function: Any, stream: int | None) -> Any:
        """Queues the kernel. Returns the driver's status."""
        if not self._begins_early:
            (status,) = cu.cuLaunchKernel(function, *self._geometry, stream or 0, self._arguments, 0)
            return status
        early = cu.CUlaunchAttribute()
        early.id = cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        early.value.programmaticStreamSerializationAllowed = 1
        config = cu.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ, *block, config.sharedMemBytes = self._geometry
        config.blockDimX, config.blockDimY, config.blockDimZ = block
        config.hStream, config.attrs, config.numAttrs = stream or 0, [early], 1
        (status,) = cu.cuLaunchKernelEx(config, function, self._arguments, 0)
        return status


@dataclasses.dataclass(frozen=True, slots=True)
class _KernelWithState:
    """A bound launch that also needs texture objects or contents of `__constant__` variables."""

    kernel: _BoundKernel
    context: PrimaryContext
    state: _State
    configuration: Launch
    objects: tuple[TextureObject, ...]
    contents: tuple[BoundConstant, ...]

    def __call__(self, stream: int | None) -> None:
        handle, doing = stream or 0, self.kernel.doing
        with self.context.active(doing), self.state.lock:
            if is_capturing(handle, doing):
                self._capture(stream)
                return
            if self.contents:
                with self.state.constants.written(self.contents, handle, doing):
                    self.kernel(stream)
            else:
                self.kernel(stream)
            self.state.textures.sweep()

    def _capture(self, stream: int | None) -> None:
        """Launches into a graph. It may run at any time and on any stream, so what it reads must stay unchanged."""
        if self.contents:
            launch = self.configuration
            function = self.state.copies.function(launch.entry, self.contents, self.kernel.doing)
            _allow_shared(function, launch)
            self.kernel.launch(function, stream)
        else:
            self.kernel(stream)
        self.state.textures.keep(self.objects)


def _attribute(function: Any, attribute: Any, launch: Launch) -> int:
    return int(call(cu.cuFuncGetAttribute(attribute, function), f"read kernel {launch.entry}"))


def _check(function: Any, launch: Launch, sizes: list[int], device: Device) -> None:
    """Raises LaunchError if the device would refuse the launch with arguments of these sizes, in bytes."""
    _check_geometry(function, launch, device)
    _check_arguments(function, launch, sizes)
    _allow_shared(function, launch)


def _check_geometry(function: Any, launch: Launch, device: Device) -> None:
    """Raises LaunchError if the device would refuse the launch. It is checked once when bound, because launches are
    frequent.
    """
    for name, size, limits in (("grid", launch.grid, _MAX_GRID), ("block", launch.block, _MAX_BLOCK)):
        if any(not 1 <= extent <= limit for extent, limit in zip(size, limits, strict=True)):
            raise LaunchError(f"kernel {launch.entry}: a {name} of {size} does not lie within (1, 1, 1) to {limits}")
    threads = math.prod(launch.block)
    most = _attribute(function, _FUNCTION.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, launch)
    if threads > most:
        raise LaunchError(f"kernel {launch.entry}: {threads} threads a block; its registers allow {most}")
    static = _attribute(function, _FUNCTION.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, launch)
    if static + launch.shared_bytes > device.shared_per_block_bytes:
        needed, limit = static + launch.shared_bytes, device.shared_per_block_bytes
        raise LaunchError(f"kernel {launch.entry}: {needed} B of shared memory a block; the device has {limit} B")


def _check_arguments(function: Any, launch: Launch, offered: list[int]) -> None:
    """Raises LaunchError unless the kernel takes arguments of exactly these sizes, in bytes.

    The driver copies as many bytes as the kernel declares: a shorter argument would be read past its end.
    """
    taken: list[int] = []
    while (result := cu.cuFuncGetParamInfo(function, len(taken)))[0] == SUCCESS:
        taken.append(int(result[2]))
    if taken != offered:
        raise LaunchError(f"kernel {launch.entry} takes arguments of {taken} bytes; the launch gives {offered}")


def _allow_shared(function: Any, launch: Launch) -> None:
    """Raises the kernel's limit of dynamic shared memory, which starts at 48 KiB less its static shared memory."""
    if launch.shared_bytes == 0:
        return
    attribute = _FUNCTION.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    # It is never lowered: another launch of the same kernel may be bound already and need the higher limit.
    if launch.shared_bytes > _attribute(function, attribute, launch):
        call(cu.cuFuncSetAttribute(function, attribute, launch.shared_bytes), f"bind kernel {launch.entry}")
