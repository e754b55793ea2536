"""One config of the weight side of `conv2d_pointwise` and of `conv2d_gather`: tiles, stages, shared memory and parts of
sums.
"""

from __future__ import annotations

import dataclasses
import math

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.words import ImageLayout
from warpsmith.generator.conv2d.products.pointwise.pointwise_tiles import vector_of
from warpsmith.generator.conv2d.products.split16.split16_arithmetic import Arithmetic
from warpsmith.generator.program import Argument, Pointer
from warpsmith.generator.space import Config, Value

PIXELS = 32
"""Pixels per stage."""
UNROLL = 2
"""Products of eight pixels whose loads a warp issues together."""
PITCH = PIXELS + 4
"""Floats of a row of a stage whose pixels are adjacent: a warp reads 8 rows x 4 pixels without bank conflicts."""
BANKS = 32
TAP_BYTES = 8
"""Bytes of a tap's place in shared memory."""
SUM_LANES, SUM_GROUPS = 32, 8
"""Threads of a block that adds up partial sums: for as many weights, each with groups of parts."""
LEAST: dict[str, Value] = {
    "down": 1,
    "across": 1,
    "rows": 16,
    "columns": 8,
    "stages": 2,
    "min_blocks": 1,
    "splits": 1,
}
"""The config that takes least memory. If it is illegal for a layer, all configs are."""


@dataclasses.dataclass(frozen=True, slots=True)
class PointwiseWeightGeometry:
    """One config of wgrad.

    Rows of the product are filters (channels of dy), columns the taps of all channels of x, terms pixels of all images.
    """

    down: int
    across: int
    rows: int
    columns: int
    stages: int
    min_blocks: int
    """Blocks that an SM must have registers for (minBlocksPerMultiprocessor of __launch_bounds__)."""
    splits: int
    """Parts of a sum, each of a block of its own."""
    products: int
    """TF32 products per product of the layer: 3 with the low parts of both factors."""
    filters: int
    channels: int
    taps: int
    """Taps of a channel: 1 in `conv2d_pointwise`."""
    pixels: int
    """Pixels of all images of dy."""
    source_pixels: int
    """Pixels of all images of x that some tap reads."""
    plane: int
    """Pixels of an image of dy."""
    vector: int
    """Pixels of dy that are copied at once."""
    source_vector: int
    """Pixels of x that are copied at once."""
    gathers: bool
    """Whether the pixels of x are those of a strided layer."""
    channels_last: bool
    """Whether channels, not pixels, are adjacent in both operands; then `vector` and `source_vector` count channels."""

    @classmethod
    def of(cls, problem: Conv2d, config: Config) -> PointwiseWeightGeometry:
        plane, taps = math.prod(problem.output_size), math.prod(problem.weight[2:])
        is_last = problem.layout is ImageLayout.NHWC
        return cls(
            **{name: config.integer(name) for name in LEAST},
            products=2 * Arithmetic.of(problem).parts - 1,
            filters=problem.group_filters,
            channels=problem.group_channels,
            taps=taps,
            pixels=problem.input[0] * plane,
            source_pixels=problem.input[0] * _pixels_read(problem),
            plane=plane,
            vector=math.gcd(problem.group_filters if is_last else plane, 4),
            source_vector=_source_vector(problem),
            gathers=problem.stride != (1, 1),
            channels_last=is_last,
        )

    pitch, tap_bytes, stage_pixels, unroll = PITCH, TAP_BYTES, PIXELS, UNROLL

    @property
    def operands(self) -> tuple[Argument, Argument]:
        """x and dy as arguments of the first launch."""
        return Pointer("x"), Pointer("dy")

    @property
    def warps(self) -> int:
        """Warps of a block."""
        return self.down * self.across

    @property
    def threads(self) -> int:
        return 32 * self.warps

    @property
    def tile_rows(self) -> int:
        return self.down * self.rows

    @property
    def tile_columns(self) -> int:
        return self.across * self.columns

    @property
    def row_tiles(self) -> int:
        return -(-self.filters // self.tile_rows)

    @property
    def all_columns(self) -> int:
        """Columns of the product."""
        return self.channels * self.taps

    @property
    def column_tiles(self) -> int:
        return -(-self.all_columns // self.tile_columns)

    @property
    def tiles(self) -> int:
        """Blocks before sums are split."""
        return self.row_tiles * self.column_tiles

    @property
    def blocks(self) -> int:
        return self.tiles * self.splits

    @property
    def steps(self) -> int:
        """Stages of a whole sum."""
        return -(-self.pixels // PIXELS)

    @property
    def split_steps(self) -> int:
        """Stages per part of a sum; the last part may have fewer."""
        return -(-self.steps // self.splits)

    @property
    def has_steps(self) -> bool:
        """Whether every part has at least one stage."""
        return (self.splits - 1) * self.split_steps < self.steps

    @property
    def weights(self) -> int:
        return self.filters * self.all_columns

    @property
    def row_pitch(self) -> int:
        """Floats from a pixel of dy to the next in a stage whose channels are adjacent."""
        return pitch_of(self.tile_rows)

    @property
    def column_pitch(self) -> int:
        return pitch_of(self.tile_columns)

    @property
    def shared_bytes(self) -> int:
        places = TAP_BYTES * self.tile_columns if self.taps > 1 else 0
        return 4 * self.stages * stage_floats(self.tile_rows, self.tile_columns, self.channels_last) + places

    @property
    def sum_groups(self) -> int:
        """Groups of parts that threads of the second launch add up side by side."""
        return min(SUM_GROUPS, self.splits)


def pitch_of(channels: int) -> int:
    """Channels of a tile and those beside them, so that a warp reads 4 pixels x 8 channels without bank conflicts."""
    return next(each for each in range(channels, channels + BANKS, 4) if each % BANKS in (8, 24))


def stage_floats(rows: int, columns: int, channels_last: bool) -> int:
    """Floats of a stage of so many channels of dy and columns of x."""
    return PIXELS * (pitch_of(rows) + pitch_of(columns)) if channels_last else PITCH * (rows + columns)


def _source_vector(problem: Conv2d) -> int:
    """Floats of x that are copied at once: channels if they are adjacent, else pixels, which taps have one by one."""
    if problem.layout is ImageLayout.NHWC:
        return math.gcd(problem.group_channels, 4)
    return vector_of(problem) if math.prod(problem.weight[2:]) == 1 else 1


def _pixels_read(problem: Conv2d) -> int:
    """Pixels of an image of x that some tap reads: a long stride leaves pixels out."""
    axes = zip(problem.input[2:], problem.output_size, problem.weight[2:], strict=True)
    return math.prod(min(size, results * taps) for size, results, taps in axes)
