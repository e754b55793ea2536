"""Geometry of `filter2d_warpgroup`: its warpgroups' places in an image, and the widths of copies, loads and stores."""

from __future__ import annotations

import dataclasses
import enum
from math import ceil, gcd

from warpsmith.generator.architectures import STATIC_SHARED_BYTES
from warpsmith.generator.device import Device
from warpsmith.generator.filter2d.problem import Filter2d, last_column, outside, reach, rows_inside
from warpsmith.generator.filter2d.separable import separable_terms
from warpsmith.generator.filter2d.text import Weights, is_strict, result_pitch, row_pitch
from warpsmith.generator.filter2d.window_geometry import StoreHint
from warpsmith.generator.problem import DType
from warpsmith.generator.space import Config, Constraint, Value

SEGMENT = 8
"""Adjacent outputs that one row of matrix A makes."""
THREAD_COLUMNS = SEGMENT // 2
"""Outputs of a thread, across: four threads share two segments."""
BEFORE_LAST_SEGMENT = 15 * SEGMENT
"""Outputs of a warp, across, without its last segment."""
COLUMNS = 64 * SEGMENT
"""Outputs of a warpgroup, across: a wgmma product has 64 rows."""
WARP_COLUMNS = COLUMNS // 4
"""Outputs of a warp, across."""
STEP = 8
"""Pixels that one instruction sums over: K of the tf32 wgmma."""
WHOLE_ROWS = 15
"""Most rows of a filter that is never split into parts: three warpgroups have room for its products and sums."""
BATCHES = (1, 2, 3)
"""Numbers of batches of a filter's rows; the products of the batches follow one another."""
BATCH_REGISTERS = 235
"""Registers of a thread for products, sums and pixels: all that a thread may have, without those of the walk itself."""
MIN_COPY_BYTES, COPY_BYTES = 4, 16
"""Bytes of the smallest and the largest asynchronous copy."""


class Frame(enum.StrEnum):
    """Way to compute the outputs whose windows reach outside the image."""

    APART = "apart"
    """Separate blocks compute them, output by output."""
    LOADS = "loads"
    """The warps of the interior compute them too: loads of a row continue beyond the image as the border says."""


@dataclasses.dataclass(frozen=True, slots=True)
class Filter2dWarpgroupGeometry:
    """Geometry of one config on one problem. Columns count elements; a pixel has `channels` of them."""

    loads: bool
    """True if loads make the border. The interior is then the whole result. Its warps are numbered columns first, then
    strips, then planes. All have the same number of rows: the last strip repeats some of its neighbour's."""
    rows: int
    parts: int
    """Groups of the filter's rows; a warpgroup walks down its strip once for each."""
    batches: int
    """Batches of the rows of weights, whose products follow one another."""
    batch_rows: int
    """Rows of weights in a batch: of a part, if the filter is split into parts."""
    ahead: int
    """Rows whose products are in flight while those of another row are added."""
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
    """Column where the last warpgroup begins."""
    interior_groups: int
    warps_across: int
    strips: int
    warps: int
    """Warps of all planes, if loads make the border."""
    frame_pixels: int
    block_groups: int
    block_strips: int
    column_blocks: int
    strip_blocks: int
    frame_blocks: int

    @classmethod
    def of(cls, problem: Filter2d, config: Config) -> Filter2dWarpgroupGeometry:
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
        """Blocks of `planes` planes, those of the frame included."""
        if self.loads:
            return ceil(self.warps / (4 * self.block_groups))
        return self.frame_blocks + self.column_blocks * self.strip_blocks * planes


@dataclasses.dataclass(frozen=True, slots=True)
class Alignment:
    """Widest loads and stores that all rows allow, and the alignment of segments for them."""

    copy_vector: int
    """Elements of one asynchronous copy into shared memory."""
    load_vector: int
    """Elements of one load from shared memory."""
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
        """Alignment of warps that begin at the first output of a row, or at its last WARP_COLUMNS outputs.

        Only vectors are aligned; the rest of a row is copied element by element.
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
        """Column where the last warpgroup begins; its loads lie within a row.

        It lies whole segments right of the first one. Two warpgroups thus round an output that both compute in the same
        way, since the order in which products are summed is that of the segment.
        """
        loaded, aligned = COLUMNS - SEGMENT + depth(problem), max(self.copy_vector, self.store_vector, SEGMENT)
        return last_column(problem, self.first_column, COLUMNS, self.lead, loaded, aligned)

    def has_interior(self, problem: Filter2d) -> bool:
        """True if some warpgroup's windows lie within the image."""
        return self.last_column(problem) >= self.first_column and rows_inside(problem, 1, 1)[1] > 0


def frame_of(config: Config) -> Frame:
    """Frame of a config; configs of problems without that choice do not name it."""
    return Frame(str(config.values().get("frame", Frame.APART)))


def parts_of(config: Config) -> int:
    """Groups of the filter's rows; configs of filters with few rows do not name them."""
    return int(config.values().get("parts", 1))


def part_rows(problem: Filter2d, parts: int) -> int:
    """Rows of the filter in each part. The last part may begin with rows of the part before it, with zero weights."""
    return ceil(problem.filter[0] / parts)


def batches(problem: Filter2d, weights: Weights = Weights.ARGUMENT) -> int:
    """Batches of the filter's rows, as few as leave a thread room for the products of one batch and all sums.

    A filter with a float32 result is split into parts instead. Separable filters, which are literals, have few
    products.
    """
    rows = problem.filter[0]
    if rows <= WHOLE_ROWS or problem.output_dtype is DType.FLOAT32 or weights is Weights.LITERAL:
        return 1
    pixels = pixel_registers(problem)
    needed = ((each, 4 * (ceil(rows / each) + rows - 1) + pixels) for each in BATCHES)
    return next((each for each, registers in needed if registers <= BATCH_REGISTERS), BATCHES[-1])


def batch_rows(problem: Filter2d, weights: Weights, parts: int) -> int:
    """Rows of the filter, or of a part of it, in each batch; the last batch may have fewer."""
    return ceil(part_rows(problem, parts) / batches(problem, weights))


def pixel_registers(problem: Filter2d) -> int:
    """Registers of a thread for its pixels of two segments; float32 pixels are split into two tf32 parts."""
    return depth(problem) // 2 * (2 if problem.dtype is DType.FLOAT32 else 1)


def depth(problem: Filter2d) -> int:
    """Elements that the products of a row sum over: whole instructions of STEP elements."""
    return ceil(reach(problem, SEGMENT) / STEP) * STEP


PARTS = (1, 2, 3, 4)
"""Parts of filters with more than WHOLE_ROWS rows."""
PART_REGISTERS = 8
"""Registers of a thread besides, for a filter in parts: the sums in the result, and their places."""
SPILLED = 12
"""Registers that a thread may lack: values unused in the loop are spilled, which one more warpgroup can be worth."""
LEAST_REGISTERS = 64
"""Least registers of a thread: with 56 ptxas serialises the products of small filters, with 40 it finds too few."""
LEAST_REGISTERS_AHEAD = 112
"""Least registers of a thread with two rows of products in flight: 96 are too few for 3x3 and 5x5."""
LOADS_REGISTERS = 6
"""Registers of a thread besides, if loads make the border: the sources of an image row and of its edges."""


def parts_choices(problem: Filter2d, device: Device) -> tuple[int, ...]:
    """Numbers of parts of the filter that fit; only 1 if it is never split.

    A part's sums lie in the result until the next part adds its own, so the result must be float32.
    """
    if problem.filter[0] <= WHOLE_ROWS or problem.output_dtype is not DType.FLOAT32:
        return (1,)
    return tuple(each for each in PARTS if each == 1 or fits(problem, device, Weights.ARGUMENT, each))


def weights_choices(problem: Filter2d, device: Device) -> list[Weights]:
    """Places of the weights for which a thread's registers and a block's shared memory suffice."""
    choices = [Weights.ARGUMENT, Weights.CONSTANT, *([Weights.LITERAL] if separable_terms(problem) else [])]
    parts = parts_choices(problem, device)
    return [each for each in choices if any(fits(problem, device, each, number) for number in parts)]


def fits(problem: Filter2d, device: Device, weights: Weights, parts: int) -> bool:
    """True if a thread's registers and a block's shared memory suffice."""
    if parts > 1 and weights is Weights.LITERAL:
        return False
    registers = thread_registers(problem, weights, parts=parts)
    return registers <= device.limits.registers_per_thread and has_shared(problem, device, weights, 1, parts=parts)


def matrix_rows(problem: Filter2d, weights: Weights, parts: int) -> int:
    """Rows of weights in a matrix B: those of a part, of a batch, or of the filter's separable terms."""
    if weights is Weights.LITERAL:
        return len(separable_terms(problem))
    return batch_rows(problem, weights, parts)


def has_shared(
    problem: Filter2d, device: Device, weights: Weights, prefetch: int, warpgroups: int = 1, parts: int = 1
) -> bool:
    """True if a block has the shared memory that it needs."""
    needed = shared_bytes(problem, weights, prefetch, warpgroups, parts)
    dynamic_bytes = dynamic_shared_bytes(problem, weights)
    return needed <= device.shared_per_block_bytes and needed - dynamic_bytes <= STATIC_SHARED_BYTES


def dynamic_shared_bytes(problem: Filter2d, weights: Weights) -> int:
    """Bytes of dynamic shared memory for the matrices; 0 if static shared memory has room for them.

    A filter with a float32 result is split into parts instead.
    """
    if problem.output_dtype is DType.FLOAT32 or shared_bytes(problem, weights, 1) <= STATIC_SHARED_BYTES:
        return 0
    return factor_bytes(problem, weights)


def factor_bytes(problem: Filter2d, weights: Weights, parts: int = 1) -> int:
    """Bytes of both tf32 parts of the Toeplitz matrix, for all batches."""
    return 2 * 4 * depth(problem) * SEGMENT * matrix_rows(problem, weights, parts) * batches(problem, weights)


def shared_bytes(problem: Filter2d, weights: Weights, prefetch: int, warpgroups: int = 1, parts: int = 1) -> int:
    """Bytes of shared memory per block: the matrices, and for each warp its ring of rows and where it begins."""
    ring = (prefetch + 1) * (BEFORE_LAST_SEGMENT + depth(problem)) * problem.dtype.itemsize
    first = 4 if is_strict(problem) else 0
    return factor_bytes(problem, weights, parts) + 4 * warpgroups * (ring + first)


def least_registers(problem: Filter2d, weights: Weights, ahead: int, frame: Frame, parts: int) -> int:
    """Least registers of a thread for products that do not wait for each other."""
    needed = thread_registers(problem, weights, ahead, frame, parts)
    return max(needed, LEAST_REGISTERS_AHEAD) if ahead else max(needed - SPILLED, LEAST_REGISTERS)


def thread_registers(
    problem: Filter2d, weights: Weights, ahead: int = 0, frame: Frame = Frame.APART, parts: int = 1
) -> int:
    """Registers of a thread: products and sums of four outputs per filter row, pixels, and others read off ptxas."""
    outputs = matrix_rows(problem, weights, parts) * (1 + ahead) + part_rows(problem, parts) - 1
    besides = (LOADS_REGISTERS if frame is Frame.LOADS else 0) + (PART_REGISTERS if parts > 1 else 0)
    return 4 * outputs + pixel_registers(problem) * (1 + ahead) + 20 + 4 * ahead + besides


def limit_rules(problem: Filter2d, device: Device, named: tuple[str, ...]) -> tuple[Constraint, ...]:
    """Constraints from registers and shared memory; `named` are this problem's optional parameters."""

    def has_room(weights: str, prefetch: int, block_groups: int, block_strips: int, *values: Value) -> bool:
        parts = int(dict(zip(named, values, strict=True)).get("parts", 1))
        return has_shared(problem, device, Weights(weights), prefetch, block_groups * block_strips, parts)

    def has_registers(
        weights: str, ahead: int, block_groups: int, block_strips: int, min_blocks: int, *values: Value
    ) -> bool:
        chosen = dict(zip(named, values, strict=True))
        frame, parts = Frame(str(chosen.get("frame", Frame.APART))), int(chosen.get("parts", 1))
        resident = 128 * block_groups * block_strips * max(1, min_blocks)
        if ahead and batches(problem, Weights(weights)) > 1:
            return False  # a row's own batches are in flight then
        return device.thread_registers(resident) >= least_registers(problem, Weights(weights), ahead, frame, parts)

    return (
        Constraint(
            f"weights and rows read ahead fit {STATIC_SHARED_BYTES >> 10} KiB of shared memory",
            has_room,
            ("weights", "prefetch", "block_groups", "block_strips", *named),
        ),
        Constraint(
            "blocks that must fit a multiprocessor leave each thread most of the registers that it needs",
            has_registers,
            ("weights", "ahead", "block_groups", "block_strips", "min_blocks", *named),
        ),
    )
