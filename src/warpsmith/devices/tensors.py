"""Checks PyTorch tensors: some are used in place, some are copied, some are refused.

PyTorch is never imported here, because a tensor exists only if PyTorch is loaded already.
"""

from __future__ import annotations

import sys
from typing import Any

from warpsmith.errors import BadArgument
from warpsmith.generator.problem import Operand


def torch_of(x: object) -> Any:
    """The module `torch` if `x` is one of its tensors; None otherwise."""
    torch = sys.modules.get("torch")
    tensor = getattr(torch, "Tensor", None)  # missing while another thread imports PyTorch
    return torch if tensor is not None and isinstance(x, tensor) else None


def check_tensor(torch: Any, x: Any, name: str) -> None:
    """Raises BadArgument if a plan would silently compute something else than PyTorch's operators do."""
    if x.requires_grad and torch.is_grad_enabled():
        remedy = "pass x.detach(), or call the plan within torch.no_grad()"
        raise BadArgument(f"{name}: requires a gradient, and plans compute none; {remedy}")
    if x.layout is not torch.strided:
        raise BadArgument(f"{name}: is a tensor of layout {x.layout}; make it dense first, with x.to_dense()")


def input_tensor(torch: Any, x: Any, operand: Operand) -> Any:
    """`x`, or a copy with the operand's strides if its memory does not hold its values.

    That is so if PyTorch's conjugate or negative bit is set: the values are then the conjugates or negatives of the
    memory. The copy is made on PyTorch's current stream.

    Raises:
        BadArgument: it requires a gradient, or is not dense.
    """
    check_tensor(torch, x, operand.name)
    is_like_operand = (tuple(x.shape), _dtype_name(x)) == (operand.shape, operand.dtype.value)
    if not is_like_operand or not has_lazy_bits(x):  # the caller's shape checks refuse one that does not fit
        return x
    copy = empty_tensor(torch, operand, x.device)
    copy.copy_(x.detach())
    return copy


def check_output(torch: Any, x: Any, name: str) -> None:
    """Raises BadArgument if `x` requires a gradient, is not dense, or has its conjugate or negative bit set."""
    check_tensor(torch, x, name)
    if has_lazy_bits(x):
        reason = "out= has PyTorch's conjugate or negative bit set, so its memory does not hold its values"
        raise BadArgument(f"{name}: {reason}; give a tensor that is no conjugated or negated view")


def mark_written(torch: Any, x: Any) -> None:
    """Tells autograd that `x` is written to, as PyTorch's own in-place operations do."""
    if not x.is_inference():  # inference tensors have no version
        torch.autograd.graph.increment_version(x)


def version_of(x: Any) -> int | None:
    """Number of in-place changes of a tensor, as autograd counts them; None if it has no such count."""
    if torch_of(x) is None or x.is_inference():
        return None
    return int(x._version)


def has_lazy_bits(x: Any) -> bool:
    """True if the tensor's values are the conjugates or negatives of its memory."""
    return bool(x.is_conj() or x.is_neg())


def empty_tensor(torch: Any, operand: Operand, device: Any) -> Any:
    """An uninitialised tensor of the operand's shape, dtype and strides, with memory up to the end of its last row.

    It is no view, because autograd lets nothing change a custom function's result in place that is one.
    """
    dtype = getattr(torch, operand.dtype.value)
    flat = torch.empty(operand.allocated_bytes // operand.dtype.itemsize, dtype=dtype, device=device)
    return flat.as_strided_(operand.shape, operand.element_strides)


def tensor_memory(x: Any, operand: Operand) -> tuple[int, tuple[int, ...], str, tuple[int, ...]]:
    """Address, shape, dtype by NumPy's name, and strides in bytes.

    PyTorch's own methods are used, because its array interface names no stream.

    Raises:
        BadArgument: it has no memory of its own.
    """
    try:
        address = x.data_ptr()
    except RuntimeError:  # inside torch.vmap, torch.func.grad and torch.compile
        raise BadArgument(f"{operand.name}: is a {type(x).__name__} of PyTorch's without memory of its own") from None
    strides = tuple(stride * x.element_size() for stride in x.stride())
    return address, tuple(x.shape), _dtype_name(x), strides


def record_use(torch: Any, x: Any, stream: int) -> None:
    """Keeps PyTorch from reusing a tensor's memory before the work that is queued on `stream` now is done.

    Args:
        torch: the module.
        x: the tensor.
        stream: handle of a stream of the tensor's GPU, other than the one on which the tensor was made.
    """
    used_on = torch.cuda.ExternalStream(stream, device=x.device) if stream else torch.cuda.default_stream(x.device)
    x.record_stream(used_on)


def _dtype_name(x: Any) -> str:
    return str(x.dtype).removeprefix("torch.")
