"""Layers that `conv2d_depthwise_last` solves, and the channels that a thread may have of them."""

from __future__ import annotations

from warpsmith.generator.conv2d.layer.axes import axes_of
from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.sided_family import why_not_counted
from warpsmith.generator.conv2d.layer.words import ImageLayout, Pass
from warpsmith.generator.padding import PaddingMode

MAX_TAPS = 31
"""Most rows, and most columns, of a filter."""
MAX_PHASES = 16
"""Most phases of a strided dgrad; each has its own code."""
VECTORS = (1, 2, 4, 8)
VECTOR_BYTES = 16
"""Most bytes that a thread reads at once."""


def why_not_depthwise(layer: Conv2d) -> str | None:
    """Why the family does not solve a layer, in one line; None if it does."""
    if layer.layout is not ImageLayout.NHWC:
        return f"reads images in nhwc only, and none in {layer.layout}"
    if layer.group_channels != 1 or layer.group_filters != 1:
        return "is for groups of one channel and one filter"
    if layer.padding_mode is not PaddingMode.ZEROS:
        return "pads with zeros only"
    if max(layer.weight[2:]) > MAX_TAPS:
        return f"is for filters of {MAX_TAPS}x{MAX_TAPS} taps at the most"
    if layer.pass_ is not Pass.WGRAD:
        down, across = axes_of(layer)
        if (phases := len(down.phases) * len(across.phases)) > MAX_PHASES:
            return f"writes out every phase of a stride, {MAX_PHASES} of them at the most; this one has {phases}"
    return why_not_counted(layer)


def vectors_of(layer: Conv2d) -> tuple[int, ...]:
    """Possible numbers of channels per thread: a thread reads them as one vector, and every pixel consists of whole
    vectors.

    There are up to four float32 channels or up to eight 16-bit channels. Operands begin at multiples of 16 bytes.
    """
    channels = layer.input[1]
    return tuple(each for each in VECTORS if each * layer.dtype.itemsize <= VECTOR_BYTES and channels % each == 0)
