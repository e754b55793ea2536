"""Walks of a thread of `filter2d_window` down its strip: those of the space, and the likeliest, which a search tries
first.
"""

from __future__ import annotations

from itertools import product
from math import ceil
from typing import NamedTuple

from warpsmith.generator.device import Device
from warpsmith.generator.filter2d.problem import Filter2d
from warpsmith.generator.filter2d.separable import separable_terms
from warpsmith.generator.filter2d.text import MemoryPath, Weights
from warpsmith.generator.filter2d.window_geometry import Method, Order, Tail, turn_taps
from warpsmith.generator.problem import Accuracy, DType
from warpsmith.generator.space import Config

WALKS = (1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 56, 64, 72, 88, 105, 128, 144, 176, 210, 256)
"""Rows of a strip, whatever the image."""
INSTRUCTIONS = 2000
"""Instructions that fit an instruction cache of 32 KB."""
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
"""Warps per SM, three for each scheduler, with which multiply-adds seldom wait."""
NARROW_BUSY_WARPS = 24
"""The same for threads one output wide: 31x31 takes 0.6 ns an output with 18 warps (float16, 777x1555) and 1.8 ns with
11 (uint8, 2000x3000; H200)."""
TURNS_OF_TWO = 17
"""Rows of the largest filter that is walked two rows a turn: 21x21 spills up to 6.6 KB (ptxas 13.0, sm_90a)."""
LONG_WALK = 64
"""Least rows of a long walk, where a few rows more or less decide how full the last wave of blocks is."""
NARROW_COLUMNS, NARROW_ROWS, NARROW_TAPS = 2, 10, 1300
"""Narrow walks, for images too small for long ones: outputs across, most rows in their only turn, and most
multiply-adds of one column in it. 11x11 on 1080x1920 takes 16 us, and 32 us by walks of 10 rows and 8 across. 9x9 on
777x1555 takes 9 and 20 us (H200)."""
WAVE_WARPS = (8, 12, 16, 20, 24, 28, 32)
"""Warps per SM of walks that make a single wave."""


SQUARED = 400
"""Squared taps of an output that cost a compiler as much time as one more unrolled multiply-add."""
DEARER = {Weights.ARGUMENT: 1.0, Weights.CONSTANT: 3.0, Weights.LITERAL: 4.0}
"""Factor on the cost of squared taps, by where the weights lie: 4000 taps in constant memory take 37 s, as an argument
13 (NVRTC 13.5)."""
TRIMMED_DEARER = 1.5
"""Factor on the cost of squared taps if a second loop body leaves out the taps of a tail: 1955 taps take 15 s with it,
and 9.5 without."""
WRITTEN_OUT = 40_000
"""Most multiply-adds of all turns of a loop that NVRTC and nvcc 13 unroll in spite of `#pragma unroll 1`, if it reads
ahead tap by tap: seen up to 23 thousand (11x11), and not at 20 thousand in 9x9."""


def unrolled(problem: Filter2d, config: Config) -> int:
    """Cost of compiling, in unrolled multiply-adds: their number, and what the taps of one output cost beside them.

    The compiler's time grows with the square of the taps, since the sums of all taps are live. It is 3e-4 s per
    multiply-add plus 8e-7 s per squared tap, times DEARER and TRIMMED_DEARER (fitted to 0.4 to 37 s,
    docs/lab/tuning-notes.md).
    """
    columns, unroll, rows = (config.integer(name) for name in ("columns", "unroll", "rows"))
    taps = turn_taps(problem, config.text("method"), config.text("order"))
    turn = columns * unroll * taps
    is_trimmed = config.text("tail") == Tail.TRIMMED
    dearer = DEARER[Weights.of(config)] * (TRIMMED_DEARER if is_trimmed else 1.0)
    beside = int(dearer * taps**2 / SQUARED)
    reads_ahead = config.integer("prefetch") > 0 and config.text("path") != MemoryPath.ASYNC
    if config.text("order") == Order.TAPS and reads_ahead and rows // unroll * turn <= WRITTEN_OUT:
        return rows // unroll * turn + beside
    return (2 * turn if is_trimmed else turn) + beside


def methods(problem: Filter2d) -> list[Method]:
    """The methods that can apply the problem's filters."""
    possible = [Method.DIRECT]
    if separable_terms(problem):
        possible.append(Method.SEPARABLE)
    # Pairs of outputs save products from two taps a row on. With several channels, neighbours are of different ones.
    if problem.accuracy is not Accuracy.ELEMENTWISE and problem.channels == 1 and problem.filter[1] > 1:
        possible.append(Method.WINOGRAD)
    return possible


def walks(problem: Filter2d, device: Device) -> tuple[int, ...]:
    """WALKS, and the walks whose warps all run at once, in a single wave, so that none waits for another.

    Filters of up to MEMORY_BOUND rows have WALKS alone: they are not bound by arithmetic, and long walks lose.
    """
    if problem.filter[0] <= MEMORY_BOUND:
        return WALKS
    choices = product((2, 4, 8), WAVE_WARPS, (1, 2, 3, 4))
    waves = {_wave(problem, device, *choice) for choice in choices}
    return tuple(sorted({*WALKS, *(walk for walk in waves if LONG_WALK <= walk < problem.output_shape[0])}))


def carried_walk(
    rows: int, columns: int, unroll: int, home: tuple[Filter2d, Device], here: tuple[Filter2d, Device]
) -> int:
    """Rows of a walk for `here` with as many warps per SM as `rows` make for `home`. It is `rows` itself if that is one
    of WALKS or makes no single wave for `home`.
    """
    if rows in WALKS:
        return rows
    fitting = (warps for warps in WAVE_WARPS if _wave(*home, columns, warps, unroll) == rows)
    warps = next(fitting, None)
    return rows if warps is None else _wave(*here, columns, warps, unroll)


def likely_method(problem: Filter2d) -> Method:
    """The likely method. Pairs of outputs save more than their additions cost from 12 rows on, with literal weights
    (which need no reads) from 8 rows on.
    """
    if separable_terms(problem):
        return Method.SEPARABLE
    worthwhile = problem.filter[0] > (11 if problem.weights is None else 7)
    return Method.WINOGRAD if worthwhile and Method.WINOGRAD in methods(problem) else Method.DIRECT


class WindowWalk(NamedTuple):
    """Walk of a thread down a strip, `columns` outputs wide."""

    order: Order
    rows: int
    unroll: int
    prefetch: int
    columns: int = 4
    path: MemoryPath = MemoryPath.GLOBAL
    least_blocks: int = 0
    """Least blocks that an SM must hold; 0 for any number."""
    strips: int = 2
    """Strips of a block, where its walks are not long."""
    block_columns: int = 64
    """Threads across a block."""

    @property
    def is_long(self) -> bool:
        """True if a few rows more or less decide how full the last wave of blocks is."""
        return self.rows >= LONG_WALK


def likely_walks(problem: Filter2d, method: Method, device: Device) -> list[WindowWalk]:
    """Walks, likeliest first. The last of them, one row at a time and one output wide, is legal if any walk is.

    Their order was measured on an H200 with 9216x9216 float32 (docs/lab/tuning-notes.md). Elements of 1 or 2 bytes, and
    images that do not fill the device, have the walks nearest to those.
    """
    likely = _likely_walk(problem, method, device)
    if problem.filter[0] > MEMORY_BOUND:
        ways = _ways(problem, LARGE_FILTERS_WALKS)
        ways.sort(key=lambda walk: _effort(problem, walk, device))
        narrow = _narrow(problem) if method is Method.DIRECT and likely.rows < 2 * problem.filter[0] else []
        # The compiler unrolls a short loop that reads ahead tap by tap (`unrolled`), and not one that does not.
        return [*narrow, likely, likely._replace(prefetch=0), *ways]
    ways = _ways(problem, SMALL_FILTERS_WALKS)
    # Rows of a walk, 4 outputs across, with which every SM has half of the threads that it can hold.
    fills = max(1, problem.output.size // 4 // (device.multiprocessors * device.threads_per_multiprocessor // 2))
    # Walks that leave more of the SM empty come last.
    ways.sort(key=lambda walk: walk.rows > fills)
    return [likely, *ways] if likely.rows <= fills else [*ways, likely]


def _narrow(problem: Filter2d) -> list[WindowWalk]:
    """The narrow walk, for an image too small for long ones; none if fewer than four rows fit NARROW_TAPS."""
    most = min(NARROW_ROWS, NARROW_TAPS // (problem.filter[0] * problem.filter[1]))
    rows = max((each for each in WALKS if each <= most), default=0)
    # uint8 is walked one wide from 12x12 on: 13x13 on 777x1555 takes 18 us, two wide 30 (H200).
    columns = 1 if problem.dtype is DType.UINT8 and rows < NARROW_ROWS else NARROW_COLUMNS
    return [WindowWalk(Order.ROWS, rows, rows, 3, columns, least_blocks=2)] if rows >= 4 else []


def _ways(problem: Filter2d, walks: tuple[tuple[int, int, int], ...]) -> list[WindowWalk]:
    return [
        WindowWalk(Order.ROWS, rows, unroll, prefetch, columns)
        for columns in (_widest(problem), 4, 2, 1)
        for rows, unroll, prefetch in walks
        if unroll == 1 or problem.filter[0] <= TURNS_OF_TWO
    ]


def _effort(problem: Filter2d, walk: WindowWalk, device: Device) -> float:
    """Multiply-adds per multiply-add that a result needs, divided by the share of the device that the warps keep busy.

    Each row above the first window costs half the work of a row below. A narrow thread reads as many halo pixels as a
    wide one.
    """
    work = (walk.rows + (problem.filter[0] - 1) / 2) / walk.rows
    warps = problem.output.size / (32 * walk.columns * walk.rows * device.multiprocessors)
    reads = 1 + problem.filter[1] / (problem.filter[0] * walk.columns)
    return work * reads / min(1.0, warps / (BUSY_WARPS if walk.columns > 1 else NARROW_BUSY_WARPS))


def _widest(problem: Filter2d) -> int:
    """Outputs across that one load or store of 16 bytes covers, at most 8."""
    return 4 if problem.dtype is DType.FLOAT32 else 8


def _likely_walk(problem: Filter2d, method: Method, device: Device) -> WindowWalk:
    rows, columns = problem.filter
    is_literal, wide = problem.weights is not None, _widest(problem)
    if rows <= 3:
        return WindowWalk(Order.ROWS, 4, 4, 1, wide)
    if rows <= 5:
        return WindowWalk(Order.ROWS if is_literal else Order.TAPS, 4, 4, 0, wide)
    if rows <= MEMORY_BOUND:
        return WindowWalk(Order.ROWS, 12, 12, 1, wide)
    match method:
        case Method.SEPARABLE:
            return WindowWalk(Order.ROWS, 128, 8, 7, 2, MemoryPath.ASYNC)
        case Method.WINOGRAD if is_literal:
            return WindowWalk(Order.ROWS, _wave(problem, device, 2, 48, 2), 2, 1, 2)
        case Method.WINOGRAD:
            return WindowWalk(Order.TAPS, _wave(problem, device, 4, 8, 3), 3, 0)
    if is_literal:
        return WindowWalk(Order.ROWS, _wave(problem, device, 4, 16, 2), 2, 1)
    # A turn has two rows if they fit the instruction cache.
    if 16 * rows * columns <= INSTRUCTIONS:
        return WindowWalk(Order.TAPS, _wave(problem, device, 8, 12 if rows <= 9 else 8, 2), 2, 2, 8)
    return WindowWalk(Order.ROWS, _wave(problem, device, 8, 8, 1), 1, 1, 8)


def _wave(problem: Filter2d, device: Device, columns: int, warps: int, unroll: int) -> int:
    """Rows of a walk, in whole turns, with about `warps` warps per SM in a single wave."""
    return ceil(wave(problem, device, 32 * columns, warps) / unroll) * unroll


def wave(problem: Filter2d, device: Device, columns: int, walkers: int) -> int:
    """Rows of a strip, `columns` elements wide, that make about `walkers` strips per SM, which all run at once."""
    across = ceil(problem.output_shape[1] * problem.channels / columns) * problem.planes
    return ceil(problem.output_shape[0] / max(1, walkers * device.multiprocessors // across))
