"""Layers of few channels: rows and columns of an image as channels, so that products of matrices have enough of them.

A product sums over 16 channels at the least, and gives 8 or more. Of three, those of an RGB image, 13 would be zeros
for each tap. Folded, a channel is one of the image's beside a row and a column of those that are folded:
x'[c, a, b, i, j] = x[c, i * multiple + a * spread - before, ...], rows and columns alike. There are two ways:

- *Steps* of a strided layer: as many rows and columns as the stride. The layer is then one without a stride, of
  ceil(R / stride) rows of taps: the first layer of AlexNet has 48 channels and 3x3 taps for 3 channels and 11x11. The
  halves are no more than the image has pixels. Its gradient of images is folded so as well.
- *Taps*: all columns of a filter. The layer then has filters of one column; the image is read S / stride times.

The halves of an image are made so straight from the image, and results go straight to where they belong.
"""

from __future__ import annotations

import dataclasses
import functools

from warpsmith.generator.conv2d.problem import Conv2d
from warpsmith.generator.conv2d.words import Pass
from warpsmith.generator.padding import Pads

MOST_CHANNELS = 8
"""Of an image, up to which it is folded: from 9 on a product fills its 16 channels by more than half."""
DEPTH, ROWS = 16, 64
"""Channels that a product sums over at the least, and of x that a product of wgrad has."""
TAPS_EXCESS = 1.25
"""Products of the way by steps over that by taps, up to which it is taken: its halves are fewer."""


@dataclasses.dataclass(frozen=True, slots=True)
class FoldedAxis:
    """Rows, or columns, and how those of the folded layer read them."""

    count: int
    """Rows that are channels."""
    multiple: int
    """Rows of the image from one row of the folded image to the next."""
    spread: int
    """And from one folded row to the next."""
    before: int
    """Rows of zeros above the image, which the folded one has as pixels."""
    size: int
    """Rows of the image."""
    taps: int
    """Rows of the filter. That of row t of the folded layer's and folded row a is t * count + a."""
    folded_size: int
    """Rows of the folded image."""
    stride: int = 1
    """Of the folded layer, as padding and dilation."""
    padding: Pads = (0, 0)
    dilation: int = 1

    @property
    def folded_taps(self) -> int:
        """Rows of the folded layer's filter."""
        return -(-self.taps // self.count)


@dataclasses.dataclass(frozen=True, slots=True)
class Folding:
    """How a layer is folded, and the layer that is solved in its place."""

    rows: FoldedAxis
    columns: FoldedAxis
    layer: Conv2d
    """It has other operands."""

    @classmethod
    @functools.lru_cache(maxsize=64)  # asked for by each geometry that a search or a model looks at
    def of(cls, layer: Conv2d) -> Folding | None:
        """The way with the fewest products; None for a layer that is solved as it is."""
        if layer.group_channels > MOST_CHANNELS or layer.groups > 1:
            return None
        steps, taps = _by_steps(layer), _by_taps(layer)
        best = steps or taps
        if steps is not None and taps is not None and _products(steps.layer) > TAPS_EXCESS * _products(taps.layer):
            best = taps
        return best if best is not None and _products(best.layer) < _products(layer) else None

    @property
    def count(self) -> int:
        """Folded channels for each of the image's."""
        return self.rows.count * self.columns.count


def folded(layer: Conv2d) -> Conv2d:
    """The layer that is solved: the layer itself where nothing is folded."""
    folding = Folding.of(layer)
    return layer if folding is None else folding.layer


def _products(layer: Conv2d) -> int:
    """For each pixel of y and each of its channels."""
    least = ROWS if layer.pass_ is Pass.WGRAD else DEPTH
    return -(-layer.group_channels // least) * least * layer.weight[2] * layer.weight[3]


def _by_steps(layer: Conv2d) -> Folding | None:
    """None without a stride, for taps that are further apart, or if there are pixels that no tap reads behind others:
    the gradient of those has to be written too."""
    if layer.stride == (1, 1) or any(_is_strided(layer, axis) and layer.dilation[axis] > 1 for axis in (0, 1)):
        return None
    rows, columns = (_steps(layer, axis) if _is_strided(layer, axis) else _kept(layer, axis) for axis in (0, 1))
    if layer.pass_ is Pass.DGRAD and not all(_is_covered(each) for each in (rows, columns)):
        return None
    return _solved(layer, rows, columns)


def _is_covered(axis: FoldedAxis) -> bool:
    """Whether the folded image has every row of the image."""
    return axis.folded_size * axis.multiple - axis.before >= axis.size


def _by_taps(layer: Conv2d) -> Folding | None:
    """None for the gradient of images, which sums over other channels."""
    if layer.pass_ is Pass.DGRAD:
        return None
    (left, _), taps, outputs = layer.padding[1], layer.weight[3], layer.output_size[1]
    columns = FoldedAxis(taps, layer.stride[1], layer.dilation[1], left, layer.input[3], taps, outputs)
    return _solved(layer, _kept(layer, 0), columns)


def _is_strided(layer: Conv2d, axis: int) -> bool:
    return layer.stride[axis] > 1


def _steps(layer: Conv2d, axis: int) -> FoldedAxis:
    stride, taps, before = layer.stride[axis], layer.weight[2 + axis], layer.padding[axis][0]
    size = layer.output_size[axis] - 1 + -(-taps // stride)
    return FoldedAxis(stride, stride, 1, before, layer.input[2 + axis], taps, size)


def _kept(layer: Conv2d, axis: int) -> FoldedAxis:
    size, taps = layer.input[2 + axis], layer.weight[2 + axis]
    own = layer.stride[axis], layer.padding[axis], layer.dilation[axis]
    return FoldedAxis(1, 1, 1, 0, size, taps, size, *own)


def _solved(layer: Conv2d, rows: FoldedAxis, columns: FoldedAxis) -> Folding:
    channels = layer.input[1] * rows.count * columns.count
    solved = dataclasses.replace(
        layer,
        input=(layer.input[0], channels, rows.folded_size, columns.folded_size),
        weight=(layer.weight[0], channels, rows.folded_taps, columns.folded_taps),
        stride=(rows.stride, columns.stride),
        padding=(rows.padding, columns.padding),
        dilation=(rows.dilation, columns.dilation),
    )
    return Folding(rows, columns, solved)
