"""Calls with PyTorch's tensors: what follows from the problem is made once, in PyTorch's own objects.

A call then compares, and converts nothing: on an EPYC core a tensor's address with all its checks takes 0.6 us, nearly
all of it in PyTorch's getters. PyTorch is never imported here.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from warpsmith.devices.quick_library import AddressOf, CurrentStream, Library
from warpsmith.devices.quick_values import quick_values
from warpsmith.devices.signature import Signature
from warpsmith.devices.tensors import empty_tensor
from warpsmith.generator.problem import DType, Operand

if TYPE_CHECKING:
    from warpsmith.devices.native_calls import ExchangeApi

_DLPACK = {
    DType.FLOAT32: (2, 32),
    DType.FLOAT16: (2, 16),
    DType.BFLOAT16: (4, 16),
    DType.UINT8: (1, 8),
    DType.COMPLEX64: (5, 64),
}
"""DLPack's code and bits of element types."""


def torch_library(
    torch: Any,
    signature: Signature,
    device: Any,
    compiled: ModuleType | None,
    current_stream: CurrentStream | None = None,
) -> Library:
    """How tensors on one device are read and made.

    Args:
        torch: the module.
        signature: of the program.
        device: `torch.device` that the tensors must be on.
        compiled: the module `native_calls`; None to read them in Python.
        current_stream: gives the handle of the current stream there; None for PyTorch's own.
    """
    exchange = _exchange_of(torch, compiled)

    def address_of(operand: Operand, alignment: int) -> AddressOf:
        if exchange is None:
            return _address_of(torch, operand, device, alignment)
        return _compiled_address_of(torch, operand, device, alignment, exchange)

    return Library(
        address_of=address_of,
        values=quick_values(signature.by_value, torch, compiled),
        empty=_empty_of(torch, signature.outputs[0], device),
        # Releases that raise for tensors of the inference mode, which have no version, leave those to `AnyCalls`.
        mark_written=_version_counter(torch),
        current_stream=current_stream or stream_of(torch, device, exchange),
        on_host=device.type == "cpu",
    )


def stream_of(torch: Any, device: Any, exchange: ExchangeApi | None) -> CurrentStream:
    """What gives the handle of PyTorch's current stream; None on the CPU, which has none."""
    if device.type == "cpu":
        return lambda: None
    ordinal = device.index
    if exchange is not None:
        return exchange.stream_of(ordinal)
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # a number; the public way makes a Stream of it
    if raw is None:
        return lambda: int(torch.cuda.current_stream(device).cuda_stream)
    return lambda: raw(ordinal)


def _exchange_of(torch: Any, compiled: ModuleType | None) -> ExchangeApi | None:
    """PyTorch's functions for C; None where this release, or this installation, has none."""
    if compiled is None:
        return None
    try:
        made: ExchangeApi = compiled.ExchangeApi(torch.Tensor.__dlpack_c_exchange_api__)
    except (AttributeError, ValueError):  # older than 2.10; another version of DLPack
        return None
    return made


def _compiled_address_of(torch: Any, operand: Operand, device: Any, alignment: int, exchange: ExchangeApi) -> AddressOf:
    """The same as `_address_of`."""
    tensor, is_complex = torch.Tensor, operand.dtype is DType.COMPLEX64
    return exchange.reader_of(
        tensor,
        device.index if device.type == "cuda" else None,
        _DLPACK[operand.dtype],
        operand.shape,
        operand.element_strides,
        alignment,
        (tensor.is_neg, tensor.is_conj) if is_complex else (tensor.is_neg,),  # DLPack tells neither
    )


def _version_counter(torch: Any) -> Callable[[tuple[Any, ...]], None]:
    """What tells PyTorch that tensors are written to: what its public function calls, where that is as it was found to
    be, in a third of the 0.6 us.
    """
    public = torch.autograd.graph.increment_version
    inner: Callable[[tuple[Any, ...]], None] | None = getattr(torch._C, "_increment_version", None)

    def each_by_itself(arrays: tuple[Any, ...]) -> None:
        for x in arrays:
            public(x)

    if inner is None:
        return each_by_itself
    try:
        probe = torch.empty(0)
        before = probe._version
        inner((probe,))
        is_as_found = probe._version == before + 1
    except (RuntimeError, TypeError):  # another form, or a tensor of the inference mode, which has no version
        return each_by_itself
    return inner if is_as_found else each_by_itself


def _address_of(torch: Any, operand: Operand, device: Any, alignment: int) -> AddressOf:
    """A tensor that requires a gradient may be allowed, with gradients off: that is for `AnyCalls` to say.

    A tensor without memory of its own, such as a sparse one, raises RuntimeError.
    """
    tensor, dtype = torch.Tensor, getattr(torch, operand.dtype.value)
    shape, strides = torch.Size(operand.shape), operand.element_strides
    is_complex = operand.dtype is DType.COMPLEX64
    misaligned = alignment - 1  # alignments are powers of two

    def lies_so(x: Any) -> bool:
        return bool(x.stride() == strides)

    # A method of PyTorch's, where it asks the same, is quicker than building the strides.
    is_laid_out = tensor.is_contiguous if operand.is_in_row_order else lies_so
    # A number, where `device` is an object each time. -1 is the CPU, and what has no memory: its address is 0.
    get_device, number = tensor.get_device, device.index if device.type == "cuda" else -1

    def address_of(x: Any) -> int:
        if (
            type(x) is tensor
            and x.dtype is dtype
            and x.shape == shape
            and is_laid_out(x)
            and get_device(x) == number
            and not x.requires_grad
            and not x.is_neg()
            and not (is_complex and x.is_conj())
        ):
            address: int = x.data_ptr()
            return 0 if address & misaligned else address
        return 0

    return address_of


def _empty_of(torch: Any, operand: Operand, device: Any) -> Callable[[], tuple[Any, int]]:
    """Makes uninitialised tensors as `empty_tensor` does, by one call where nothing lies between rows."""
    shape, strides, dtype = operand.shape, operand.element_strides, getattr(torch, operand.dtype.value)
    empty_strided = torch.empty_strided

    def dense() -> tuple[Any, int]:
        x = empty_strided(shape, strides, dtype=dtype, device=device)
        return x, x.data_ptr()

    def with_gaps() -> tuple[Any, int]:
        x = empty_tensor(torch, operand, device)
        return x, x.data_ptr()

    if not operand.is_dense:
        return with_gaps
    quicker = None if device.type == "cpu" else _empty_on_current_gpu(torch)
    if quicker is None:
        return dense
    (current, on_current), ordinal = quicker, device.index

    def dense_on_gpu() -> tuple[Any, int]:
        if current() != ordinal:
            return dense()
        x = on_current(shape, strides, dtype)
        return x, x.data_ptr()

    return dense_on_gpu


def _empty_on_current_gpu(torch: Any) -> tuple[Any, Any] | None:
    """What tells the current GPU, and what makes a tensor there of a shape, strides and a dtype.

    PyTorch's compiled graphs make their results so, in 1.3 us on a Xeon where `torch.empty_strided` takes 2.2. None
    where it is not as it was found to be.
    """
    try:
        current, on_current = torch._C._cuda_getDevice, torch._C._dynamo.guards._empty_strided_cuda
        probe = on_current((2, 3), (3, 1), torch.float16)
        told = tuple(probe.shape), probe.stride(), probe.dtype, probe.get_device()
        return (current, on_current) if told == ((2, 3), (3, 1), torch.float16, current()) else None
    except (AttributeError, RuntimeError, TypeError):  # another release
        return None
