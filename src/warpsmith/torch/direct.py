"""Calls of convolutions that were made before with operands that lie alike: compiled code finds and computes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.compiler import is_compiling

from warpsmith.generator.conv2d import Pass
from warpsmith.plans.plan import Plan
from warpsmith.torch.answers import Answer, new_cache
from warpsmith.torch.layers import FORWARD, TRANSPOSED, ConvLayer

if TYPE_CHECKING:
    from warpsmith.torch.native_layers import CallTable


def _table(is_transposed: bool) -> CallTable | None:
    """A table; None without compiled code, or if this release of PyTorch lacks a function that it needs."""
    try:
        from warpsmith.torch.native_layers import CallTable, DirectCall
    except (AttributeError, ImportError):
        return None

    passes = TRANSPOSED if is_transposed else FORWARD

    def call_of(layer: ConvLayer, bias: bool, is_cast: bool) -> DirectCall:
        bias = bias and not is_transposed  # a separate step adds the bias of a transposed convolution
        return DirectCall(
            layer,
            lambda: _forward_plan(layer, bias),
            lambda: _plan_of(layer.answer(Pass.DGRAD)),
            lambda: _plan_of(layer.answer(Pass.WGRAD)),
            lambda: _are_planned(layer, bias, passes),
            is_cast,
            is_transposed,
        )

    try:
        return CallTable(new_cache(), call_of)
    except (AttributeError, ValueError):  # older than 2.10, or another version of DLPack
        return None


def _forward_plan(layer: ConvLayer, bias: bool) -> Plan | None:
    """The plan of y; None if PyTorch computes it, or adds the bias."""
    plan = _plan_of(layer.answer(Pass.FPROP, bias))
    return None if plan is None or (bias and not plan.problem.bias) else plan  # type: ignore[attr-defined]


def _plan_of(answer: Answer | None) -> Plan | None:
    return None if answer is None else answer.plan


def _are_planned(layer: ConvLayer, bias: bool, passes: tuple[Pass, Pass, Pass]) -> tuple[bool, ...]:
    """Whether plans compute a pass that is needed if both x and w require a gradient, x alone, w alone, and neither."""
    needed = passes, passes[:2], passes[::2], passes[:1]
    return tuple(not layer.is_left_to_torch(each, bias) for each in needed)


_TABLES = _table(False), _table(True)
"""Calls of convolutions, and of transposed ones."""


def called_before(x: Any, w: Any, b: Any, words: tuple[Any, ...], is_transposed: bool = False) -> Tensor | None:
    """Computes a call of a kind that `keep` stored; None for any other, if a tool traces the call, and if PyTorch
    computes the layer.
    """
    if is_compiling():  # before anything else, so that the compiler traces no compiled object
        return None
    table = _TABLES[is_transposed]
    return None if table is None else table.result(x, w, b, words)


def keep(
    x: Tensor, w: Tensor, b: Tensor | None, words: tuple[Any, ...], layer: ConvLayer, is_transposed: bool = False
) -> None:
    """Stores a call of a layer for `called_before`."""
    table = _TABLES[is_transposed]
    if table is not None:
        table.store(x, w, b, words, layer)
