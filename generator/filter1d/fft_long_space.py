"""Search space of `filter1d_fft_long`, and the configs of a shape that are likely to do well."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from warpsmith.generator.architectures import MAX_GRID
from warpsmith.generator.device import Device
from warpsmith.generator.fft.text import Twiddles
from warpsmith.generator.filter1d.fft_long_geometry import columns_of, rows_of, slots_of
from warpsmith.generator.filter1d.fft_long_model import BEST_POINTS, MatrixShape, shapes_for
from warpsmith.generator.filter1d.fft_long_parameters import HEIGHTS, LAGS, MIN_BLOCKS, THREADS, WIDTHS, Spectra
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.filter1d.text import Weights
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value, words
from warpsmith.generator.tiles.lines import points_of, radices_of
from warpsmith.generator.tiles.tile import COMPLEX_BYTES

WORK_BYTES = 1 << 29
"""Most bytes of the matrices at work: two of 2^25 points."""
MOST_SPECTRA = 1 << 32
"""Most bytes of all filters' spectra if they are made first."""
OTHER_REGISTERS = 32
"""Registers of a thread besides those that hold its points."""
PRODUCT_REGISTERS = 20
"""Registers besides the points of a block and of its filter."""
L2_SHARE = 1.1
"""Share of L2 that the matrices at work may have before the lag is shortened (H200, 96 channels of 2^20 bfloat16
samples and as many taps: 3.11 ms without a lag, 2.00 ms with 64 MB and a lag of 1, 2.03 ms with 96 MB and a lag of
2)."""
FEW_LINES = 1
"""Blocks with one filter, up to which its spectrum is made with them by default."""


@functools.lru_cache(maxsize=256)
def long_space(problem: Filter1d, device: Device) -> Space:
    shapes = shapes_for(problem)
    columns = tuple(dict.fromkeys(each.columns for each in shapes))
    rows = tuple(dict.fromkeys(each.rows for each in shapes))
    return Space(
        parameters=(
            Parameter("weights", words((Weights.GLOBAL,)), "where the kernels find the taps"),
            Parameter("columns", columns, "radices of a matrix's columns"),
            Parameter("rows", rows, "radices of a matrix's rows"),
            Parameter("spectra", words(Spectra), "filters' spectra made first, or with each block"),
            Parameter("lag", LAGS, "blocks between the columns and the rows at work, and to the results"),
            Parameter("width", WIDTHS, "columns of a job"),
            Parameter("height", HEIGHTS, "rows of a job"),
            Parameter("threads", THREADS, "threads of a block"),
            Parameter("min_blocks", MIN_BLOCKS, "blocks a multiprocessor must hold"),
            Parameter("blocks", tuple(each * device.multiprocessors for each in MIN_BLOCKS), "of the one launch"),
            Parameter("twiddles", (Twiddles.TABLE.value, Twiddles.POWERS.value), "from memory, or some as products"),
            Parameter("store", ("plain", "streaming"), "streaming marks the result as evicted first from L2"),
        ),
        constraints=(*_sizes(problem), *_resources(device)),
    )


def _sizes(problem: Filter1d) -> tuple[Constraint, ...]:
    shapes = {(each.columns, each.rows): each.blocks for each in shapes_for(problem)}

    def lines(columns: str, rows: str) -> int:
        blocks = shapes.get((columns, rows))  # a search asks about pairs that are no shape, in any order of rules
        return 0 if blocks is None else problem.rows * blocks.count

    def fits(columns: str, rows: str, spectra: str, lag: int) -> bool:
        points = points_of(columns) * points_of(rows) * (2 if spectra == Spectra.WITH else 1)
        return COMPLEX_BYTES * points * slots_of(lag, lines(columns, rows)) <= WORK_BYTES

    def are_countable(columns: str, rows: str, width: int, height: int) -> bool:
        jobs = 3 * points_of(rows) // width + points_of(columns) // height
        return lines(columns, rows) * jobs <= MAX_GRID

    return (
        Constraint(
            f"blocks have outputs for {problem.taps} taps, and waste few samples",
            lambda columns, rows: (columns, rows) in shapes,
        ),
        Constraint("jobs have equal numbers of columns", lambda rows, width: points_of(rows) % width == 0),
        Constraint("jobs have equal numbers of rows", lambda columns, height: points_of(columns) % height == 0),
        Constraint(
            "a lag is at most half of the blocks there are",
            lambda columns, rows, lag: lag <= lines(columns, rows) // 2,
        ),
        Constraint(f"matrices at work take at most {WORK_BYTES} bytes", fits),
        Constraint(
            f"spectra of {problem.filters} filters take at most {MOST_SPECTRA} bytes",
            lambda columns, rows, spectra: (
                spectra == Spectra.WITH or spectrum_bytes(problem, columns, rows) <= MOST_SPECTRA
            ),
        ),
        Constraint(f"a launch has at most {MAX_GRID} jobs", are_countable),
    )


def spectrum_bytes(problem: Filter1d, columns: str, rows: str) -> int:
    """Bytes of all filters' spectra."""
    return COMPLEX_BYTES * problem.filters * points_of(columns) * points_of(rows)


def _shared_bytes(columns: str, rows: str, width: int, height: int, spectra: str) -> int:
    of_rows = rows_of(rows, height * (2 if spectra == Spectra.WITH else 1), 0).shared_bytes
    return max(columns_of(columns, width, 0).shared_bytes, of_rows)


def registers_of(columns: str, rows: str, spectra: str) -> int:
    """Registers that a thread needs, as a guess."""
    of_one = 2 * max(*radices_of(columns), *radices_of(rows)) + OTHER_REGISTERS
    of_two = 4 * radices_of(rows)[-1] + PRODUCT_REGISTERS if spectra == Spectra.WITH else 0
    return max(of_one, of_two)


def _resources(device: Device) -> tuple[Constraint, ...]:
    limit, whole = device.shared_per_block_bytes, device.shared_per_multiprocessor_bytes
    registers, threads_limit = device.registers_per_multiprocessor, device.threads_per_multiprocessor
    reserved = device.limits.reserved_shared_bytes

    def fits(columns: str, rows: str, width: int, height: int, spectra: str, min_blocks: int) -> bool:
        shared = _shared_bytes(columns, rows, width, height, spectra)
        return shared <= limit and (min_blocks == 1 or min_blocks * (shared + reserved) <= whole)

    def have_work(columns: str, rows: str, width: int, height: int, threads: int) -> bool:
        of_columns = width * points_of(columns) // min(radices_of(columns))
        return threads <= max(32, of_columns, height * points_of(rows) // min(radices_of(rows)))

    return (
        Constraint(f"blocks fit {limit} bytes of shared memory, and {whole} of a multiprocessor", fits),
        Constraint("threads have work in the pass that has most", have_work),
        Constraint(
            f"a multiprocessor holds {threads_limit} threads",
            lambda threads, min_blocks: min_blocks * threads <= threads_limit,
        ),
        Constraint(
            f"a thread's points and {OTHER_REGISTERS} registers fit {registers} of a multiprocessor",
            lambda columns, rows, spectra, threads, min_blocks: (
                min(255, registers_of(columns, rows, spectra)) * min_blocks * threads <= registers
            ),
        ),
        Constraint(
            "a launch has as many blocks as multiprocessors hold",
            lambda min_blocks, blocks: blocks == min_blocks * device.multiprocessors,
        ),
    )


def usual_spectra(problem: Filter1d, shape: MatrixShape) -> Spectra:
    """Spectra made with each block if few blocks share a filter, or if all of them take too much memory."""
    lines = problem.rows * shape.blocks.count // problem.filters
    is_large = spectrum_bytes(problem, shape.columns, shape.rows) > MOST_SPECTRA
    return Spectra.WITH if lines <= FEW_LINES or is_large else Spectra.FIRST


def configs(problem: Filter1d, shape: MatrixShape, device: Device) -> Iterator[Config]:
    """Yields configs of a shape, the likeliest first, legal or not."""
    spectra = usual_spectra(problem, shape)
    values: dict[str, Value] = {
        "weights": Weights.GLOBAL.value,
        "columns": shape.columns,
        "rows": shape.rows,
        "spectra": spectra.value,
        "width": shape.width,
        "height": shape.height,
        "twiddles": Twiddles.POWERS.value,
        "store": "streaming",
    }
    for threads in (256, 128, 64, 32):
        for blocks in _blocks_of(shape, spectra):
            held = {"threads": threads, "min_blocks": blocks, "blocks": blocks * device.multiprocessors}
            for lag in reversed([each for each in LAGS if each <= _lag_of(problem, shape, spectra, device, blocks)]):
                yield Config.of({**values, **held, "lag": lag})


def _blocks_of(shape: MatrixShape, spectra: Spectra) -> tuple[int, ...]:
    """Blocks of an SM, the likeliest first. With filters beside small matrices fewer wait for each other: 1024 channels
    of 131,072 samples and as many taps took 3.68 ms with two blocks and 4.04 ms with three (H200).
    """
    return (2, 3, 1) if spectra is Spectra.WITH and shape.points < BEST_POINTS else (3, 2, 1)


def _lag_of(problem: Filter1d, shape: MatrixShape, spectra: Spectra, device: Device, blocks: int) -> int:
    """The least lag with which as many jobs as blocks lie between a job and those that wait for it; less if L2 has no
    room. With a shorter one blocks wait: 16 channels of 5,760,000 samples and 192,000 taps took 2.68, 1.05, 0.95 and
    1.02 ms with lags of 0, 1, 2 and 4 (H200).
    """
    column_jobs, row_jobs = points_of(shape.rows) // shape.width, points_of(shape.columns) // shape.height
    matrices = 2 if spectra is Spectra.WITH else 1
    needed = blocks * device.multiprocessors / ((1 + matrices) * column_jobs + row_jobs)
    slots = int(L2_SHARE * device.l2_bytes / (COMPLEX_BYTES * shape.points * matrices))
    enough = next((each for each in LAGS if each >= needed), LAGS[-1])
    return min(enough, max(1, (slots - 2) // 2), problem.rows * shape.blocks.count // 2)
