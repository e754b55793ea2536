"""The passes of a tile, as one config asks for them."""

from __future__ import annotations

import dataclasses
from math import ceil

from warpsmith.generator.fft.words import Twiddles
from warpsmith.generator.space import Config
from warpsmith.generator.tiles.tile import COMPLEX_BYTES, WARP, Axis, Layout, TileShape, fitted


@dataclasses.dataclass(frozen=True, slots=True)
class Passes:
    """A tile and the threads that transform it."""

    shape: TileShape
    layout: Layout
    warps: int
    min_blocks: int
    twiddles: Twiddles
    valid_columns: int
    """Columns that have results: what is transformed backward need not leave others."""
    spectrum_columns: int
    """Of a filter's spectrum, that a block computes: with several it has more to do, of the same taps."""

    @classmethod
    def of(cls, config: Config, valid_columns: int, spectrum_columns: int = 1) -> Passes:
        """Of the parameters that `tile_parameters` has; `valid_columns` of the tile's columns may have results."""
        shape = TileShape(
            y=Axis.of(config.text("y_radices")),
            x=Axis.of(config.text("x_radices")),
            group=config.integer("group"),
            gaps=config.integer("gaps"),
        )
        return cls(
            shape=shape,
            layout=fitted(shape),
            warps=config.integer("warps"),
            min_blocks=config.integer("min_blocks"),
            twiddles=Twiddles(config.text("twiddles")),
            valid_columns=valid_columns,
            spectrum_columns=spectrum_columns,
        )

    @property
    def y(self) -> Axis:
        return self.shape.y

    @property
    def x(self) -> Axis:
        return self.shape.x

    @property
    def threads(self) -> int:
        """Of a block."""
        return WARP * self.warps

    @property
    def elements(self) -> int:
        """Complex numbers that the tile takes in shared memory."""
        return self.layout.elements(self.shape)

    @property
    def shared_bytes(self) -> int:
        return COMPLEX_BYTES * self.elements

    @property
    def turns(self) -> int:
        """Times that a warp goes through the third pass of a group."""
        return ceil(self.shape.group_rows * self.x.first / WARP)

    @property
    def spectrum_vector(self) -> int:
        """Complex numbers of a filter's spectrum that are loaded at once."""
        return 2 if self.x.second % 2 == 0 else 1

    @property
    def spectrum_elements(self) -> int:
        """Complex numbers of one filter's spectrum, with those of threads that have no work in the last turn."""
        return self.shape.groups * self.turns * WARP * self.x.second

    @property
    def spectrum_threads(self) -> int:
        """Of a block that computes columns of a spectrum."""
        return min(256, WARP * ceil(self.y.points * self.spectrum_columns / WARP))

    @property
    def spectrum_blocks(self) -> int:
        """For each filter."""
        return ceil(self.x.points / self.spectrum_columns)
