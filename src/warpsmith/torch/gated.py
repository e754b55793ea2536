"""Causal convolutions between two gates, as Hyena and its successors have them, with gradients."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import forward_ad

from warpsmith.errors import BadArgument
from warpsmith.generator.filter1d import Activation, Gates
from warpsmith.generator.filter1d.gates import MAX_PROJECTION
from warpsmith.generator.problem import member
from warpsmith.torch.arguments import Fallback
from warpsmith.torch.bilinear import is_recorded
from warpsmith.torch.causal_layer import computed
from warpsmith.torch.signal_layer import Slice, dense, placed, rows_of
from warpsmith.torch.signal_operators import check_groups, filtered
from warpsmith.torch.tensors import goes_direct

_REALS = (torch.float32, torch.float16, torch.bfloat16)


def gated_conv1d(
    x: Tensor,
    weight: Tensor,
    before: Tensor | None = None,
    after: Tensor | None = None,
    bias: Tensor | None = None,
    activation: str | None = None,
    *,
    projections: Tensor | None = None,
    fallback: str = "default",
    store: str | None = None,
) -> Tensor:
    """A causal convolution of each channel between two gates, in one pass over memory: the mixer of Hyena operators.

    y = after * activation(bias + convolution of (before * x)). The convolution is that of `causal_conv1d_fn`: the last
    tap meets the newest sample. Products of x and `before` are rounded to x's dtype; sums and products with `after`
    are float32. Gradients are those of the convolution by one plan, and products by PyTorch.

    With `projections` x and both gates are filtered first, each channel of each by taps of its own: all of a Hyena
    operator behind its linear projections. Signals whose samples lie side by side need no further pass for this; the
    channels side by side are filtered by passes of their own.

    Args:
        x: (batch, dim, length), dense in this order, or with the channels side by side.
        weight: (filters, width), float32 or of x's dtype; each filter is that of dim / filters neighbouring channels.
        before, after: as x, or None for no gate.
        bias: (dim,), or None.
        activation: `silu`, or `swish`, which is the same; or None.
        projections: (3, dim, taps), of the weight's dtype: causal filters of x, `before` and `after`; or None.
        fallback, store: as for `warpsmith.torch.conv1d`.

    Returns:
        y, like x and in its order of dimensions in memory.

    Raises:
        BadArgument: operands that do not fit together, another dtype, or an unknown activation or fallback.

    Source: Poli et al. 2023, "Hyena Hierarchy: Towards Larger Convolutional Language Models", section 3.2.
    """
    choice = str(member(Fallback, fallback, "fallback")), store
    word = None if activation is None else str(member(Activation, activation, "activation"))
    check_groups(x, weight, bias)
    _check_gates(x, before, after)
    _check_projections(x, weight, before, after, projections)
    call = _Call(Slice(1 - weight.shape[1], x.shape[2], activation=word), choice)
    return call.run(_Operands(x, weight, bias, before, after, projections))


class _Operands(NamedTuple):
    x: Tensor
    w: Tensor
    b: Tensor | None
    before: Tensor | None
    after: Tensor | None
    projections: Tensor | None


@dataclasses.dataclass(frozen=True, slots=True)
class _Call:
    """A filter between gates, and where its plan comes from."""

    part: Slice
    choice: tuple[str, str | None]

    def run(self, given: _Operands) -> Tensor:
        """Result by one plan, or by several where one gains nothing or others must see operators."""
        x = given.x
        there = [each for each in (x, given.before, given.after) if each is not None]
        is_direct = goes_direct(x, given.w, given.b) and all(type(each) is Tensor for each in there)
        is_apart = given.projections is not None and x.stride(1) == 1 and x.shape[1] > 1
        if len(there) == 1 or not is_direct or is_apart or self.choice[0] == Fallback.TORCH:
            return self.composed(given)
        if any(is_recorded(each) for each in given if each is not None):
            if forward_ad._current_level >= 0:
                return self.composed(given)
            return _Gated.apply(*given, self)  # type: ignore[no-any-return, no-untyped-call]
        return self.planned(given)

    def composed(self, given: _Operands) -> Tensor:
        """The filter, and products by PyTorch before and after it, which record derivatives themselves."""
        x, w, b, before, after, projections = given
        if projections is not None:
            assert before is not None
            assert after is not None
            part = Slice(1 - projections.shape[2], x.shape[2])
            x, before, after = (
                filtered(each, own, None, part, self.choice)
                for each, own in zip((x, before, after), projections, strict=True)
            )
        y = filtered(x if before is None else x * before, w, b, self.part, self.choice)
        return y if after is None else y * after

    def planned(self, given: _Operands) -> Tensor:
        """All by one plan. Raises BadArgument if no plan computes the problem."""
        x, w, b, before, after, projections = given
        x, placement = placed(x)
        if before is not None:
            own, there = placed(before)
            if there != placement:  # a plan reads both with one pitch
                x, placement = dense(x, placement.layout)
                own, _ = dense(before, placement.layout)
            before = own
        if after is not None:
            after, _ = dense(after, placement.layout)
        gates = Gates.BOTH if before is not None and after is not None else None
        gates = gates or (Gates.AFTER if before is None else Gates.BEFORE)
        tensors = {"signal": x, "weights": w, "bias": b, "gate_before": before, "gate_after": after}
        tensors["projections"] = None if projections is None else projections.contiguous()
        fields = {"gates": gates, "projection": None if projections is None else projections.shape[2]}
        found = computed(x, w, b, placement, self.part, fields, self.choice, tensors)
        return rows_of(found["result"], placement.layout, (len(x), x.shape[1], x.shape[2]))


class _Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *given: Any) -> Tensor:
        *operands, call = given
        ctx.save_for_backward(*operands)
        ctx.call = call
        return call.planned(_Operands(*operands))  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Filters again, since the gradient of the last gate needs its outputs."""
        (dy,), saved, needed = gradients, ctx.saved_tensors, ctx.needs_input_grad[:6]
        is_recorded_again = torch.is_grad_enabled()
        given = saved if is_recorded_again else [each if each is None else each.detach() for each in saved]
        with torch.enable_grad():
            if not is_recorded_again:
                given = [
                    each.requires_grad_() if is_needed else each for each, is_needed in zip(given, needed, strict=True)
                ]
            wanted = [each for each, is_needed in zip(given, needed, strict=True) if is_needed]
            y = ctx.call.composed(_Operands(*given))
            found = iter(torch.autograd.grad(y, wanted, dy, create_graph=is_recorded_again))
        return *(next(found) if is_needed else None for is_needed in needed), None


def _check_projections(
    x: Tensor, w: Tensor, before: Tensor | None, after: Tensor | None, projections: Tensor | None
) -> None:
    """Raises BadArgument for projections that do not fit the signals and the gates."""
    if projections is None:
        return
    if before is None or after is None:
        raise BadArgument("projections filter x, before and after; give both gates")
    shape = tuple(projections.shape)
    if len(shape) != 3 or shape[:2] != (3, x.shape[1]) or not 1 <= shape[2] <= MAX_PROJECTION:
        raise BadArgument(f"projections: takes (3, {x.shape[1]}, 1 to {MAX_PROJECTION}), got {shape}")
    if projections.dtype is not w.dtype or projections.device != x.device:
        raise BadArgument(
            f"projections: takes {w.dtype} on {x.device}, got {projections.dtype} on {projections.device}"
        )


def _check_gates(x: Tensor, before: Tensor | None, after: Tensor | None) -> None:
    """Raises BadArgument for gates that do not fit the signals."""
    if x.dtype not in _REALS:
        raise BadArgument(f"gates are for float32, float16 and bfloat16 signals; x is {x.dtype}")
    for name, gate in (("before", before), ("after", after)):
        if gate is not None and (gate.shape != x.shape or gate.dtype is not x.dtype or gate.device != x.device):
            raise BadArgument(
                f"{name}: takes {tuple(x.shape)} of {x.dtype} on {x.device}, as x is; got {tuple(gate.shape)} of "
                f"{gate.dtype} on {gate.device}"
            )
