"""Cubins on a GPU: loading, binding arguments, launching, through cuda-bindings.

Not through PyCUDA, since its launches accept no stream of another library, and its functions show no handle.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cuda.bindings import driver as cu

from warpsmith.devices.base import Module
from warpsmith.errors import DeviceError, LaunchError, OutOfMemory
from warpsmith.generator.device import Device
from warpsmith.generator.program import Argument, Launch, Pointer

if TYPE_CHECKING:
    from warpsmith.devices.cuda.driver import PrimaryContext

_STATUS = cu.CUresult
_SUCCESS = _STATUS.CUDA_SUCCESS
_FUNCTION = cu.CUfunction_attribute

_REFUSALS = frozenset(
    {
        _STATUS.CUDA_ERROR_INVALID_VALUE,
        _STATUS.CUDA_ERROR_INVALID_IMAGE,
        _STATUS.CUDA_ERROR_INVALID_SOURCE,
        _STATUS.CUDA_ERROR_NO_BINARY_FOR_GPU,
        _STATUS.CUDA_ERROR_NOT_FOUND,
        _STATUS.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
    }
)
"""Answers that leave the device unharmed: this binary or this launch is at fault. Any other condemns the context."""

_NOT_CURRENT = frozenset({_STATUS.CUDA_ERROR_INVALID_CONTEXT, _STATUS.CUDA_ERROR_INVALID_HANDLE})
"""Answers to a launch while the context of another device, or none, is current on the calling thread."""

_MAX_GRID = (2**31 - 1, 65535, 65535)
_MAX_BLOCK = (1024, 1024, 64)  # CUDA programming guide, technical specifications, every compute capability


def failure(status: Any, doing: str) -> DeviceError:
    """The error for a status other than success. `doing` completes the sentence "cannot ..."."""
    _, text = cu.cuGetErrorString(status)
    message = f"cannot {doing}: {text.decode() if text else status}"
    if status == _STATUS.CUDA_ERROR_OUT_OF_MEMORY:
        return OutOfMemory(message)
    return LaunchError(message) if status in _REFUSALS else DeviceError(message)


def call(result: tuple[Any, ...], doing: str) -> Any:
    """The value of a finished driver call. Raises the error of `failure`."""
    status, *values = result
    if status != _SUCCESS:
        raise failure(status, doing)
    return values[0] if values else None


class CudaModule(Module):
    """A cubin loaded into a context."""

    def __init__(self, context: PrimaryContext, device: Device, image: bytes) -> None:
        self._context = context
        self._device = device
        doing = f"load a binary on {device.name} ({device.arch})"
        with context.active(doing):
            self._handle = call(cu.cuModuleLoadData(image), doing)
        self._unload = weakref.finalize(self, _unload, context, self._handle)

    def bind(self, launch: Launch, addresses: Mapping[str, int], values: Mapping[str, bytes]) -> _BoundKernel:
        if not self._unload.alive:
            raise LaunchError(f"kernel {launch.entry} was bound after its module was closed")
        data = [_argument(launch, argument, addresses, values) for argument in launch.arguments]
        doing = f"bind kernel {launch.entry}"
        with self._context.active(doing):
            function = call(cu.cuModuleGetFunction(self._handle, launch.entry.encode()), doing)
            _check_geometry(function, launch, self._device)
            _check_arguments(function, launch, [len(each) for each in data])
            if launch.shared_bytes:
                _allow_shared(function, launch)
        return _BoundKernel(self, self._context, function, launch, data)

    def close(self) -> None:
        self._unload()


def _unload(context: PrimaryContext, handle: Any) -> None:
    # A context that has failed or was let go takes its modules along.
    with contextlib.suppress(DeviceError), context.active("unload a binary"):
        cu.cuModuleUnload(handle)


class _BoundKernel:
    """A launch whose arguments lie ready: calling it costs one driver call."""

    __slots__ = ("_arguments", "_context", "_doing", "_geometry", "_kept")

    def __init__(
        self, module: CudaModule, context: PrimaryContext, function: Any, launch: Launch, data: list[bytes]
    ) -> None:
        buffers = [ctypes.create_string_buffer(each, len(each)) for each in data]
        pointers = (ctypes.c_void_p * max(1, len(buffers)))(*map(ctypes.addressof, buffers))
        self._context = context
        self._doing = f"launch kernel {launch.entry}"
        self._geometry = (function, *launch.grid, *launch.block, launch.shared_bytes)
        self._arguments = ctypes.addressof(pointers)
        # The driver reads code and arguments through addresses, which keep nothing alive.
        self._kept = (module, buffers, pointers)

    def __call__(self, stream: int | None) -> None:
        (status,) = cu.cuLaunchKernel(*self._geometry, stream or 0, self._arguments, 0)
        if status in _NOT_CURRENT:
            with self._context.active(self._doing):
                (status,) = cu.cuLaunchKernel(*self._geometry, stream or 0, self._arguments, 0)
        if status != _SUCCESS:
            raise failure(status, self._doing)


def _argument(launch: Launch, argument: Argument, addresses: Mapping[str, int], values: Mapping[str, bytes]) -> bytes:
    name = argument.buffer if isinstance(argument, Pointer) else argument.operand
    try:
        return addresses[name].to_bytes(8, "little") if isinstance(argument, Pointer) else values[name]
    except KeyError:
        raise LaunchError(f"kernel {launch.entry} needs {name!r}, which was not given") from None


def _attribute(function: Any, attribute: Any, launch: Launch) -> int:
    return int(call(cu.cuFuncGetAttribute(attribute, function), f"read kernel {launch.entry}"))


def _check_geometry(function: Any, launch: Launch, device: Device) -> None:
    """Raises LaunchError where the device would refuse the launch; asked here, since a launch is called often."""
    for name, given, limits in (("grid", launch.grid, _MAX_GRID), ("block", launch.block, _MAX_BLOCK)):
        if any(not 1 <= extent <= limit for extent, limit in zip(given, limits, strict=True)):
            raise LaunchError(f"kernel {launch.entry}: a {name} of {given} does not lie within (1, 1, 1) to {limits}")
    threads = math.prod(launch.block)
    most = _attribute(function, _FUNCTION.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, launch)
    if threads > most:
        raise LaunchError(f"kernel {launch.entry}: {threads} threads a block; its registers allow {most}")
    static = _attribute(function, _FUNCTION.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, launch)
    if static + launch.shared_bytes > device.shared_per_block_bytes:
        needed, limit = static + launch.shared_bytes, device.shared_per_block_bytes
        raise LaunchError(f"kernel {launch.entry}: {needed} B of shared memory a block; the device has {limit} B")


def _check_arguments(function: Any, launch: Launch, given: list[int]) -> None:
    """Raises LaunchError unless the kernel takes arguments of just these sizes.

    The driver copies as many bytes as the kernel declares: a shorter argument would be read past its end.
    """
    taken: list[int] = []
    while (result := cu.cuFuncGetParamInfo(function, len(taken)))[0] == _SUCCESS:
        taken.append(int(result[2]))
    if taken != given:
        raise LaunchError(f"kernel {launch.entry} takes arguments of {taken} bytes; the launch gives {given}")


def _allow_shared(function: Any, launch: Launch) -> None:
    """Raises the kernel's limit of dynamic shared memory, which starts at 48 KiB less what it has statically."""
    attribute = _FUNCTION.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    # Never lowered: another launch of the same kernel may be bound already and need the higher limit.
    if launch.shared_bytes > _attribute(function, attribute, launch):
        call(cu.cuFuncSetAttribute(function, attribute, launch.shared_bytes), f"bind kernel {launch.entry}")
