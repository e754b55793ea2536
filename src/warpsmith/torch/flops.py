"""Floating-point operation counts of warpsmith's operators, for PyTorch's `FlopCounterMode`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

FORMULAS: dict[Any, Callable[..., int]] = {}
"""Count functions by operator. Each takes the operator's arguments and its result as `out_val`."""


def tell_flop_counters() -> None:
    """Registers the formulas with each `FlopCounterMode` that is active around this call.

    They are not put into the global registry: its module imports Triton, which takes 0.3 s, and this package must not
    load it.
    """
    if torch.compiler.is_compiling():
        return
    for mode in _get_current_dispatch_mode_stack():
        registry = getattr(getattr(mode, "counter", mode), "flop_registry", None)
        if registry is not None:
            registry.update(FORMULAS)


def of_result(_: Any, w: Any, *__: Any, out_val: Any, **___: Any) -> int:
    """FLOPs of y: one multiplication and one addition for each weight and each element of y."""
    return 2 * int(out_val.numel() * math.prod(w.shape[1:]))


def of_input_gradient(dy: Any, w: Any, *_: Any, **__: Any) -> int:
    """FLOPs of the gradient of x."""
    return 2 * int(dy.numel() * math.prod(w.shape[1:]))


def of_weight_gradient(_: Any, dy: Any, size: Any, *__: Any, **___: Any) -> int:
    """FLOPs of the gradient of w, whose shape is `size`."""
    return 2 * int(dy.numel() * math.prod(size[1:]))
