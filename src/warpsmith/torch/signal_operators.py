"""Filters of signals as autograd functions, which have the lowest overhead, and as operators of the dispatcher, which
torch.compile and similar tools can trace.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from warpsmith.errors import BadArgument
from warpsmith.generator.filter1d import SignalLayout
from warpsmith.torch import arguments
from warpsmith.torch.answers import new_cache
from warpsmith.torch.arguments import Source
from warpsmith.torch.bilinear import LIBRARY, TAGS, is_recorded
from warpsmith.torch.signal_layer import (
    Gradients,
    Needed,
    Placement,
    SignalLayer,
    Slice,
    composed,
    composed_gradients,
    dense,
    key_of,
    placed,
    problem_of,
)
from warpsmith.torch.tensors import goes_direct, is_for_torch, is_intercepted

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.complex64)
"""Element types of signals."""


def check_rows(x: Tensor, w: Tensor, b: Tensor | None) -> None:
    """Raises BadArgument unless each channel has a filter of its own, and operands fit together."""
    check_groups(x, w, b)
    if len(w) != x.shape[1]:
        raise BadArgument(f"x has {x.shape[1]} channels; got {len(w)} filters{'' if b is None else f', bias {len(b)}'}")


def check_groups(x: Tensor, w: Tensor, b: Tensor | None) -> None:
    """Raises BadArgument unless filters divide the channels, and operands fit together."""
    if x.dim() != 3 or w.dim() != 2 or (b is not None and b.dim() != 1):
        given = ", ".join(str(tuple(each.shape)) for each in (x, w, b) if each is not None)
        raise BadArgument(f"takes signals (batch, channels, samples), weights (channels, taps) and bias; got {given}")
    if (len(w) and x.shape[1] % len(w)) or (b is not None and len(b) != x.shape[1]):
        raise BadArgument(f"x has {x.shape[1]} channels; got {len(w)} filters{'' if b is None else f', bias {len(b)}'}")
    if 0 in x.shape or 0 in w.shape:
        raise BadArgument(f"x and weight need elements; their shapes are {tuple(x.shape)} and {tuple(w.shape)}")
    if x.dtype not in DTYPES:
        raise BadArgument(f"x: takes float32, float16, bfloat16 and complex64, got {_name(x.dtype)}")
    if w.dtype not in (torch.float32, x.dtype):
        raise BadArgument(f"weight: takes float32, or x's {_name(x.dtype)}; got {_name(w.dtype)}")


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def filtered(x: Tensor, w: Tensor, b: Tensor | None, part: Slice, choice: tuple[str, str | None]) -> Tensor:
    """Filters signals (batch, channels, samples) by weights (filters, taps)."""
    if w.requires_grad and w.device != x.device:
        w = w.to(x.device)
    b = b if b is None else b.to(w.dtype)
    if goes_direct(x, w, b):
        if arguments.device_name(x.device) is None:
            raise BadArgument(f"filters compute on CUDA GPUs and the CPU; the signals are on {x.device}")
        x, placement = placed(x)
        layer = _layer(x, w, b, placement, part, choice)
        if is_recorded(x, w, b):
            if forward_ad._current_level >= 0 or x.is_complex():
                return composed(x, w, b, part)
            return _Filter.apply(x, w, b, layer)  # type: ignore[no-any-return, no-untyped-call]
        return layer.forward(x, w, b)
    if is_for_torch(x, w, b) or x.is_complex():
        return composed(x, w, b, part)
    result: Tensor = torch.ops.warpsmith.filter1d(x, w, b, *_words(part), *choice)
    return result


class _Filter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, b: Tensor | None, layer: SignalLayer) -> Tensor:
        ctx.save_for_backward(x, w, b)
        ctx.layer = layer
        return layer.forward(x, w, b).detach()  # no view of another tensor, which PyTorch lets nobody change in place

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (dy,), (x, w, b) = gradients, ctx.saved_tensors
        needed = Needed(*ctx.needs_input_grad[:3])
        if torch.is_grad_enabled() or is_intercepted():
            return *composed_gradients(dy, x, w, b, ctx.layer.slice, needed), None
        return *ctx.layer.gradients(dy, x, w, b, needed), None


_LAYERS: dict[Any, SignalLayer] = new_cache()


def _layer(
    x: Tensor, w: Tensor, b: Tensor | None, placement: Placement, part: Slice, choice: tuple[str, str | None]
) -> SignalLayer:
    """The layer of a call, cached."""
    key = (*key_of(x, w, b, placement, part), choice)
    found = _LAYERS.get(key)
    if found is None:
        source = Source.of(x.device, *choice)
        assert source is not None  # the device was checked
        found = _LAYERS[key] = SignalLayer(problem_of(x, w, b, placement, part), source)
    return found


_WORDS = "SymInt first_lag, SymInt outputs, SymInt down, bool convolve, str? activation, str precision, "
_WORDS += "str fallback, str? store"


_SLICE_WORDS = len(dataclasses.fields(Slice))


def _words(part: Slice) -> tuple[Any, ...]:
    return part.first_lag, part.outputs, part.down, part.convolve, part.activation, part.precision


def _divided(words: Sequence[Any]) -> tuple[Slice, Any]:
    """The slice that an operator's words begin with, and its choice of an answer."""
    return Slice(*words[:_SLICE_WORDS]), words[_SLICE_WORDS:]


def _layout(x: Tensor) -> SignalLayout:
    """The order of dimensions that results have, as in memory."""
    return SignalLayout.BTC if x.stride(1) == 1 and x.stride(2) > 1 and x.shape[1] > 1 else SignalLayout.BCT


def _empty(x: Tensor, samples: Any) -> Tensor:
    """An uninitialised result in the layout of `x`."""
    batch, channels, _ = x.shape
    if _layout(x) is SignalLayout.BTC:
        return x.new_empty((batch, samples, channels)).mT
    return x.new_empty((batch, channels, samples))


def _run(x: Tensor, w: Tensor, b: Tensor | None, *words: Any) -> Tensor:
    """`warpsmith::filter1d` on signals in any placement; results have no gaps."""
    x, placement = dense(x, _layout(x))
    part, choice = _divided(words)
    return dense(_layer(x, w, b, placement, part, choice).forward(x, w, b), placement.layout)[0]


def _run_gradients(
    dy: Tensor, x: Tensor, w: Tensor, b: Tensor | None, needed: Sequence[bool], *words: Any
) -> list[Tensor]:
    """`warpsmith::filter1d_gradients`: those that are needed, in the order of the operands."""
    x, placement = dense(x, _layout(x))
    layer = _layer(x, w, b, placement, *_divided(words))
    return [each for each in layer.gradients(dy, x, w, b, Needed(*needed)) if each is not None]


def _fake(x: Tensor, w: Tensor, b: Tensor | None, *words: Any) -> Tensor:  # noqa: ARG001
    return _empty(x, words[1])


def _fake_gradients(
    dy: Tensor,  # noqa: ARG001
    x: Tensor,
    w: Tensor,
    b: Tensor | None,
    needed: Sequence[bool],
    *words: Any,  # noqa: ARG001
) -> list[Tensor]:
    made = _empty(x, x.shape[2]), torch.empty_like(w), None if b is None else torch.empty_like(b)
    return [each for each, is_needed in zip(made, needed, strict=True) if is_needed and each is not None]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ARG001
    x, w, b, *words = inputs
    ctx.save_for_backward(x, w, b)
    ctx.words = words


def _backward(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
    x, w, b = ctx.saved_tensors
    needed = list(ctx.needs_input_grad[:3])
    found = iter(torch.ops.warpsmith.filter1d_gradients(dy, x, w, b, needed, *ctx.words))
    return *(next(found) if each else None for each in needed), *(None for _ in ctx.words)


def _keep_gradients(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ARG001
    dy, x, w, b, needed, *words = inputs
    ctx.save_for_backward(dy, x, w, b)
    ctx.needed, ctx.words = Needed(*needed), words


def _backward_of_gradients(ctx: Any, gradients: Sequence[Tensor | None]) -> tuple[Any, ...]:
    """Gradients of gradients, by PyTorch's operations."""
    with torch.enable_grad():
        given = [each if each is None else each.detach().requires_grad_() for each in ctx.saved_tensors]
        dy, x, w, b = given
        found: Gradients = composed_gradients(dy, x, w, b, _divided(ctx.words)[0], ctx.needed)  # type: ignore[arg-type]
        results = [each for each in found if each is not None]
        used = [place for place, gradient in enumerate(gradients) if gradient is not None]
        wanted = [each for each in given if each is not None]
        outputs, weights = [results[place] for place in used], [gradients[place] for place in used]
        again = iter(torch.autograd.grad(outputs, wanted, weights, allow_unused=True))
    return *(None if each is None else next(again) for each in given), None, *(None for _ in ctx.words)


LIBRARY.define(f"filter1d(Tensor x, Tensor w, Tensor? b, {_WORDS}) -> Tensor", tags=TAGS)
LIBRARY.define(
    f"filter1d_gradients(Tensor dy, Tensor x, Tensor w, Tensor? b, bool[] needed, {_WORDS}) -> Tensor[]", tags=TAGS
)
for _name_of, _kernel, _made in (
    ("filter1d", _run, _fake),
    ("filter1d_gradients", _run_gradients, _fake_gradients),
):
    LIBRARY.impl(_name_of, _kernel, "CompositeExplicitAutograd")
    torch.library.register_fake(f"warpsmith::{_name_of}", _made, lib=LIBRARY)
torch.library.register_autograd("warpsmith::filter1d", _backward, setup_context=_keep, lib=LIBRARY)
torch.library.register_autograd(
    "warpsmith::filter1d_gradients", _backward_of_gradients, setup_context=_keep_gradients, lib=LIBRARY
)
