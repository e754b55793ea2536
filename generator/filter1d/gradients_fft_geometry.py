"""Geometry of one config of `filter1d_gradients_fft` on one problem: groups of taps, tiles of outputs, lines, shares.

A group of `lags` consecutive taps needs, for a tile of outputs, `lags + tile - 1` samples, which are at most the points
of a transform. The circular correlation of both has the tile's share of each tap's sum at its beginning.
"""

from __future__ import annotations

import dataclasses

from warpsmith.generator.fft.text import Twiddles
from warpsmith.generator.filter1d.lags_geometry import GRAIN, lines_of
from warpsmith.generator.filter1d.overlap import ceil_div
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.filter1d.toeplitz_batch_geometry import filter_rows
from warpsmith.generator.space import Config
from warpsmith.generator.tiles.lines import Lines, points_of, radices_of


def group_lags(problem: Filter1d, points: int) -> int:
    """Taps of a group: as many equal groups as have at most half of the points each."""
    return ceil_div(problem.taps, ceil_div(problem.taps, points // 2))


def tile_outputs(problem: Filter1d, points: int) -> int:
    """Outputs of a tile; half of the points at least."""
    return (points - group_lags(problem, points) + 1) // GRAIN * GRAIN


@dataclasses.dataclass(frozen=True, slots=True)
class Filter1dGradientsFftGeometry:
    """Sizes in taps and outputs, lines, and thread blocks."""

    lines: Lines
    """Two lines: tiles of the signal, and tiles of the gradient."""
    twiddles: Twiddles
    min_blocks: int
    """Thread blocks that an SM must hold; 0 leaves it open."""
    prefetches: bool
    """True if a thread block prefetches its next tiles into L2 before it transforms a line."""
    shares: int
    """Thread blocks that share the lines of a group of taps."""
    lags: int
    """Taps of a group, the last one perhaps beyond the filter."""
    tile: int
    """Outputs of a tile."""
    taps: int
    signal: int
    outputs: int
    """Outputs of a row."""
    first: int
    """First lag."""
    filters: int
    filter_rows: int
    """Rows that have the same filter."""

    @classmethod
    def of(cls, problem: Filter1d, config: Config) -> Filter1dGradientsFftGeometry:
        points = points_of(config.text("radices"))
        return cls(
            lines=lines_of(radices_of(config.text("radices")), 2),
            twiddles=Twiddles(config.text("twiddles")),
            min_blocks=config.integer("min_blocks"),
            prefetches=config.text("prefetch") == "next",
            shares=config.integer("shares"),
            lags=group_lags(problem, points),
            tile=tile_outputs(problem, points),
            taps=problem.taps,
            signal=problem.signal,
            outputs=problem.result_length,
            first=problem.first_lag,
            filters=problem.filters,
            filter_rows=filter_rows(problem),
        )

    @property
    def points(self) -> int:
        return self.lines.points

    @property
    def packed(self) -> int:
        """Tiles of a line: the real and the imaginary part."""
        return 2

    @property
    def line_taps(self) -> int:
        """Outputs of a line."""
        return self.packed * self.tile

    @property
    def rows(self) -> int:
        """Sums of taps: one for each filter."""
        return self.filters

    @property
    def groups(self) -> int:
        """Groups of taps of a filter."""
        return ceil_div(self.taps, self.lags)

    @property
    def tiles(self) -> int:
        """Tiles of a row."""
        return ceil_div(self.outputs, self.tile)

    @property
    def reach(self) -> int:
        """Samples that a tile's outputs meet under the taps of a group."""
        return self.lags + self.tile - 1

    def met_tiles(self, group: int) -> range:
        """Tiles of a row that meet samples of the signal; the others are never computed."""
        first = self.first + group * self.lags
        begin = 0 if first + self.reach > 0 else -(first + self.reach) // self.tile + 1
        end = 0 if first >= self.signal else min(self.tiles, (self.signal - first - 1) // self.tile + 1)
        return range(begin, max(begin, end))

    def met(self, group: int) -> range:
        """Lines of a group, over all rows of a filter."""
        return range(ceil_div(len(self.met_tiles(group)) * self.filter_rows, self.packed))

    def share(self, group: int, number: int) -> range:
        """Lines of one share of a group."""
        count = len(self.met(group))
        return range(count * number // self.shares, count * (number + 1) // self.shares)

    @property
    def blocks(self) -> int:
        """Thread blocks that make sums."""
        return self.filters * self.groups * self.shares

    @property
    def sums(self) -> int:
        """Partial sums of all shares."""
        return self.shares * self.filters * self.taps

    @property
    def summary(self) -> tuple[str, ...]:
        """Header lines that say what the kernels do."""
        return (
            f"Gradients of {self.lags} weights at a time, from tiles of {self.tile} outputs and samples beside them.",
            "Two tiles are the real and the imaginary part of a line. A thread block transforms the lines of its",
            "share, adds the products of their spectra in registers, and transforms the sum back. A second launch adds",
            "the shares.",
        )
