"""Layers of few channels: the columns of a filter as channels, so that products of matrices have enough to sum over.

A product sums over 16 channels at the least. Of three, those of an RGB image, 13 would be zeros for each tap. Folded,
channel (c, s) is channel c as column s of the filter reads it: x'[c, s, row, q] = x[c, row, q * stride + s * dilation -
padding], for column q of the result. A filter then has one column, and C * S channels: 33 instead of 11 times 3 for the
first layer of AlexNet. The images' halves are made so straight from the images, which are read S / stride times.
"""

from __future__ import annotations

import dataclasses

from warpsmith.generator.conv2d.problem import Conv2d
from warpsmith.generator.conv2d.words import Pass

MOST_CHANNELS = 8
"""Of an image, up to which columns are folded: from 9 on a product fills its 16 channels by more than half."""
DEPTH = 16
"""Channels that a product sums over at the least."""


@dataclasses.dataclass(frozen=True, slots=True)
class Folding:
    """Which pixel a folded channel reads."""

    taps: int
    """Columns of the filter."""
    stride: int
    dilation: int
    padding: int
    """Columns of zeros to the left of an image."""
    columns: int
    """Of an image."""

    @classmethod
    def of(cls, layer: Conv2d) -> Folding | None:
        """None for a layer that is solved as it is."""
        if not folds_columns(layer):
            return None
        return cls(layer.weight[3], layer.stride[1], layer.dilation[1], layer.padding[1][0], layer.input[3])


def folds_columns(layer: Conv2d) -> bool:
    """Whether products have fewer zeros to multiply so. The gradient of images sums over other channels."""
    channels, taps = layer.group_channels, layer.weight[3]
    if layer.pass_ is Pass.DGRAD or layer.groups > 1 or channels > MOST_CHANNELS:
        return False
    return -(-channels * taps // DEPTH) < taps


def folded(layer: Conv2d) -> Conv2d:
    """The layer with one column a filter; the layer itself where columns are not folded. It has other operands."""
    if not folds_columns(layer):
        return layer
    images, channels, rows, _ = layer.input
    filters, _, filter_rows, taps = layer.weight
    return dataclasses.replace(
        layer,
        input=(images, channels * taps, rows, layer.output_size[1]),
        weight=(filters, channels * taps, filter_rows, 1),
        stride=(layer.stride[0], 1),
        padding=(layer.padding[0], (0, 0)),
        dilation=(layer.dilation[0], 1),
    )
