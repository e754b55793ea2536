"""The three passes over a tile, with the sizes that one config gives them."""

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
    """Columns of a tile that have results; the inverse transform may leave the others undone."""
    spectrum_columns: int
    """Columns of a filter's spectrum that one block computes; more columns share the reads of the same taps."""

    @classmethod
    def of(cls, config: Config, valid_columns: int, spectrum_columns: int = 1) -> Passes:
        """Passes for a config with the parameters of `tile_parameters`.

        `valid_columns` of the tile's columns may have results.
        """
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
        """Threads per block."""
        return WARP * self.warps

    @property
    def elements(self) -> int:
        """Complex numbers that the tile takes in shared memory, gaps included."""
        return self.layout.elements(self.shape)

    @property
    def shared_bytes(self) -> int:
        return COMPLEX_BYTES * self.elements

    @property
    def turns(self) -> int:
        """Iterations of a warp's loop over the third pass of one group."""
        return ceil(self.shape.group_rows * self.x.first / WARP)

    @property
    def spectrum_vector(self) -> int:
        """Complex numbers of a filter's spectrum that one vector load brings."""
        return 2 if self.x.second % 2 == 0 else 1

    @property
    def spectrum_elements(self) -> int:
        """Complex numbers stored for one filter's spectrum, padded for lanes that are idle in the last iteration."""
        return self.shape.groups * self.turns * WARP * self.x.second

    @property
    def spectrum_threads(self) -> int:
        """Threads per block of the kernel that computes columns of a filter's spectrum."""
        return min(256, WARP * ceil(self.y.points * self.spectrum_columns / WARP))

    @property
    def spectrum_blocks(self) -> int:
        """Blocks per filter of the kernel that computes the filter's spectrum."""
        return ceil(self.x.points / self.spectrum_columns)
