"""`conv2d_depthwise_last` on a result that is an image (fprop, dgrad): what one config makes of it."""

from __future__ import annotations

import dataclasses

from warpsmith.generator.conv2d.axes import Axis, Taps, axes_of
from warpsmith.generator.conv2d.problem import Conv2d
from warpsmith.generator.space import Config

FLOAT_BYTES = 4
WEIGHT_VECTOR = 4
"""Weights of neighbouring channels that a thread reads from shared memory at once, at the most: 16 bytes."""
NAMES = ("vector", "columns", "rows", "tap_rows", "lanes", "strips", "min_blocks")
"""The parameters."""


@dataclasses.dataclass(frozen=True, slots=True)
class ImageGeometry:
    """Rows and columns count steps of a phase (`axes.Axis`).

    A strip is `rows` by `columns` of all phases in one image; a thread computes one in `vector` channels, a block
    `strips` of them in `lanes` times as many.
    """

    vector: int
    """Channels of a thread, which lie side by side in memory."""
    columns: int
    rows: int
    tap_rows: int
    """Rows of taps that meet a row of pixels once it is read."""
    lanes: int
    """Threads side by side in channels."""
    strips: int
    """Of a block."""
    min_blocks: int
    """That a multiprocessor must hold."""
    itemsize: int
    """Bytes of an element."""
    images: int
    channels: int
    filter_rows: int
    filter_columns: int
    row_axis: Axis
    column_axis: Axis

    @classmethod
    def of(cls, problem: Conv2d, config: Config) -> ImageGeometry:
        rows, columns = axes_of(problem)
        return cls(
            **{name: config.integer(name) for name in NAMES},
            itemsize=problem.dtype.itemsize,
            images=problem.input[0],
            channels=problem.input[1],
            filter_rows=problem.weight[2],
            filter_columns=problem.weight[3],
            row_axis=rows,
            column_axis=columns,
        )

    @property
    def threads(self) -> int:
        """Of a block."""
        return self.lanes * self.strips

    @property
    def block_channels(self) -> int:
        """Channels that a block computes."""
        return self.lanes * self.vector

    @property
    def channel_blocks(self) -> int:
        """Blocks for all channels."""
        return -(-self.channels // self.block_channels)

    @property
    def across(self) -> int:
        """Strips side by side in an image."""
        return -(-self.column_axis.steps // self.columns)

    @property
    def down(self) -> int:
        """Strips one below the other."""
        return -(-self.row_axis.steps // self.rows)

    @property
    def all_strips(self) -> int:
        """Of all images."""
        return self.images * self.across * self.down

    @property
    def blocks(self) -> int:
        """Of the whole grid."""
        return -(-self.all_strips // self.strips) * self.channel_blocks

    @property
    def phases(self) -> int:
        """Of rows times those of columns."""
        return len(self.row_axis.phases) * len(self.column_axis.phases)

    @property
    def weight_vector(self) -> int:
        """Weights that a thread reads at once."""
        return min(self.vector, WEIGHT_VECTOR)

    @property
    def tap_pitch(self) -> int:
        """Numbers from one tap's weights to the next one's in shared memory: a vector more than there are, so that
        neighbouring taps, which are written together, lie in different banks."""
        return self.block_channels + self.weight_vector

    @property
    def shared_bytes(self) -> int:
        """The weights of a block's channels."""
        return FLOAT_BYTES * self.filter_rows * self.filter_columns * self.tap_pitch

    @property
    def checks_rows(self) -> bool:
        """Whether a row of the source that is read may lie outside of it."""
        return self.row_axis.reaches_outside(self.rows)

    @property
    def checks_columns(self) -> bool:
        """Whether a column of the source that is read may lie outside of it."""
        return self.column_axis.reaches_outside(self.columns)

    @property
    def has_gaps(self) -> bool:
        """Whether a window has rows or columns that no tap meets."""
        axes = (self.row_axis, self.column_axis)
        return any(axis.multiple > 1 or taps.spread > 1 for axis in axes for taps in axis.phases)

    @property
    def ragged_rows(self) -> bool:
        """Whether some strips have fewer rows than others."""
        return self.row_axis.results % (len(self.row_axis.phases) * self.rows) != 0

    @property
    def ragged_columns(self) -> bool:
        """Whether some strips have fewer columns than others."""
        return self.column_axis.results % (len(self.column_axis.phases) * self.columns) != 0

    @property
    def written(self) -> int:
        """Multiply-adds that are written out."""
        row_taps = sum(min(self.tap_rows, each.count) for each in self.row_axis.phases)
        column_taps = sum(each.count for each in self.column_axis.phases)
        return self.vector * self.rows * self.columns * row_taps * column_taps

    @property
    def window(self) -> int:
        """Pixels of a row that a thread reads at once, of the largest phase."""
        return max(met(each, self.column_axis.multiple, self.columns) for each in self.column_axis.phases)

    @property
    def reads(self) -> Reads:
        """All of a thread."""
        rows = pixels = checked = weights = products = 0
        last = self.column_axis.multiple * (self.across - 1) * self.columns
        for down in self.row_axis.phases:
            taps = min(self.tap_rows, down.count)
            rounds = down.count // taps if taps else 0
            of_round = met(dataclasses.replace(down, count=taps), self.row_axis.multiple, self.rows)
            for across in self.column_axis.phases:
                rows += rounds * of_round
                window = met(across, self.column_axis.multiple, self.columns)
                behind = across.low + last + window - self.column_axis.sources
                pixels += rounds * of_round * window
                checked += rounds * of_round * min(max(-across.low, 0) + max(behind, 0), window)
                weights += down.count * across.count * (self.rows if taps > 1 else 1)
                products += down.count * across.count * self.rows * self.columns
        return Reads(rows, pixels, checked, weights, products)

    @property
    def registers(self) -> int:
        """That a thread needs at the least: sums, weights of two taps, a row of pixels as they are in memory."""
        return self.vector * (self.rows * self.columns + 2) + self.vector * self.window * self.itemsize // FLOAT_BYTES


@dataclasses.dataclass(frozen=True, slots=True)
class Reads:
    """What a thread reads, and how often it multiplies, for each of its channels; padding counts too."""

    rows: int
    """Of pixels."""
    pixels: int
    checked: int
    """Pixels of which some threads' lie outside of the image."""
    weights: int
    """From shared memory."""
    products: int


def met(taps: Taps, multiple: int, steps: int) -> int:
    """Source rows, or columns, that some of `taps` meets from so many steps of a phase."""
    return len({step * multiple + tap * taps.spread for step in range(steps) for tap in range(taps.count)})
