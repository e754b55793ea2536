"""Convolutions as operators of PyTorch's dispatcher, for torch.compile, torch.export and similar tools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from warpsmith.generator.conv2d import ImageLayout
from warpsmith.torch.bilinear import Operators
from warpsmith.torch.found_layers import found_by_operator
from warpsmith.torch.geometry import Geometry
from warpsmith.torch.layer_spec import MEMORY_FORMATS

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
