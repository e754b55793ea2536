"""Geometry of `conv2d_depthwise_last` for results that are images (fprop, dgrad)."""

from __future__ import annotations

import dataclasses

from warpsmith.generator.conv2d.layer.axes import Axis, Taps, axes_of
from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.space import Config

FLOAT_BYTES = 4
WEIGHT_VECTOR = 4
"""Most weights of neighbouring channels that a thread reads from shared memory at once: 16 bytes."""
NAMES = ("vector", "columns", "rows", "tap_rows", "lanes", "strips", "min_blocks")
"""Names of the parameters."""


@dataclasses.dataclass(frozen=True, slots=True)
class ImageGeometry:
    """One config of fprop or dgrad. Rows and columns count steps of a phase (`axes.Axis`).

    A strip is `rows` by `columns` of all phases in one image. A thread computes one strip in `vector` channels, a block
    `strips` strips in `lanes` times as many channels.
    """

    vector: int
    """Channels per thread, which are contiguous in memory."""
    columns: int
    rows: int
    tap_rows: int
    """Rows of taps that use a row of pixels once it is read."""
    lanes: int
    """Threads side by side in channels."""
    strips: int
    """Strips per block."""
    min_blocks: int
    """Blocks that an SM must have room for (minBlocksPerMultiprocessor of __launch_bounds__)."""
    itemsize: int
    """Bytes per element."""
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
        return self.lanes * self.strips

    @property
    def block_channels(self) -> int:
        return self.lanes * self.vector

    @property
    def channel_blocks(self) -> int:
        return -(-self.channels // self.block_channels)

    @property
    def across(self) -> int:
        """Strips across an image."""
        return -(-self.column_axis.steps // self.columns)

    @property
    def down(self) -> int:
        """Strips down an image."""
        return -(-self.row_axis.steps // self.rows)

    @property
    def all_strips(self) -> int:
        return self.images * self.across * self.down

    @property
    def blocks(self) -> int:
        return -(-self.all_strips // self.strips) * self.channel_blocks

    @property
    def phases(self) -> int:
        """Row phases times column phases."""
        return len(self.row_axis.phases) * len(self.column_axis.phases)

    @property
    def weight_vector(self) -> int:
        """Weights that a thread reads at once."""
        return min(self.vector, WEIGHT_VECTOR)

    @property
    def tap_pitch(self) -> int:
        """Floats from one tap's weights to the next one's in shared memory.

        The pitch has a spare vector, so that neighbouring taps, which are written together, lie in different banks.
        """
        return self.block_channels + self.weight_vector

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory per block: the weights of its channels."""
        return FLOAT_BYTES * self.filter_rows * self.filter_columns * self.tap_pitch

    @property
    def checks_rows(self) -> bool:
        """Whether a thread may read source rows outside of the image."""
        return self.row_axis.reaches_outside(self.rows)

    @property
    def checks_columns(self) -> bool:
        """Whether a thread may read source columns outside of the image."""
        return self.column_axis.reaches_outside(self.columns)

    @property
    def has_gaps(self) -> bool:
        """Whether a window has rows or columns that no tap reads."""
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
        """Multiply-adds per thread that are unrolled in the source."""
        row_taps = sum(min(self.tap_rows, each.count) for each in self.row_axis.phases)
        column_taps = sum(each.count for each in self.column_axis.phases)
        return self.vector * self.rows * self.columns * row_taps * column_taps

    @property
    def window(self) -> int:
        """Pixels of a row that a thread reads at once, in the largest phase."""
        return max(met(each, self.column_axis.multiple, self.columns) for each in self.column_axis.phases)

    @property
    def reads(self) -> Reads:
        """Everything that a thread reads."""
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
        """Fewest registers per thread: sums, weights of two taps, and a row of pixels in their element type."""
        return self.vector * (self.rows * self.columns + 2) + self.vector * self.window * self.itemsize // FLOAT_BYTES


@dataclasses.dataclass(frozen=True, slots=True)
class Reads:
    """What a thread reads and multiplies, in each of its channels; padding counts too."""

    rows: int
    """Rows of pixels."""
    pixels: int
    checked: int
    """Pixels that lie outside of the image for some threads, so that each thread checks them."""
    weights: int
    """Weights read from shared memory."""
    products: int


def met(taps: Taps, multiple: int, steps: int) -> int:
    """Number of source rows, or columns, that some of `taps` reads for `steps` steps of a phase."""
    return len({step * multiple + tap * taps.spread for step in range(steps) for tap in range(taps.count)})
