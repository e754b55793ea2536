"""Where the warpgroups of `filter2d_warpgroup` lie in an image, and what they copy, load and store at once."""

from __future__ import annotations

import dataclasses
import enum
from math import ceil, gcd

from warpsmith.generator.filter2d.interior import last_column, outside, reach, rows_inside
from warpsmith.generator.filter2d.problem import Filter2d
from warpsmith.generator.filter2d.text import Weights, result_pitch, row_pitch
from warpsmith.generator.filter2d.window.geometry import StoreHint
from warpsmith.generator.problem import DType
from warpsmith.generator.space import Config

SEGMENT = 8
"""Adjacent outputs that one row of matrix A makes."""
THREAD_COLUMNS = SEGMENT // 2
"""Outputs of a thread, across: four threads share two segments."""
BEFORE_LAST_SEGMENT = 15 * SEGMENT
"""Outputs of a warp, across, but for its last segment."""
COLUMNS = 64 * SEGMENT
"""Outputs of a warpgroup, across: a product has 64 rows."""
WARP_COLUMNS = COLUMNS // 4
"""Outputs of a warp, across."""
STEP = 8
"""Pixels that one instruction sums over."""
WHOLE_ROWS = 15
"""Of filters that are never split into parts: three warpgroups have room for their products and sums."""
BATCHES = (1, 2, 3)
"""Of rows of a filter whose products follow one another."""
BATCH_REGISTERS = 235
"""Of a thread, for products, sums and pixels: the registers of a thread without what the walk itself takes."""
MIN_COPY_BYTES, COPY_BYTES = 4, 16
"""That an asynchronous copy takes."""


class Frame(enum.StrEnum):
    """What computes the outputs whose windows reach outside the image."""

    APART = "apart"
    """Blocks of their own, output by output."""
    LOADS = "loads"
    """The warps that compute all others: what they load of a row goes on beyond the image as the border says."""


@dataclasses.dataclass(frozen=True, slots=True)
class Geometry:
    """One config on one problem. Columns count elements, of which a pixel has `channels`."""

    loads: bool
    """Whether the border is made by loads: the interior is the whole result then, whose warps lie by themselves,
    columns first, then strips, then planes. All compute as many rows: the last strip some of its neighbour's again."""
    rows: int
    parts: int
    """Groups of the filter's rows; a warpgroup walks down its strip once for each."""
    batches: int
    """Of the rows of weights, whose products follow one another."""
    batch_rows: int
    """Rows of weights in a batch; of a part, where the filter is taken in parts."""
    ahead: int
    """Rows whose products are under way while those of another are added."""
    prefetch: int
    depth: int
    """Elements that the products of a row sum over, from a segment's first one on."""
    lead: int
    """Elements read before a segment's windows, so that loads and stores are aligned."""
    copy_vector: int
    load_vector: int
    store_vector: int
    streaming: bool
    min_blocks: int
    first_row: int
    interior_rows: int
    first_column: int
    last_column: int
    """Where the last warpgroup begins."""
    interior_groups: int
    warps_across: int
    strips: int
    warps: int
    """Of all planes, where the border is made by loads."""
    frame_pixels: int
    block_groups: int
    block_strips: int
    column_blocks: int
    strip_blocks: int
    frame_blocks: int

    @classmethod
    def of(cls, problem: Filter2d, config: Config) -> Geometry:
        rows, block_groups, block_strips = (config.integer(name) for name in ("rows", "block_groups", "block_strips"))
        loads, weights, parts = frame_of(config) is Frame.LOADS, Weights.of(config), parts_of(config)
        if loads:
            first_row, interior_rows, alignment = 0, problem.output_shape[0], Alignment.of_loads(problem)
            columns, rows = problem.output_shape[1] * problem.channels, min(rows, interior_rows)
            last = columns - WARP_COLUMNS
        else:
            first_row, interior_rows = rows_inside(problem, 1, 1)
            alignment = Alignment.of(problem)
            last = alignment.last_column(problem)
            columns = last + COLUMNS - alignment.first_column
        frame_pixels = outside(problem, interior_rows, columns)
        across, strips = ceil(columns / WARP_COLUMNS), ceil(interior_rows / rows)
        warps = across * strips * problem.planes
        return cls(
            loads=loads,
            rows=rows,
            parts=parts,
            batches=batches(problem, weights),
            batch_rows=batch_rows(problem, weights, parts),
            ahead=config.integer("ahead"),
            prefetch=config.integer("prefetch"),
            depth=depth(problem),
            lead=alignment.lead,
            copy_vector=alignment.copy_vector,
            load_vector=alignment.load_vector,
            store_vector=alignment.store_vector,
            streaming=config.text("store") == StoreHint.STREAMING,
            min_blocks=config.integer("min_blocks"),
            first_row=first_row,
            interior_rows=interior_rows,
            first_column=alignment.first_column,
            last_column=last,
            interior_groups=ceil(columns / COLUMNS),
            warps_across=across,
            strips=strips,
            warps=warps,
            frame_pixels=frame_pixels,
            block_groups=block_groups,
            block_strips=block_strips,
            column_blocks=ceil(columns / (COLUMNS * block_groups)),
            strip_blocks=ceil(interior_rows / (rows * block_strips)),
            frame_blocks=ceil(frame_pixels * problem.planes / (128 * block_groups * block_strips)),
        )

    def blocks(self, planes: int) -> int:
        """Of all planes, those of the frame included."""
        if self.loads:
            return ceil(self.warps / (4 * self.block_groups))
        return self.frame_blocks + self.column_blocks * self.strip_blocks * planes


@dataclasses.dataclass(frozen=True, slots=True)
class Alignment:
    """The widest loads and stores that all rows allow, and where segments begin for them."""

    copy_vector: int
    """Elements that a thread copies at once into shared memory."""
    load_vector: int
    """And that it loads from there at once."""
    store_vector: int
    lead: int
    first_column: int

    @classmethod
    def of(cls, problem: Filter2d) -> Alignment:
        before, spare = problem.before[1] * problem.channels, depth(problem) - reach(problem, SEGMENT)
        thread = depth(problem) // 4  # elements of a segment that a thread loads
        widest = COPY_BYTES // problem.dtype.itemsize
        together = gcd(BEFORE_LAST_SEGMENT + depth(problem), row_pitch(problem))
        copies = [each for each in (16, 8, 4, 2, 1) if each <= widest and together % each == 0]
        stores = [each for each in (2, 1) if result_pitch(problem) % each == 0]
        return next(
            cls(copy, gcd(copy, thread), store, lead, start + lead + before)
            for copy in copies
            for store in stores
            for lead in range(spare + 1)
            for start in range(0, store, copy)
            if (start + lead + before) % store == 0
        )

    @classmethod
    def of_loads(cls, problem: Filter2d) -> Alignment:
        """Of warps that begin at the first output of a row, and at its last WARP_COLUMNS ones.

        Only vectors are aligned: what they leave of a row is copied element by element.
        """
        before, spare = problem.before[1] * problem.channels, depth(problem) - reach(problem, SEGMENT)
        together = gcd(row_pitch(problem), problem.output_shape[1] * problem.channels)
        return next(
            cls(
                copy,
                gcd(COPY_BYTES // problem.dtype.itemsize, depth(problem) // 4),
                gcd(2, result_pitch(problem), problem.output_shape[1] * problem.channels),
                lead,
                0,
            )
            for copy in (4, 2, 1)
            for lead in range(spare + 1)
            if together % copy == (lead + before) % copy == 0
        )

    def last_column(self, problem: Filter2d) -> int:
        """Where the last warpgroup begins; what it loads lies within a row.

        It lies whole segments right of the first one: an output that two warpgroups compute is rounded in the same way
        by both, since the order in which products are summed is that of the segment.
        """
        loaded, aligned = COLUMNS - SEGMENT + depth(problem), max(self.copy_vector, self.store_vector, SEGMENT)
        return last_column(problem, self.first_column, COLUMNS, self.lead, loaded, aligned)

    def has_interior(self, problem: Filter2d) -> bool:
        """Whether a warpgroup's windows lie within the image somewhere."""
        return self.last_column(problem) >= self.first_column and rows_inside(problem, 1, 1)[1] > 0


def frame_of(config: Config) -> Frame:
    """What computes the frame; configs of problems for which that is no choice do not name it."""
    return Frame(str(config.values().get("frame", Frame.APART)))


def parts_of(config: Config) -> int:
    """Groups of the filter's rows; configs of filters of few rows do not name them."""
    return int(config.values().get("parts", 1))


def part_rows(problem: Filter2d, parts: int) -> int:
    """Rows of the filter in each part; the last one may begin with rows of the one before, weighed by zero there."""
    return ceil(problem.filter[0] / parts)


def batches(problem: Filter2d, weights: Weights = Weights.ARGUMENT) -> int:
    """Batches of the filter's rows, as few as leave a thread room for the products of one and all sums.

    A filter whose result is float32 is taken in parts instead, and separable passes, of literals, have few products.
    """
    rows = problem.filter[0]
    if rows <= WHOLE_ROWS or problem.output_dtype is DType.FLOAT32 or weights is Weights.LITERAL:
        return 1
    pixels = pixel_registers(problem)
    needed = ((each, 4 * (ceil(rows / each) + rows - 1) + pixels) for each in BATCHES)
    return next((each for each, registers in needed if registers <= BATCH_REGISTERS), BATCHES[-1])


def batch_rows(problem: Filter2d, weights: Weights, parts: int) -> int:
    """Rows of the filter in each batch, of a part where it is taken in parts; the last one may have fewer."""
    return ceil(part_rows(problem, parts) / batches(problem, weights))


def pixel_registers(problem: Filter2d) -> int:
    """Registers of a thread for its pixels of two segments; float32 ones are split into two halves."""
    return depth(problem) // 2 * (2 if problem.dtype is DType.FLOAT32 else 1)


def depth(problem: Filter2d) -> int:
    """Elements that the products of a row sum over: whole instructions, and two of them for each of four threads."""
    return ceil(reach(problem, SEGMENT) / STEP) * STEP
