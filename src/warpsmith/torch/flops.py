"""Floating-point operations of our operators, for PyTorch's `FlopCounterMode`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

FORMULAS: dict[Any, Callable[..., int]] = {}
"""Counters by operator: each counts its operations, from its arguments and `out_val`, its result."""


def tell_flop_counters() -> None:
    """Gives each `FlopCounterMode` around this call the formulas of our operators.

    The counter's own registry is told when it meets us: its module imports Triton, which takes 0.3 s, so that this
    package does not load it.
    """
    if torch.compiler.is_compiling():
        return
    for mode in _get_current_dispatch_mode_stack():
        registry = getattr(getattr(mode, "counter", mode), "flop_registry", None)
        if registry is not None:
            registry.update(FORMULAS)


def of_result(_: Any, w: Any, *__: Any, out_val: Any, **___: Any) -> int:
    """Operations of y: a product and a sum for each weight of each of its numbers."""
    return 2 * int(out_val.numel() * math.prod(w.shape[1:]))


def of_input_gradient(dy: Any, w: Any, *_: Any, **__: Any) -> int:
    """Operations of the gradient of x."""
    return 2 * int(dy.numel() * math.prod(w.shape[1:]))


def of_weight_gradient(_: Any, dy: Any, size: Any, *__: Any, **___: Any) -> int:
    """Operations of the gradient of w, whose shape is `size`."""
    return 2 * int(dy.numel() * math.prod(size[1:]))
