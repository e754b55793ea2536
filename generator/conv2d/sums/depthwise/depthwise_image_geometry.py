"""Geometry of `conv2d_depthwise` for results that are images (fprop, dgrad).

A unit is one group of one image: a few planes of the source and a few of the result. A block copies the tiles of some
units into shared memory. A thread keeps `filters` channels by `rows` by `columns` of one unit's result in registers. It
reads each row of its window once for all tap rows that use it, as `filter2d_window` does.
"""

from __future__ import annotations

import dataclasses
import enum
import functools

from warpsmith.generator.conv2d.layer.axes import LayerAxis, axes_of
from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.sums.depthwise.depthwise_tile import PlaneLanes, PlaneTile, round_up, vector_of
from warpsmith.generator.conv2d.sums.direct_image_geometry import channels_of, weight_strides
from warpsmith.generator.padding import PaddingMode
from warpsmith.generator.space import Config

NAME = "conv2d_depthwise"
FLOAT_BYTES = 4
WARP = 32
IMAGE_NAMES = (
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
"""Parameters whose values are numbers."""


class Stores(enum.StrEnum):
    """How sums are stored to global memory."""

    DIRECT = "direct"
    """Each thread stores its own sums."""
    STAGED = "staged"
    """Sums go through shared memory, from which neighbouring threads store neighbouring numbers."""


@dataclasses.dataclass(frozen=True)
class DepthwiseImageGeometry:
    """One config of fprop or dgrad. Rows and columns count steps of a phase (`LayerAxis`), channels those
    of a group.
    """

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
    row_axis: LayerAxis
    column_axis: LayerAxis
    repeats: bool
    """Whether the padding of the source repeats pixels of it."""
    weights_per_source: int
    """Elements of w from one channel of the source to the next; below, from one channel of the result to the next."""
    weights_per_result: int

    @classmethod
    def of(cls, problem: Conv2d, config: Config) -> DepthwiseImageGeometry:
        values = config.values()
        per_source, per_result, _ = weight_strides(problem)
        source_channels, result_channels = channels_of(problem)
        rows, columns = axes_of(problem)
        return cls(
            **{name: int(values[name]) for name in IMAGE_NAMES},
            stores=Stores(config.text("stores")),
            images=problem.input[0],
            groups=problem.groups,
            source_channels=source_channels,
            result_channels=result_channels,
            filter_rows=problem.weight[2],
            filter_columns=problem.weight[3],
            row_axis=rows,
            column_axis=columns,
            repeats=not problem.pass_.is_transposed and problem.padding_mode is not PaddingMode.ZEROS,
            weights_per_source=per_source,
            weights_per_result=per_result,
        )

    @property
    def phases(self) -> int:
        """Row phases times column phases. A block has all of them, because they read the same tile."""
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
        """Rows of a phase per block, including those beyond the last row."""
        return self.down * self.rows

    @property
    def band_columns(self) -> int:
        """Columns of a phase per block, including those beyond the last column."""
        return self.across * self.columns

    @property
    def busy(self) -> int:
        """Threads of a block that have sums."""
        return self.across * self.down * self.units * self.block_filters

    @property
    def threads(self) -> int:
        """Threads per block, in whole warps; threads beyond `busy` only copy."""
        return round_up(self.busy, WARP)

    @property
    def filter_blocks(self) -> int:
        """Blocks along the result channels of a group."""
        return -(-self.result_channels // (self.filters * self.block_filters))

    @property
    def channel_rounds(self) -> int:
        """Rounds of the channel loop per unit."""
        return self.source_channels // self.channels

    @property
    def all_units(self) -> int:
        return self.images * self.groups

    @property
    def blocks(self) -> int:
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
        """Source row at which the first window begins; negative in the padding."""
        return low_of(self.row_axis)

    @property
    def low_column(self) -> int:
        """Source column at which the first window begins; negative in the padding."""
        return low_of(self.column_axis)

    @property
    def window_columns(self) -> int:
        """Most columns of a source row that a thread reads."""
        return window_of(self.column_axis, self.columns)

    @functools.cached_property
    def tile(self) -> PlaneTile:
        """Shared-memory layout of a plane of the source."""
        rows = window_of(self.row_axis, self.band_rows)
        across, down = self.column_axis.multiple, self.row_axis.multiple
        lanes = PlaneLanes.of(self.across, self.down, self.columns * across, self.rows * down)
        step = self.band_columns * across if self.column_bands > 1 else 0
        return PlaneTile.of(
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
        """Weights per vector read."""
        return {1: 1, 2: 2}.get(self.filter_columns, 4)

    @property
    def weight_pitch(self) -> int:
        """Floats from one filter row to the next in shared memory."""
        return round_up(self.filter_columns, self.weight_vector)

    @property
    def filter_size(self) -> int:
        """Floats per filter channel in shared memory."""
        return self.filter_rows * self.weight_pitch

    @property
    def unit_weights(self) -> int:
        """Floats of a unit's filters. The number of vectors is odd, so that threads of several units read different
        banks.
        """
        vectors = self.filters * self.block_filters * self.channels * self.filter_size // self.weight_vector
        return (vectors | 1) * self.weight_vector

    @property
    def tile_numbers(self) -> int:
        """Floats of a stage's tiles."""
        return round_up(self.units * self.channels * self.tile.plane_pitch, 4)

    @property
    def stage_numbers(self) -> int:
        """Floats of a stage: tiles, then weights."""
        return self.tile_numbers + round_up(self.units * self.unit_weights, 4)

    @property
    def out_rows(self) -> int:
        """Rows of the result that a block stages, of all phases together."""
        return self.band_rows * len(self.row_axis.phases)

    @property
    def out_numbers(self) -> int:
        """Floats of the results that a block stages."""
        if self.stores is Stores.DIRECT:
            return 0
        return self.units * self.filters * self.block_filters * self.out_rows * self.column_axis.results

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory per block."""
        return FLOAT_BYTES * (self.stages * self.stage_numbers + self.out_numbers)

    @property
    def store_vector(self) -> int:
        """Floats that a thread stores at once."""
        if self.stores is Stores.STAGED or len(self.column_axis.phases) > 1:
            return 1
        return min(vector_of(self.columns), vector_of(self.column_axis.results))

    @property
    def steps(self) -> int:
        """Stages that a block fills."""
        return self.rounds * self.channel_rounds

    @property
    def registers(self) -> int:
        """Fewest registers per thread: sums, the weights of some rows of taps, a row of its window.

        If all tap rows of one channel are unrolled, a row of sums begins at its first tap and is stored after its last
        one, so ptxas keeps no other rows of sums.
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
        """Multiply-adds per thread that are unrolled in the source, of all phases together."""
        columns = sum(each.count for each in self.column_axis.phases)
        rows = sum(min(self.tap_rows, each.count) for each in self.row_axis.phases)
        return self.filters * self.rows * self.columns * rows * columns


def low_of(axis: LayerAxis) -> int:
    """The source row, or column, at which the first window begins; negative in the padding."""
    return min((taps.low for taps in axis.phases if taps.count), default=0)


def window_of(axis: LayerAxis, steps: int) -> int:
    """Source rows, or columns, from the first to the last that `steps` steps of all phases read; at least 1."""
    low = low_of(axis)
    ends = (taps.low - low + taps.span for taps in axis.phases if taps.count)
    return max(ends, default=1) + axis.multiple * (steps - 1)
