"""`conv2d_depthwise` on the gradient of the weights (wgrad): what one config makes of it.

A thread has the sums of some rows of taps of some filters and one channel in registers. It holds a few gradients of y
in registers as well, and reads each row of the window of x over them once, for all rows of taps that meet it. Threads
of a block that have the same weights are its members, which differ in the positions of y that they add up. The last
thread of a line begins further left, or further up, where the line is no multiple of its positions, and leaves out what
the one before has: products of a zero and a pixel beside the line could be NaN.
"""

from __future__ import annotations

import dataclasses
import functools
from functools import lru_cache

from warpsmith.generator.conv2d.depthwise.image_geometry import FLOAT_BYTES, WARP
from warpsmith.generator.conv2d.depthwise.tile import BANKS, Lanes, Place, Tile, round_up
from warpsmith.generator.conv2d.problem import Conv2d
from warpsmith.generator.padding import PaddingMode
from warpsmith.generator.space import Config

SERIAL_MEMBERS = 16
"""Members up to which one thread adds up their sums; of more, a warp does."""
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
class WeightGeometry:
    """Rows and columns are those of y."""

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
    """Columns of padding."""
    output_rows: int
    output_columns: int
    filter_rows: int
    filter_columns: int
    stride: tuple[int, int]
    dilation: tuple[int, int]
    repeats: bool
    """Whether the padding of x has pixels of it."""

    @classmethod
    def of(cls, problem: Conv2d, config: Config) -> WeightGeometry:
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
        """Whether the last of them begins further left."""
        return self.output_columns % self.columns != 0

    @property
    def band_rows(self) -> int:
        """Rows of y that a step has."""
        return -(-self.output_rows // self.bands)

    @property
    def ragged_bands(self) -> bool:
        """Whether the last band begins further up."""
        return self.output_rows % self.band_rows != 0

    @property
    def strips(self) -> int:
        """Sets of `rows` rows of a band."""
        return -(-self.band_rows // self.rows)

    @property
    def ragged_rows(self) -> bool:
        """Whether the last of them begins further up."""
        return self.band_rows % self.rows != 0

    @property
    def members(self) -> int:
        """Threads of a block with the same weights."""
        return self.across * self.down * self.images

    @property
    def keys(self) -> int:
        """Sets of weights of a block."""
        return self.block_taps * self.block_filters * self.block_channels * self.block_groups

    @property
    def busy(self) -> int:
        """Threads of a block with sums."""
        return self.members * self.keys

    @property
    def threads(self) -> int:
        """Of a block: whole warps; those beyond `busy` help to copy and to add up."""
        return round_up(self.busy, WARP)

    @property
    def sums(self) -> int:
        """Of a thread."""
        return self.filters * self.tap_rows * self.filter_columns

    @property
    def tap_blocks(self) -> int:
        """Blocks for the rows of a filter."""
        return self.filter_rows // (self.tap_rows * self.block_taps)

    @property
    def channel_blocks(self) -> int:
        """Blocks for the channels of a group."""
        return self.group_channels // self.block_channels

    @property
    def filter_blocks(self) -> int:
        """Blocks for the filters of a group."""
        return self.group_filters // (self.filters * self.block_filters)

    @property
    def group_blocks(self) -> int:
        """Blocks for the groups."""
        return self.groups // self.block_groups

    @property
    def blocks(self) -> int:
        """Of the whole grid."""
        return self.splits * self.tap_blocks * self.channel_blocks * self.filter_blocks * self.group_blocks

    @property
    def steps(self) -> int:
        """Sets of images, and bands of them, which the splits share."""
        return -(-self.all_images // self.images) * self.bands

    @property
    def window_columns(self) -> int:
        """Of x, under a thread's columns."""
        return self.stride[1] * (self.columns - 1) + self.dilation[1] * (self.filter_columns - 1) + 1

    @property
    def tile_rows(self) -> int:
        """Of x, that a step reads."""
        taps = self.tap_rows * self.block_taps
        return self.stride[0] * (self.band_rows - 1) + self.dilation[0] * (taps - 1) + 1

    @functools.cached_property
    def tile(self) -> Tile:
        """Of a plane of x."""
        return Tile.of(
            self.source_columns,
            -self.left,
            self.tile_rows,
            self.window_columns,
            self._lanes(self.stride, self.dilation[0] * self.tap_rows),
            scalar=self.repeats,
        )

    @functools.cached_property
    def gradients(self) -> Tile:
        """Of a plane of dy: without padding."""
        return Tile.of(self.output_columns, 0, self.band_rows, self.columns, self._lanes((1, 1), 0))

    def _lanes(self, stride: tuple[int, int], tap_step: int) -> Lanes:
        """Where threads begin; `tap_step` are rows from one thread's taps to the next one's."""
        shape = self.across, self.down, self.images, self.block_taps
        return _lanes(shape, self.rows, self.columns, self.output_columns, stride, tap_step)

    @property
    def tile_numbers(self) -> int:
        """Of the tiles of x that are staged at once."""
        return round_up(self.images * self.block_groups * self.block_channels * self.tile.plane_pitch, 4)

    @property
    def stage_numbers(self) -> int:
        """Of a stage: tiles of x, then those of dy."""
        planes = self.images * self.block_groups * self.block_filters * self.filters
        return self.tile_numbers + round_up(planes * self.gradients.plane_pitch, 4)

    @property
    def sum_pitch(self) -> int:
        """From one of a thread's sums to the next in shared memory: neighbouring sums lie in different banks."""
        return self.threads + 1

    @property
    def shared_bytes(self) -> int:
        """Of a block: what is staged, and at the end the sums in its place."""
        return FLOAT_BYTES * max(self.stages * self.stage_numbers, self.sums * self.sum_pitch)

    @property
    def written(self) -> int:
        """Multiply-adds that are written out."""
        return self.sums * self.rows * self.columns

    @property
    def registers(self) -> int:
        """That a thread needs at the least: sums, gradients, a row of its window."""
        return self.sums + self.filters * self.rows * self.columns + round_up(self.window_columns, self.tile.read)


@lru_cache(maxsize=4096)
def _lanes(
    shape: tuple[int, int, int, int], rows: int, columns: int, all_columns: int, stride: tuple[int, int], tap_step: int
) -> Lanes:
    """Of threads across, down, by images, by taps; `rows` by `columns` positions of y each."""
    across, down, images, taps = shape
    last = all_columns - columns

    def place(lane: int) -> Place:
        key, member = divmod(lane, across * down * images)
        row = member // across % down * rows * stride[0] + key % taps * tap_step
        return member // (across * down), row, min(member % across * columns, last) * stride[1]

    step = 1 if all_columns % columns else columns * stride[1]
    return Lanes(tuple(place(lane) for lane in range(BANKS)), last * stride[1], step)
