"""Geometry of `conv2d_direct` for results that are images (fprop, dgrad), in pixels and threads."""

from __future__ import annotations

import dataclasses
import enum

from warpsmith.generator.conv2d.layer.axes import LayerAxis, axes_of
from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.words import ImageLayout
from warpsmith.generator.space import Config

NAME = "conv2d_direct"
FLOAT_BYTES = 4
MAX_WRITTEN = 1024
"""Most multiply-adds that are unrolled in the source."""
MAX_LOADS = 128
"""Most pixel reads that are unrolled, each with its bounds checks. nvcc takes 1 s for this many, and 7 s and all 255
registers for 961.
"""


class Path(enum.StrEnum):
    """Path of pixels, or weights, from global memory to a thread."""

    GLOBAL = "global"
    """A thread reads them through the read-only path wherever it needs them."""
    SHARED = "shared"
    """The block copies them into shared memory for all of its threads; the padding is zeros there."""


def channels_of(problem: Conv2d) -> tuple[int, int]:
    """Channels per group of the source and of the result, for fprop or dgrad."""
    return problem.summed_channels, problem.result_channels


def weight_strides(problem: Conv2d) -> tuple[int, int, int]:
    """Elements of w from one channel of the source to the next, from one channel of the result, and from one tap."""
    taps, is_last = problem.weight[2] * problem.weight[3], problem.layout is ImageLayout.NHWC
    # w is (K, C/G, R, S), stored as (K, R, S, C/G) if channels are last. dgrad sums over its first dimension.
    inner, outer = 1 if is_last else taps, problem.group_channels * taps
    per_source, per_result = (outer, inner) if problem.pass_.is_transposed else (inner, outer)
    return per_source, per_result, problem.group_channels if is_last else 1


def shared_bytes(
    axes: tuple[LayerAxis, ...], filters: int, rows: int, columns: int, channels: int, *, pixels: str, weights: str
) -> int:
    """Bytes of shared memory of a block that computes `filters` x `rows` x `columns` results, for a round of
    `channels`.
    """
    down, across = axes
    tile = down.window(rows) * across.window(columns) if pixels == Path.SHARED else 0
    taps = filters * down.most_taps * across.most_taps if weights == Path.SHARED else 0
    return FLOAT_BYTES * channels * (tile + taps)


class Spacing(enum.StrEnum):
    """Placement of a thread's columns in its block."""

    ADJACENT = "adjacent"
    """Columns side by side: a pixel that several columns need is read once."""
    APART = "apart"
    """Columns as far apart as the block has threads across: neighbouring threads read and write neighbouring pixels."""


@dataclasses.dataclass(frozen=True, slots=True)
class Written:
    """Amount of unrolled code in one round of the loop, all phases together."""

    multiply_adds: int
    loads: int
    """Pixel reads."""
    unrolls_rows: bool
    """Whether the loop over the rows of a thread's window is unrolled, which it is if that is little code."""

    @property
    def is_short(self) -> bool:
        """Whether a compiler takes about a second or less for it."""
        return self.multiply_adds <= MAX_WRITTEN and self.loads <= MAX_LOADS

    @classmethod
    def of(
        cls, axes: tuple[LayerAxis, ...], filters: int, rows: int, columns: int, channels: int, *, apart: bool
    ) -> Written:
        down, across = axes
        sums, taps = filters * rows * columns * channels, sum(each.count for each in across.phases)
        span = across.multiple * (columns - 1)
        a_row = channels * (columns * taps if apart else sum(span + each.span for each in across.phases if each.count))
        window_rows = sum(down.multiple * (rows - 1) + each.span for each in down.phases if each.count)
        whole = cls(sums * sum(each.count for each in down.phases) * taps, window_rows * a_row, unrolls_rows=True)
        return whole if whole.is_short else cls(sums * len(down.phases) * taps, len(down.phases) * a_row, False)


@dataclasses.dataclass(frozen=True, slots=True)
class DirectImageGeometry:
    """One config. Rows and columns count steps of a phase (`LayerAxis`), channels those of the result or source per
    group.

    A thread computes `filters` channels by `rows` by `columns` of the result. A block computes `block_filters` by
    `block_rows` by `block_columns` times as much, all in one image, group and phase.
    """

    pixels: Path
    weights: Path
    spacing: Spacing
    filters: int
    rows: int
    columns: int
    channels: int
    """Channels of the source per round of the loop."""
    block_filters: int
    block_rows: int
    block_columns: int
    min_blocks: int
    """Blocks that an SM must have room for (minBlocksPerMultiprocessor of __launch_bounds__); 0 sets none."""
    source_channels: int
    result_channels: int
    images: int
    groups: int
    row_axis: LayerAxis
    column_axis: LayerAxis
    weights_per_source: int
    """Elements of w from one channel of the source to the next; below, from one channel of the result and from one tap
    to the next.
    """
    weights_per_result: int
    weights_per_tap: int

    @classmethod
    def of(cls, problem: Conv2d, config: Config) -> DirectImageGeometry:
        names = ("filters", "rows", "columns", "channels", "block_filters", "block_rows", "block_columns", "min_blocks")
        per_source, per_result, per_tap = weight_strides(problem)
        source_channels, result_channels = channels_of(problem)
        rows, columns = axes_of(problem)
        return cls(
            pixels=Path(config.text("pixels")),
            weights=Path(config.text("weights")),
            spacing=Spacing(config.text("spacing")),
            **{name: config.integer(name) for name in names},
            source_channels=source_channels,
            result_channels=result_channels,
            images=problem.input[0],
            groups=problem.groups,
            row_axis=rows,
            column_axis=columns,
            weights_per_source=per_source,
            weights_per_result=per_result,
            weights_per_tap=per_tap,
        )

    @property
    def threads(self) -> int:
        return self.block_filters * self.block_rows * self.block_columns

    @property
    def filter_blocks(self) -> int:
        """Blocks along the result channels of a group."""
        return -(-self.result_channels // (self.filters * self.block_filters))

    @property
    def row_blocks(self) -> int:
        """Blocks down a phase."""
        return -(-self.row_axis.steps // (self.rows * self.block_rows))

    @property
    def column_blocks(self) -> int:
        """Blocks across a phase."""
        return -(-self.column_axis.steps // (self.columns * self.block_columns))

    @property
    def phases(self) -> int:
        """Row phases times column phases."""
        return len(self.row_axis.phases) * len(self.column_axis.phases)

    @property
    def blocks(self) -> int:
        per_phase = self.filter_blocks * self.row_blocks * self.column_blocks
        return per_phase * self.phases * self.groups * self.images

    @property
    def apart(self) -> bool:
        """Whether the columns of a thread are not side by side."""
        return self.spacing is Spacing.APART

    @property
    def checks_rows(self) -> bool:
        """Whether a thread may read source rows outside of the image."""
        of_block = self.pixels is Path.SHARED
        return self.row_axis.reaches_outside(self.rows * (self.block_rows if of_block else 1))

    @property
    def checks_columns(self) -> bool:
        """Whether a thread may read source columns outside of the image."""
        of_block = self.pixels is Path.SHARED or self.apart
        return self.column_axis.reaches_outside(self.columns * (self.block_columns if of_block else 1))

    @property
    def ragged_columns(self) -> bool:
        """Whether some threads have fewer columns than others."""
        run = self.columns * (self.block_columns if self.apart else 1)
        return self.column_axis.results % (len(self.column_axis.phases) * run) != 0

    @property
    def tile_rows(self) -> int:
        """Rows of the source that a block keeps in shared memory."""
        return self.row_axis.window(self.rows * self.block_rows)

    @property
    def tile_columns(self) -> int:
        """Columns of the source that a block keeps in shared memory."""
        return self.column_axis.window(self.columns * self.block_columns)

    @property
    def taps(self) -> int:
        """Most taps of any phase."""
        return self.row_axis.most_taps * self.column_axis.most_taps

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory per block."""
        return shared_bytes(
            (self.row_axis, self.column_axis),
            self.filters * self.block_filters,
            self.rows * self.block_rows,
            self.columns * self.block_columns,
            self.channels,
            pixels=self.pixels,
            weights=self.weights,
        )

    @property
    def written(self) -> Written:
        """Amount of unrolled code in a round of the loop."""
        return Written.of(
            (self.row_axis, self.column_axis), self.filters, self.rows, self.columns, self.channels, apart=self.apart
        )
