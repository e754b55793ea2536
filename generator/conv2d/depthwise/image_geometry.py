"""`conv2d_depthwise` on a result that is an image (fprop, dgrad): what one config makes of it.

A unit is a group of an image: a few planes of the source, and a few of the result. A block stages the tiles of some
units in shared memory, and a thread of it has `filters` channels by `rows` by `columns` of one unit's result in
registers. It reads a row of its window once for all taps' rows that meet it, as `filter2d_window` does.
"""

from __future__ import annotations

import dataclasses
import enum
import functools

from warpsmith.generator.conv2d.axes import Axis, axes_of
from warpsmith.generator.conv2d.depthwise.tile import Lanes, Tile, round_up, vector_of
from warpsmith.generator.conv2d.depthwise.windows import low_of, window_of
from warpsmith.generator.conv2d.image_geometry import channels_of
from warpsmith.generator.conv2d.problem import Conv2d
from warpsmith.generator.conv2d.words import Pass
from warpsmith.generator.padding import PaddingMode
from warpsmith.generator.space import Config

FLOAT_BYTES = 4
WARP = 32
NAMES = (
    "rows",
    "columns",
    "filters",
    "tap_rows",
    "row_bands",
    "column_bands",
    "block_filters",
    "units",
    "channels",
    "rounds",
    "stages",
    "min_blocks",
)
"""Parameters that are numbers."""


class Stores(enum.StrEnum):
    """How sums come to global memory."""

    DIRECT = "direct"
    """Each thread writes its own."""
    STAGED = "staged"
    """Through shared memory, from which neighbouring threads write neighbouring numbers."""


@dataclasses.dataclass(frozen=True)
class ImageGeometry:
    """Rows and columns count steps of a phase (`axes.Axis`), channels those of one group."""

    rows: int
    columns: int
    filters: int
    tap_rows: int
    row_bands: int
    column_bands: int
    block_filters: int
    units: int
    channels: int
    rounds: int
    stages: int
    min_blocks: int
    stores: Stores
    images: int
    groups: int
    source_channels: int
    result_channels: int
    filter_rows: int
    filter_columns: int
    row_axis: Axis
    column_axis: Axis
    repeats: bool
    """Whether the padding of the source has pixels of it."""
    weights_per_source: int
    """Elements of w from one channel of the source to the next, and of the result."""
    weights_per_result: int

    @classmethod
    def of(cls, problem: Conv2d, config: Config) -> ImageGeometry:
        values = config.values()
        taps = problem.weight[2] * problem.weight[3]
        inner, outer = taps, problem.group_channels * taps
        is_fprop = problem.pass_ is Pass.FPROP
        source_channels, result_channels = channels_of(problem)
        rows, columns = axes_of(problem)
        return cls(
            **{name: int(values[name]) for name in NAMES},
            stores=Stores(config.text("stores")),
            images=problem.input[0],
            groups=problem.groups,
            source_channels=source_channels,
            result_channels=result_channels,
            filter_rows=problem.weight[2],
            filter_columns=problem.weight[3],
            row_axis=rows,
            column_axis=columns,
            repeats=is_fprop and problem.padding_mode is not PaddingMode.ZEROS,
            weights_per_source=inner if is_fprop else outer,
            weights_per_result=outer if is_fprop else inner,
        )

    @property
    def phases(self) -> int:
        """Of rows times those of columns: a block has all of them, since they read the same tile."""
        return len(self.row_axis.phases) * len(self.column_axis.phases)

    @property
    def across(self) -> int:
        """Threads across a band of a plane."""
        return -(-self.column_axis.steps // (self.columns * self.column_bands))

    @property
    def down(self) -> int:
        """Threads down a band."""
        return -(-self.row_axis.steps // (self.rows * self.row_bands))

    @property
    def band_rows(self) -> int:
        """Rows of a phase that a block has, beyond the last one too."""
        return self.down * self.rows

    @property
    def band_columns(self) -> int:
        """Columns likewise."""
        return self.across * self.columns

    @property
    def busy(self) -> int:
        """Threads of a block with sums."""
        return self.across * self.down * self.units * self.block_filters

    @property
    def threads(self) -> int:
        """Of a block: whole warps; those beyond `busy` help to copy."""
        return round_up(self.busy, WARP)

    @property
    def filter_blocks(self) -> int:
        """Blocks for the result's channels of a group."""
        return -(-self.result_channels // (self.filters * self.block_filters))

    @property
    def channel_rounds(self) -> int:
        """Rounds of the loop for a unit."""
        return self.source_channels // self.channels

    @property
    def all_units(self) -> int:
        """Of the problem."""
        return self.images * self.groups

    @property
    def blocks(self) -> int:
        """Of the whole grid."""
        sets = -(-self.all_units // (self.units * self.rounds))
        return sets * self.row_bands * self.column_bands * self.filter_blocks

    @property
    def ragged_units(self) -> bool:
        """Whether the last block has fewer units."""
        return self.all_units % (self.units * self.rounds) != 0

    @property
    def ragged_filters(self) -> bool:
        """Whether the last block, or thread, of a group has fewer channels of the result."""
        return self.result_channels % (self.filters * self.block_filters) != 0

    @property
    def ragged_rows(self) -> bool:
        """Whether some threads have fewer rows."""
        return self.row_axis.results != len(self.row_axis.phases) * self.band_rows * self.row_bands

    @property
    def ragged_columns(self) -> bool:
        """Whether some threads have fewer columns."""
        return self.column_axis.results != len(self.column_axis.phases) * self.band_columns * self.column_bands

    @property
    def is_staged(self) -> bool:
        """Whether results go through shared memory."""
        return self.stores is Stores.STAGED

    @property
    def low_row(self) -> int:
        """Row of the source at which the first window begins."""
        return low_of(self.row_axis)

    @property
    def low_column(self) -> int:
        """Column likewise."""
        return low_of(self.column_axis)

    @property
    def window_columns(self) -> int:
        """That a thread reads of a row at the most."""
        return window_of(self.column_axis, self.columns)

    @functools.cached_property
    def tile(self) -> Tile:
        """Of a plane of the source."""
        rows = window_of(self.row_axis, self.band_rows)
        across, down = self.column_axis.multiple, self.row_axis.multiple
        lanes = Lanes.of(self.across, self.down, self.columns * across, self.rows * down)
        step = self.band_columns * across if self.column_bands > 1 else 0
        return Tile.of(
            self.column_axis.sources,
            self.low_column,
            rows,
            self.window_columns,
            lanes,
            step=step,
            scalar=self.repeats,
        )

    @property
    def weight_vector(self) -> int:
        """Numbers of a read of weights."""
        return {1: 1, 2: 2}.get(self.filter_columns, 4)

    @property
    def weight_pitch(self) -> int:
        """From one row of a filter to the next."""
        return round_up(self.filter_columns, self.weight_vector)

    @property
    def filter_size(self) -> int:
        """Numbers of a filter's channel in shared memory."""
        return self.filter_rows * self.weight_pitch

    @property
    def unit_weights(self) -> int:
        """Numbers of a unit's filters, an odd count of vectors: threads of several units read different banks."""
        vectors = self.filters * self.block_filters * self.channels * self.filter_size // self.weight_vector
        return (vectors | 1) * self.weight_vector

    @property
    def tile_numbers(self) -> int:
        """Of a stage's tiles."""
        return round_up(self.units * self.channels * self.tile.plane_pitch, 4)

    @property
    def stage_numbers(self) -> int:
        """Of a stage: tiles, then weights."""
        return self.tile_numbers + round_up(self.units * self.unit_weights, 4)

    @property
    def out_rows(self) -> int:
        """Rows of the result that a block stages, those of all phases."""
        return self.band_rows * len(self.row_axis.phases)

    @property
    def out_numbers(self) -> int:
        """That a block stages of its results."""
        if self.stores is Stores.DIRECT:
            return 0
        return self.units * self.filters * self.block_filters * self.out_rows * self.column_axis.results

    @property
    def shared_bytes(self) -> int:
        """Of a block."""
        return FLOAT_BYTES * (self.stages * self.stage_numbers + self.out_numbers)

    @property
    def store_vector(self) -> int:
        """Numbers that a thread writes at once."""
        if self.stores is Stores.STAGED or len(self.column_axis.phases) > 1:
            return 1
        return min(vector_of(self.columns), vector_of(self.column_axis.results))

    @property
    def steps(self) -> int:
        """Times that a block stages something."""
        return self.rounds * self.channel_rounds

    @property
    def registers(self) -> int:
        """That a thread needs at the least: sums, the weights of some rows of taps, a row of its window.

        Where all taps' rows of one channel are written out, a row of sums is begun when its first tap is met and stored
        behind its last one: ptxas keeps no others.
        """
        rolling = self.source_channels == 1 and self.tap_rows >= self.row_axis.most_taps
        met = -(-max(each.span for each in self.row_axis.phases) // self.row_axis.multiple)
        return (
            self.filters * (min(self.rows, met) if rolling else self.rows) * self.columns
            + self.filters * self.tap_rows * self.column_axis.most_taps
            + round_up(self.window_columns, self.tile.read)
        )

    @property
    def written(self) -> int:
        """Multiply-adds that are written out, of all phases."""
        columns = sum(each.count for each in self.column_axis.phases)
        rows = sum(min(self.tap_rows, each.count) for each in self.row_axis.phases)
        return self.filters * self.rows * self.columns * rows * columns
