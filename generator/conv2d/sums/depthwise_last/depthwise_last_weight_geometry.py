"""Geometry of `conv2d_depthwise_last` for the gradient of the weights (wgrad)."""

from __future__ import annotations

import dataclasses

from warpsmith.generator.conv2d.layer.axes import Taps
from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.sums.depthwise_last.depthwise_last_image_geometry import FLOAT_BYTES, Reads, met
from warpsmith.generator.space import Config

WEIGHT_NAMES = ("vector", "columns", "rows", "tap_rows", "lanes", "block_taps", "members", "splits", "min_blocks")
"""Names of the parameters."""


@dataclasses.dataclass(frozen=True, slots=True)
class WeightGeometry:
    """One config of wgrad.

    A strip is `rows` by `columns` positions of y in one image; the last strips overlap the ones before them. A thread
    has the sums of `tap_rows` rows of taps in `vector` channels, and goes over every (members * splits)-th strip. A
    block has `lanes` times as many channels, `block_taps` times as many rows of taps, which read the same strips, and
    `members` threads for each combination of both. `splits` blocks share the strips.
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
    """Columns of padding, left and right together."""
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
        return self.keys * self.members

    @property
    def keys(self) -> int:
        """Threads of a block with different sums."""
        return self.lanes * self.block_taps

    @property
    def block_channels(self) -> int:
        return self.lanes * self.vector

    @property
    def channel_blocks(self) -> int:
        return -(-self.channels // self.block_channels)

    @property
    def tap_blocks(self) -> int:
        """Blocks along the rows of a filter."""
        return -(-self.filter_rows // (self.tap_rows * self.block_taps))

    @property
    def blocks(self) -> int:
        return self.channel_blocks * self.tap_blocks * self.splits

    @property
    def across(self) -> int:
        """Strips across an image."""
        return -(-self.output_columns // self.columns)

    @property
    def down(self) -> int:
        """Strips down an image."""
        return -(-self.output_rows // self.rows)

    @property
    def all_strips(self) -> int:
        return self.images * self.across * self.down

    @property
    def thread_strips(self) -> int:
        """Most strips that a thread goes over."""
        return -(-self.all_strips // (self.members * self.splits))

    @property
    def terms(self) -> int:
        """Most terms that a thread adds up one after the other."""
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
        """Whether a window has rows or columns that no tap reads."""
        return max(*self.stride, *self.dilation) > 1

    @property
    def row_sums(self) -> int:
        """Sums per thread for one row of taps; a block adds up one row of taps at a time."""
        return self.vector * self.filter_columns

    @property
    def sum_pitch(self) -> int:
        """Floats from one of a thread's sums to the next in shared memory. Neighbouring sums lie in different banks."""
        return self.threads + self.keys

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory per block: the sums of all threads for one row of taps."""
        return FLOAT_BYTES * self.row_sums * self.sum_pitch

    @property
    def written(self) -> int:
        """Multiply-adds per thread and strip that are unrolled in the source."""
        return self.row_sums * self.tap_rows * self.rows * self.columns

    @property
    def window(self) -> int:
        """Pixels of a row that a thread reads at once."""
        return met(_taps(self.filter_columns, self.dilation[1]), self.stride[1], self.columns)

    @property
    def reads(self) -> Reads:
        """What a thread reads for one strip; `weights` counts the gradients of y."""
        rows = met(_taps(self.tap_rows, self.dilation[0]), self.stride[0], self.rows)
        positions = self.rows * self.columns
        checked = rows * min(self.outside, self.window)
        return Reads(rows, rows * self.window, checked, positions, positions * self.tap_rows * self.filter_columns)

    @property
    def registers(self) -> int:
        """Fewest registers per thread: sums, and gradients and a row of pixels in their element type."""
        read = self.rows * self.columns + self.window
        return self.row_sums * self.tap_rows + self.vector * read * self.itemsize // FLOAT_BYTES


def _taps(count: int, spread: int) -> Taps:
    """The rows, or columns, of a filter as taps of one phase."""
    return Taps(count, 0, 1, 0, spread)
