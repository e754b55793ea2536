"""The convolution layers that were called in this process, by all that they follow from."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from warpsmith.generator.conv2d import ImageLayout, Precision
from warpsmith.generator.padding import PaddingMode
from warpsmith.generator.problem import member
from warpsmith.torch.geometry import Geometry
from warpsmith.torch.layer_spec import LayerSpec, autocast_dtype
from warpsmith.torch.layers import ConvLayer
from warpsmith.torch.words import Fallback, Source, device_name

_LAYERS: dict[Any, ConvLayer] = {}
"""By what they are."""
_CALLS: dict[Any, ConvLayer | None] = {}
"""By how they were called, which costs least to look up."""


def forget_layers() -> None:
    """Lets go of all layers: each is looked up anew when it is called again."""
    _LAYERS.clear()
    _CALLS.clear()


os.register_at_fork(after_in_child=forget_layers)


def found_layer(
    x: Tensor, w: Tensor, b: Tensor | None, words: tuple[Any, ...], output_padding: Any = None
) -> ConvLayer | None:
    """The layer of a call, whose arguments are those of `LayerSpec.of`.

    Args:
        x: the image, or what is convolved.
        w: the weights.
        b: the bias, or None.
        words: stride, padding, dilation, groups, padding mode, precision, fallback and store, as the caller gave them.
        output_padding: of a transposed convolution; None for any other.

    Returns: None where the operands are unlike each other, are empty, or lie where no plans are, and for numbers that
        are none: PyTorch computes or refuses that.

    Raises BadArgument for an unknown word.
    """
    device = x.device
    own = None if b is None else (b.shape, b.dtype, b.device)
    operands = x.shape, x.stride(), x.dtype, device, w.shape, w.stride(), w.dtype, w.device, own
    key = (operands, autocast_dtype(device.type), words, output_padding)
    try:
        return _CALLS[key]
    except KeyError:
        made = _CALLS[key] = _made(x, w, b, words, output_padding)
        return made
    except TypeError:  # a list among the words
        words, output_padding = tuple(map(_hashable, words)), _hashable(output_padding)
        return found_layer(x, w, b, words, output_padding)


def found_by_operator(
    size: Sequence[int],
    weight: Sequence[int],
    x: Tensor,
    stride: Sequence[int],
    pads: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    *words: Any,
) -> ConvLayer:
    """The layer of an operator's call."""
    dtype, device = x.dtype, x.device
    key = (tuple(size), tuple(weight), dtype, device, tuple(stride), tuple(pads), tuple(dilation), groups, *words)
    found = _CALLS.get(key)
    if found is None:
        mode, layout, *choice = words
        geometry = Geometry.of_words(stride, pads, dilation, groups, mode)
        spec = LayerSpec(tuple(size), tuple(weight), dtype, ImageLayout(layout), geometry)
        found = _CALLS[key] = _layer(spec, device, *choice)
    return found


def words_of(words: tuple[Any, ...]) -> tuple[str, str, str | None]:
    """Precision, fallback and store of a call, as arguments of an operator. Raises BadArgument."""
    *_, precision, fallback, store = words
    return str(member(Precision, precision, "precision")), str(member(Fallback, fallback, "fallback")), store


def _made(x: Tensor, w: Tensor, b: Tensor | None, words: tuple[Any, ...], output_padding: Any) -> ConvLayer | None:
    member(PaddingMode, words[4], "padding_mode")
    choice = words_of(words)
    spec = LayerSpec.of(x, w, b, words, output_padding)
    if spec is None or device_name(x.device) is None or 0 in spec.size or 0 in spec.weight:
        return None
    return _layer(spec, x.device, *choice)


def _layer(spec: LayerSpec, device: torch.device, precision: str, fallback: str, store: str | None) -> ConvLayer:
    source = Source.of(device, fallback, store)
    key = (spec, source, precision)
    found = _LAYERS.get(key)
    if found is None:
        found = _LAYERS[key] = ConvLayer(spec, Precision(precision), source)
    return found


def _hashable(word: Any) -> Any:
    return tuple(word) if isinstance(word, list) else word
