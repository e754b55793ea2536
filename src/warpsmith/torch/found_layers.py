"""Cache of the convolution layers that this process has called, keyed by everything that determines a layer."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from warpsmith.generator.conv2d import ImageLayout, Precision
from warpsmith.generator.conv2d.layer.problem import ACCURACIES
from warpsmith.generator.padding import PaddingMode
from warpsmith.generator.problem import Accuracy, NonFinite, member
from warpsmith.torch import integers
from warpsmith.torch.geometry import Geometry
from warpsmith.torch.layer_spec import LayerSpec, Numerics, autocast_dtype
from warpsmith.torch.layers import ConvLayer
from warpsmith.torch.words import Fallback, Source, device_name

_LAYERS: dict[Any, ConvLayer] = {}
"""Layers by specification, source and numerics."""
_CALLS: dict[Any, ConvLayer | None] = {}
"""Layers by the arguments of a call, the cheapest look-up."""


def forget_layers() -> None:
    """Drops all layers. Each is looked up again at its next call."""
    _LAYERS.clear()
    _CALLS.clear()


os.register_at_fork(after_in_child=forget_layers)


def found_layer(
    x: Tensor, w: Tensor, b: Tensor | None, words: tuple[Any, ...], transposed: tuple[Any] | None = None
) -> ConvLayer | None:
    """The layer of a call. The arguments are those of `LayerSpec.of`.

    Args:
        x: the image, or the input of a transposed convolution.
        w: the weights.
        b: the bias, or None.
        words: stride, padding, dilation, groups, padding mode and the arguments that `CHOICE` names, as the caller gave
            them.
        transposed: the output padding of a transposed convolution; None for any other.

    Returns: None if the operands differ in dtype or device, are empty, or lie on a device without plans, and if an
    argument is no integer. PyTorch computes or refuses such calls.

    Raises BadArgument for an unknown value of an argument.
    """
    try:
        return _CALLS[_key(x, w, b, words, transposed)]
    except (KeyError, ValueError):  # ValueError: an argument whose type `marshal` does not know
        return _looked_up(x, w, b, words, transposed)
    except (AttributeError, RuntimeError):  # no tensor, or a tensor without strides, such as a sparse one
        return None


def _key(x: Tensor, w: Tensor, b: Tensor | None, words: tuple[Any, ...], transposed: tuple[Any] | None) -> Any:
    device = x.device
    cast = autocast_dtype(device.type) if _casts() else None
    own = None if b is None else (b.shape, b.dtype, b.device)
    typed = integers.typed((words, transposed))
    layout = x.layout  # the strides of a sparse tensor may equal those of a dense one
    return x.shape, x.stride(), x.dtype, device, layout, w.shape, w.stride(), w.dtype, w.device, own, cast, typed


_casts = torch._C._is_any_autocast_enabled


def _looked_up(
    x: Tensor, w: Tensor, b: Tensor | None, words: tuple[Any, ...], transposed: tuple[Any] | None
) -> ConvLayer | None:
    """The layer of a call that is not cached, or whose arguments are of types such as NumPy's integers."""
    given, mode = words[:4], words[4]
    choice = str(member(PaddingMode, mode, "padding_mode")), *words_of(words)
    more = () if transposed is None else transposed
    numbers = tuple(map(_canonical, (*given, *more)))
    if None in numbers:
        return None
    canonical = *numbers[:4], *choice
    whole = None if transposed is None else (numbers[4],)
    key = _key(x, w, b, canonical, whole)
    if key not in _CALLS:
        spec = LayerSpec.of(x, w, b, canonical, whole)
        has_plans = spec is not None and device_name(x.device) is not None and 0 not in spec.size + spec.weight
        _CALLS[key] = _layer(spec, x.device, *choice[1:]) if spec is not None and has_plans else None
    if all(map(integers.is_plain, (*given, *more))):
        _CALLS[_key(x, w, b, (*given, *choice), transposed)] = _CALLS[key]
    return _CALLS[key]


def _canonical(word: Any) -> int | tuple[int, ...] | str | None:
    """Converts an argument to a Python int, a tuple of them or a string; None for anything else."""
    if isinstance(word, str):
        return str(word)
    one = integers.whole(word)
    return integers.whole_numbers(word) if one is None else one


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
    """The layer of a call of the dispatcher's operator."""
    dtype, device = x.dtype, x.device
    key = (tuple(size), tuple(weight), dtype, device, tuple(stride), tuple(pads), tuple(dilation), groups, *words)
    found = _CALLS.get(key)
    if found is None:
        mode, layout, *choice = words
        geometry = Geometry.of_words(stride, pads, dilation, groups, mode)
        spec = LayerSpec(tuple(size), tuple(weight), dtype, ImageLayout(layout), geometry)
        found = _CALLS[key] = _layer(spec, device, *choice)
    return found


def words_of(words: tuple[Any, ...]) -> tuple[str, str, str | None, str, str]:
    """Values of the last five arguments of a call, those that `CHOICE` names, as arguments of an operator. Raises
    BadArgument.
    """
    precision, fallback, store, accuracy, nonfinite = words[-5:]
    location = None if store is None else str(os.fspath(store))
    return (
        str(member(Precision, precision, "precision")),
        str(member(Fallback, fallback, "fallback")),
        location,
        str(member(Accuracy, accuracy, "accuracy", ACCURACIES)),
        str(member(NonFinite, nonfinite, "nonfinite")),
    )


def _layer(
    spec: LayerSpec,
    device: torch.device,
    precision: str,
    fallback: str,
    store: str | None,
    accuracy: str = Accuracy.NORMWISE.value,  # PyTorch does not pass on arguments that have their default
    nonfinite: str = NonFinite.ANY.value,
) -> ConvLayer:
    numerics = Numerics(Precision(precision), Accuracy(accuracy), NonFinite(nonfinite))
    source = Source.of(device, fallback, store)
    key = (spec, source, numerics)
    found = _LAYERS.get(key)
    if found is None:
        found = _LAYERS[key] = ConvLayer(spec, numerics, source)
    return found
