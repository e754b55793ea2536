"""Convolutions with the signatures of `torch.nn.functional`. They run tuned plans if winners are stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from warpsmith.errors import BadArgument
from warpsmith.generator.conv2d import ImageLayout, PaddingMode, Pass
from warpsmith.generator.problem import member
from warpsmith.torch import bilinear
from warpsmith.torch.arguments import CHOICE
from warpsmith.torch.bilinear import Operators, gradients_of, is_recorded, register_flop_formulas
from warpsmith.torch.direct import called_before, keep
from warpsmith.torch.layer_spec import KERNEL_DTYPES, MEMORY_FORMATS, Geometry, LayerSpec, cast
from warpsmith.torch.layers import FORWARD, TRANSPOSED, ConvLayer, found_by_operator, found_layer, words_of
from warpsmith.torch.tensors import goes_direct, is_for_torch, is_forward_mode, is_traced


def conv2d(
    input: Tensor,  # noqa: A002 - PyTorch's name
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    *,
    padding_mode: str = "zeros",
    relu: bool = False,
    precision: str = "ieee",
    fallback: str = "torch",
    store: str | None = None,
    accuracy: str = "normwise",
    nonfinite: str = "any",
) -> Tensor:
    """A convolution layer, as `torch.nn.functional.conv2d` computes it, with gradients of any order.

    The forward pass and the gradients of the input and of the weights are three plans of `warpsmith.Conv2d`, looked up
    when a layer is first called. If no winner is stored for a pass of this or a near size, PyTorch computes it. A
    warning then says, once for each layer, how to tune it. Plans take float32, float16 and bfloat16, and autocast
    applies. If x or w is in `channels_last`, the result and the gradients are too. PyTorch computes all other dtypes.

    Args:
        input, weight, bias: x, (N, C, H, W) or (C, H, W); w, (K, C/groups, R, S); (K,), or None.
        stride, dilation: input pixels from one output, and from one tap, to the next; one number, or rows and columns.
        padding: pixels on each side; one number, rows and columns, `same` or `valid`.
        groups, padding_mode: as in `torch.nn.Conv2d`; `reflect` is PyTorch's, and `mirror` is another name of it.
        relu: whether a ReLU follows, in the same launch if a plan with it is stored. Its gradient is a mask.
        precision: of the plans, a value of `warpsmith.Precision`; `ieee` if the data do not support it.
        fallback: `torch`, or `default` to run a plan's default configuration if nothing is stored.
        store: as for `warpsmith.plan`.
        accuracy: of the plans: `normwise`, relative to an image's results, or `elementwise`, to each result's terms.
        nonfinite: results that a NaN or an infinity may change: `any` of its image, or those whose `window` covers it.

    Returns:
        y, (N, K, P, Q) or (K, P, Q), of the input's dtype and device.

    Raises:
        BadArgument: an unknown `precision`, `fallback`, `accuracy`, `nonfinite` or `padding_mode`.
        RuntimeError: PyTorch's own errors.

    Warns:
        LeftToTorch: PyTorch computes the layer, or a pass of it.
    """
    words = (stride, padding, dilation, groups, padding_mode, precision, fallback, store, accuracy, nonfinite)
    if not relu and (result := called_before(input, weight, bias, words)) is not None:
        return result
    return (_conv2d if goes_direct(input, weight, bias) else _elsewhere)(input, weight, bias, words, relu)


def conv_transpose2d(
    input: Tensor,  # noqa: A002 - PyTorch's name
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
    *,
    precision: str = "ieee",
    fallback: str = "torch",
    store: str | None = None,
    accuracy: str = "normwise",
    nonfinite: str = "any",
) -> Tensor:
    """A transposed convolution, as `torch.nn.functional.conv_transpose2d` computes it, with gradients of any order.

    It is the `dgrad` of a layer whose image has the shape of this result. Its gradients are that layer's `fprop` and
    `wgrad`. A separate step adds the bias.

    Args:
        input: (N, K, P, Q) or (K, P, Q).
        weight: (K, C/groups, R, S).
        bias: (C,), or None.
        stride: output pixels from one input to the next; one number, or rows and columns.
        padding: output pixels that are left out on each side.
        output_padding: rows and columns added to the result, below and right.
        groups: number of channel groups.
        dilation: output pixels from one tap to the next.
        precision, fallback, store, accuracy, nonfinite: as for `conv2d`.

    Returns:
        (N, C, H, W) or (C, H, W), of the input's dtype and device.

    Raises:
        BadArgument: as for `conv2d`.
        RuntimeError: as for `conv2d`.

    Warns:
        LeftToTorch: as for `conv2d`.
    """
    words = (stride, padding, dilation, groups, "zeros", precision, fallback, store, accuracy, nonfinite)
    result = called_before(input, weight, bias, (*words, output_padding), is_transposed=True)
    if result is not None:
        return result
    if not goes_direct(input, weight, bias):
        return _transposed_elsewhere(input, weight, bias, output_padding, words)
    return _transposed(input, weight, bias, output_padding, words)


def _conv2d(x: Tensor, w: Tensor, b: Tensor | None, words: tuple[Any, ...], relu: bool) -> Tensor:
    if x.dim() == 3 and w.dim() == 4:
        return _conv2d(x[None], w, b, words, relu)[0]
    layer = found_layer(x, w, b, words)
    if layer is None:
        return _with_relu(_conv2d_of_torch(x, w, b, words), relu)
    if layer.is_left_to_torch(_needed(FORWARD, x, w), b is not None, relu):
        result = _with_relu(_computed_by_torch(x, w, b, words), relu)
        if not layer.has_warned:
            layer.warn(layer.answer(Pass.FPROP, b is not None, relu), stacklevel=3)
        return result
    if not relu:
        keep(x, w, b, words, layer)
    operands = cast(layer.dtype, x, w, b)
    return _rectified(*operands, layer) if relu else bilinear.forward(*operands, layer)


def _with_relu(y: Tensor, relu: bool) -> Tensor:
    return functional.relu(y) if relu else y


def _elsewhere(x: Tensor, w: Tensor, b: Tensor | None, words: tuple[Any, ...], relu: bool) -> Tensor:
    """Computes a call that cannot run directly: by an operator that torch.compile and similar tools trace, or by
    PyTorch.
    """
    if is_traced(x, w, b):
        options = {"padding_mode": words[4], "relu": relu}
        return _recorded(conv2d, (x, w, b), words[:4], words[5:], options)  # type: ignore[no-any-return]
    if is_for_torch(x, w, b):
        return _with_relu(_conv2d_of_torch(x, w, b, words), relu)
    is_single = x.dim() == 3 and w.dim() == 4
    batch = x[None] if is_single else x
    spec = LayerSpec.of(batch, w, b, words)
    if spec is None or spec.dtype not in KERNEL_DTYPES:
        return _with_relu(_conv2d_of_torch(x, w, b, words), relu)
    register_flop_formulas()
    result: Tensor = CONV2D.forward(*cast(spec.dtype, batch, w, b), *spec.words, *words_of(words))
    return _with_relu(result[0] if is_single else result, relu)


def _recorded(
    function: Any, operands: tuple[Any, ...], numbers: tuple[Any, ...], choice: tuple[Any, ...], options: dict[str, Any]
) -> Any:
    """Records the call as a node of the graph that torch.fx traces."""
    options = {**dict(zip(CHOICE, choice, strict=True)), **options}
    return torch.overrides.handle_torch_function(function, operands, *operands, *numbers, **options)


def _transposed(x: Tensor, w: Tensor, b: Tensor | None, output_padding: Any, words: tuple[Any, ...]) -> Tensor:
    if x.dim() == 3 and w.dim() == 4:
        return _transposed(x[None], w, b, output_padding, words)[0]
    layer = found_layer(x, w, b, words, (output_padding,))
    if layer is None:
        return _transposed_of_torch(x, w, b, output_padding, words)
    if layer.is_left_to_torch(_needed(TRANSPOSED, x, w), False):
        result = _transposed_by_torch(x, w, b, output_padding, words)
        if not layer.has_warned:
            layer.warn(layer.answer(Pass.DGRAD), stacklevel=3)
        return result
    keep(x, w, b, (*words, output_padding), layer, is_transposed=True)
    x, w, b = cast(layer.dtype, x, w, b)
    result = bilinear.input_gradient(x, w, layer)
    return result if b is None else result + b.view(-1, 1, 1)


def _transposed_elsewhere(
    x: Tensor, w: Tensor, b: Tensor | None, output_padding: Any, words: tuple[Any, ...]
) -> Tensor:
    if is_traced(x, w, b):
        stride, padding, dilation, groups, *_ = words
        numbers = stride, padding, output_padding, groups, dilation
        return _recorded(conv_transpose2d, (x, w, b), numbers, words[5:], {})  # type: ignore[no-any-return]
    if is_for_torch(x, w, b):
        return _transposed_of_torch(x, w, b, output_padding, words)
    is_single = x.dim() == 3 and w.dim() == 4
    batch = x[None] if is_single else x
    spec = LayerSpec.of(batch, w, b, words, (output_padding,))
    if spec is None or spec.dtype not in KERNEL_DTYPES:
        return _transposed_of_torch(x, w, b, output_padding, words)
    register_flop_formulas()
    batch, w, b = cast(spec.dtype, batch, w, b)
    result: Tensor = CONV2D.input_gradient(batch, w, spec.size, *spec.words, *words_of(words))
    result = result[0] if is_single else result
    return result if b is None else result + b.view(-1, 1, 1)


def _transposed_of_torch(x: Tensor, w: Tensor, b: Tensor | None, output_padding: Any, words: tuple[Any, ...]) -> Tensor:
    """Calls PyTorch's function, which raises its own errors. Raises BadArgument for an unknown value of warpsmith's
    arguments.
    """
    words_of(words)
    return _transposed_by_torch(x, w, b, output_padding, words)


def _transposed_by_torch(x: Tensor, w: Tensor, b: Tensor | None, output_padding: Any, words: tuple[Any, ...]) -> Tensor:
    stride, padding, dilation, groups, *_ = words
    return functional.conv_transpose2d(x, w, b, stride, padding, output_padding, groups, dilation)


def _needed(passes: tuple[Pass, Pass, Pass], x: Tensor, w: Tensor) -> tuple[Pass, ...]:
    """The passes that this call may need, given which operands require gradients."""
    if not torch.is_grad_enabled():
        return passes[:1]
    if x.requires_grad:
        return passes if w.requires_grad else passes[:2]
    return passes[::2] if w.requires_grad else passes[:1]


def _conv2d_of_torch(x: Tensor, w: Tensor, b: Tensor | None, words: tuple[Any, ...]) -> Tensor:
    """Calls PyTorch's function, which raises its own errors. Raises BadArgument for an unknown value of warpsmith's
    arguments.
    """
    words_of(words)
    member(PaddingMode, words[4], "padding_mode")
    return _computed_by_torch(x, w, b, words)


def _computed_by_torch(x: Tensor, w: Tensor, b: Tensor | None, words: tuple[Any, ...]) -> Tensor:
    """Calls PyTorch's function without checking the arguments again, which would take 3 us."""
    stride, padding, dilation, groups, mode, *_ = words
    if str(mode) == "zeros":
        return functional.conv2d(x, w, b, stride, padding, dilation, groups)
    geometry = Geometry.of(stride, padding, dilation, groups, mode, w.shape[2:])
    if geometry is None:
        functional.conv2d(x, w, b, stride, padding, dilation, groups)  # raises PyTorch's error
        raise BadArgument(f"padding_mode={mode!r} takes integers as stride, padding, dilation and groups")
    if geometry.is_native:  # another name of zeros
        return functional.conv2d(x, w, b, stride, padding, dilation, groups)
    return functional.conv2d(geometry.padded(x), w, b, stride, 0, dilation, groups)


_WORDS = (
    "SymInt[2] stride, SymInt[4] pads, SymInt[2] dilation, SymInt groups, str padding_mode, str layout, "
    "str precision, str fallback, str? store, str accuracy='normwise', str nonfinite='any'"
)


def _result_shape(size: Sequence[Any], weight: Sequence[Any], *words: Any) -> tuple[Any, ...]:
    stride, pads, dilation, groups, mode, *_ = words
    geometry = Geometry.of_words(stride, pads, dilation, groups, mode)
    return size[0], weight[0], *geometry.output_size(size[2:], weight[2:])


def _memory_format(*words: Any) -> torch.memory_format:
    return MEMORY_FORMATS[ImageLayout(words[5])]


CONV2D = Operators("conv2d", _WORDS, found_by_operator, _result_shape, memory_format=_memory_format)
"""`warpsmith::conv2d` and its two gradients."""


def _rectified(x: Tensor, w: Tensor, b: Tensor | None, layer: ConvLayer) -> Tensor:
    """Computes y where it is positive or NaN, else 0, and records gradients if they may be needed.

    Forward takes one launch. Backward, PyTorch masks dy, which both of the convolution's own gradients read.
    """
    if is_forward_mode():
        return torch.nn.functional.relu(bilinear.forward(x, w, b, layer))
    if is_recorded(x, w, b):
        return _Rectified.apply(x, w, b, layer)  # type: ignore[no-any-return, no-untyped-call]
    return layer.forward(x, w, b, relu=True)


class _Rectified(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, b: Tensor | None, layer: ConvLayer) -> Tensor:
        for_x, for_w, *_ = ctx.needs_input_grad
        y = layer.forward(x, w, b, relu=True)
        ctx.save_for_backward(x if for_w else None, w if for_x else None, y)
        ctx.layer = layer
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (dy,), (x, w, y) = gradients, ctx.saved_tensors
        masked = torch.ops.aten.threshold_backward(dy, y, 0)
        return *gradients_of(masked, x, w, ctx.layer, ctx.needs_input_grad), None
