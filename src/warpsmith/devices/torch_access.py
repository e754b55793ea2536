"""Fast calls with PyTorch's tensors. Facts that follow from the problem are computed once, as PyTorch's own objects.

A call then compares and converts nothing: on an EPYC core a tensor's address with all its checks takes 0.6 us, nearly
all of it in PyTorch's getters. PyTorch is never imported here.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from warpsmith.devices.array_access import AddressOf, ArrayAccess, CurrentStream, values_reader
from warpsmith.devices.signature import Signature
from warpsmith.devices.tensors import empty_tensor
from warpsmith.generator.problem import DType, Operand

if TYPE_CHECKING:
    from warpsmith.devices.native_tensors import ExchangeApi

_DLPACK = {
    DType.FLOAT32: (2, 32),
    DType.FLOAT16: (2, 16),
    DType.BFLOAT16: (4, 16),
    DType.INT16: (0, 16),
    DType.UINT8: (1, 8),
    DType.INT32: (0, 32),
    DType.COMPLEX64: (5, 64),
}
"""DLPack's code and bits of each element type."""


def torch_access(
    torch: Any,
    signature: Signature,
    device: Any,
    compiled: ModuleType | None,
    current_stream: CurrentStream | None = None,
) -> ArrayAccess:
    """Reads and allocates tensors on one device.

    Args:
        torch: the module.
        signature: signature of the program.
        device: `torch.device` that the tensors must be on.
        compiled: the module `native_calls`; None to read them in Python.
        current_stream: returns the handle of the current stream there; None for PyTorch's own.
    """
    exchange = _exchange_of(torch, compiled)

    def address_of(operand: Operand, alignment: int) -> AddressOf:
        if exchange is None:
            return _address_of(torch, operand, device, alignment)
        return _compiled_address_of(torch, operand, device, alignment, exchange)

    def memory_of(nbytes: int) -> Callable[[], tuple[Any, int]]:
        return _new_tensors(torch, (nbytes,), (1,), torch.uint8, device, exchange)

    return ArrayAccess(
        address_of=address_of,
        values_of=values_reader(signature.by_value, torch, compiled),
        empty=tuple(_empty_of(torch, each, device, exchange) for each in signature.outputs),
        # Some releases raise for tensors of the inference mode, which have no version: `CheckedCalls` take them.
        mark_written=_version_counter(torch),
        current_stream=current_stream or stream_of(torch, device, exchange),
        on_host=device.type == "cpu",
        memory=None if device.type == "cpu" else memory_of,
    )


def stream_of(torch: Any, device: Any, exchange: ExchangeApi | None) -> CurrentStream:
    """Function that returns the handle of PyTorch's current stream. It returns None on the CPU, which has no
    streams.
    """
    if device.type == "cpu":
        return lambda: None
    ordinal = device.index
    if exchange is not None:
        return exchange.stream_of(ordinal)
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # returns a number, not a Stream object
    if raw is None:
        return lambda: int(torch.cuda.current_stream(device).cuda_stream)
    return lambda: raw(ordinal)


def _exchange_of(torch: Any, compiled: ModuleType | None) -> ExchangeApi | None:
    """PyTorch's exchange functions for C; None if this release, or this installation, has none."""
    if compiled is None:
        return None
    try:
        made: ExchangeApi = compiled.tensors.ExchangeApi(torch.Tensor.__dlpack_c_exchange_api__)
    except (AttributeError, ValueError):  # older than 2.10, or another DLPack version
        return None
    return made


def _compiled_address_of(torch: Any, operand: Operand, device: Any, alignment: int, exchange: ExchangeApi) -> AddressOf:
    """Does the same as `_address_of`, in C."""
    tensor, is_complex = torch.Tensor, operand.dtype is DType.COMPLEX64
    return exchange.reader_of(
        (tensor, torch.nn.Parameter),
        device.index if device.type == "cuda" else None,
        _DLPACK[operand.dtype],
        operand.shape,
        operand.element_strides,
        alignment,
        (tensor.is_neg, tensor.is_conj) if is_complex else (tensor.is_neg,),  # DLPack carries neither bit
        torch.is_grad_enabled,
    )


def _version_counter(torch: Any) -> Callable[[tuple[Any, ...]], None]:
    """Function that tells PyTorch that tensors are written to.

    It is the inner function of PyTorch's public one if that still behaves as expected. It takes a third of the 0.6 us.
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
    except (RuntimeError, TypeError):  # another signature, or an inference tensor, which has no version
        return each_by_itself
    return inner if is_as_found else each_by_itself


def _address_of(torch: Any, operand: Operand, device: Any, alignment: int) -> AddressOf:
    """Reader of a tensor's address. It returns 0 for a tensor that requires a gradient, unless gradients are off.

    A tensor without memory of its own, such as a sparse one, raises RuntimeError.
    """
    tensor, dtype = torch.Tensor, getattr(torch, operand.dtype.value)
    kinds, records = (tensor, torch.nn.Parameter), torch.is_grad_enabled
    shape, strides = torch.Size(operand.shape), operand.element_strides
    is_complex = operand.dtype is DType.COMPLEX64
    misaligned = alignment - 1  # alignments are powers of two

    def lies_so(x: Any) -> bool:
        return bool(x.stride() == strides)

    # PyTorch's is_contiguous, if it checks the same, is faster than building the strides.
    is_laid_out = tensor.is_contiguous if operand.is_in_row_order else lies_so
    # `get_device` returns a number, where `device` makes an object each time. -1 means the CPU, or no memory, whose
    # address is 0.
    get_device, number = tensor.get_device, device.index if device.type == "cuda" else -1

    def address_of(x: Any) -> int:
        if (
            type(x) in kinds
            and x.dtype is dtype
            and x.shape == shape
            and is_laid_out(x)
            and get_device(x) == number
            and not (x.requires_grad and records())
            and not x.is_neg()
            and not (is_complex and x.is_conj())
        ):
            address: int = x.data_ptr()
            return 0 if address & misaligned else address
        return 0

    return address_of


def _empty_of(torch: Any, operand: Operand, device: Any, exchange: ExchangeApi | None) -> Callable[[], tuple[Any, int]]:
    """Makes uninitialised tensors as `empty_tensor` does, with a single call if there are no gaps between rows."""

    def with_gaps() -> tuple[Any, int]:
        x = empty_tensor(torch, operand, device)
        return x, x.data_ptr()

    if not operand.is_dense:
        return with_gaps
    dtype = getattr(torch, operand.dtype.value)
    return _new_tensors(torch, operand.shape, operand.element_strides, dtype, device, exchange)


def _new_tensors(
    torch: Any,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: Any,
    device: Any,
    exchange: ExchangeApi | None,
) -> Callable[[], tuple[Any, int]]:
    """Makes uninitialised tensors, each with its address."""
    empty_strided = torch.empty_strided

    def made() -> tuple[Any, int]:
        x = empty_strided(shape, strides, dtype=dtype, device=device)
        return x, x.data_ptr()

    quicker = None if device.type == "cpu" or exchange is None else _empty_on_current_gpu(torch)
    if quicker is None or exchange is None:
        return made
    current, on_current = quicker
    return exchange.new_tensors(current, device.index, on_current, shape, strides, dtype, made)


def _empty_on_current_gpu(torch: Any) -> tuple[Any, Any] | None:
    """Two functions of PyTorch: one returns the current GPU, one makes a tensor there from a shape, strides and a
    dtype.

    PyTorch's compiled graphs make their results with the second one, in 1.3 us on a Xeon where `torch.empty_strided`
    takes 2.2 us. None if either behaves differently than expected.
    """
    try:
        current, on_current = torch._C._cuda_getDevice, torch._C._dynamo.guards._empty_strided_cuda
        probe = on_current((2, 3), (3, 1), torch.float16)
        facts = tuple(probe.shape), probe.stride(), probe.dtype, probe.get_device()
        return (current, on_current) if facts == ((2, 3), (3, 1), torch.float16, current()) else None
    except (AttributeError, RuntimeError, TypeError):  # another release
        return None
