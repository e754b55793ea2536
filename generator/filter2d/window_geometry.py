"""Geometry and alignment of the sliding windows of `filter2d_window`, in elements.

The image is cut into an interior, where threads own fixed tiles, and a frame of single pixels around it. If the row
pitch is no multiple of a vector, each row starts at another alignment, and the pattern repeats after `period` rows.
Every access is still an aligned vector: a row is read from `lead` elements further left, and a row of outputs is
computed `skew` elements further right.

Winograd's minimal filtering makes two adjacent outputs of a row at a time, for fewer multiplications. Three taps make
two outputs by four products instead of six, F(2, 3). Two remaining taps of a row take F(2, 2), three products instead
of four, and one remaining tap two products. Each product multiplies a sum or difference of pixels by a linear
combination of taps, which is computed once for all outputs.

Source: Winograd 1980, "Arithmetic complexity of computations"; Lavin and Gray 2016, "Fast algorithms for convolutional
neural networks", section 4.1.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Sequence
from functools import cache
from math import ceil, gcd, lcm

from warpsmith.generator.filter2d.problem import Filter2d, outside, reach, rows_inside
from warpsmith.generator.filter2d.separable import separable_terms
from warpsmith.generator.filter2d.text import MemoryPath, result_pitch, row_pitch
from warpsmith.generator.space import Config

TRIPLE = ((1.0, 0.0, 0.0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0.0, 0.0, 1.0))
"""F(2, 3): factors of x0-x2, x1+x2, x2-x1 and x3-x1. The first output adds the first three products. The second output
adds the second and the fourth and subtracts the third."""
PAIR = ((1.0, 0.0), (1.0, 1.0), (0.0, 1.0))
"""F(2, 2): factors of x0-x1, x1 and x2-x1. The first output adds the first two products, the second the last two."""
SINGLE = ((1.0,), (1.0,))
"""A single tap: factor of x0 for the first output, of x1 for the second."""
BY_TAPS = {3: TRIPLE, 2: PAIR, 1: SINGLE}


@dataclasses.dataclass(frozen=True, slots=True)
class WinogradGroup:
    """Adjacent taps of a row that are filtered together."""

    taps: int
    first_tap: int
    first_product: int

    @property
    def products(self) -> int:
        """Multiplications for two outputs."""
        return len(BY_TAPS[self.taps])


@cache
def groups(taps: int) -> tuple[WinogradGroup, ...]:
    """Groups of a row of `taps` taps: threes, and the rest."""
    made: list[WinogradGroup] = []
    for first in range(0, taps, 3):
        product = made[-1].first_product + made[-1].products if made else 0
        made.append(WinogradGroup(min(3, taps - first), first, product))
    return tuple(made)


def products(taps: int) -> int:
    """Multiplications for two adjacent outputs of a row of `taps`."""
    last = groups(taps)[-1]
    return last.first_product + last.products


@cache
def factors_matrix(taps: int, rotated: bool = False) -> tuple[tuple[float, ...], ...]:
    """Matrix that makes the factors of the products from a row of `taps`; `rotated` reverses the row."""
    rows: list[tuple[float, ...]] = []
    for group in groups(taps):
        for factors in BY_TAPS[group.taps]:
            row = [0.0] * taps
            row[group.first_tap : group.first_tap + group.taps] = factors
            rows.append(tuple(reversed(row)) if rotated else tuple(row))
    return tuple(rows)


def factors(row: Sequence[float]) -> list[float]:
    """Factors of the products for a known row of taps."""
    return [math.fsum(a * b for a, b in zip(line, row, strict=True)) for line in factors_matrix(len(row))]


class Method(enum.StrEnum):
    """Method by which a thread applies a filter to a row."""

    DIRECT = "direct"
    """Tap by tap."""
    SEPARABLE = "separable"
    """Term by term: along the row, then down."""
    WINOGRAD = "winograd"
    """Two adjacent outputs at a time, from sums and differences of pixels, which saves a third of the products."""


class Order(enum.StrEnum):
    """Order of the work within one turn of the loop."""

    ROWS = "rows"
    """Row by row."""
    TAPS = "taps"
    """Tap by tap over all rows of the turn, so that a weight is read once for all of them."""
    LOOP = "loop"
    """A turn is the whole strip. A loop goes down the image's rows under it, so that neither code nor registers grow
    with the filter's rows."""


class Tail(enum.StrEnum):
    """Treatment of taps that reach below the end of a strip."""

    WHOLE = "whole"
    """They are computed, for outputs that are not stored."""
    TRIMMED = "trimmed"
    """They are left out, by checks in the last turns."""


class LoadHint(enum.StrEnum):
    """Cache hint for pixels."""

    CACHED = "cached"
    STREAMING = "streaming"
    """Evicted first."""


class StoreHint(enum.StrEnum):
    """L2 cache hint for results."""

    PLAIN = "plain"
    STREAMING = "streaming"
    """Evicted first."""


MAX_UNROLLED_START = 2000
"""Most unrolled multiply-adds before the first complete window; with more, that part is a loop as well."""


def period(pitch: int, vector: int) -> int:
    """Rows after which the alignment of rows to `vector` elements repeats."""
    return vector // gcd(pitch, vector)


def leads(problem: Filter2d, vector: int) -> tuple[int, ...]:
    """Elements left of a row's first tap down to a multiple of `vector`, for each row of one period."""
    pitch, (before_rows, before_columns) = row_pitch(problem), problem.before
    offset = before_rows * pitch + before_columns * problem.channels
    return tuple((row * pitch - offset) % vector for row in range(period(pitch, vector)))


def skews(problem: Filter2d, vector: int) -> tuple[int, ...]:
    """Elements right of an output row's first one up to a multiple of `vector`, for each row of one period."""
    pitch = result_pitch(problem)
    return tuple(-row * pitch % vector for row in range(period(pitch, vector)))


@cache
def needed(problem: Filter2d, columns: int, load_vector: int, store_vector: int) -> int:
    """Elements of a row that a thread with `columns` outputs across needs, whatever the row's alignment."""
    return max(leads(problem, load_vector)) + reach(problem, columns + max(skews(problem, store_vector)))


def loads(problem: Filter2d, columns: int, load_vector: int, store_vector: int) -> int:
    """Vector loads that cover the `needed` elements."""
    return ceil(needed(problem, columns, load_vector, store_vector) / load_vector)


def multiply_adds(problem: Filter2d, method: str) -> int:
    """Multiply-adds of one output element, over all filters."""
    rows, columns = problem.filter
    match method:
        case Method.SEPARABLE:
            return sum(term.cost for term in separable_terms(problem))
        case Method.WINOGRAD:
            return problem.filters * rows * products(columns) // 2
        case _:
            return problem.filters * rows * columns


def turn_taps(problem: Filter2d, method: str, order: str) -> int:
    """Multiply-adds of one output element that are written out in a turn: with Order.LOOP, those of one filter row."""
    taps = multiply_adds(problem, method)
    return taps // problem.filter[0] if order == Order.LOOP else taps


def sums(columns: int, method: str) -> int:
    """Accumulators for one row of a thread's outputs: Winograd's method takes four for two outputs."""
    return 2 * columns if method == Method.WINOGRAD else columns


def starts_rolled(problem: Filter2d, method: str, columns: int, turns: int) -> bool:
    """True if the rows above the first complete window are a loop.

    Each of these rows has half of a window's work. In a strip of a single turn they are unrolled: the compiler then
    leaves out the sums of outputs below the strip (63x1 with 2 x 16 outputs a thread: 147 registers with a loop).
    """
    return turns > 1 and (problem.filter[0] - 1) * multiply_adds(problem, method) * columns // 2 > MAX_UNROLLED_START


@dataclasses.dataclass(frozen=True, slots=True)
class WindowGeometry:
    """Geometry of one config on one problem. Columns count elements; a pixel has `channels` of them."""

    path: MemoryPath
    columns: int
    rows: int
    unroll: int
    prefetch: int
    load_vector: int
    store_vector: int
    leads: tuple[int, ...]
    loads: int
    skews: tuple[int, ...]
    first_row: int
    """Output row where the interior begins, a multiple of both periods."""
    interior_rows: int
    first_column: int
    """Output element where the interior begins, in rows without skew."""
    interior_threads: int
    """Threads across the interior."""
    frame_pixels: int
    """Outputs of one plane outside the interior."""
    block_columns: int
    block_strips: int
    column_blocks: int
    strip_blocks: int
    frame_blocks: int
    """Blocks for the frames of all planes."""
    min_blocks: int
    streaming_loads: bool
    streaming: bool
    """True if the result is marked as evicted first."""
    trimmed: bool
    """True if taps below the end of a strip are left out."""
    words: int
    """Words of 4 bytes that a thread needs of a row."""
    rolled_start: bool
    """True if the rows above the first complete window are a loop."""
    together: bool
    """True if the rows of a turn are added tap by tap."""
    looped: bool
    """True if the rows under a strip are a loop."""

    @classmethod
    def of(cls, problem: Filter2d, config: Config) -> WindowGeometry:
        columns, unroll, rows = (config.integer(name) for name in ("columns", "unroll", "rows"))
        load_vector, store_vector = config.integer("load_vector"), config.integer("store_vector")
        block_columns, block_strips = config.integer("block_columns"), config.integer("block_strips")
        row_leads, row_skews = leads(problem, load_vector), skews(problem, store_vector)
        first_row, interior_rows = rows_inside(problem, lcm(len(row_leads), len(row_skews)), unroll)
        first_column, threads = _interior_columns(problem, columns, load_vector, store_vector)
        if interior_rows == 0 or threads == 0:
            interior_rows = threads = 0
        frame_pixels = outside(problem, interior_rows, threads * columns)
        return cls(
            path=MemoryPath(config.text("path")),
            columns=columns,
            rows=rows,
            unroll=unroll,
            prefetch=config.integer("prefetch"),
            load_vector=load_vector,
            store_vector=store_vector,
            leads=row_leads,
            loads=loads(problem, columns, load_vector, store_vector),
            skews=row_skews,
            first_row=first_row,
            interior_rows=interior_rows,
            first_column=first_column,
            interior_threads=threads,
            frame_pixels=frame_pixels,
            block_columns=block_columns,
            block_strips=block_strips,
            column_blocks=max(1, ceil(threads / block_columns)),
            strip_blocks=max(1, ceil(interior_rows / (rows * block_strips))),
            frame_blocks=ceil(frame_pixels * problem.planes / (block_columns * block_strips)),
            min_blocks=config.integer("min_blocks"),
            streaming_loads=config.text("load") == LoadHint.STREAMING,
            streaming=config.text("store") == StoreHint.STREAMING,
            trimmed=config.text("tail") == Tail.TRIMMED,
            words=ceil(needed(problem, columns, load_vector, store_vector) * problem.dtype.itemsize / 4),
            rolled_start=starts_rolled(problem, config.text("method"), columns, rows // unroll),
            together=config.text("order") == Order.TAPS,
            looped=config.text("order") == Order.LOOP,
        )

    @property
    def queued(self) -> bool:
        """True if rows read ahead move from register to register in a turn, which costs moves."""
        return self.unroll % (self.prefetch + 1) != 0 and not self.looped

    @property
    def ahead(self) -> bool:
        """True if rows are read ahead into registers."""
        return self.prefetch > 0 and self.path is not MemoryPath.ASYNC


def _interior_columns(problem: Filter2d, columns: int, load_vector: int, store_vector: int) -> tuple[int, int]:
    """First element of the interior, and threads across it; their loads and stores stay within rows of both arrays."""
    before = problem.before[1] * problem.channels
    row_leads, vector = leads(problem, load_vector), max(load_vector, store_vector)
    first = ceil((before + max(row_leads)) / vector) * vector
    read = loads(problem, columns, load_vector, store_vector) * load_vector - min(row_leads) - before
    image_end = problem.image[1] * problem.channels - first - read
    result_end = problem.output_shape[1] * problem.channels - first - columns - max(skews(problem, store_vector))
    return first, max(0, min(image_end, result_end) // columns + 1)
