"""Prepares tensors for plans: dense, aligned and outside autograd."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.compiler import is_compiling

from warpsmith.devices.module import Allocation
from warpsmith.plans.plan import Plan

_ALIGNMENT = 16
"""Bytes; required by `warpsmith.devices.arrays`. PyTorch's allocations begin at a multiple of 64, but views may not."""
_TEXTURE_ALIGNMENT = 512
"""Bytes, for images that kernels read through a texture."""
_OPERANDS = Tensor, torch.nn.Parameter
"""PyTorch's own operand types, without subclasses."""
_PLAIN = frozenset(
    (
        *itertools.product(_OPERANDS),
        *itertools.product(_OPERANDS, _OPERANDS),
        *itertools.product(_OPERANDS, _OPERANDS, (*_OPERANDS, type(None))),
    )
)
"""Type tuples of one operand, of two, and of two with a bias or None."""


def usable(
    x: Tensor, alignment: int = _ALIGNMENT, memory_format: torch.memory_format = torch.contiguous_format
) -> Tensor:
    """The same values as a plan takes them: dense in a memory format, aligned, without a gradient. It copies only if
    needed.
    """
    if x.requires_grad or type(x) is not Tensor:
        x = x.detach()
    if not x.is_contiguous(memory_format=memory_format):
        x = x.contiguous(memory_format=memory_format)
    address = x.data_ptr()  # 0 for zero tensors without memory, which autograd makes
    return x.clone() if not address or address % alignment else x


def usable_image(x: Tensor) -> Tensor:
    """`usable` for images that a kernel may read through a texture."""
    return usable(x, _TEXTURE_ALIGNMENT if x.is_cuda else _ALIGNMENT)


def call(plan: Plan, *operands: Tensor) -> Tensor:
    """Runs a plan and returns its result. Its workspace on a GPU is allocated by PyTorch, so that PyTorch's own
    operators reuse it after this call. Otherwise plans would keep the largest workspace on each stream, up to 1 GiB.
    """
    scratch, memory = _scratch(plan, operands[0])
    result: Tensor = plan(*operands) if memory is None else plan.call_on(memory, *operands)
    del scratch  # it must outlive the call, so that no result lies in it
    return result


def call_as_they_lie(plan: Plan, memory_format: torch.memory_format, *operands: Tensor) -> Tensor:
    """Runs a plan as `call` does, on operands that are made usable in a memory format if the plan cannot take them."""
    scratch, memory = _scratch(plan, operands[0])
    result: Tensor | None = plan.try_fast(operands, memory)
    if result is None:
        # A bias has one dimension, and is dense in no other format.
        formats = [memory_format if each.dim() == 4 else torch.contiguous_format for each in operands]
        given = [usable(x, memory_format=each) for x, each in zip(operands, formats, strict=True)]
        result = plan(*given) if memory is None else plan.call_on(memory, *given)
    del scratch
    return result


def _scratch(plan: Plan, x: Tensor) -> tuple[Tensor | None, Allocation | None]:
    """PyTorch's memory for the workspace of one call; None if the plan needs none, or is not of a GPU."""
    nbytes = plan.workspace_bytes
    if not nbytes or not x.is_cuda:
        return None, None
    scratch = torch.empty(nbytes, dtype=torch.uint8, device=x.device)
    return scratch, Allocation(scratch.data_ptr(), nbytes)


def is_transformed() -> bool:
    """True inside `torch.func.grad`, `vmap` and similar transforms, which take no operator whose gradient is Python
    code, and inside the `vmap` of `torch.autograd.grad(is_grads_batched=True)`. PyTorch computes such calls.
    """
    if is_compiling():
        return _are_transforms_active()
    return bool(_transforms() or _included(VMAP))


def _are_transforms_active() -> bool:
    return torch._C._are_functorch_transforms_active()


# This mark does what `torch.compiler.assume_constant_result` does, without importing the compiler. The compiler's
# guards check the transforms.
_are_transforms_active._dynamo_marked_constant = True  # type: ignore[attr-defined]


def is_forward_mode() -> bool:
    """True inside `torch.autograd.forward_ad.dual_level`, where operands may have tangents."""
    return forward_ad._current_level >= 0


def goes_direct(*operands: Any) -> bool:
    """True if a call needs no dispatcher: its tensors are ordinary, and nothing traces, transforms or intercepts
    operators.

    On a CPU core an operator written in Python costs 11 us a call, and 37 us if a gradient is recorded. A plain
    `torch.autograd.Function` costs 4 us.
    """
    if is_compiling() or _tracing() is not None or _modes() or _transforms():
        return False
    return tuple(map(type, operands)) in _PLAIN


def is_intercepted() -> bool:
    """True if a backward pass runs inside function transforms, or inside modes that must see operators."""
    return bool(_modes() or _transforms() or _included(VMAP))


_tracing, _modes = torch._C._get_tracing_state, torch._C._len_torch_dispatch_stack
_transforms, _included = torch._C._are_functorch_transforms_active, torch._C._dispatch_tls_is_dispatch_key_included
VMAP: Any = torch._C._parse_dispatch_key("VmapMode")  # parsed once: reading the name at each call takes 2 us


def is_traced(*operands: Any) -> bool:
    """True if `torch.fx.symbolic_trace` is recording the call."""
    return not is_compiling() and any(isinstance(x, torch.fx.Proxy) for x in operands)


def is_for_torch(*operands: Any) -> bool:
    """True if PyTorch must compute a call that does not run directly, because no operator of warpsmith can.

    These calls are: inside function transforms; inside `torch.jit.trace`, whose graphs must run without warpsmith; in
    forward mode beside other modes, because Python operators have no forward mode; with operands that are no tensors or
    have no strides; and with tensor classes that override PyTorch's functions by name.
    """
    if is_transformed():
        return True
    if is_compiling():
        return False
    if is_forward_mode() or torch._C._get_tracing_state() is not None:
        return True
    given = operands[:2] if operands[2:] == (None,) else operands  # without a bias
    return not all(isinstance(x, Tensor) and _is_usual(x) for x in given)


def _is_usual(x: Tensor) -> bool:
    hook = type(x).__torch_function__
    is_inherited = getattr(hook, "__func__", hook) in (_INHERITED, torch._C._disabled_torch_function_impl)
    return is_inherited and x.layout is torch.strided


_INHERITED = Tensor.__torch_function__.__func__  # type: ignore[attr-defined]
"""The default `__torch_function__`, of tensor classes that do not override functions."""
