"""`conv2d_depthwise_last` on the gradient of the weights (wgrad): what one config makes of it."""

from __future__ import annotations

import dataclasses

from warpsmith.generator.conv2d.axes import Taps
from warpsmith.generator.conv2d.depthwise_last.image_geometry import FLOAT_BYTES, Reads, met
from warpsmith.generator.conv2d.problem import Conv2d
from warpsmith.generator.space import Config

WEIGHT_NAMES = ("vector", "columns", "rows", "tap_rows", "lanes", "block_taps", "members", "splits", "min_blocks")
"""The parameters."""


@dataclasses.dataclass(frozen=True, slots=True)
class WeightGeometry:
    """A strip is `rows` by `columns` positions of y in one image, those of the last ones partly others' too.

    A thread has the sums of `tap_rows` rows of taps in `vector` channels, and goes over every so many of the strips. A
    block has `lanes` times as many channels, `block_taps` times as many rows of taps, which read the same strips, and
    `members` threads for each of both; `splits` blocks share the strips.
    """

    vector: int
    columns: int
    rows: int
    tap_rows: int
    lanes: int
    block_taps: int
    members: int
    splits: int
    min_blocks: int
    itemsize: int
    images: int
    channels: int
    filter_rows: int
    filter_columns: int
    output_rows: int
    output_columns: int
    outside: int
    """Columns of padding on both sides."""
    stride: tuple[int, int]
    dilation: tuple[int, int]

    @classmethod
    def of(cls, problem: Conv2d, config: Config) -> WeightGeometry:
        rows, columns = problem.output_size
        return cls(
            **{name: config.integer(name) for name in WEIGHT_NAMES},
            itemsize=problem.dtype.itemsize,
            images=problem.input[0],
            channels=problem.input[1],
            filter_rows=problem.weight[2],
            filter_columns=problem.weight[3],
            output_rows=rows,
            output_columns=columns,
            outside=sum(problem.padding[1]),
            stride=problem.stride,
            dilation=problem.dilation,
        )

    @property
    def threads(self) -> int:
        """Of a block."""
        return self.keys * self.members

    @property
    def keys(self) -> int:
        """Threads of a block with different sums."""
        return self.lanes * self.block_taps

    @property
    def block_channels(self) -> int:
        """Channels that a block computes."""
        return self.lanes * self.vector

    @property
    def channel_blocks(self) -> int:
        """Blocks for all channels."""
        return -(-self.channels // self.block_channels)

    @property
    def tap_blocks(self) -> int:
        """Blocks for the rows of a filter."""
        return -(-self.filter_rows // (self.tap_rows * self.block_taps))

    @property
    def blocks(self) -> int:
        """Of the whole grid."""
        return self.channel_blocks * self.tap_blocks * self.splits

    @property
    def across(self) -> int:
        """Strips side by side in an image."""
        return -(-self.output_columns // self.columns)

    @property
    def down(self) -> int:
        """Strips one below the other."""
        return -(-self.output_rows // self.rows)

    @property
    def all_strips(self) -> int:
        """Of all images."""
        return self.images * self.across * self.down

    @property
    def thread_strips(self) -> int:
        """That a thread goes over, at the most."""
        return -(-self.all_strips // (self.members * self.splits))

    @property
    def terms(self) -> int:
        """That a thread adds up one after the other, at the most."""
        return self.thread_strips * self.rows * self.columns

    @property
    def ragged_rows(self) -> bool:
        """Whether the last strip of a column shares rows with the one above it."""
        return self.output_rows % self.rows != 0

    @property
    def ragged_columns(self) -> bool:
        """Whether the last strip of a row shares columns with the one before it."""
        return self.output_columns % self.columns != 0

    @property
    def ragged_taps(self) -> bool:
        """Whether some threads have no taps."""
        return self.filter_rows % (self.tap_rows * self.block_taps) != 0

    @property
    def has_gaps(self) -> bool:
        """Whether a window has rows or columns that no tap meets."""
        return max(*self.stride, *self.dilation) > 1

    @property
    def row_sums(self) -> int:
        """Of a thread, for one row of taps: blocks add up so many at a time."""
        return self.vector * self.filter_columns

    @property
    def sum_pitch(self) -> int:
        """From one of a thread's sums to the next in shared memory: neighbouring sums lie in different banks."""
        return self.threads + self.keys

    @property
    def shared_bytes(self) -> int:
        """The sums of one row of taps of all threads."""
        return FLOAT_BYTES * self.row_sums * self.sum_pitch

    @property
    def written(self) -> int:
        """Multiply-adds that are written out."""
        return self.row_sums * self.tap_rows * self.rows * self.columns

    @property
    def window(self) -> int:
        """Pixels of a row that a thread reads at once."""
        return met(_taps(self.filter_columns, self.dilation[1]), self.stride[1], self.columns)

    @property
    def reads(self) -> Reads:
        """Of a strip; `weights` are those of dy."""
        rows = met(_taps(self.tap_rows, self.dilation[0]), self.stride[0], self.rows)
        positions = self.rows * self.columns
        checked = rows * min(self.outside, self.window)
        return Reads(rows, rows * self.window, checked, positions, positions * self.tap_rows * self.filter_columns)

    @property
    def registers(self) -> int:
        """That a thread needs at the least: sums, and gradients and a row of pixels as they are in memory."""
        read = self.rows * self.columns + self.window
        return self.row_sums * self.tap_rows + self.vector * read * self.itemsize // FLOAT_BYTES


def _taps(count: int, spread: int) -> Taps:
    """The rows, or columns, of a filter."""
    return Taps(count, 0, 1, 0, spread)
