"""How a thread of `filter2d_window` walks down: the walks of its space, and the likeliest to start a search with."""

from __future__ import annotations

from itertools import product
from math import ceil
from typing import NamedTuple

from warpsmith.generator.device import Device
from warpsmith.generator.filter2d.problem import Filter2d
from warpsmith.generator.filter2d.separable import separable_terms
from warpsmith.generator.filter2d.text import MemoryPath, Weights
from warpsmith.generator.filter2d.window.geometry import Method, Order, Tail, multiply_adds
from warpsmith.generator.problem import Accuracy, DType
from warpsmith.generator.space import Config

WALKS = (1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 56, 64, 72, 88, 105, 128, 144, 176, 210, 256)
"""Rows of a strip, whatever the image."""
INSTRUCTIONS = 2000
"""That an instruction cache of 32 KB holds."""
MEMORY_BOUND = 7
"""Rows of the largest filter whose multiply-adds take less time than its bytes."""
SMALL_FILTERS_WALKS = ((8, 4, 1), (8, 8, 1), (16, 16, 1), (4, 2, 1), (2, 2, 1), (1, 1, 0))
LARGE_FILTERS_WALKS = tuple(
    (rows, unroll, 1 if unroll > 1 or rows > 1 else 0)
    for rows in (128, 64, 32, 16, 8, 4, 1)
    for unroll in (2, 1)
    if unroll <= rows
)
"""Rows, rows of a turn, and rows read ahead."""
BUSY_WARPS = 12
"""Of a multiprocessor, three for each of its schedulers, with which multiply-adds seldom wait."""
NARROW_BUSY_WARPS = 24
"""And of threads one output wide: 31x31 takes 0.6 ns an output by 18 of them (halves, 777x1555), by 11 1.8 ns (bytes,
2000x3000; H200)."""
TURNS_OF_TWO = 17
"""Rows of the largest filter that is walked two rows a turn: 21x21 spills up to 6.6 KB (ptxas 13.0, sm_90a)."""
LONG_WALK = 64
"""Rows from which on a few more or less decide how full the last wave of blocks is."""
NARROW_COLUMNS, NARROW_ROWS, NARROW_TAPS = 2, 10, 1300
"""Of walks through images that are too small for long ones: outputs across, and rows in one turn, as many as keep to so
many taps. 11x11 on 1080x1920 takes 16 us, by walks of 10 rows, 8 across, 32; 9x9 on 777x1555 9 and 20 us (H200)."""
WAVE_WARPS = (8, 12, 16, 20, 24, 28, 32)
"""Warps of a multiprocessor, for walks that make a single wave."""


SQUARED = 400
"""Squared taps of an output that cost a compiler as much as one more multiply-add that is written out."""
DEARER = {Weights.ARGUMENT: 1.0, Weights.CONSTANT: 3.0, Weights.LITERAL: 4.0}
"""How many times that, by where the taps lie: 4000 in constant memory take 37 s, as an argument 13 (NVRTC 13.5)."""
TRIMMED_DEARER = 1.5
"""And where a body of its own leaves out the taps of a tail: 1955 take 15 s then, and 9.5 without."""
WRITTEN_OUT = 40_000
"""Multiply-adds of all turns of a loop up to which NVRTC and nvcc 13 write it out in spite of `#pragma unroll 1`, where
it reads ahead tap by tap: seen up to 23 thousand (11x11), and not at 20 thousand in 9x9."""


def unrolled(problem: Filter2d, config: Config) -> int:
    """Multiply-adds that the compiler writes out, and what the taps of one output cost it beside those.

    Its time grows with the square of the taps, whose sums are all in progress: as 3e-4 s a multiply-add, and 8e-7 s
    times the squared taps, DEARER and TRIMMED_DEARER times that (fitted to 0.4 to 37 s, docs/lab/tuning-notes.md).
    """
    columns, unroll, rows = (config.integer(name) for name in ("columns", "unroll", "rows"))
    taps = multiply_adds(problem, config.text("method"))
    turn = columns * unroll * taps
    is_trimmed = config.text("tail") == Tail.TRIMMED
    dearer = DEARER[Weights.of(config)] * (TRIMMED_DEARER if is_trimmed else 1.0)
    beside = int(dearer * taps**2 / SQUARED)
    reads_ahead = config.integer("prefetch") > 0 and config.text("path") != MemoryPath.ASYNC
    if config.text("order") == Order.TAPS and reads_ahead and rows // unroll * turn <= WRITTEN_OUT:
        return rows // unroll * turn + beside
    return (2 * turn if is_trimmed else turn) + beside


def methods(problem: Filter2d) -> list[Method]:
    """The ways to apply the problem's filters."""
    possible = [Method.DIRECT]
    if separable_terms(problem):
        possible.append(Method.SEPARABLE)
    # Two taps a row or more are worth pairs; elements of one channel are no neighbours where there are several.
    if problem.accuracy is not Accuracy.ELEMENTWISE and problem.channels == 1 and problem.filter[1] > 1:
        possible.append(Method.WINOGRAD)
    return possible


def walks(problem: Filter2d, device: Device) -> tuple[int, ...]:
    """WALKS, and those that make as many warps as the device holds at once: of a single wave none waits for another.

    Only where arithmetic binds: up to 7x7 long walks lose, whatever their number.
    """
    if problem.filter[0] <= MEMORY_BOUND:
        return WALKS
    choices = product((2, 4, 8), WAVE_WARPS, (1, 2, 3, 4))
    waves = {_wave(problem, device, *choice) for choice in choices}
    return tuple(sorted({*WALKS, *(walk for walk in waves if LONG_WALK <= walk < problem.output_shape[0])}))


def carried_walk(
    rows: int, columns: int, unroll: int, home: tuple[Filter2d, Device], here: tuple[Filter2d, Device]
) -> int:
    """The rows of a walk here that make as many warps a multiprocessor as `rows` do at `home`; `rows` if they are none
    of a single wave there.
    """
    if rows in WALKS:
        return rows
    fitting = (warps for warps in WAVE_WARPS if _wave(*home, columns, warps, unroll) == rows)
    warps = next(fitting, None)
    return rows if warps is None else _wave(*here, columns, warps, unroll)


def likely_method(problem: Filter2d) -> Method:
    """Pairs save more than their additions cost from 12 rows on, in literals (which have no reads) from 8 on."""
    if separable_terms(problem):
        return Method.SEPARABLE
    worthwhile = problem.filter[0] > (11 if problem.weights is None else 7)
    return Method.WINOGRAD if worthwhile and Method.WINOGRAD in methods(problem) else Method.DIRECT


class Walk(NamedTuple):
    """How a thread walks down a strip, and how many outputs wide."""

    order: Order
    rows: int
    unroll: int
    prefetch: int
    columns: int = 4
    path: MemoryPath = MemoryPath.GLOBAL
    least_blocks: int = 0
    """That a multiprocessor must hold; 0 for any number."""

    @property
    def is_long(self) -> bool:
        """Whether a few rows more or less decide how full the last wave of blocks is."""
        return self.rows >= LONG_WALK


def likely_walks(problem: Filter2d, method: Method, device: Device) -> list[Walk]:
    """Ways to walk, the likeliest first; one row at a time, one output wide, is legal wherever anything is.

    Measured on an H200 with 9216x9216 float32 (docs/lab/tuning-notes.md); for elements of 1 or 2 bytes, and images that
    do not fill the device, what is nearest to that.
    """
    likely = _likely_walk(problem, method, device)
    if problem.filter[0] > MEMORY_BOUND:
        ways = _ways(problem, LARGE_FILTERS_WALKS)
        ways.sort(key=lambda walk: _effort(problem, walk, device))
        narrow = _narrow(problem) if method is Method.DIRECT and likely.rows < 2 * problem.filter[0] else []
        # A short loop that reads ahead tap by tap is written out in full (`unrolled`): without reading ahead it is not.
        return [*narrow, likely, likely._replace(prefetch=0), *ways]
    ways = _ways(problem, SMALL_FILTERS_WALKS)
    # Threads of 4 outputs across, so many that every multiprocessor has work for half of its places.
    fills = max(1, problem.output.size // 4 // (device.multiprocessors * device.threads_per_multiprocessor // 2))
    # Walks that leave places empty come last.
    ways.sort(key=lambda walk: walk.rows > fills)
    return [likely, *ways] if likely.rows <= fills else [*ways, likely]


def _narrow(problem: Filter2d) -> list[Walk]:
    """The walk of an image that is too small for long ones; none for a filter of which no four rows fit a turn."""
    most = min(NARROW_ROWS, NARROW_TAPS // (problem.filter[0] * problem.filter[1]))
    rows = max((each for each in WALKS if each <= most), default=0)
    # Bytes one wide from 12x12 on: 13x13 on 777x1555 takes 18 us, two wide 30 (H200).
    columns = 1 if problem.dtype is DType.UINT8 and rows < NARROW_ROWS else NARROW_COLUMNS
    return [Walk(Order.ROWS, rows, rows, 3, columns, least_blocks=2)] if rows >= 4 else []


def _ways(problem: Filter2d, walks: tuple[tuple[int, int, int], ...]) -> list[Walk]:
    return [
        Walk(Order.ROWS, rows, unroll, prefetch, columns)
        for columns in (_widest(problem), 4, 2, 1)
        for rows, unroll, prefetch in walks
        if unroll == 1 or problem.filter[0] <= TURNS_OF_TWO
    ]


def _effort(problem: Filter2d, walk: Walk, device: Device) -> float:
    """Multiply-adds for each that a result needs, over the part of the multiprocessors that they keep busy.

    The rows above the first window take half of its work each, and a narrow thread reads as much as a wide one.
    """
    work = (walk.rows + (problem.filter[0] - 1) / 2) / walk.rows
    warps = problem.output.size / (32 * walk.columns * walk.rows * device.multiprocessors)
    reads = 1 + problem.filter[1] / (problem.filter[0] * walk.columns)
    return work * reads / min(1.0, warps / (BUSY_WARPS if walk.columns > 1 else NARROW_BUSY_WARPS))


def _widest(problem: Filter2d) -> int:
    """Outputs across that one load or store of 16 bytes covers, at most 8."""
    return 4 if problem.dtype is DType.FLOAT32 else 8


def _likely_walk(problem: Filter2d, method: Method, device: Device) -> Walk:
    rows, columns = problem.filter
    is_literal, wide = problem.weights is not None, _widest(problem)
    if rows <= 3:
        return Walk(Order.ROWS, 4, 4, 1, wide)
    if rows <= 5:
        return Walk(Order.ROWS if is_literal else Order.TAPS, 4, 4, 0, wide)
    if rows <= MEMORY_BOUND:
        return Walk(Order.ROWS, 12, 12, 1, wide)
    match method:
        case Method.SEPARABLE:
            return Walk(Order.ROWS, 128, 8, 7, 2, MemoryPath.ASYNC)
        case Method.WINOGRAD if is_literal:
            return Walk(Order.ROWS, _wave(problem, device, 2, 48, 2), 2, 1, 2)
        case Method.WINOGRAD:
            return Walk(Order.TAPS, _wave(problem, device, 4, 8, 3), 3, 0)
    if is_literal:
        return Walk(Order.ROWS, _wave(problem, device, 4, 16, 2), 2, 1)
    # A turn of two rows, as long as the instruction cache holds it.
    if 16 * rows * columns <= INSTRUCTIONS:
        return Walk(Order.TAPS, _wave(problem, device, 8, 12 if rows <= 9 else 8, 2), 2, 2, 8)
    return Walk(Order.ROWS, _wave(problem, device, 8, 8, 1), 1, 1, 8)


def _wave(problem: Filter2d, device: Device, columns: int, warps: int, unroll: int) -> int:
    """Rows of a walk, whole turns, that make about `warps` warps a multiprocessor."""
    return ceil(wave(problem, device, 32 * columns, warps) / unroll) * unroll


def wave(problem: Filter2d, device: Device, columns: int, walkers: int) -> int:
    """Rows of a strip, `columns` elements wide, so that about `walkers` a multiprocessor all start and end together."""
    across = ceil(problem.output_shape[1] * problem.channels / columns) * problem.planes
    return ceil(problem.output_shape[0] / max(1, walkers * device.multiprocessors // across))
