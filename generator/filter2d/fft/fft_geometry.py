"""Geometry of one config of `filter2d_fft` on one problem: tiles, chunks of pairs, and the blocks of each launch.

Lines are transformed as generator/tiles/lines.py says.
"""

from __future__ import annotations

import dataclasses
from math import ceil

from warpsmith.generator.fft.text import Twiddles
from warpsmith.generator.filter2d.overlap_family import PairedTiles, Partners
from warpsmith.generator.filter2d.problem import Filter2d
from warpsmith.generator.filter2d.window_geometry import StoreHint
from warpsmith.generator.space import Config
from warpsmith.generator.tiles.lines import Lines, axis_of, points_of, radices_of
from warpsmith.generator.tiles.tile import COMPLEX_BYTES

FLOWING = 4
"""Value of `buffers` for all chunks in one launch, with four chunks in the workspace: one is read, one transformed, one
stored, and one is in between."""


@dataclasses.dataclass(frozen=True, slots=True)
class Filter2dFftGeometry(PairedTiles):
    """Sizes in pixels, tiles and threads. An item is a pair of tiles with a filter."""

    rows: Lines
    """Rows of tiles: a row has as many points as a tile has columns."""
    columns: Lines
    chunk: int
    """Items in one chunk of the workspace."""
    min_blocks: int
    """Blocks of columns that an SM must hold."""
    buffers: int
    """Chunks that the workspace has room for; FLOWING for all chunks in one launch."""
    blocks: int
    """Blocks of that one launch, else 0."""
    partners: Partners
    twiddles: Twiddles
    streaming: bool
    valid_rows: int
    """Rows of results that a tile's pixels suffice for and that the whole result has."""
    valid_columns: int
    tile_rows_valid: int
    """Rows from one tile to the next one down."""
    tile_columns_valid: int
    tiles_down: int
    """Tiles of a plane, down."""
    tiles_across: int
    planes: int
    filters: int
    filter_rows: int
    filter_columns: int

    @classmethod
    def of(cls, problem: Filter2d, config: Config) -> Filter2dFftGeometry:
        (r, s), (rows, columns) = problem.filter, problem.output_shape
        x, y = config.text("x_radices"), config.text("y_radices")
        lines, side_by_side = config.integer("rows"), config.integer("columns")
        down, across = points_of(y) - r + 1, points_of(x) - s + 1
        return cls(
            rows=Lines(axis_of(radices_of(x), 1), lines, False, config.integer("row_threads")),
            columns=Lines(axis_of(radices_of(y), side_by_side), side_by_side, True, config.integer("column_threads")),
            chunk=config.integer("pairs"),
            min_blocks=config.integer("min_blocks"),
            buffers=config.integer("buffers"),
            blocks=config.integer("blocks"),
            partners=Partners(config.text("partners")),
            twiddles=Twiddles(config.text("twiddles")),
            streaming=config.text("store") == StoreHint.STREAMING,
            valid_rows=min(down, rows),
            valid_columns=min(across, columns),
            tile_rows_valid=down,
            tile_columns_valid=across,
            tiles_down=ceil(rows / down),
            tiles_across=ceil(columns / across),
            planes=problem.planes,
            filters=problem.filters,
            filter_rows=r,
            filter_columns=s,
        )

    @property
    def summary(self) -> tuple[str, ...]:
        """Header lines that say what the kernels do."""
        y, x = self.columns.points, self.rows.points
        return (
            f"Overlap-save: tiles of {y} x {x} pixels, {self.tile_rows_valid} x {self.tile_columns_valid} results.",
            f"Two tiles are one complex tile in the workspace, {self.chunk} of them per chunk. A block transforms",
            "rows or columns in shared memory, a barrier between passes: rows first, then columns, the product with",
            "the filter's spectrum, the inverse of the columns, and the inverse of the rows. All passes are in place.",
        )

    @property
    def items(self) -> int:
        return self.pairs * self.planes * self.filters

    @property
    def chunks(self) -> tuple[int, ...]:
        """Items in each chunk."""
        return tuple(min(self.chunk, self.items - start) for start in range(0, self.items, self.chunk))

    @property
    def is_double(self) -> bool:
        """True if one launch stores the results of a chunk and reads the pixels of the next one."""
        return self.buffers == 2 and len(self.chunks) > 1

    @property
    def flows(self) -> bool:
        """True if one launch does all chunks."""
        return self.buffers == FLOWING

    @property
    def slots(self) -> int:
        """Chunks in the workspace at a time."""
        return min(self.buffers, len(self.chunks))

    @property
    def pixel_rows(self) -> int:
        """Rows of a tile that some result needs; the other rows are 0 and are never stored."""
        return self.valid_rows + self.filter_rows - 1

    @property
    def pixel_columns(self) -> int:
        return self.valid_columns + self.filter_columns - 1

    @property
    def row_blocks(self) -> int:
        """Blocks per item that transform rows forward."""
        return ceil(self.pixel_rows / self.rows.count)

    @property
    def result_blocks(self) -> int:
        """Blocks per item that transform rows backward."""
        return ceil(self.valid_rows / self.rows.count)

    @property
    def column_blocks(self) -> int:
        """Blocks per item that transform columns."""
        return self.rows.points // self.columns.count

    @property
    def tap_blocks(self) -> int:
        """Blocks that transform the rows of all filters."""
        return ceil(self.filters * self.filter_rows / self.rows.count)

    @property
    def work_bytes(self) -> int:
        """Bytes of the chunks in the workspace at a time."""
        return COMPLEX_BYTES * self.slots * min(self.chunk, self.items) * self.pixel_rows * self.rows.points

    @property
    def tap_bytes(self) -> int:
        """Bytes of the filters' transformed rows."""
        return COMPLEX_BYTES * self.filters * self.filter_rows * self.rows.points

    @property
    def spectrum_bytes(self) -> int:
        return COMPLEX_BYTES * self.filters * self.columns.points * self.rows.points

    def results(self, tile: int) -> tuple[slice, slice]:
        """Rows and columns of a plane's results that a tile computes; parts past the result do not exist."""
        row, column = divmod(tile, self.tiles_across)
        return (
            slice(row * self.tile_rows_valid, (row + 1) * self.tile_rows_valid),
            slice(column * self.tile_columns_valid, (column + 1) * self.tile_columns_valid),
        )
