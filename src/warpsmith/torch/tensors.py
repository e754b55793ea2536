"""Tensors as plans take them: dense, aligned, outside of autograd."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.compiler import is_compiling

from warpsmith.devices.base import Allocation
from warpsmith.plans.plan import Plan

_ALIGNMENT = 16
"""Bytes, of `warpsmith.devices.arrays`: what PyTorch allocates begins at a multiple of 64, views may not."""
_TEXTURE_ALIGNMENT = 512
"""Bytes, of images that kernels read through a texture."""
_OPERANDS = Tensor, torch.nn.Parameter
"""Types of operands that nobody has derived from PyTorch's."""
_PLAIN = frozenset(
    (
        *itertools.product(_OPERANDS),
        *itertools.product(_OPERANDS, _OPERANDS),
        *itertools.product(_OPERANDS, _OPERANDS, (*_OPERANDS, type(None))),
    )
)
"""Types of one operand, of two, and of two with a bias or without."""


def usable(
    x: Tensor, alignment: int = _ALIGNMENT, memory_format: torch.memory_format = torch.contiguous_format
) -> Tensor:
    """The same values as a plan takes them: dense in a memory format, aligned, without a gradient; a copy only where
    needed.
    """
    if x.requires_grad or type(x) is not Tensor:
        x = x.detach()
    if not x.is_contiguous(memory_format=memory_format):
        x = x.contiguous(memory_format=memory_format)
    address = x.data_ptr()  # 0 of zeros without memory, which autograd makes
    return x.clone() if not address or address % alignment else x


def usable_image(x: Tensor) -> Tensor:
    """`usable` for images that a kernel may read through a texture."""
    return usable(x, _TEXTURE_ALIGNMENT if x.is_cuda else _ALIGNMENT)


def call(plan: Plan, *operands: Tensor) -> Tensor:
    """A plan's result. Scratch memory on a GPU is PyTorch's, which other layers use again after this call: a network
    of fifty layers would otherwise hold up to 1 GiB for each of 150 plans.
    """
    if not plan.workspace_bytes or not operands[0].is_cuda:
        result: Tensor = plan(*operands)
        return result
    scratch = torch.empty(plan.workspace_bytes, dtype=torch.uint8, device=operands[0].device)
    return plan.call_on(Allocation(scratch.data_ptr(), plan.workspace_bytes), *operands)  # type: ignore[no-any-return]


def is_transformed() -> bool:
    """Whether the caller is within `torch.func.grad`, `vmap` or their kin, which take no operator whose gradient is
    Python's, or within the `vmap` of `torch.autograd.grad(is_grads_batched=True)`: PyTorch's own computes there.
    """
    if is_compiling():
        return _are_transforms_active()
    return bool(_transforms() or _included(_VMAP))


def _are_transforms_active() -> bool:
    return torch._C._are_functorch_transforms_active()


# What `torch.compiler.assume_constant_result` does, which imports the compiler. Its guards look at the transforms.
_are_transforms_active._dynamo_marked_constant = True  # type: ignore[attr-defined]


def is_forward_mode() -> bool:
    """Whether operands may have tangents: the caller is within `torch.autograd.forward_ad.dual_level`."""
    return forward_ad._current_level >= 0


def goes_direct(*operands: Any) -> bool:
    """Whether a call needs no dispatcher: ordinary tensors, and nobody traces, transforms or intercepts operators.

    On a CPU core an operator of Python's costs 11 us a call, and 37 where a gradient is recorded; a plain
    `torch.autograd.Function` costs 4.
    """
    if is_compiling() or _tracing() is not None or _modes() or _transforms():
        return False
    return tuple(map(type, operands)) in _PLAIN


def is_intercepted() -> bool:
    """Whether a backward pass is within function transforms, or within modes that want to see operators."""
    return bool(_modes() or _transforms() or _included(_VMAP))


_tracing, _modes = torch._C._get_tracing_state, torch._C._len_torch_dispatch_stack
_transforms, _included = torch._C._are_functorch_transforms_active, torch._C._dispatch_tls_is_dispatch_key_included
_VMAP: Any = torch._C._parse_dispatch_key("VmapMode")  # its name would be read at each call, in 2 us


def is_traced(*operands: Any) -> bool:
    """Whether `torch.fx.symbolic_trace` records a call."""
    return not is_compiling() and any(isinstance(x, torch.fx.Proxy) for x in operands)


def is_for_torch(*operands: Any) -> bool:
    """Whether PyTorch computes a call that does not go direct, since no operator of ours serves who asks.

    So it is within function transforms, `torch.jit.trace`, whose graphs are to run where warpsmith is not, and beside
    modes within forward mode, which operators of Python do not have; with operands that are no tensors, or have no
    strides; and with classes of tensors that look at PyTorch's functions by name.
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
"""What tensors of a class do that says nothing about functions."""
