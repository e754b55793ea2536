"""The convolution layers that were called in this process, by all that they follow from."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from warpsmith.errors import BadArgument
from warpsmith.generator.conv2d import Precision
from warpsmith.generator.padding import PaddingMode
from warpsmith.generator.problem import member
from warpsmith.store.location import named_location
from warpsmith.torch.answers import device_name
from warpsmith.torch.geometry import Geometry
from warpsmith.torch.layers import ConvLayer, layer_of, memory_format
from warpsmith.torch.words import Fallback, Source

_LAYERS: dict[Any, ConvLayer | None] = {}


def forget_layers() -> None:
    """Lets go of all layers: each is looked up anew when it is called again."""
    _LAYERS.clear()


os.register_at_fork(after_in_child=forget_layers)


def found_layer(size: torch.Size, x: Tensor, w: Tensor, words: tuple[Any, ...]) -> ConvLayer | None:
    """The layer of a call.

    Args:
        size: shape of the image.
        x: an operand, whose dtype, device and memory format are those of all.
        w: the weights.
        words: stride, padding, dilation, groups, padding mode, precision, fallback and store, as the caller gave them.

    Returns: None where the operands are unlike each other, are empty, or lie where no plans are, and for numbers that
        are none: PyTorch computes or refuses that.

    Raises BadArgument for an unknown word.
    """
    dtype = computed_dtype(x)
    key = (size, w.shape, dtype, w.dtype, x.device, w.device, memory_format(x), words)
    try:
        return _LAYERS[key]
    except KeyError:
        made = _LAYERS[key] = _made(size, x, w, words)
        return made
    except TypeError:  # a list among the words
        return found_layer(size, x, w, tuple(tuple(each) if isinstance(each, list) else each for each in words))


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
    """The layer of an operator's call, whatever its operands' dtype and memory format."""
    mode, precision, fallback, store = words
    key = (size, weight, x.dtype, x.device, tuple(stride), tuple(pads), tuple(dilation), groups, *words)
    found = _LAYERS.get(key)
    if found is None:
        geometry = Geometry.of_words(stride, pads, dilation, groups, mode)
        source = _source(x.device, fallback, store)
        found = layer_of(size, weight, x.dtype, torch.contiguous_format, geometry, precision, source)
        _LAYERS[key] = found
    return found


def computed_dtype(x: Tensor) -> torch.dtype:
    """What `torch.autocast` casts an operand of a convolution to; its own dtype where it casts none."""
    kind = x.device.type
    if kind not in ("cpu", "cuda"):  # others may know no autocast, and have no plans
        return x.dtype
    if torch.is_autocast_enabled(kind) and x.is_floating_point() and x.dtype is not torch.float64:
        return torch.get_autocast_dtype(kind)
    return x.dtype


def words_of(words: tuple[Any, ...]) -> tuple[str, str, str | None]:
    """Precision, fallback and store of a call, as arguments of an operator. Raises BadArgument."""
    *_, precision, fallback, store = words
    return str(member(Precision, precision, "precision")), str(member(Fallback, fallback, "fallback")), store


def _made(size: torch.Size, x: Tensor, w: Tensor, words: tuple[Any, ...]) -> ConvLayer | None:
    stride, padding, dilation, groups, mode, *_ = words
    member(PaddingMode, mode, "padding_mode")
    precision, fallback, store = words_of(words)
    source, dtype = _source(x.device, fallback, store), computed_dtype(x)
    if source is None or x.device != w.device or dtype is not computed_dtype(w):
        return None
    if len(size) != 4 or w.dim() != 4 or 0 in size or 0 in w.shape:
        return None
    try:
        geometry = Geometry.of(stride, padding, dilation, groups, mode, w.shape[2:])
    except (BadArgument, TypeError, ValueError):
        return None
    return layer_of(size, w.shape, dtype, memory_format(x), geometry, precision, source)


def _source(device: torch.device, fallback: str, store: str | None) -> Source | None:
    name = device_name(device)
    return None if name is None else Source(name, Fallback(fallback), named_location(store))
