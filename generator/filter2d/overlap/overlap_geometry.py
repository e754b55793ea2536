"""Geometry of one config of `filter2d_overlap_save` on one problem: the tile, the grid, the blocks' work."""

from __future__ import annotations

import dataclasses
import enum
from math import ceil

from warpsmith.generator.filter2d.problem import Filter2d
from warpsmith.generator.filter2d.window.window_geometry import StoreHint
from warpsmith.generator.space import Config
from warpsmith.generator.tiles.passes import Passes
from warpsmith.generator.tiles.tile import COMPLEX_BYTES, Axis


class Partners(enum.StrEnum):
    """Pairing of two tiles into one complex tile."""

    ADJACENT = "adjacent"
    """Consecutive tiles of a plane, mostly side by side."""
    APART = "apart"
    """One tile of the first half of a plane's tiles, and one of the second half."""


class PairedTiles:
    """Tiles of a plane, paired into complex tiles."""

    __slots__ = ()

    partners: Partners
    tiles_down: int
    tiles_across: int

    @property
    def tiles(self) -> int:
        """Tiles of a plane."""
        return self.tiles_down * self.tiles_across

    @property
    def pairs(self) -> int:
        """Pairs of a plane. A tile's errors are relative to its partner's pixels too, so a pair stays in one plane."""
        return ceil(self.tiles / 2)

    def partners_of(self, pair: int) -> tuple[int, int]:
        """Numbers of the two tiles of a pair; the second one is `tiles` if it does not exist."""
        return (pair, self.pairs + pair) if self.partners is Partners.APART else (2 * pair, 2 * pair + 1)


@dataclasses.dataclass(frozen=True, slots=True)
class Geometry(PairedTiles):
    """Sizes in pixels, tiles and threads."""

    passes: Passes
    partners: Partners
    ahead: bool
    """True if the filter's spectrum is read before the transform that it multiplies."""
    streaming: bool
    valid_rows: int
    """Rows of results that a tile's pixels suffice for."""
    valid_columns: int
    tiles_down: int
    """Tiles of a plane, down."""
    tiles_across: int
    planes: int
    filters: int

    @classmethod
    def of(cls, problem: Filter2d, config: Config) -> Geometry:
        (r, s), (rows, columns) = problem.filter, problem.output_shape
        y, x = Axis.of(config.text("y_radices")), Axis.of(config.text("x_radices"))
        valid_rows, valid_columns = y.points - r + 1, x.points - s + 1
        return cls(
            passes=Passes.of(config, valid_columns),
            partners=Partners(config.text("partners")),
            ahead=config.integer("ahead") == 1,
            streaming=config.text("store") == StoreHint.STREAMING,
            valid_rows=valid_rows,
            valid_columns=valid_columns,
            tiles_down=ceil(rows / valid_rows),
            tiles_across=ceil(columns / valid_columns),
            planes=problem.planes,
            filters=problem.filters,
        )

    @property
    def summary(self) -> tuple[str, ...]:
        """Header lines that say what the kernel does."""
        y, x = self.passes.y, self.passes.x
        return (
            f"Overlap-save: tiles of {y.points} x {x.points} pixels, {self.valid_rows} x {self.valid_columns} results.",
            "A block computes two tiles as one complex tile in shared memory: forward FFT, product with the filter's",
            f"spectrum, inverse FFT, in three passes each way and in place. Radices: columns {y.text}, rows {x.text}.",
            "Threads of the block share the first and the last pass; a warp does the others on a group of rows.",
        )

    @property
    def blocks(self) -> int:
        """Blocks of the grid: each has one pair of tiles and one filter."""
        return self.pairs * self.planes * self.filters

    @property
    def spectrum_bytes(self) -> int:
        return COMPLEX_BYTES * self.filters * self.passes.spectrum_elements

    def results(self, tile: int) -> tuple[slice, slice]:
        """Rows and columns of a plane's results that a tile computes; parts past the result do not exist."""
        row, column = divmod(tile, self.tiles_across)
        return (
            slice(row * self.valid_rows, (row + 1) * self.valid_rows),
            slice(column * self.valid_columns, (column + 1) * self.valid_columns),
        )
