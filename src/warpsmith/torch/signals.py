"""Filters of signals with gradients: convolutions of single channels, and SciPy's functions of signals."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor

from warpsmith.errors import BadArgument
from warpsmith.generator.filter1d import Mode
from warpsmith.generator.filter1d.lags import Lags, canonical_lags, lags_of
from warpsmith.generator.precision import Precision
from warpsmith.generator.problem import member
from warpsmith.torch import arguments
from warpsmith.torch.arguments import Fallback
from warpsmith.torch.convolution import conv2d
from warpsmith.torch.signal_layer import Slice
from warpsmith.torch.signal_operators import DTYPES, check_rows, filtered


def conv1d(
    input: Tensor,  # noqa: A002 - PyTorch's name
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    *,
    precision: str = "ieee",
    fallback: str = "default",
    store: str | None = None,
) -> Tensor:
    """A convolution of signals, as `torch.nn.functional.conv1d` computes it, with gradients of any order.

    With one filter for each channel (`groups` equal to the channels, no dilation) it is `warpsmith.Filter1d`: tap 0
    meets the oldest sample of a window. Any other is `warpsmith.torch.conv2d` on images of one row.

    Args:
        input: (N, C, L) or (C, L).
        weight: (K, C/groups, T).
        bias: (K,), or None.
        stride: samples from one output to the next.
        padding: zeros on both sides, or `valid` or `same`.
        dilation: samples from one tap to the next.
        groups: number of channel groups.
        precision: of the plans, a value of `warpsmith.Precision`; `ieee` if the data do not support it.
        fallback: `default`, which runs a plan's default configuration if nothing is stored, or `torch`.
        store: as for `warpsmith.plan`.

    Returns:
        (N, K, outputs) or (K, outputs), of the input's dtype and device, and in the input's order of dimensions in
        memory.

    Raises:
        BadArgument: an unknown `precision` or `fallback`.
        RuntimeError: PyTorch's own errors.
    """
    choice = str(member(Fallback, fallback, "fallback")), store
    words: dict[str, Any] = {"precision": precision, "fallback": fallback, "store": store}
    if input.dim() == 2 and weight.dim() == 3:
        return conv1d(input[None], weight, bias, stride, padding, dilation, groups, **words)[0]
    part = _depthwise(input, weight, bias, stride, padding, dilation, groups)
    if part is None:
        strides, pads, dilations = _of_row(stride, 1), _of_row(padding, 0), _of_row(dilation, 1)
        bank = weight[:, :, None] if weight.dim() == 3 else weight
        image = input[:, :, None] if input.dim() == 3 else input
        return conv2d(image, bank, bias, strides, pads, dilations, groups, **words)[:, :, 0]
    part = dataclasses.replace(part, precision=_precision(input, precision))
    return filtered(input, weight[:, 0], bias, part, choice)


def convolve(
    in1: Tensor,
    in2: Tensor,
    mode: str = "full",
    *,
    precision: str = "ieee",
    fallback: str = "default",
    store: str | None = None,
) -> Tensor:
    """Convolves signals along their last dimension with one filter, or one for each channel, as `scipy.signal.convolve`
    does.

    It stands for `fftconvolve` and `oaconvolve` too: the plan chooses the method.

    Args:
        in1: signals (..., N).
        in2: taps (K,), or (C, K) for signals (..., C, N); tap 0 meets the newest sample. On a GPU a single filter may
            become a kernel parameter: give it as a CPU tensor then, which saves a copy that waits.
        mode: `full`, `same` (as long as `in1`), `valid`, or `causal`.
        precision: as for `conv1d`.
        fallback: `default`, which runs a plan's default configuration if nothing is stored, or `torch`.
        store: as for `warpsmith.plan`.

    Returns:
        (..., outputs), of the dtype of `in1`.

    Raises:
        BadArgument: operands that do not fit together, another dtype, or an unknown mode, precision or fallback.
    """
    first, last = lags_of(member(Mode, mode, "mode"), in1.shape[-1], in2.shape[-1])
    part = Slice(first, last - first + 1, convolve=True, precision=_precision(in1, precision))
    return _by_rows(in1, in2, part, fallback, store)


fftconvolve = convolve
oaconvolve = convolve


def correlate(
    in1: Tensor,
    in2: Tensor,
    mode: str = "full",
    *,
    lags: Lags | None = None,
    fallback: str = "default",
    store: str | None = None,
) -> Tensor:
    """Correlates signals along their last dimension with one template, or one for each channel, as
    `scipy.signal.correlate` does; complex templates are conjugated.

    The result at lag l is the sum over k of in1[l + k] * conj(in2[k]).

    Args:
        in1: signals (..., N).
        in2: templates (K,), or (C, K) for signals (..., C, N).
        mode: `full`, `same` (as long as `in1`), `valid`, or `causal`.
        lags: first and last lag, both included, instead of a mode; lags are those of
            `scipy.signal.correlation_lags`.
        fallback: `default`, which runs a plan's default configuration if nothing is stored, or `torch`.
        store: as for `warpsmith.plan`.

    Returns:
        (..., outputs), of the dtype of `in1`.

    Raises:
        BadArgument: operands that do not fit together, lags outside of the full result, another dtype, or an unknown
            mode or fallback.
    """
    samples, taps = in1.shape[-1], in2.shape[-1]
    wanted = lags_of(member(Mode, mode, "mode"), samples, taps) if lags is None else canonical_lags(lags, samples, taps)
    part = Slice(wanted[0], wanted[1] - wanted[0] + 1)
    return _by_rows(in1, in2.conj().resolve_conj(), part, fallback, store)


def _precision(x: Tensor, precision: str) -> str:
    """The precision of a filter of signals: `f16` for 16-bit ones that ask for it. Raises BadArgument."""
    asked = member(Precision, precision, "precision")
    is_half = x.dtype in (torch.float16, torch.bfloat16)
    return str(asked if asked is Precision.F16 and is_half else Precision.IEEE)


def _by_rows(in1: Tensor, in2: Tensor, part: Slice, fallback: str, store: str | None) -> Tensor:
    choice = str(member(Fallback, fallback, "fallback")), store
    if in2.dim() not in (1, 2) or in1.dim() < in2.dim():
        shapes = f"{tuple(in1.shape)} and {tuple(in2.shape)}"
        raise BadArgument(f"signals (..., N) take one filter (K,), or (..., C, N) filters (C, K); got {shapes}")
    if part.outputs < 1:
        raise BadArgument(
            f"the filter ({in2.shape[-1]} taps) is longer than the signal; choose a mode other than valid"
        )
    bank = in2 if in2.dim() == 2 else in2[None]
    x = in1.reshape(-1, len(bank), in1.shape[-1])
    check_rows(x, bank, None)
    y = filtered(x, bank, None, part, choice)
    return y.reshape(*in1.shape[:-1], y.shape[-1])


def _of_row(word: Any, default: int) -> Any:
    """A number of signals as one of images of one row."""
    if isinstance(word, str):
        return word
    number = arguments.integer(_single(word))
    return word if number is None else (default, number)


def _single(word: Any) -> Any:
    return word[0] if isinstance(word, tuple | list) and len(word) == 1 else word


def _depthwise(x: Tensor, w: Tensor, b: Tensor | None, *words: Any) -> Slice | None:
    """Slice of a convolution with one filter for each channel; None for any other, and for operands that PyTorch
    refuses.
    """
    *given, groups = words
    if x.dim() != 3 or w.dim() != 3 or not x.shape[1] == len(w) == groups or w.shape[1] != 1 or 0 in x.shape:
        return None
    if x.dtype not in DTYPES or w.dtype is not x.dtype or (b is not None and b.dtype is not x.dtype):
        return None
    numbers = [
        arguments.integer(each[0] if isinstance(each, tuple | list) and len(each) == 1 else each) for each in given
    ]
    stride, padding, dilation = numbers
    taps, samples = w.shape[2], x.shape[2]
    after = padding
    if isinstance(given[1], str) and stride == 1 and given[1] in ("same", "valid"):
        padding = (taps - 1) // 2 if given[1] == "same" else 0
        after = taps - 1 - padding if given[1] == "same" else 0
    if stride is None or padding is None or after is None or dilation != 1 or stride < 1 or padding < 0:
        return None
    outputs = (samples + padding + after - taps) // stride + 1
    # Windows that lie in the padding alone are no part of a full result.
    if padding >= taps or after >= taps or outputs < 1 or (b is not None and x.is_complex()):
        return None
    return Slice(-padding, outputs, stride)
