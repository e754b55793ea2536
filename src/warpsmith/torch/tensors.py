"""Tensors as plans take them: dense, aligned, outside of autograd."""

from __future__ import annotations

import torch
from torch import Tensor

from warpsmith.devices.base import Allocation
from warpsmith.plans.plan import Plan

_ALIGNMENT = 16
"""Bytes, of `warpsmith.devices.arrays`: what PyTorch allocates begins at a multiple of 64, views may not."""
_TEXTURE_ALIGNMENT = 512
"""Bytes, of images that kernels read through a texture."""
_PLAIN = frozenset((Tensor, torch.nn.Parameter, type(None)))
"""Types of operands that nobody has derived from PyTorch's."""


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
    return x.clone() if x.data_ptr() % alignment else x


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
    Python's: PyTorch's own computes there.
    """
    return not torch.compiler.is_compiling() and torch._C._are_functorch_transforms_active()


def goes_direct(*tensors: Tensor | None) -> bool:
    """Whether a call needs no dispatcher: ordinary tensors, and nobody traces, transforms or intercepts operators.

    On a CPU core an operator of Python's costs 11 us a call, and 37 where a gradient is recorded; a plain
    `torch.autograd.Function` costs 4.
    """
    if torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None:
        return False
    if torch._C._len_torch_dispatch_stack():
        return False
    return _PLAIN.issuperset(map(type, tensors))
