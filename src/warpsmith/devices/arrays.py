"""Converts callers' arrays to addresses: NumPy, PyTorch, CuPy, PyCUDA, and any library with the same protocols.

This module imports NumPy only. A PyTorch array can exist only if PyTorch is loaded already.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

import numpy as np

from warpsmith.devices.cuda.runtime import CudaRuntime
from warpsmith.devices.elements import numpy_dtype
from warpsmith.devices.runtime import Runtime
from warpsmith.devices.tensors import (
    check_output,
    empty_tensor,
    input_tensor,
    mark_written,
    record_use,
    tensor_memory,
    torch_of,
)
from warpsmith.errors import BadArgument
from warpsmith.generator.problem import DType, Operand

ALIGNMENT = 16
"""Bytes. Kernels load up to a float4 at once, at offsets from the first element."""
LEGACY_DEFAULT_STREAM = 1
"""Handle of the default stream in CuPy, `__cuda_array_interface__` and `__dlpack__`. It is 0 in this package."""

_DLPACK_CPU = 1
_DLPACK_GPU = (2, 13)  # kDLCUDA, kDLCUDAManaged


@dataclasses.dataclass(frozen=True, slots=True)
class ArrayView:
    """An array that matches its operand: its address, and the object that keeps it alive."""

    address: int
    keepalive: object = dataclasses.field(repr=False)  # printing an array would fetch it
    stream: int | None = None
    """Handle of the stream on which the array's owner orders its work; None if the owner does not say."""
    is_copy: bool = False
    """True for a copy that was made on `stream` and that only this view keeps alive."""

    def used_on(self, stream: int | None) -> None:
        """Tells PyTorch that `stream` uses the copy. Call it when that work is queued, before dropping the view."""
        if self.is_copy and self.stream is not None and self.stream != (stream or 0):
            record_use(torch_of(self.keepalive), self.keepalive, stream or 0)


@dataclasses.dataclass(frozen=True, slots=True)
class _Array:
    """Facts that every array protocol tells."""

    address: int
    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...] | None
    """Bytes; None if elements lie in row order without gaps."""
    readonly: bool
    keepalive: object
    stream: int | None = None


def device_view(
    x: Any, operand: Operand, writable: bool = False, stream: int | None = None, ordinal: int | None = None
) -> ArrayView:
    """Address of a GPU array. It does not wait, and copies only PyTorch's conjugated and negated views.

    Args:
        x: anything with `__cuda_array_interface__` or `__dlpack__` on a GPU.
        operand: required shape, dtype and strides. The array must start at a multiple of 16 bytes.
        writable: whether the array is written to.
        stream: handle of the stream that will use it; None for the default stream. `__dlpack__` receives it, so that
            the owner orders its work before. For the other protocols the view names the owner's stream.
        ordinal: the GPU that will use it; None to skip this check.

    Raises:
        BadArgument: the array does not match, or is on another GPU; the message names the operand.
    """
    if torch := torch_of(x):
        if not x.is_cuda:
            raise _not_on_gpu(operand)
        _check_ordinal(x.device.index, operand, ordinal)
        return _of_torch(torch, x, operand, writable)
    _check_ordinal(_ordinal_of(x), operand, ordinal)
    interface = getattr(x, "__cuda_array_interface__", None)
    if interface is not None:
        return _checked(_of_cuda_interface(x, interface), operand, writable)
    if isinstance(x, np.ndarray):
        raise _not_on_gpu(operand)
    if not hasattr(x, "__dlpack__"):
        raise _no_array(x, operand, "an array with __cuda_array_interface__ or __dlpack__")
    if x.__dlpack_device__()[0] not in _DLPACK_GPU:
        raise _not_on_gpu(operand)
    return _checked(_of_dlpack_on_gpu(x, stream), operand, writable)


def host_view(x: Any, operand: Operand, writable: bool = False) -> ArrayView:
    """Address of a host array. It copies only PyTorch's conjugated and negated views.

    Args:
        x: a NumPy array, a CPU tensor of PyTorch, or anything with `__array_interface__` or `__dlpack__` on the CPU.
        operand: required shape, dtype and strides. The array must start at a multiple of 16 bytes.
        writable: whether the array is written to.

    Raises:
        BadArgument: the array does not match; the message names the operand.
    """
    if torch := torch_of(x):
        if x.device.type != "cpu":
            raise _not_on_host(operand, str(x.device))
        return _of_torch(torch, x, operand, writable)
    if hasattr(x, "__array_interface__"):
        return _checked(_of_numpy(np.asarray(x), x), operand, writable)
    if hasattr(x, "__cuda_array_interface__"):
        raise _not_on_host(operand)
    if not hasattr(x, "__dlpack__"):
        raise _no_array(x, operand, "a NumPy array")
    if x.__dlpack_device__()[0] != _DLPACK_CPU:
        raise _not_on_host(operand)
    return _checked(_of_numpy(_numpy_over_dlpack(x, operand), x), operand, writable)


def empty_like_caller(x: Any, operand: Operand, runtime: Runtime) -> Any:
    """An uninitialised array of the operand's shape, dtype and strides, of `x`'s library and on its device.

    If the library is not known, it is a NumPy array on the host and a `DeviceArray` on a GPU.
    """
    if torch := torch_of(x):
        return empty_tensor(torch, operand, x.device)
    shape, strides, dtype = operand.shape, operand.strides, numpy_dtype(operand.dtype)
    nbytes = operand.allocated_bytes
    cupy = sys.modules.get("cupy")
    if cupy is not None and isinstance(x, cupy.ndarray):
        with x.device:
            return cupy.ndarray(shape, dtype, memptr=cupy.cuda.alloc(nbytes), strides=strides)
    if isinstance(runtime, CudaRuntime):
        gpuarray = sys.modules.get("pycuda.gpuarray")
        of_pycuda = gpuarray is not None and isinstance(x, gpuarray.GPUArray)
        return runtime.empty_array(shape, dtype, strides, nbytes, of_pycuda=of_pycuda)
    return np.ndarray(shape, dtype, np.empty(nbytes, np.uint8), strides=strides)


def stream_handle(stream: object) -> int | None:
    """Driver handle of a stream of any library; None for None.

    Args:
        stream: None, a handle, or a stream of PyTorch, CuPy, PyCUDA or anything with `__cuda_stream__`.

    Raises:
        BadArgument: any other type.
    """
    if stream is None or isinstance(stream, int):
        return stream
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])  # (protocol version, handle)
    for attribute in ("cuda_stream", "ptr", "handle"):  # PyTorch, CuPy, PyCUDA
        if hasattr(stream, attribute):
            return int(getattr(stream, attribute))
    raise BadArgument(f"stream: expected a CUDA stream or its handle; got {type(stream).__name__}")


def _not_on_gpu(operand: Operand) -> BadArgument:
    return BadArgument(f"{operand.name}: is in host memory; move it to the GPU first")


def _not_on_host(operand: Operand, where: str = "a GPU") -> BadArgument:
    return BadArgument(f"{operand.name}: is on {where}; the host device takes arrays in host memory")


def _no_array(x: object, operand: Operand, expected: str) -> BadArgument:
    return BadArgument(f"{operand.name}: expected {expected}; got {type(x).__name__}")


def _ordinal_of(x: Any) -> int | None:
    """Ordinal of the GPU of an array that is not PyTorch's; None if it does not say, or is on no GPU or in managed
    memory.
    """
    if hasattr(x, "__dlpack_device__"):
        kind, ordinal = x.__dlpack_device__()
        return int(ordinal) if kind == _DLPACK_GPU[0] else None
    device = getattr(x, "device", None)
    found = (getattr(device, attribute, None) for attribute in ("id", "index"))
    return next((ordinal for ordinal in found if isinstance(ordinal, int)), None)


def _check_ordinal(found: int | None, operand: Operand, ordinal: int | None) -> None:
    if None not in (found, ordinal) and found != ordinal:
        reason = f"is on cuda:{found}, and the plan on cuda:{ordinal}"
        raise BadArgument(f"{operand.name}: {reason}; copy it there, or make a plan for device='cuda:{found}'")


def _checked(array: _Array, operand: Operand, writable: bool) -> ArrayView:
    name = operand.name
    if (array.dtype, array.shape) != (operand.dtype.value, operand.shape):
        expected = f"{operand.dtype} of shape {operand.shape}"
        raise BadArgument(f"{name}: expected {expected}; got {array.dtype} of shape {array.shape}")
    _check_strides(array, operand)
    if not array.address:
        raise BadArgument(f"{name}: has no memory")
    if array.address % ALIGNMENT:
        raise BadArgument(f"{name}: must start at a multiple of {ALIGNMENT} bytes; copy it first")
    if writable and array.readonly:
        raise BadArgument(f"{name}: is read-only")
    return ArrayView(array.address, array.keepalive, array.stream)


def _check_strides(array: _Array, operand: Operand) -> None:
    """Raises BadArgument unless the array's strides match the operand's. Their shapes are equal."""
    if array.strides == operand.strides:
        return
    expected, dense = operand.strides, dataclasses.replace(operand, strides=()).strides
    given = array.strides or dense
    matters = [depth for depth, extent in enumerate(operand.shape) if extent > 1]  # one element has no stride
    if all(given[depth] == expected[depth] for depth in matters):
        return
    gaps = [depth for depth, stride in enumerate(expected) if stride != dense[depth]]
    if not gaps:
        raise BadArgument(f"{operand.name}: must be C-contiguous; copy it first, as numpy.ascontiguousarray does")
    if operand.is_dense:
        reason = f"must be channels last, with strides of {expected} bytes; they are {given}"
        raise BadArgument(
            f"{operand.name}: {reason}; give x.contiguous(memory_format=torch.channels_last), or the like"
        )
    rows = gaps[-1]
    reason = f"its rows must start {expected[rows]} bytes apart; they start {given[rows]} bytes apart"
    if given[rows] == expected[rows]:
        reason = f"its strides must be {expected} bytes; they are {given}"
    raise BadArgument(f"{operand.name}: {reason}")


def _of_torch(torch: Any, x: Any, operand: Operand, writable: bool) -> ArrayView:
    if writable:
        check_output(torch, x, operand.name)
    used = x if writable else input_tensor(torch, x, operand)
    stream = torch.cuda.current_stream(x.device).cuda_stream if x.is_cuda else None
    address, shape, dtype, strides = tensor_memory(used, operand)
    view = _checked(_Array(address, shape, dtype, strides, False, used, stream), operand, writable)
    if writable:
        mark_written(torch, x)
    return dataclasses.replace(view, is_copy=used is not x)


def _of_cuda_interface(x: object, interface: dict[str, Any]) -> _Array:
    address, readonly = interface["data"]
    strides, stream = interface.get("strides"), interface.get("stream")
    return _Array(
        address=address,
        shape=tuple(interface["shape"]),
        dtype=_dtype_name(x, interface["typestr"]),
        strides=None if strides is None else tuple(strides),
        readonly=readonly,
        keepalive=x,
        stream=0 if stream == LEGACY_DEFAULT_STREAM else stream,
    )


def _dtype_name(x: object, typestr: str) -> str:
    """NumPy's name of the dtype. A bfloat16 has no type string of its own: it has that of two raw bytes, so its array's
    `dtype` decides.
    """
    name = str(getattr(x, "dtype", "")) if typestr.lstrip("<|=") == "V2" else ""
    return name if name == DType.BFLOAT16.value else str(np.dtype(typestr))


def _of_dlpack_on_gpu(x: object, stream: int | None) -> _Array:
    from cuda.core.utils import StridedMemoryView

    view = StridedMemoryView.from_dlpack(x, stream_ptr=stream or LEGACY_DEFAULT_STREAM)
    strides = None if view.strides is None else tuple(stride * view.dtype.itemsize for stride in view.strides)
    return _Array(
        address=view.ptr,
        shape=tuple(view.shape),
        dtype=str(view.dtype),
        strides=strides,  # DLPack's strides count elements
        readonly=view.readonly,
        keepalive=view,
    )


def _numpy_over_dlpack(x: Any, operand: Operand) -> np.ndarray[Any, Any]:
    try:
        array: np.ndarray[Any, Any] = np.from_dlpack(x)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:  # such as bfloat16, unknown to NumPy
        reason = f"cannot be read by NumPy over DLPack ({str(error).splitlines()[0]})"
        raise BadArgument(f"{operand.name}: {reason}; give an array of NumPy or PyTorch") from None
    return array


def _of_numpy(array: np.ndarray[Any, Any], x: object) -> _Array:
    return _Array(
        address=array.ctypes.data,
        shape=array.shape,
        dtype=str(array.dtype),
        strides=array.strides,
        readonly=not array.flags.writeable,
        keepalive=x,
    )
