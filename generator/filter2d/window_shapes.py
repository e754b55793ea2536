"""Likely walks of filters that are wide, tall or too large to be written out, and the time that the likeliest takes.

A wide filter reads many pixels a row for few outputs, so that few rows a thread, each loaded when it is needed, leave
room in the L1 cache for the rows of all warps. A tall one has strips of a single turn, whose code the compiler writes
out for the outputs of the strip alone. Where that is too much code, a loop goes down the rows under the strip.
"""

from __future__ import annotations

from warpsmith.generator.device import REFERENCE, Device
from warpsmith.generator.family import MAX_UNROLLED
from warpsmith.generator.filter2d.problem import Filter2d
from warpsmith.generator.filter2d.text import MemoryPath, row_pitch
from warpsmith.generator.filter2d.window_geometry import Order, period
from warpsmith.generator.filter2d.window_walks import MEMORY_BOUND, WindowWalk
from warpsmith.generator.problem import DType

WIDE = 9
"""Most columns of a filter that is not wide."""
WRITTEN_COLUMNS = 31
"""Most columns of a wide filter of three rows or more (four, if pixels are not float32) that is written out: 3x57 on
3000x3000 takes 95 us, and 88 by a loop (H200)."""
RING_COLUMNS = {1: 36, 2: 24}
"""Most columns of a wide float32 filter of one row or two that is read from global memory; wider ones are read through
a ring: 1x63 on 3000x3000 takes 40 and 37 us, 2x45 48 and 47 (H200)."""
TALL_COLUMNS = 7
"""Most columns of a tall filter, whose strips are written out."""
TALL_STRIPS = ((4, 8, 2600), (2, 16, 2400), (2, 12, 2400), (2, 8, 3300), (1, 12, 2700), (1, 8, MAX_UNROLLED))
"""Outputs across and down of a tall filter's strip, the fastest first, and most multiply-adds for which it is that:
31x3 on 3000x3000 takes 48, 46, 46 and 46 us with 2 x 16, 2 x 12, 2 x 8 and 1 x 8 outputs, 31x5 67 us with 2 x 8 and 75
with 1 x 16 (H200)."""
SMALL_STRIPS = ((1, 16), (1, 12), (1, 8))
"""Strips for images that wider ones do not fill."""
SHORT_ROWS = 12
"""Most rows of a filter whose strips are fastest with four outputs across: 9x5 takes 26 us, with two 29 (H200)."""
SQUARE = 16
"""Most columns, and one less than most rows, of a filter that long walks in a single wave suit."""
THIN_COLUMNS, UNIFORM_COLUMNS, HALF_COLUMNS = 9, 59, 28
"""Most columns of float32 filters for which a loop does best with eight rows of outputs, and with a bound on registers;
most columns of others for which it does best with four rows."""
LOW = 8
"""Most rows of a filter whose narrow loops do best with two rows of outputs: 6x35 with fp16 on rows of 3321 takes 93 us
by two rows of eight outputs, 121 by two of sixteen (H200). Loops are narrow (eight outputs across, not sixteen) for 10
to HALF_COLUMNS columns (58x26 takes 363 and 518 us, 54x21 432 and 491), and where rows begin at odd elements (36x51 822
and 913)."""
HIGH = 20
"""Most rows of a filter of 16-bit or 8-bit pixels for which loops do best in blocks of four strips of a warp. For more
rows, eight take 0.92 of the time of two strips of two warps in the mean of 12 filters, 0.78 to 1.02; four take 0.96 in
the mean of 18 filters of any height (H200)."""
WIDE_THREADS, BUSY_THREADS = 256, 128
"""Threads per SM below which a shorter strip is likelier, for wide filters and for others: 1x31 on 512x512 takes 4.2 us
by strips of two rows and 3.4 by one; 31x7 10.5 us by twelve and 14.7 by eight (H200)."""
_MEMORY_SHARE = 4040 / REFERENCE.memory_bytes_per_ns
"""Share of the memory rate of a copy of 9216x9216 float32 pixels (H200)."""
_START_NS = 3500.0
"""Nanoseconds by which a copy of 9 million pixels takes longer than its bytes (H200)."""
_WRITTEN, _SQUARE = 1.8, 2.2
"""Time of written-out code and of near-square filters over that of their multiply-adds (H200, 3000x3000)."""
_SMALL = 1.0e6
"""Outputs of an image for which near-square filters take twice as long as its multiply-adds say, since strips of few
rows read most rows twice: 15x15 on 777x1555 takes 1.7 times as long, 13x13 on 1080x1920 1.4 times (H200)."""
_LOOP, _LOOP_COLUMN, _LOOP_ROW = 1.65, 3.2, 1.0
"""The same for loops: a constant, and parts in inverse proportion to the filter's columns and to its rows."""


SHORT_LOOPS = tuple(WindowWalk(Order.LOOP, rows, rows, 0, columns) for rows, columns in ((2, 4), (1, 4), (1, 1)))
"""Loops whose code is short whatever the filters: the last one is legal if any walk of a bank is."""


def shaped_walks(problem: Filter2d, device: Device) -> list[WindowWalk]:
    """Walks of a wide, tall or large filter, likeliest first; empty for others and for banks.

    Walks that leave much of the device idle come last, those with fewest outputs a thread first.
    """
    if problem.filters > 1:
        return []
    rows, columns = problem.filter
    if rows > MEMORY_BOUND:
        found = _tall(problem) if columns <= TALL_COLUMNS else []
        if not found and columns <= SQUARE and rows <= SQUARE + 1:
            return []
        found += _loops(problem)
    elif rows == 1 or columns > WIDE:
        found = _wide(problem)
    else:
        return []
    threads = (BUSY_THREADS if rows > MEMORY_BOUND else WIDE_THREADS) * device.multiprocessors

    def idle(walk: WindowWalk) -> int:
        """Outputs of a thread if they leave much of the device idle, else 0."""
        outputs = walk.rows * walk.columns
        return outputs if problem.output.size < threads * outputs else 0

    return sorted(found, key=idle)


def _wide(problem: Filter2d) -> list[WindowWalk]:
    (rows, columns), is_float32 = problem.filter, problem.dtype is DType.FLOAT32
    if rows > (2 if is_float32 else 3) and columns > WRITTEN_COLUMNS:
        return _loops(problem)
    pairs = WindowWalk(Order.TAPS, 2, 2, 0, 4 if is_float32 else 8)
    fours = WindowWalk(Order.ROWS, 4, 4, 0, 4)
    single = WindowWalk(Order.ROWS, 1, 1, 0, 4)
    if not is_float32:
        return [pairs, fours, single]
    if columns > RING_COLUMNS.get(rows, WRITTEN_COLUMNS):
        return [WindowWalk(Order.ROWS, 4, 4, 3, 4, MemoryPath.ASYNC), fours, single]
    # Rows that repeat their alignment after four are loaded by vectors in turns of four.
    return [pairs, fours, single] if rows == 1 and period(row_pitch(problem), 4) <= 2 else [fours, pairs, single]


def _tall(problem: Filter2d) -> list[WindowWalk]:
    rows, columns = problem.filter
    strips = TALL_STRIPS if rows <= SHORT_ROWS else TALL_STRIPS[1:]
    taps = rows * columns
    fast = [(across, down) for across, down, most in strips if across * down * taps <= most]
    few = [(across, down) for across, down in SMALL_STRIPS if across * down * taps <= MAX_UNROLLED]
    return [WindowWalk(Order.ROWS, down, down, 0, across) for across, down in dict.fromkeys((*fast, *few))]


def _loops(problem: Filter2d) -> list[WindowWalk]:
    rows, columns = problem.filter
    others = [
        WindowWalk(Order.LOOP, 4, 4, 0, 8, strips=8, block_columns=32),
        WindowWalk(Order.LOOP, 2, 2, 0, 4),
        WindowWalk(Order.LOOP, 1, 1, 0, 1),
    ]
    if problem.dtype is not DType.FLOAT32:
        is_narrow = THIN_COLUMNS < columns <= HALF_COLUMNS or row_pitch(problem) % 2 == 1
        is_short = columns > HALF_COLUMNS and (not is_narrow or rows <= LOW)
        down, across, strips = 2 if is_short else 4, 8 if is_narrow else 16, 8 if rows > HIGH else 4
        return [WindowWalk(Order.LOOP, down, down, 0, across, strips=strips, block_columns=32), *others]
    if columns <= THIN_COLUMNS:
        return [WindowWalk(Order.LOOP, 8, 8, 0, 8), *others]
    bounded = WindowWalk(Order.LOOP, 4, 4, 0, 8, least_blocks=8, strips=1)
    return [bounded, *others] if columns <= UNIFORM_COLUMNS else others


def copy_ns(problem: Filter2d, device: Device) -> float:
    """Nanoseconds of a copy of as many bytes as the problem moves."""
    moved = problem.operands[0].span_bytes + problem.output.span_bytes
    return _START_NS + moved / (_MEMORY_SHARE * device.rates.memory_bytes_per_ns)


def window_ns(problem: Filter2d, device: Device) -> float:
    """Nanoseconds that the default of `filter2d_window` takes."""
    walk = next(iter(shaped_walks(problem, device)), None)
    slowdown = _WRITTEN
    if walk is None and problem.filter[0] > MEMORY_BOUND:
        slowdown = _SQUARE * (1 + _SMALL / problem.output.size)
    elif walk is not None and walk.order is Order.LOOP:
        slowdown = _LOOP + _LOOP_COLUMN / problem.filter[1] + _LOOP_ROW / problem.filter[0]
    return max(slowdown * problem.flops / 2 / device.rates.multiply_adds_per_ns, copy_ns(problem, device))
