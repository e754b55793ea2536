"""Geometry of one config of `filter2d_fft` on one problem: tiles, chunks of pairs, and the blocks of each launch.

A line is an axis of two or three digits (generator/fft/axes.py). Pass i transforms digit i in place and multiplies by
twiddles, so that frequencies end in digit-reversed order. The inverse takes the passes backwards. Several lines lie one
after the other, or side by side, element by element.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections import Counter
from math import ceil

from warpsmith.generator.fft.axes import Axis, Pass
from warpsmith.generator.fft.text import Twiddles
from warpsmith.generator.filter2d.overlap_family import PairedTiles, Partners
from warpsmith.generator.filter2d.problem import Filter2d
from warpsmith.generator.filter2d.window_geometry import StoreHint
from warpsmith.generator.space import Config
from warpsmith.generator.tiles.space import INSTRUCTIONS, TWIDDLE
from warpsmith.generator.tiles.tile import BANKS, COMPLEX_BYTES

_RADICES = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 15, 16, 18, 20, 21, 24, 25, 27, 28, 30, 32)
_SMALL = tuple(radix for radix in _RADICES if 4 <= radix <= 16)
"""Radices of three-pass lines: larger ones take registers and save no pass."""
_GAPS = (0, 1, 2, 3, 4)
"""Gaps, in elements, that may follow all values of a digit against bank conflicts."""
_SAMPLED = 64
"""Transforms of a pass whose bank conflicts are counted: their pattern repeats."""
_WAYS_OF_TWO, _WAYS_OF_THREE = 3, 2
"""Splits of a number of points into two and into three radices that are kept, the fastest ones."""


Radices = tuple[int, ...]


def text_of(radices: Radices) -> str:
    """Text of radices: `16x8x8`."""
    return "x".join(map(str, radices))


def radices_of(text: str) -> Radices:
    """Radices from the text of `text_of`."""
    return tuple(map(int, text.split("x")))


def points_of(text: str) -> int:
    """Points of a line with these radices."""
    return math.prod(radices_of(text))


def instructions(radices: Radices) -> float:
    """float32 instructions per point of a line for one direction."""
    within = sum(INSTRUCTIONS[radix] / radix for radix in radices)
    return within + sum(TWIDDLE * (radix - 1) / radix for radix in radices[:-1])


@functools.cache
def ways(points: int) -> tuple[Radices, ...]:
    """Splits of a line into radices, the likeliest first: two radices, or three of 4 to 16. Empty if there are none."""
    two = [(a, points // a) for a in _RADICES if points % a == 0 and points // a in _RADICES]
    three = [
        (a, b, points // (a * b))
        for a, b in itertools.product(_SMALL, repeat=2)
        if points % (a * b) == 0 and points // (a * b) in _SMALL
    ]
    return tuple(
        sorted([*sorted(two, key=_cost)[:_WAYS_OF_TWO], *sorted(three, key=_cost)[:_WAYS_OF_THREE]], key=_cost)
    )


def _cost(radices: Radices) -> tuple[float, Radices]:
    """Cost of radices. Each pass moves 32 bytes a point through shared memory, like 25 instructions of 128 lanes."""
    return instructions(radices) + 25 * len(radices) + max(radices), radices


@functools.cache
def sizes(least: int, multiple: int, most: int) -> tuple[int, ...]:
    """Points of lines from `least` to `most`: multiples of `multiple`, products of 2, 3, 5 and 7, ascending."""
    start = -(-least // multiple) * multiple
    return tuple(size for size in range(start, most + 1, multiple) if _is_smooth(size) and ways(size))


def _is_smooth(number: int) -> bool:
    for prime in (2, 3, 5, 7):
        while number % prime == 0:
            number //= prime
    return number == 1


@functools.cache
def axis_of(radices: Radices, side_by_side: int) -> Axis:
    """A line in shared memory, laid out with few bank conflicts and few gaps.

    Args:
        radices: radices of its passes, forward.
        side_by_side: lines whose elements are interleaved; strides count elements of one line.
    """
    choices = (Axis.of(radices, _strides(radices, gaps)) for gaps in itertools.product(_GAPS, repeat=len(radices) - 1))
    return min(choices, key=lambda axis: turns(axis, side_by_side) + span(axis) / (2 * axis.points))


def _strides(radices: Radices, gaps: tuple[int, ...]) -> tuple[int, ...]:
    strides = [1]
    for radix, gap in zip(reversed(radices[1:]), reversed(gaps), strict=True):
        strides.append(radix * strides[-1] + gap)
    return tuple(reversed(strides))


def span(axis: Axis) -> int:
    """Elements from the first to the last one, both included."""
    return 1 + sum((radix - 1) * place.at(1) for radix, place in zip(axis.radices, axis.places, strict=True))


def turns(axis: Axis, side_by_side: int) -> float:
    """Wavefronts of shared memory per access of half a warp, averaged over the passes; 1 without bank conflicts."""
    together = max(1, BANKS // side_by_side)
    total = [_turns_of(step, axis.points // step.radix, together) for step in axis.passes]
    return sum(total) / len(total)


def _turns_of(step: Pass, items: int, together: int) -> float:
    bases = [
        step.earlier_place.at(item // step.later) + step.later_place.at(item % step.later)
        for item in range(min(items, _SAMPLED))
    ]
    counts = [
        max(Counter(base % together for base in bases[start : start + together]).values())
        for start in range(0, len(bases), together)
    ]
    return sum(counts) / len(counts)


FLOWING = 4
"""Value of `buffers` for all chunks in one launch, with four chunks in the workspace: one is read, one transformed, one
stored, and one is in between."""


@dataclasses.dataclass(frozen=True, slots=True)
class Lines:
    """Lines that a block transforms at a time."""

    axis: Axis
    count: int
    side_by_side: bool
    """True for columns, whose elements lie side by side in rows; False for rows, which follow each other."""
    threads: int

    @property
    def points(self) -> int:
        return self.axis.points

    @property
    def pitch(self) -> int:
        """Complex numbers from one line to the next in shared memory."""
        return 1 if self.side_by_side else span(self.axis)

    @property
    def shared_bytes(self) -> int:
        return COMPLEX_BYTES * self.count * span(self.axis)


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
