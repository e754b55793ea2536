"""Geometry of `conv2d_depthwise` for the gradient of the weights (wgrad).

A thread keeps in registers the sums of some rows of taps, for some filters and one channel, and a few gradients of y.
It reads each row of the window of x over them once, for all rows of taps that use it. Threads of a block with the same
weights are its members; they add up different positions of y. If a line is no multiple of a thread's positions, its
last thread begins further left, or further up, and skips the positions of the thread before it. Multiplying by zero
instead would not do, because the product of a zero and a pixel beside the line could be NaN.
"""

from __future__ import annotations

import dataclasses
import functools
from functools import lru_cache

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.sums.depthwise.depthwise_image_geometry import FLOAT_BYTES, WARP
from warpsmith.generator.conv2d.sums.depthwise.depthwise_tile import BANKS, Place, PlaneLanes, PlaneTile, round_up
from warpsmith.generator.padding import PaddingMode
from warpsmith.generator.space import Config

SERIAL_MEMBERS = 16
"""Most members whose sums one thread adds up; for more members, a warp does."""
WEIGHT_NAMES = (
    "columns",
    "rows",
    "filters",
    "tap_rows",
    "block_taps",
    "block_filters",
    "block_channels",
    "block_groups",
    "images",
    "down",
    "bands",
    "splits",
    "stages",
    "min_blocks",
)


@dataclasses.dataclass(frozen=True)
class DepthwiseWeightGeometry:
    """One config of wgrad. Rows and columns are those of y."""

    columns: int
    rows: int
    filters: int
    tap_rows: int
    block_taps: int
    block_filters: int
    block_channels: int
    block_groups: int
    images: int
    down: int
    bands: int
    splits: int
    stages: int
    min_blocks: int
    all_images: int
    groups: int
    group_channels: int
    group_filters: int
    source_columns: int
    left: int
    """Columns of padding left of x."""
    output_rows: int
    output_columns: int
    filter_rows: int
    filter_columns: int
    stride: tuple[int, int]
    dilation: tuple[int, int]
    repeats: bool
    """Whether the padding of x repeats pixels of it."""

    @classmethod
    def of(cls, problem: Conv2d, config: Config) -> DepthwiseWeightGeometry:
        values = config.values()
        output_rows, output_columns = problem.output_size
        return cls(
            **{name: int(values[name]) for name in WEIGHT_NAMES},
            all_images=problem.input[0],
            groups=problem.groups,
            group_channels=problem.group_channels,
            group_filters=problem.group_filters,
            source_columns=problem.input[3],
            left=problem.padding[1][0],
            output_rows=output_rows,
            output_columns=output_columns,
            filter_rows=problem.weight[2],
            filter_columns=problem.weight[3],
            stride=problem.stride,
            dilation=problem.dilation,
            repeats=problem.padding_mode is not PaddingMode.ZEROS,
        )

    @property
    def across(self) -> int:
        """Threads across a row of y."""
        return -(-self.output_columns // self.columns)

    @property
    def ragged_columns(self) -> bool:
        """Whether the last thread of a row begins further left."""
        return self.output_columns % self.columns != 0

    @property
    def band_rows(self) -> int:
        """Rows of y per step."""
        return -(-self.output_rows // self.bands)

    @property
    def ragged_bands(self) -> bool:
        """Whether the last band begins further up."""
        return self.output_rows % self.band_rows != 0

    @property
    def strips(self) -> int:
        """Strips of `rows` rows per band."""
        return -(-self.band_rows // self.rows)

    @property
    def ragged_rows(self) -> bool:
        """Whether the last strip begins further up."""
        return self.band_rows % self.rows != 0

    @property
    def members(self) -> int:
        """Threads of a block with the same weights."""
        return self.across * self.down * self.images

    @property
    def keys(self) -> int:
        """Sets of weights per block."""
        return self.block_taps * self.block_filters * self.block_channels * self.block_groups

    @property
    def busy(self) -> int:
        """Threads of a block that have sums."""
        return self.members * self.keys

    @property
    def threads(self) -> int:
        """Threads per block, in whole warps; threads beyond `busy` only copy and add up."""
        return round_up(self.busy, WARP)

    @property
    def sums(self) -> int:
        """Sums per thread."""
        return self.filters * self.tap_rows * self.filter_columns

    @property
    def tap_blocks(self) -> int:
        """Blocks along the rows of a filter."""
        return self.filter_rows // (self.tap_rows * self.block_taps)

    @property
    def channel_blocks(self) -> int:
        """Blocks along the channels of a group."""
        return self.group_channels // self.block_channels

    @property
    def filter_blocks(self) -> int:
        """Blocks along the filters of a group."""
        return self.group_filters // (self.filters * self.block_filters)

    @property
    def group_blocks(self) -> int:
        return self.groups // self.block_groups

    @property
    def blocks(self) -> int:
        return self.splits * self.tap_blocks * self.channel_blocks * self.filter_blocks * self.group_blocks

    @property
    def steps(self) -> int:
        """Steps of all splits together; a step is a set of images and one band of them."""
        return -(-self.all_images // self.images) * self.bands

    @property
    def window_columns(self) -> int:
        """Columns of x under a thread's columns."""
        return self.stride[1] * (self.columns - 1) + self.dilation[1] * (self.filter_columns - 1) + 1

    @property
    def tile_rows(self) -> int:
        """Rows of x per step."""
        taps = self.tap_rows * self.block_taps
        return self.stride[0] * (self.band_rows - 1) + self.dilation[0] * (taps - 1) + 1

    @functools.cached_property
    def tile(self) -> PlaneTile:
        """Shared-memory layout of a plane of x."""
        return PlaneTile.of(
            self.source_columns,
            -self.left,
            self.tile_rows,
            self.window_columns,
            self._lanes(self.stride, self.dilation[0] * self.tap_rows),
            scalar=self.repeats,
        )

    @functools.cached_property
    def gradients(self) -> PlaneTile:
        """Shared-memory layout of a plane of dy, which has no padding."""
        return PlaneTile.of(self.output_columns, 0, self.band_rows, self.columns, self._lanes((1, 1), 0))

    def _lanes(self, stride: tuple[int, int], tap_step: int) -> PlaneLanes:
        """Places at which threads begin; `tap_step` is the number of rows from one thread's taps to the next one's."""
        shape = self.across, self.down, self.images, self.block_taps
        return _lanes(shape, self.rows, self.columns, self.output_columns, stride, tap_step)

    @property
    def tile_numbers(self) -> int:
        """Floats of the tiles of x in one stage."""
        return round_up(self.images * self.block_groups * self.block_channels * self.tile.plane_pitch, 4)

    @property
    def stage_numbers(self) -> int:
        """Floats of a stage: tiles of x, then tiles of dy."""
        planes = self.images * self.block_groups * self.block_filters * self.filters
        return self.tile_numbers + round_up(planes * self.gradients.plane_pitch, 4)

    @property
    def sum_pitch(self) -> int:
        """Floats from one of a thread's sums to the next in shared memory. Neighbouring sums lie in different banks."""
        return self.threads + 1

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory per block: the stages, which the sums replace at the end."""
        return FLOAT_BYTES * max(self.stages * self.stage_numbers, self.sums * self.sum_pitch)

    @property
    def written(self) -> int:
        """Multiply-adds per thread that are unrolled in the source."""
        return self.sums * self.rows * self.columns

    @property
    def registers(self) -> int:
        """Fewest registers per thread: sums, gradients, a row of its window."""
        return self.sums + self.filters * self.rows * self.columns + round_up(self.window_columns, self.tile.read)


@lru_cache(maxsize=4096)
def _lanes(
    shape: tuple[int, int, int, int], rows: int, columns: int, all_columns: int, stride: tuple[int, int], tap_step: int
) -> PlaneLanes:
    """Places at which the threads of a block begin to read.

    Args:
        shape: threads across, down, along images and along rows of taps.
        rows, columns: positions of y per thread.
        all_columns: columns of y.
        stride: rows and columns of x from one position of y to the next.
        tap_step: rows of x from one thread's taps to the next one's.
    """
    across, down, images, taps = shape
    last = all_columns - columns

    def place(lane: int) -> Place:
        key, member = divmod(lane, across * down * images)
        row = member // across % down * rows * stride[0] + key % taps * tap_step
        return member // (across * down), row, min(member % across * columns, last) * stride[1]

    step = 1 if all_columns % columns else columns * stride[1]
    return PlaneLanes(tuple(place(lane) for lane in range(BANKS)), last * stride[1], step)
