"""Folding of layers with few channels: rows and columns of an image become channels, so that the GEMM's K is filled.

A matrix product sums over at least 16 channels and gives at least 8 results. With the three channels of an RGB image,
13 of 16 would be zeros for each tap. A folded channel is a channel of the image together with a row and a column of
those that are folded: x'[c, a, b, i, j] = x[c, i * multiple + a * spread - before, ...], columns like rows. There are
two ways:

- *Steps* of a strided layer folds as many rows and columns as the stride. The folded layer has stride 1 and ceil(R /
  stride) rows of taps: the first layer of AlexNet has 48 channels and 3x3 taps instead of 3 channels and 11x11. The
  fp16 operand has no more numbers than the image has pixels. dgrad of a strided layer is folded the same way.
- *Taps* folds all columns of a filter. The layer then has filters of one column, and the image is read S / stride
  times.

The kernels that make the fp16 operands read the image directly, and results are stored directly to their pixels.
"""

from __future__ import annotations

import dataclasses
import functools

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.padding import Pads

MOST_CHANNELS = 8
"""Most image channels up to which a layer is folded. From 9 on, an unfolded product fills its 16 channels by more than
half.
"""
DEPTH, ROWS = 16, 64
"""Fewest channels that a product sums over, and fewest channels of x in a product of wgrad."""
TAPS_EXCESS = 1.25
"""Most products of *steps* over those of *taps* up to which *steps* is taken, because its fp16 operands are smaller."""


@dataclasses.dataclass(frozen=True, slots=True)
class FoldedAxis:
    """Rows, or columns, and how those of the folded layer read them. Comments say rows for both."""

    count: int
    """Image rows that become channels of one folded row."""
    multiple: int
    """Image rows from one row of the folded image to the next."""
    spread: int
    """Image rows from one folded channel to the next."""
    before: int
    """Zero rows above the image, which the folded image has as pixels."""
    size: int
    taps: int
    """Rows of the filter. Row t of the folded filter at folded row a is row t * count + a of the filter."""
    folded_size: int
    """Rows of the folded image."""
    stride: int = 1
    """Stride of the folded layer, like padding and dilation below."""
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
    """The folded layer. It has other operands."""

    @classmethod
    @functools.lru_cache(maxsize=64)  # each geometry that a search or a model looks at calls it
    def of(cls, layer: Conv2d) -> Folding | None:
        """The folding with the fewest products; None for a layer that is solved without folding."""
        if layer.group_channels > MOST_CHANNELS or layer.groups > 1:
            return None
        steps, taps = _by_steps(layer), _by_taps(layer)
        best = steps or taps
        if steps is not None and taps is not None and _products(steps.layer) > TAPS_EXCESS * _products(taps.layer):
            best = taps
        return best if best is not None and _products(best.layer) < _products(layer) else None

    @property
    def count(self) -> int:
        """Folded channels per channel of the image."""
        return self.rows.count * self.columns.count


def folded(layer: Conv2d) -> Conv2d:
    """The folded layer, or the layer itself where nothing is folded."""
    folding = Folding.of(layer)
    return layer if folding is None else folding.layer


def _products(layer: Conv2d) -> int:
    """Products for each pixel of y and each of its channels, zeros included."""
    least = ROWS if layer.pass_.sums_images else DEPTH
    return -(-layer.group_channels // least) * least * layer.weight[2] * layer.weight[3]


def _by_steps(layer: Conv2d) -> Folding | None:
    """*Steps* folding. None without a stride, with a dilated filter, or if pixels that no tap reads lie behind others:
    dgrad has to write the gradient of those pixels too.
    """
    if layer.stride == (1, 1) or any(_is_strided(layer, axis) and layer.dilation[axis] > 1 for axis in (0, 1)):
        return None
    rows, columns = (_steps(layer, axis) if _is_strided(layer, axis) else _kept(layer, axis) for axis in (0, 1))
    if layer.pass_.is_transposed and not all(_is_covered(each) for each in (rows, columns)):
        return None
    return _solved(layer, rows, columns)


def _is_covered(axis: FoldedAxis) -> bool:
    """Whether the folded image has every row of the image."""
    return axis.folded_size * axis.multiple - axis.before >= axis.size


def _by_taps(layer: Conv2d) -> Folding | None:
    """*Taps* folding. None for dgrad, which sums over other channels."""
    if layer.pass_.is_transposed:
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
