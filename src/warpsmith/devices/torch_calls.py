"""Calls with PyTorch's tensors: what follows from the problem is made once, in PyTorch's own objects.

A call then compares, and converts nothing: on an EPYC core a tensor's address with all its checks takes 0.6 us, nearly
all of it in PyTorch's getters. PyTorch is never imported here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from warpsmith.devices.arrays import in_row_order
from warpsmith.devices.calls import QuickCalls
from warpsmith.devices.quick_library import AddressOf, Library, quick_calls_of
from warpsmith.devices.quick_values import quick_values
from warpsmith.devices.signature import Signature
from warpsmith.generator.problem import DType, Operand


def torch_calls(torch: Any, signature: Signature, device: Any, current_stream: Callable[[], int | None]) -> QuickCalls:
    """Reads calls with tensors on one device.

    Args:
        torch: the module.
        signature: of the program.
        device: `torch.device` that the tensors must be on.
        current_stream: gives the handle of PyTorch's current stream there; None on a device without streams.
    """
    library = Library(
        address_of=lambda operand, alignment: _address_of(torch, operand, device, alignment),
        values=quick_values(signature.by_value, torch),
        empty=_empty_of(torch, signature.outputs[0], device),
        # Releases that raise for tensors of the inference mode, which have no version, leave those to `AnyCalls`.
        mark_written=_version_counter(torch),
        current_stream=current_stream,
        on_host=device.type == "cpu",
    )
    return quick_calls_of(library, signature)


def stream_of(torch: Any, device: Any) -> Callable[[], int | None]:
    """What gives the handle of PyTorch's current stream on a GPU."""
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # a number; the public way makes a Stream of it
    ordinal = device.index
    if raw is None:
        return lambda: int(torch.cuda.current_stream(device).cuda_stream)
    return lambda: raw(ordinal)


def _version_counter(torch: Any) -> Callable[[Any], None]:
    """What tells PyTorch that a tensor is written to: what its public function calls, where that is as it was found to
    be, in a third of the 0.6 us.
    """
    public: Callable[[Any], None] = torch.autograd.graph.increment_version
    inner = getattr(torch._C, "_increment_version", None)
    if inner is None:
        return public
    try:
        probe = torch.empty(0)
        before = probe._version
        inner((probe,))
        is_as_found = probe._version == before + 1
    except (RuntimeError, TypeError):  # another form, or a tensor of the inference mode, which has no version
        return public
    return (lambda x: inner((x,))) if is_as_found else public


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
    is_laid_out = tensor.is_contiguous if in_row_order(operand) else lies_so
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
    """Makes uninitialised tensors as `tensors.empty_tensor` does, by one call where nothing lies between rows."""
    shape, strides, dtype = torch.Size(operand.shape), operand.element_strides, getattr(torch, operand.dtype.value)
    elements = operand.allocated_bytes // operand.dtype.itemsize
    empty, empty_strided, is_dense = torch.empty, torch.empty_strided, operand.is_dense

    def made() -> tuple[Any, int]:
        if is_dense:
            x = empty_strided(shape, strides, dtype=dtype, device=device)
        else:
            x = empty(elements, dtype=dtype, device=device).as_strided(shape, strides)
        return x, x.data_ptr()

    return made
