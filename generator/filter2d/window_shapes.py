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
"""Most columns of a wide filter of three rows or more that is written out: 3x57 on 3000x3000 takes 95 us, and 88 by a
loop (H200)."""
RING_COLUMNS = {1: 40, 2: 24}
"""Most columns of a wide float32 filter of one row or two that is read from global memory; wider ones are read through
a ring: 1x63 on 3000x3000 takes 40 and 37 us, 2x45 48 and 47 (H200)."""
TALL_COLUMNS = 7
"""Most columns of a tall filter, whose strips are written out."""
TALL_STRIPS = ((4, 8), (2, 16), (2, 12), (1, 16), (2, 8), (1, 12), (1, 8))
"""Outputs across and down of a tall filter's strip, the fastest first, as far as the code is short enough."""
SHORT_ROWS = 12
"""Most rows of a filter whose strips are fastest with four outputs across: 9x5 takes 26 us, with two 29 (H200)."""
SQUARE = 16
"""Most columns, and one less than most rows, of a filter that long walks in a single wave suit."""
THIN_COLUMNS, LDC_COLUMNS = 9, 45
"""Most columns of filters for which a loop does best with eight rows of outputs, and most for which it keeps weights in
uniform registers, so that four rows do better than two."""
BUSY_THREADS = 256
"""Threads per SM below which a shorter strip is likelier."""
_MEMORY_SHARE = 4040 / REFERENCE.memory_bytes_per_ns
"""Share of the memory rate of a copy of 9216x9216 float32 pixels (H200)."""
_START_NS = 3500.0
"""Nanoseconds by which a copy of 9 million pixels takes longer than its bytes (H200)."""
_WRITTEN, _SQUARE, _WIDE_LOOP = 1.8, 1.9, 1.78
"""Time of written-out code, of near-square filters, and of loops with more than LDC_COLUMNS, over that of their
multiply-adds (H200, 3000x3000)."""
_LOOP, _LOOP_ROW = 1.6, 3.2
"""The same for other loops: a constant, and a part in inverse proportion to the columns."""


def shaped_walks(problem: Filter2d, device: Device) -> list[WindowWalk]:
    """Walks of a wide, tall or large filter, likeliest first; empty for others and for banks.

    Walks that leave most of the device empty come last.
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
    outputs = BUSY_THREADS * device.multiprocessors
    return sorted(found, key=lambda walk: problem.output.size < outputs * walk.rows * walk.columns)


def _wide(problem: Filter2d) -> list[WindowWalk]:
    rows, columns = problem.filter
    if rows > 2 and columns > WRITTEN_COLUMNS:
        return _loops(problem)
    pairs = WindowWalk(Order.TAPS, 2, 2, 0, 8 if problem.dtype is not DType.FLOAT32 else 4)
    fours = WindowWalk(Order.ROWS, 4, 4, 0, 4)
    single = WindowWalk(Order.ROWS, 1, 1, 0, 4)
    if problem.dtype is not DType.FLOAT32:
        return [pairs, fours, single]
    if columns > RING_COLUMNS.get(rows, WRITTEN_COLUMNS):
        return [WindowWalk(Order.ROWS, 4, 4, 3, 4, MemoryPath.ASYNC), fours, single]
    # Rows that repeat their alignment after four are loaded by vectors in turns of four.
    return [pairs, fours, single] if rows == 1 and period(row_pitch(problem), 4) <= 2 else [fours, pairs, single]


def _tall(problem: Filter2d) -> list[WindowWalk]:
    rows, columns = problem.filter
    strips = TALL_STRIPS if rows <= SHORT_ROWS else TALL_STRIPS[1:]
    return [
        WindowWalk(Order.ROWS, down, down, 0, across)
        for across, down in strips
        if across * down * rows * columns <= MAX_UNROLLED
    ]


def _loops(problem: Filter2d) -> list[WindowWalk]:
    columns, small = problem.filter[1], WindowWalk(Order.LOOP, 2, 2, 0, 4)
    if columns > LDC_COLUMNS:
        return [WindowWalk(Order.LOOP, 2, 2, 0, 8), small]
    bounded = WindowWalk(Order.LOOP, 4, 4, 0, 8, least_blocks=8, strips=1)
    if columns > THIN_COLUMNS:
        return [bounded, small]
    if problem.dtype is not DType.FLOAT32:
        return [WindowWalk(Order.LOOP, 4, 4, 0, 16), bounded, small]
    return [WindowWalk(Order.LOOP, 8, 8, 0, 8), bounded, small]


def copy_ns(problem: Filter2d, device: Device) -> float:
    """Nanoseconds of a copy of as many bytes as the problem moves."""
    moved = problem.operands[0].span_bytes + problem.output.span_bytes
    return _START_NS + moved / (_MEMORY_SHARE * device.rates.memory_bytes_per_ns)


def window_ns(problem: Filter2d, device: Device) -> float:
    """Nanoseconds that the default of `filter2d_window` takes, on an image that fills the device."""
    columns = problem.filter[1]
    walk = next(iter(shaped_walks(problem, device)), None)
    slowdown = _WRITTEN
    if walk is None and problem.filter[0] > MEMORY_BOUND:
        slowdown = _SQUARE
    elif walk is not None and walk.order is Order.LOOP:
        slowdown = _WIDE_LOOP if columns > LDC_COLUMNS else _LOOP + _LOOP_ROW / columns
    return max(slowdown * problem.flops / 2 / device.rates.multiply_adds_per_ns, copy_ns(problem, device))
