"""Constraints of `filter2d_window`, each with its reason."""

from __future__ import annotations

from collections.abc import Callable
from math import lcm

from warpsmith.generator.architectures import STATIC_SHARED_BYTES, THREAD_REGISTERS
from warpsmith.generator.device import Device
from warpsmith.generator.filter2d.problem import Filter2d
from warpsmith.generator.filter2d.text import MemoryPath, Weights, result_pitch, row_pitch
from warpsmith.generator.filter2d.window_geometry import (
    LoadHint,
    Method,
    Order,
    Tail,
    loads,
    multiply_adds,
    period,
    starts_rolled,
    sums,
    turn_taps,
)
from warpsmith.generator.pair_stores import pair_stores
from warpsmith.generator.space import Constraint

MAX_UNROLLED = 4000
"""Most multiply-adds in the turns of the loop. Past this ptxas takes tens of seconds, 16 bytes an instruction overflow
the instruction cache, and spills begin; NVRTC 13.0 miscompiled a kernel with 9765 of them and 3 KB of spills."""
OTHER_REGISTERS = 20
"""Registers besides pixels and sums, for addresses, indices and the compiler (read off ptxas for 3x3 to 15x15)."""


def constraints(problem: Filter2d, device: Device) -> tuple[Constraint, ...]:
    """All constraints of the family."""
    return (
        *_alignment(problem),
        *pair_stores(problem.output.dtype, device, "store_vector"),
        *_methods(problem),
        *_loop(problem),
        _rows_under_a_strip(problem),
        *_paths(problem),
        *_shared_memory(problem),
        *_resources(problem, device),
    )


def _alignment(problem: Filter2d) -> tuple[Constraint, ...]:
    pitch, out_pitch = row_pitch(problem), result_pitch(problem)
    plane, out_plane = problem.image[0] * pitch, problem.output_shape[0] * out_pitch
    return (
        Constraint(
            "accesses are aligned only where their width divides the columns of a thread",
            lambda columns, load_vector, store_vector: columns % load_vector == 0 and columns % store_vector == 0,
        ),
        Constraint(
            f"loads of rows {pitch} elements apart repeat their alignment only in whole turns of the loop",
            lambda unroll, load_vector: unroll % period(pitch, load_vector) == 0,
        ),
        Constraint(
            f"stores of rows {out_pitch} elements apart repeat their alignment only in whole turns of the loop",
            lambda unroll, store_vector: unroll % period(out_pitch, store_vector) == 0,
        ),
        Constraint(
            f"planes of {plane} elements must start aligned to a load",
            lambda load_vector: problem.planes == 1 or plane % load_vector == 0,
        ),
        Constraint(
            f"planes of {out_plane} elements must start aligned to a store",
            lambda store_vector: problem.planes * problem.filters == 1 or out_plane % store_vector == 0,
        ),
    )


def _methods(problem: Filter2d) -> tuple[Constraint, ...]:
    out_pitch = result_pitch(problem)
    return (
        Constraint(
            "a separable filter's factors are literals",
            lambda method, weights: method != Method.SEPARABLE or weights == Weights.LITERAL,
        ),
        Constraint(
            "Winograd's factors are an argument or literals",
            lambda method, weights: method != Method.WINOGRAD or weights != Weights.CONSTANT,
        ),
        Constraint(
            "Winograd's factors are read once for the rows of a turn; literals are not read",
            lambda method, weights, order: (
                order == Order.ROWS if weights == Weights.LITERAL else method != Method.WINOGRAD or order == Order.TAPS
            ),
        ),
        Constraint(
            "Winograd's outputs come in pairs, which start alike in every row",
            lambda method, columns, store_vector: (
                method != Method.WINOGRAD or (columns > 1 and period(out_pitch, store_vector) == 1)
            ),
        ),
    )


_MANY_TAPS = 49
"""Taps, as of 7x7, from which on moving rows that were read ahead costs little."""


def _loop(problem: Filter2d) -> tuple[Constraint, ...]:
    pitch, out_pitch = row_pitch(problem), result_pitch(problem)
    output_rows = problem.output_shape[0]
    return (
        Constraint("a strip is whole turns of the loop", lambda rows, unroll: rows % unroll == 0),
        Constraint(
            f"a strip longer than twice the {output_rows} rows is a shorter one",
            lambda rows, unroll: rows <= max(unroll, 2 * output_rows),
        ),
        Constraint(
            "a strip of one turn has its taps trimmed by the compiler",
            lambda rows, unroll, tail: tail == Tail.WHOLE or rows > unroll,
        ),
        Constraint(
            "a turn of one row has one order; tap by tap, the taps of a tail are not trimmed",
            lambda method, unroll, order, tail: (
                order == Order.ROWS
                or ((unroll > 1 or method == Method.WINOGRAD or order == Order.LOOP) and tail == Tail.WHOLE)
            ),
        ),
        Constraint(
            "tap by tap, a turn reads nothing ahead into registers, or the whole next turn",
            lambda path, unroll, order, prefetch: (
                order != Order.TAPS or path == MemoryPath.ASYNC or prefetch in (0, unroll)
            ),
        ),
        Constraint(
            "rows read ahead stay in place only where a turn is whole rounds of them; few taps cannot pay for moves",
            lambda path, method, unroll, order, prefetch: (
                unroll % (prefetch + 1) == 0
                or order == Order.LOOP
                or (order == Order.TAPS and path != MemoryPath.ASYNC)
                or (path != MemoryPath.ASYNC and prefetch <= unroll and multiply_adds(problem, method) > _MANY_TAPS)
            ),
        ),
        Constraint(
            f"the turns of the loop are at most {MAX_UNROLLED} multiply-adds, a trimmed tail counted apart",
            lambda method, columns, unroll, order, tail: (
                (2 if tail == Tail.TRIMMED else 1) * columns * unroll * turn_taps(problem, method, order)
                <= MAX_UNROLLED
            ),
        ),
        Constraint(
            "rows before the first window are a loop here, which needs rows aligned alike",
            lambda method, columns, load_vector, store_vector, unroll, rows: (
                not starts_rolled(problem, method, columns, rows // unroll)
                or lcm(period(pitch, load_vector), period(out_pitch, store_vector)) == 1
            ),
        ),
    )


def _rows_under_a_strip(problem: Filter2d) -> Constraint:
    pitch, out_pitch = row_pitch(problem), result_pitch(problem)
    return Constraint(
        "a loop over the rows under a strip needs one turn, rows aligned alike, and taps that are read by number, and "
        "reads at most one row ahead",
        lambda path, method, load_vector, store_vector, unroll, order, rows, prefetch: (
            order != Order.LOOP
            or (
                method == Method.DIRECT
                and path in (MemoryPath.GLOBAL, MemoryPath.TEXTURE, MemoryPath.SHARED)
                and rows == unroll
                and prefetch <= 1
                and lcm(period(pitch, load_vector), period(out_pitch, store_vector)) == 1
            )
        ),
    )


def _paths(problem: Filter2d) -> tuple[Constraint, ...]:
    size = problem.dtype.itemsize
    return (
        Constraint(
            "a texture object gives one element a fetch",
            lambda path, load_vector: path != MemoryPath.TEXTURE or load_vector == 1,
        ),
        Constraint(
            "an asynchronous copy moves 4, 8 or 16 bytes",
            lambda path, load_vector: path != MemoryPath.ASYNC or load_vector * size >= 4,
        ),
        Constraint(
            "from a tile in shared memory nothing is read ahead: it is near",
            lambda path, prefetch: path != MemoryPath.SHARED or prefetch == 0,
        ),
        Constraint(
            "a thread passes one load on to its neighbours, by words of 4 bytes",
            lambda path, columns, load_vector: (
                path != MemoryPath.SHUFFLE or (columns == load_vector and load_vector * size >= 4)
            ),
        ),
        Constraint(
            "a thread passes on to at most 4 neighbours",
            lambda path, columns, load_vector, store_vector: (
                path != MemoryPath.SHUFFLE or loads(problem, columns, load_vector, store_vector) <= 5
            ),
        ),
        Constraint(
            "asynchronous copies are rows that are read ahead",
            lambda path, prefetch: path != MemoryPath.ASYNC or prefetch > 0,
        ),
        Constraint(
            "into registers at most 3 rows are read ahead: more do not fit",
            lambda path, prefetch: path == MemoryPath.ASYNC or prefetch <= 3,
        ),
        Constraint(
            "only plain loads from global memory take a hint",
            lambda path, load: path in (MemoryPath.GLOBAL, MemoryPath.SHUFFLE) or load == LoadHint.CACHED,
        ),
    )


def _shared_memory(problem: Filter2d) -> tuple[Constraint, ...]:
    size = problem.dtype.itemsize
    return (
        Constraint(
            f"a block's tile must fit {STATIC_SHARED_BYTES >> 10} KiB of shared memory",
            lambda path, columns, load_vector, store_vector, rows, block_columns, block_strips: (
                path != MemoryPath.SHARED
                or size
                * (block_strips * rows + problem.filter[0] - 1)
                * (columns * (block_columns - 1) + load_vector * loads(problem, columns, load_vector, store_vector))
                <= STATIC_SHARED_BYTES
            ),
        ),
        Constraint(
            f"the rings of a block's warps must fit {STATIC_SHARED_BYTES >> 10} KiB of shared memory",
            lambda path, columns, load_vector, store_vector, prefetch, block_columns, block_strips: (
                path != MemoryPath.ASYNC
                or size
                * (block_columns * block_strips // 32 * (prefetch + 1))
                * (columns * 31 + load_vector * loads(problem, columns, load_vector, store_vector))
                <= STATIC_SHARED_BYTES
            ),
        ),
    )


def _registers(problem: Filter2d) -> Callable[..., int]:
    """Function that estimates the registers of a thread."""

    def registers(
        path: str,
        method: str,
        columns: int,
        load_vector: int,
        store_vector: int,
        unroll: int,
        order: str,
        rows: int,
        prefetch: int,
    ) -> int:
        pixels = load_vector * loads(problem, columns, load_vector, store_vector)
        ahead = prefetch * pixels * problem.dtype.itemsize // 4 if path != MemoryPath.ASYNC else 0
        # The compiler keeps the sums of a strip's own outputs only, if the strip takes one turn.
        before = 0 if order == Order.LOOP or rows == unroll else problem.filter[0] - 1
        in_progress = problem.filters * sums(columns, method) * (before + unroll)
        return in_progress + pixels + ahead + OTHER_REGISTERS

    return registers


def _resources(problem: Filter2d, device: Device) -> tuple[Constraint, ...]:
    registers = _registers(problem)

    def enough_registers(
        path: str,
        method: str,
        columns: int,
        load_vector: int,
        store_vector: int,
        unroll: int,
        order: str,
        rows: int,
        prefetch: int,
        block_columns: int,
        block_strips: int,
        min_blocks: int,
    ) -> bool:
        threads = min_blocks * block_columns * block_strips
        each = registers(path, method, columns, load_vector, store_vector, unroll, order, rows, prefetch)
        return threads * each <= device.registers_per_multiprocessor

    taps = f"{problem.filter[0]}x{problem.filter[1]} taps"
    return (
        Constraint(
            f"sums and pixels of a thread must fit {THREAD_REGISTERS} registers, for {taps}",
            lambda path, method, columns, load_vector, store_vector, unroll, order, rows, prefetch: (
                registers(path, method, columns, load_vector, store_vector, unroll, order, rows, prefetch)
                <= THREAD_REGISTERS
            ),
        ),
        Constraint(
            "a block has at most 512 threads: more leave the multiprocessor no choice",
            lambda block_columns, block_strips: block_columns * block_strips <= 512,
        ),
        Constraint(
            f"a multiprocessor holds {device.threads_per_multiprocessor} threads",
            lambda block_columns, block_strips, min_blocks: (
                min_blocks * block_columns * block_strips <= device.threads_per_multiprocessor
            ),
        ),
        Constraint(
            f"the blocks asked for must fit the multiprocessor's {device.registers_per_multiprocessor} registers",
            enough_registers,
        ),
    )
