"""Geometry of one config of `filter1d_lags` on one problem: groups of lags, tiles of taps, and shares of tiles.

A group of `lags` consecutive lags needs, for a tile of `taps` taps, `lags + taps - 1` samples, which are at most the
points of a transform. The circular correlation of both tiles has the tile's share of each sum at its beginning.
"""

from __future__ import annotations

import dataclasses

from warpsmith.generator.fft.text import Twiddles
from warpsmith.generator.filter1d.fft_geometry import span_of
from warpsmith.generator.filter1d.overlap import ceil_div
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.problem import DType
from warpsmith.generator.space import Config
from warpsmith.generator.tiles.lines import Lines, Radices, axis_of, points_of, radices_of
from warpsmith.generator.tiles.tile import COMPLEX_BYTES

GRAIN = 32
"""Multiple to which the taps of a tile are rounded down, for loads that begin alike."""
LEAST_ADDED = 8
"""Fewest outputs for which a thread block of the second launch adds sums: 32 bytes of each share's."""
ADDING_THREADS = 512
"""Threads of such a block: a power of two. At most 64 of them add sums of one output."""


def lags_of_group(problem: Filter1d, points: int) -> int:
    """Lags of a group: as many equal groups as have at most half of the points each."""
    groups = ceil_div(span_of(problem), points // 2)
    return ceil_div(span_of(problem), groups)


def tile_taps(problem: Filter1d, points: int) -> int:
    """Taps of a tile; half of the points at least."""
    return (points - lags_of_group(problem, points) + 1) // GRAIN * GRAIN


@dataclasses.dataclass(frozen=True, slots=True)
class Filter1dLagsGeometry:
    """Sizes in lags and taps, lines, and thread blocks."""

    lines: Lines
    """Two lines: a tile of the signal, and a tile of the taps."""
    twiddles: Twiddles
    min_blocks: int
    """Thread blocks that an SM must hold; 0 leaves it open."""
    prefetches: bool
    """True if a thread block prefetches its next line into L2 before it transforms one."""
    shares: int
    """Thread blocks that share the lines of a group of lags."""
    lags: int
    """Lags of a group, the last one of a channel perhaps beyond its outputs."""
    span: int
    """Lags of a channel, before every `down`-th one is kept."""
    tile: int
    """Taps of a tile."""
    packed: int
    """Tiles of a line: two consecutive ones of real samples, as real and imaginary part, or one of complex samples."""
    signal: int
    taps: int
    first: int
    """First lag."""
    rows: int
    outputs: int
    """Outputs of a channel."""

    @classmethod
    def of(cls, problem: Filter1d, config: Config) -> Filter1dLagsGeometry:
        points = points_of(config.text("radices"))
        return cls(
            lines=lines_of(radices_of(config.text("radices")), 2),
            twiddles=Twiddles(config.text("twiddles")),
            min_blocks=config.integer("min_blocks"),
            prefetches=config.text("prefetch") == "next",
            shares=config.integer("shares"),
            lags=lags_of_group(problem, points),
            span=span_of(problem),
            tile=tile_taps(problem, points),
            packed=1 if problem.dtype is DType.COMPLEX64 else 2,
            signal=problem.signal,
            taps=problem.taps,
            first=problem.first_lag,
            rows=problem.rows,
            outputs=problem.result_length,
        )

    @property
    def points(self) -> int:
        return self.lines.points

    @property
    def line_taps(self) -> int:
        """Taps from line to line."""
        return self.packed * self.tile

    @property
    def line_count(self) -> int:
        """Lines that all taps make."""
        return ceil_div(self.taps, self.line_taps)

    @property
    def reach(self) -> int:
        """Samples from the first one of a line to its last one, both included."""
        return (self.packed - 1) * self.tile + self.points

    @property
    def groups(self) -> int:
        """Groups of lags of a channel."""
        return ceil_div(self.span, self.lags)

    def met(self, group: int) -> range:
        """Lines of a group whose tiles of the signal have samples; the others are never computed."""
        first = self.first + group * self.lags
        begin = 0 if first + self.reach > 0 else -(first + self.reach) // self.line_taps + 1
        end = 0 if first >= self.signal else min(self.line_count, (self.signal - first - 1) // self.line_taps + 1)
        return range(begin, max(begin, end))

    def share(self, group: int, number: int) -> range:
        """Lines of one share of a group."""
        met = self.met(group)
        begin, end = (met.start + len(met) * each // self.shares for each in (number, number + 1))
        return range(begin, end)

    @property
    def blocks(self) -> int:
        """Thread blocks that make sums."""
        return self.rows * self.groups * self.shares

    @property
    def sums(self) -> int:
        """Sums of all shares."""
        return self.blocks * self.lags

    @property
    def added_outputs(self) -> int:
        """Outputs for which a thread block of the second launch adds sums."""
        threads = next(each for each in (1, 2, 4, 8, 16, 32, 64) if each >= min(self.shares, 64))
        return max(LEAST_ADDED, ADDING_THREADS // threads)

    @property
    def adding_threads(self) -> int:
        """Threads of a block of the second launch."""
        return ADDING_THREADS

    @property
    def row_adders(self) -> int:
        """Thread blocks that add the sums of a channel."""
        return ceil_div(self.outputs, self.added_outputs)

    @property
    def summary(self) -> tuple[str, ...]:
        """Header lines that say what the kernels do."""
        tiles = "Two tiles are the real and the imaginary part of a line." if self.packed == 2 else "A tile is a line."
        return (
            f"Correlation in parts: {self.lags} lags at a time, from tiles of {self.tile} taps and samples under them.",
            f"{tiles} A thread block transforms the lines of its share, adds the",
            "products of their spectra in registers, and transforms the sum back. A second launch adds all shares.",
        )


def lines_of(radices: Radices, count: int) -> Lines:
    """Lines of a thread block in which a thread does one transform of the last pass."""
    points = points_of("x".join(map(str, radices)))
    return Lines(axis_of(radices, 1, True), count, False, points // radices[-1], spreads=True)


def shared_bytes(radices: Radices) -> int:
    """Dynamic shared memory of a thread block: a line of the signal and one of the taps."""
    return lines_of(radices, 2).shared_bytes


def number_bytes(problem: Filter1d) -> int:
    """Bytes of a sum."""
    return COMPLEX_BYTES if problem.dtype is DType.COMPLEX64 else COMPLEX_BYTES // 2
