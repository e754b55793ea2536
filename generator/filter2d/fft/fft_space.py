"""Search space of `filter2d_fft`: parameters, and constraints with their reasons."""

from __future__ import annotations

from math import ceil, log2, prod

from warpsmith.generator.device import Device
from warpsmith.generator.fft.text import Twiddles
from warpsmith.generator.filter2d.fft.fft_geometry import FLOWING
from warpsmith.generator.filter2d.fft.fft_model import (
    MOST_CHUNKS,
    MOST_SPECTRA,
    MOST_WORK,
    PAIRS,
    SIDE,
    axis_sizes,
    is_allowed,
)
from warpsmith.generator.filter2d.overlap_family import Partners
from warpsmith.generator.filter2d.problem import Filter2d
from warpsmith.generator.filter2d.text import MemoryPath, Weights, too_many_weights
from warpsmith.generator.filter2d.window_geometry import StoreHint
from warpsmith.generator.space import Constraint, Parameter, words
from warpsmith.generator.tiles.lines import Radices, axis_of, radices_of, span, text_of, ways
from warpsmith.generator.tiles.tile import COMPLEX_BYTES, WARP

THREADS = (32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 384, 448, 512, 640, 768)
ROWS = (1, 2, 3, 4, 6, 8, 12, 16)
_GRAIN = 128
"""Threads by whose multiples nvcc 13.0 rounds up when it bounds their registers."""
MIN_BLOCKS = (1, 2, 3, 4, 6)
BLOCK_POINTS = 4096
"""Points of a block's rows by default, 32 KB: several blocks share an SM."""
OTHER_REGISTERS = 44
"""Registers of a thread besides those that hold its points."""


def fft_parameters(problem: Filter2d, device: Device) -> tuple[Parameter, ...]:
    """Parameters of the family.

    Weights that fit a kernel's parameters are passed there, so that callers need not know which family answers.
    """
    y, x = (tuple(text_of(each) for size in axis_sizes(problem, axis) for each in ways(size)) for axis in (0, 1))
    weights = Weights.GLOBAL if too_many_weights(problem, pointers=1) else Weights.ARGUMENT
    return (
        Parameter("path", words((MemoryPath.GLOBAL,)), "how pixels come from the image to a thread"),
        Parameter("weights", words((weights,)), "where the spectrum's kernel finds the weights"),
        Parameter("y_radices", y, "rows of a tile as two or three radices, in the order of passes"),
        Parameter("x_radices", x, "columns of a tile, likewise"),
        Parameter("pairs", PAIRS, "of tiles, that are in the workspace at a time"),
        Parameter(
            "buffers",
            (1, 2, FLOWING),
            "2: one launch stores results of some pairs and reads the next ones' pixels; 4: one launch does all",
        ),
        Parameter("blocks", (0, *(each * device.multiprocessors for each in MIN_BLOCKS)), "of the one launch, else 0"),
        Parameter("columns", SIDE, "of a block, side by side"),
        Parameter("column_threads", THREADS, "of a block that transforms columns"),
        Parameter("min_blocks", MIN_BLOCKS, "blocks of columns a multiprocessor must hold, which bounds registers"),
        Parameter("rows", ROWS, "of a block, one after the other"),
        Parameter("row_threads", THREADS, "of a block that transforms rows"),
        Parameter("twiddles", (Twiddles.TABLE.value, Twiddles.POWERS.value), "all from memory, or some as products"),
        Parameter("partners", words(Partners), "which two tiles are one complex tile"),
        Parameter("store", words(StoreHint), "streaming marks the result as evicted first from L2"),
    )


def likely_threads(radices: Radices, lines: int, about: int) -> tuple[int, ...]:
    """Thread counts for a block of `lines` lines, close to `about`; those that are seldom idle come first."""
    points = lines * prod(radices)

    def lost(threads: int) -> float:
        taken = sum(ceil(points / radix / threads) * threads * radix for radix in radices)
        return taken / (points * len(radices)) + abs(log2(threads / about)) / 4

    legal = [threads for threads in THREADS if threads <= max(WARP, points // min(radices))]
    return tuple(sorted(legal, key=lost))


def fft_constraints(problem: Filter2d, device: Device) -> tuple[Constraint, ...]:
    """Constraints of the family for a problem on a device."""
    return (
        Constraint(
            f"a workspace has at most {MOST_WORK} complex numbers, all spectra {MOST_SPECTRA}; there are at most "
            f"{MOST_CHUNKS} chunks where {max(PAIRS)} pairs make so few, and two in the workspace where there are two",
            lambda y_radices, x_radices, pairs, buffers: is_allowed(
                problem, radices_of(y_radices), radices_of(x_radices), pairs, buffers
            ),
        ),
        *_column_constraints(device),
        *_row_constraints(device),
        *_flow_constraints(device),
    )


def _column_constraints(device: Device) -> tuple[Constraint, ...]:
    limit, whole = device.shared_per_block_bytes, device.shared_per_multiprocessor_bytes
    registers = device.registers_per_multiprocessor

    def shared_bytes(radices: str, columns: int) -> int:
        return COMPLEX_BYTES * columns * span(axis_of(radices_of(radices), columns))

    return (
        Constraint(
            f"columns of a block fit {limit} bytes of shared memory",
            lambda y_radices, columns: shared_bytes(y_radices, columns) <= limit,
        ),
        Constraint(
            f"a multiprocessor holds {device.threads_per_multiprocessor} threads and {whole} bytes of shared memory",
            lambda y_radices, columns, column_threads, min_blocks: (
                min_blocks * column_threads <= device.threads_per_multiprocessor
                and (
                    min_blocks == 1
                    or min_blocks * (shared_bytes(y_radices, columns) + device.limits.reserved_shared_bytes) <= whole
                )
            ),
        ),
        Constraint(
            f"twice its points and {OTHER_REGISTERS} registers a thread, {_GRAIN} threads at a time, fit {registers}",
            lambda y_radices, column_threads, min_blocks: (
                registers_of(y_radices) * min_blocks * _GRAIN * ceil(column_threads / _GRAIN) <= registers
            ),
        ),
        Constraint(
            "threads of columns have work in the pass that has most",
            lambda y_radices, columns, column_threads: column_threads <= _most_items(y_radices, columns),
        ),
    )


def _row_constraints(device: Device) -> tuple[Constraint, ...]:
    limit, registers = device.shared_per_block_bytes, device.registers_per_multiprocessor
    return (
        Constraint(
            f"rows of a block fit {limit} bytes of shared memory",
            lambda x_radices, rows: COMPLEX_BYTES * rows * span(axis_of(radices_of(x_radices), 1)) <= limit,
        ),
        Constraint(
            f"the same of rows: twice their points and {OTHER_REGISTERS} registers a thread fit {registers}",
            lambda x_radices, row_threads: registers_of(x_radices) * row_threads <= registers,
        ),
        Constraint(
            "threads of rows have work in the pass that has most",
            lambda x_radices, rows, row_threads: row_threads <= _most_items(x_radices, rows),
        ),
    )


def _flow_constraints(device: Device) -> tuple[Constraint, ...]:
    """Constraints of a single launch, whose blocks take rows and columns alike."""
    registers, whole = device.registers_per_multiprocessor, device.shared_per_multiprocessor_bytes

    def fits(x_radices: str, rows: int, row_threads: int, min_blocks: int, buffers: int) -> bool:
        shared = COMPLEX_BYTES * rows * span(axis_of(radices_of(x_radices), 1)) + device.limits.reserved_shared_bytes
        threads = _GRAIN * ceil(row_threads / _GRAIN)
        return buffers < FLOWING or (
            min_blocks * shared <= whole and registers_of(x_radices) * min_blocks * threads <= registers
        )

    return (
        Constraint(
            "one launch has blocks, as many as multiprocessors hold, and else none",
            lambda min_blocks, buffers, blocks: (
                blocks == (min_blocks * device.multiprocessors if buffers == FLOWING else 0)
            ),
        ),
        Constraint(
            "the blocks of one launch have one size",
            lambda column_threads, buffers, row_threads: buffers < FLOWING or row_threads == column_threads,
        ),
        Constraint("and hold rows as they hold columns", fits),
    )


def registers_of(radices: str) -> int:
    """Registers that a thread needs, as a guess."""
    return 2 * max(radices_of(radices)) + OTHER_REGISTERS


def _most_items(radices: str, lines: int) -> int:
    """Transforms of `lines` lines in the pass that has most; at least a warp."""
    factors = radices_of(radices)
    return max(WARP, lines * prod(factors) // min(factors))
