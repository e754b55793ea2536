"""One config of `filter2d_overlap_save` on one problem: the tile, the grid, the blocks' work."""

from __future__ import annotations

import dataclasses
import enum
from math import ceil

from warpsmith.generator.fft.words import Twiddles
from warpsmith.generator.filter2d.overlap.tile import COMPLEX_BYTES, WARP, Axis, Layout, TileShape, fitted
from warpsmith.generator.filter2d.problem import Filter2d
from warpsmith.generator.filter2d.window.geometry import StoreHint
from warpsmith.generator.space import Config


class Partners(enum.StrEnum):
    """Which two tiles are one complex tile."""

    ADJACENT = "adjacent"
    """Tiles of a plane that follow each other, mostly side by side."""
    APART = "apart"
    """One of the first half of a plane's tiles, and one of the second."""


@dataclasses.dataclass(frozen=True, slots=True)
class Geometry:
    """Sizes in pixels, tiles and threads."""

    shape: TileShape
    layout: Layout
    warps: int
    min_blocks: int
    twiddles: Twiddles
    partners: Partners
    ahead: bool
    """Whether the filter's spectrum is read before the transform that it is multiplied with."""
    streaming: bool
    valid_rows: int
    """Of a tile: rows of results that its pixels suffice for."""
    valid_columns: int
    tiles_down: int
    """Of a plane."""
    tiles_across: int
    planes: int
    filters: int

    @classmethod
    def of(cls, problem: Filter2d, config: Config) -> Geometry:
        shape = TileShape(
            y=Axis.of(config.text("y_radices")),
            x=Axis.of(config.text("x_radices")),
            group=config.integer("group"),
            gaps=config.integer("gaps"),
        )
        (r, s), (rows, columns) = problem.filter, problem.output_shape
        valid_rows, valid_columns = shape.y.points - r + 1, shape.x.points - s + 1
        return cls(
            shape=shape,
            layout=fitted(shape),
            warps=config.integer("warps"),
            min_blocks=config.integer("min_blocks"),
            twiddles=Twiddles(config.text("twiddles")),
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
    def y(self) -> Axis:
        return self.shape.y

    @property
    def x(self) -> Axis:
        return self.shape.x

    @property
    def threads(self) -> int:
        return WARP * self.warps

    @property
    def shared_bytes(self) -> int:
        """Of a block."""
        return COMPLEX_BYTES * self.layout.elements(self.shape)

    @property
    def tiles(self) -> int:
        """Of a plane."""
        return self.tiles_down * self.tiles_across

    @property
    def pairs(self) -> int:
        """Of a plane: the errors of a tile are relative to its partner's pixels too, and so may not leave a plane."""
        return ceil(self.tiles / 2)

    @property
    def blocks(self) -> int:
        """A pair of tiles and a filter each."""
        return self.pairs * self.planes * self.filters

    @property
    def spectrum_turns(self) -> int:
        """Times that a warp goes through the third pass of a group."""
        return ceil(self.shape.group_rows * self.x.first / WARP)

    @property
    def spectrum_vector(self) -> int:
        """Complex numbers of the filter's spectrum that are loaded at once."""
        return 2 if self.x.second % 2 == 0 else 1

    @property
    def spectrum_elements(self) -> int:
        """Complex numbers of one filter's spectrum, with those of threads that have no work in the last turn."""
        return self.shape.groups * self.spectrum_turns * WARP * self.x.second

    @property
    def spectrum_threads(self) -> int:
        """Of a block that computes a column of a spectrum."""
        return min(256, WARP * ceil(self.y.points / WARP))

    @property
    def spectrum_bytes(self) -> int:
        return COMPLEX_BYTES * self.filters * self.spectrum_elements

    def partners_of(self, pair: int) -> tuple[int, int]:
        """The numbers of a plane's two tiles in a pair; the second one may be as many as there are, which is none."""
        return (pair, self.pairs + pair) if self.partners is Partners.APART else (2 * pair, 2 * pair + 1)

    def results(self, tile: int) -> tuple[slice, slice]:
        """Rows and columns of a plane's results that a tile has; those past the last one are none."""
        row, column = divmod(tile, self.tiles_across)
        return (
            slice(row * self.valid_rows, (row + 1) * self.valid_rows),
            slice(column * self.valid_columns, (column + 1) * self.valid_columns),
        )
