"""Derivatives of any order, in reverse and forward mode, for operations that are linear in an image and in weights.

Such an operation y = B(x, w) has two adjoints: dx = X(dy, w) and dw = W(x, dy). Each of the three is linear in both of
its operands, and its gradients are the other two. Its tangent is a sum of two terms: the operation with one operand
replaced by its tangent, for each of the two operands. So these three computations suffice. They exist twice: as
autograd functions, which have the lowest overhead, and as operators of the dispatcher, which torch.compile and similar
tools can trace.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from warpsmith.torch.tensors import is_intercepted

LIBRARY: Any = torch.library.Library("warpsmith", "DEF")  # type: ignore[no-untyped-call]
"""Library object that owns all operators. It must live as long as they can be called."""


class Bilinear(Protocol):
    """The three computations of a layer for operands of fixed shapes."""

    def forward(self, x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
        """Computes y. b holds one number for each channel of y, or is None."""
        ...

    def input_gradient(self, dy: Tensor, w: Tensor) -> Tensor: ...

    def weight_gradient(self, x: Tensor, dy: Tensor) -> Tensor: ...

    @property
    def linear(self) -> Bilinear:
        """The same layer without terms that do not depend on x, such as a constant border."""
        ...

    @property
    def by_torch(self) -> Bilinear:
        """The same layer, computed by PyTorch's operations."""
        ...

    @property
    def records_itself(self) -> bool:
        """True if the layer's own operations record derivatives, so that the autograd functions of this module are not
        needed.
        """
        ...

    @property
    def memory_format(self) -> torch.memory_format:
        """Memory format in which results are dense."""
        ...


def is_recorded(x: Tensor, w: Tensor | None = None, b: Tensor | None = None) -> bool:
    """True if the caller may ask for a derivative: an operand requires a gradient, or forward mode is on."""
    if forward_ad._current_level >= 0:
        return True
    asks = x.requires_grad or (w is not None and w.requires_grad) or (b is not None and b.requires_grad)
    return asks and torch.is_grad_enabled()


def forward(x: Tensor, w: Tensor, b: Tensor | None, layer: Bilinear) -> Tensor:
    """Computes y, and records its gradients if they may be needed."""
    if is_recorded(x, w, b) and not layer.records_itself:
        return Forward.apply(x, w, b, layer)  # type: ignore[no-any-return, no-untyped-call]
    return layer.forward(x, w, b)


def input_gradient(dy: Tensor, w: Tensor, layer: Bilinear) -> Tensor:
    """Computes dx, and records its gradients if they may be needed."""
    if is_recorded(dy, w) and not layer.records_itself:
        return InputGradient.apply(dy, w, layer)  # type: ignore[no-any-return, no-untyped-call]
    return layer.input_gradient(dy, w)


def weight_gradient(x: Tensor, dy: Tensor, layer: Bilinear) -> Tensor:
    """Computes dw, and records its gradients if they may be needed."""
    if is_recorded(x, dy) and not layer.records_itself:
        return _WeightGradient.apply(x, dy, layer)  # type: ignore[no-any-return, no-untyped-call]
    return layer.weight_gradient(x, dy)


def bias_gradient(dy: Tensor) -> Tensor:
    """Sums dy over everything but the channels."""
    return dy.sum((0, *range(2, dy.dim())))


def gradients_of(
    dy: Tensor, x: Tensor | None, w: Tensor | None, layer: Bilinear, needed: Sequence[bool]
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Gradients of x, w and b, in this order; None for each one that `needed` does not ask for.

    The gradient of w needs x, and that of x needs w. An operand that is not needed may be None.
    """
    for_x, for_w, for_b, *_ = needed
    layer = _usable(layer)
    if for_x and for_w and not layer.records_itself:
        dy = dy.contiguous(memory_format=layer.memory_format)  # once for both
    dx = input_gradient(dy, w, layer) if w is not None and for_x else None
    dw = weight_gradient(x, dy, layer) if x is not None and for_w else None
    return dx, dw, bias_gradient(dy) if for_b else None


def _usable(layer: Bilinear) -> Bilinear:
    """The layer to use in a backward pass. It is PyTorch's if function transforms are active, or modes such as
    `FlopCounterMode`, which must see operators.
    """
    return layer.by_torch if is_intercepted() else layer


def _keep_for_tangents(ctx: Any, one: Tensor, other: Tensor) -> None:
    """Saves both operands in forward mode. Operands without a tangent are then None instead of zeros."""
    ctx.save_for_forward(one, other)
    ctx.set_materialize_grads(False)


def _tangent(of_one: Callable[[Tensor], Tensor], one: Any, of_other: Callable[[Tensor], Tensor], other: Any) -> Any:
    """Sum of the two terms that are linear in the operands' tangents. Returns None if neither operand has a tangent."""
    if one is None or other is None:
        return of_one(one) if one is not None else None if other is None else of_other(other)
    return of_one(one) + of_other(other)


class Forward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, b: Tensor | None, layer: Bilinear) -> Tensor:
        for_x, for_w, *_ = ctx.needs_input_grad
        ctx.save_for_backward(x if for_w else None, w if for_x else None)
        ctx.layer = layer
        y = layer.forward(x, w, b)
        if forward_ad._current_level >= 0:
            _keep_for_tangents(ctx, x, w)
            ctx.size = y.shape
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (dy,), (x, w) = gradients, ctx.saved_tensors
        if dy is None:
            return None, None, None, None
        return *gradients_of(dy, x, w, ctx.layer, ctx.needs_input_grad), None

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        (dx, dw, db, _), (x, w), layer = tangents, ctx.saved_tensors, _usable(ctx.layer)
        dy = _tangent(lambda t: forward(t, w, None, layer.linear), dx, lambda t: forward(x, t, None, layer), dw)
        if db is None:
            return dy
        db = db.view(-1, 1, 1)
        if dy is not None:
            return dy + db
        return db.expand(ctx.size).clone(memory_format=layer.memory_format)  # PyTorch requires y's layout here


class InputGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, dy: Tensor, w: Tensor, layer: Bilinear) -> Tensor:
        ctx.save_for_backward(dy, w)
        if forward_ad._current_level >= 0:
            _keep_for_tangents(ctx, dy, w)
        ctx.layer = layer
        return layer.input_gradient(dy, w)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        (d_dy, dw, _), (dy, w), layer = tangents, ctx.saved_tensors, _usable(ctx.layer)
        return _tangent(lambda t: input_gradient(t, w, layer), d_dy, lambda t: input_gradient(dy, t, layer), dw)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (g,), (dy, w), layer = gradients, ctx.saved_tensors, _usable(ctx.layer).linear
        if g is None:
            return None, None, None
        for_dy, for_w, _ = ctx.needs_input_grad
        d_dy = forward(g, w, None, layer) if for_dy else None
        return d_dy, weight_gradient(g, dy, layer) if for_w else None, None


class _WeightGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, dy: Tensor, layer: Bilinear) -> Tensor:
        ctx.save_for_backward(x, dy)
        if forward_ad._current_level >= 0:
            _keep_for_tangents(ctx, x, dy)
        ctx.layer = layer
        return layer.weight_gradient(x, dy)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        (dx, d_dy, _), (x, dy), layer = tangents, ctx.saved_tensors, _usable(ctx.layer)
        of_x, of_dy = (lambda t: weight_gradient(t, dy, layer.linear)), lambda t: weight_gradient(x, t, layer)
        return _tangent(of_x, dx, of_dy, d_dy)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (h,), (x, dy), layer = gradients, ctx.saved_tensors, _usable(ctx.layer)
        if h is None:
            return None, None, None
        for_x, for_dy, _ = ctx.needs_input_grad
        dx = input_gradient(dy, h, layer) if for_x else None
        return dx, forward(x, h, None, layer) if for_dy else None, None


TAGS = torch.Tag.pt2_compliant_tag, torch.Tag.needs_exact_strides
"""Tags that forbid compiled graphs to change operands' strides: a layer's layout is chosen when it is traced."""

Kernel = Callable[..., Tensor]

LayerOf = Callable[..., Bilinear]
"""Makes the layer from the operands' shapes, one operand and the operator's remaining arguments."""


class Operators:
    """The three computations as operators of the dispatcher: `NAME`, `NAME_input_gradient`, `NAME_weight_gradient`.

    Args:
        name: name of the first operator.
        words: schema of the arguments that follow the operands.
        layer_of: makes the layer from (shape of x, shape of w, any operand, *words).
        result_shape: shape of y, from (shape of x, shape of w, *words). Sizes may be symbols.
        linear: arguments of the layer without the terms that do not depend on x.
        memory_format: memory format of all results, from the words.
    """

    def __init__(
        self,
        name: str,
        words: str,
        layer_of: LayerOf,
        result_shape: Callable[..., Sequence[Any]],
        linear: Callable[..., tuple[Any, ...]] = lambda *words: words,
        memory_format: Callable[..., torch.memory_format] = lambda *_: torch.contiguous_format,
    ) -> None:
        self._names = name, f"{name}_input_gradient", f"{name}_weight_gradient"
        self._layer_of, self._result_shape, self._linear = layer_of, result_shape, linear
        self._memory_format = memory_format
        operands = (
            "Tensor x, Tensor w, Tensor? b",
            "Tensor dy, Tensor w, SymInt[] size",
            "Tensor x, Tensor dy, SymInt[] size",
        )
        for each, given in zip(self._names, operands, strict=True):
            LIBRARY.define(f"{each}({given}, {words}) -> Tensor", tags=TAGS)
        namespace = torch.ops.warpsmith
        self.forward, self.input_gradient, self.weight_gradient = (
            getattr(namespace, each).default for each in self._names
        )
        formulas: Any = _result_flops, _input_gradient_flops, _weight_gradient_flops
        for each, formula in zip(self._names, formulas, strict=True):
            _FLOP_FORMULAS[getattr(namespace, each)] = formula
        self._implement()
        self._differentiate()

    def _implement(self) -> None:
        """Registers the implementations and the fake implementations for tracing. A result is dense and shares no
        memory with an operand.
        """

        def dense(result: Tensor, layer: Bilinear) -> Tensor:
            return result.contiguous(memory_format=layer.memory_format)

        def run(x: Tensor, w: Tensor, b: Tensor | None, *words: Any) -> Tensor:
            layer = self._layer_of(x.shape, w.shape, x, *words)
            return dense(layer.forward(x, w, b), layer)

        def run_input(dy: Tensor, w: Tensor, size: Sequence[int], *words: Any) -> Tensor:
            layer = self._layer_of(torch.Size(size), w.shape, dy, *words)
            return dense(layer.input_gradient(dy, w), layer)

        def run_weight(x: Tensor, dy: Tensor, size: Sequence[int], *words: Any) -> Tensor:
            layer = self._layer_of(x.shape, torch.Size(size), x, *words)
            return dense(layer.weight_gradient(x, dy), layer)

        def empty(size: Sequence[Any], x: Tensor, words: tuple[Any, ...]) -> Tensor:
            return torch.empty(size, dtype=x.dtype, device=x.device, memory_format=self._memory_format(*words))

        def shaped(x: Tensor, w: Tensor, _: Tensor | None, *words: Any) -> Tensor:
            return empty(self._result_shape(x.shape, w.shape, *words), x, words)

        def shaped_input(dy: Tensor, w: Tensor, size: Sequence[Any], *words: Any) -> Tensor:  # noqa: ARG001
            return empty(size, dy, words)

        def shaped_weight(x: Tensor, dy: Tensor, size: Sequence[Any], *words: Any) -> Tensor:  # noqa: ARG001
            return empty(size, x, words)

        kernels: tuple[Kernel, ...] = (run, run_input, run_weight)
        fakes: tuple[Kernel, ...] = (shaped, shaped_input, shaped_weight)
        for name, kernel, fake in zip(self._names, kernels, fakes, strict=True):
            LIBRARY.impl(name, kernel, "CompositeExplicitAutograd")
            torch.library.register_fake(f"warpsmith::{name}", fake, lib=LIBRARY)

    def _differentiate(self) -> None:
        def backward(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
            (x, w), (for_x, for_w, for_b, *_) = ctx.saved_tensors, ctx.needs_input_grad
            if for_x and for_w:
                dy = dy.contiguous(memory_format=self._memory_format(*ctx.words))  # once for both
            dx = self.input_gradient(dy, w, ctx.sizes[0], *ctx.words) if for_x else None
            dw = self.weight_gradient(x, dy, ctx.sizes[1], *ctx.words) if for_w else None
            return dx, dw, bias_gradient(dy) if for_b else None, *(None for _ in ctx.words)

        def backward_of_input(ctx: Any, g: Tensor) -> tuple[Any, ...]:
            (dy, w), (for_dy, for_w, *_) = ctx.saved_tensors, ctx.needs_input_grad
            words = self._linear(*ctx.words)
            d_dy = self.forward(g, w, None, *words) if for_dy else None
            dw = self.weight_gradient(g, dy, w.shape, *words) if for_w else None
            return d_dy, dw, None, *(None for _ in ctx.words)

        def backward_of_weight(ctx: Any, h: Tensor) -> tuple[Any, ...]:
            (x, dy), (for_x, for_dy, *_) = ctx.saved_tensors, ctx.needs_input_grad
            dx = self.input_gradient(dy, h, x.shape, *ctx.words) if for_x else None
            d_dy = self.forward(x, h, None, *ctx.words) if for_dy else None
            return dx, d_dy, None, *(None for _ in ctx.words)

        def keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ARG001
            (one, other, _, *words), (for_one, for_other, *_) = inputs, ctx.needs_input_grad
            ctx.save_for_backward(one if for_other else None, other if for_one else None)
            ctx.words, ctx.sizes = words, (one.shape, other.shape)

        def keep_both(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ARG001
            one, other, _, *words = inputs
            ctx.save_for_backward(one, other)
            ctx.words = words

        rules = (backward, keep), (backward_of_input, keep_both), (backward_of_weight, keep_both)
        for name, (rule, setup) in zip(self._names, rules, strict=True):
            torch.library.register_autograd(f"warpsmith::{name}", rule, setup_context=setup, lib=LIBRARY)


_FLOP_FORMULAS: dict[Any, Callable[..., int]] = {}
"""FLOP counts by operator, for PyTorch's `FlopCounterMode`. Each takes the operator's arguments and its result as
`out_val`.
"""


def register_flop_formulas() -> None:
    """Registers the formulas with each `FlopCounterMode` that is active around this call.

    They are not put into the global registry: its module imports Triton, which takes 0.3 s, and this package must not
    load it.
    """
    if torch.compiler.is_compiling():
        return
    for mode in _get_current_dispatch_mode_stack():
        registry = getattr(getattr(mode, "counter", mode), "flop_registry", None)
        if registry is not None:
            registry.update(_FLOP_FORMULAS)


def _result_flops(_: Any, w: Any, *__: Any, out_val: Any, **___: Any) -> int:
    """FLOPs of y: one multiplication and one addition for each weight and each element of y."""
    return 2 * int(out_val.numel() * math.prod(w.shape[1:]))


def _input_gradient_flops(dy: Any, w: Any, *_: Any, **__: Any) -> int:
    """FLOPs of the gradient of x."""
    return 2 * int(dy.numel() * math.prod(w.shape[1:]))


def _weight_gradient_flops(_: Any, dy: Any, size: Any, *__: Any, **___: Any) -> int:
    """FLOPs of the gradient of w, whose shape is `size`."""
    return 2 * int(dy.numel() * math.prod(size[1:]))
