"""Radices of a tile's axes, their instruction counts, and how many blocks and threads they keep busy."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from math import ceil

from warpsmith.generator.device import Device
from warpsmith.generator.tiles.tile import COMPLEX_BYTES, WARP, Axis, TileShape, fitted, turns

LONG = (4, 5, 6, 7, 8, 9, 10, 12, 14, 15, 16, 18, 20, 21, 24, 25, 27, 28, 30, 32)
"""Radices of the first and the third pass, in points."""
SHORT = (2, 3, 4, 5, 6, 7, 8)
"""Radices of the second pass along each axis, in points."""
MOST_CORNERS = 32
"""Largest product of the second pass's two radices: one thread holds that many complex numbers in registers."""
INSTRUCTIONS = {
    **{2: 4, 3: 12, 4: 16, 5: 36, 6: 44, 7: 66, 8: 54, 9: 88, 10: 108, 12: 112, 14: 184, 15: 200, 16: 156},
    **{18: 244, 20: 272, 21: 330, 24: 301, 25: 424, 27: 436, 28: 448, 30: 516, 32: 420},
}
"""float32 instructions of one transform within a thread, by radix, counted in the code that nvcc 13.0 generates for
sm_90a."""
TWIDDLE = 4
"""float32 instructions of one complex multiplication."""
GROUPS = (1, 2, 3, 4, 5, 6, 7, 8)
"""Values of `group`: how many first digits of the columns have their rows transformed by one warp at a time."""
GAPS = (0, 2, 6, 12)
"""Values of `gaps`: percent of a tile that may be left out against bank conflicts."""
_FEW_WARPS = (4, 5, 6, 7, 8)
"""Warps per block for which the model computes the least share of idle loop iterations."""


def resident(elements: int, device: Device) -> int:
    """Blocks resident on one SM if each holds `elements` complex numbers; 0 if not even one fits."""
    nbytes = COMPLEX_BYTES * elements
    if nbytes > device.shared_per_block_bytes:
        return 0
    return max(1, device.shared_per_multiprocessor_bytes // (nbytes + device.limits.reserved_shared_bytes))


def instructions(y: Axis, x: Axis) -> float:
    """float32 instructions of the forward transform, per point of a tile."""
    turned = sum(TWIDDLE * (axis.first - 1) / axis.first for axis in (y, x))
    return turned + sum(INSTRUCTIONS[radix] / radix for radix in (y.first, y.second, x.first, x.second))


@functools.cache
def axes_of_columns(points: int) -> tuple[Axis, ...]:
    """Splits of a column into two radices: the first pass has one of LONG, the second one of SHORT."""
    return tuple(Axis(long, points // long) for long in LONG if points % long == 0 and points // long in SHORT)


@functools.cache
def axes_of_rows(points: int) -> tuple[Axis, ...]:
    """Splits of a row into two radices: the second pass has one of SHORT, the third one of LONG."""
    return tuple(Axis(axis.second, axis.first) for axis in axes_of_columns(points))


def products(least: int) -> tuple[int, ...]:
    """Numbers of points, from `least` on and ascending, that are a radix of LONG times one of SHORT."""
    return tuple(sorted({a * b for a, b in itertools.product(LONG, SHORT) if a * b >= least}))


@functools.cache
def best_axes(rows: int, columns: int) -> tuple[Axis, Axis] | None:
    """The radices of a tile that take the fewest instructions.

    None if no split keeps the second pass within MOST_CORNERS points.
    """
    ways = itertools.product(axes_of_columns(rows), axes_of_rows(columns))
    legal = [(y, x) for y, x in ways if y.second * x.first <= MOST_CORNERS]
    return min(legal, key=lambda each: (instructions(*each), each[0].first, each[1].second), default=None)


@functools.lru_cache(maxsize=4096)
def busiest(y: Axis, x: Axis) -> tuple[TileShape, int]:
    """The group and the warps per block, out of a few, that leave threads idle for the smallest share of iterations."""
    choices = itertools.product((TileShape(y, x, group, 0) for group in GROUPS if group <= y.first), _FEW_WARPS)
    return min(choices, key=lambda each: idle(*each))


@functools.lru_cache(maxsize=1024)
def conflicts(y: Axis, x: Axis, device: Device) -> float:
    """Wavefronts per shared-memory access (`turns`), with the widest gaps that cost no resident block."""
    shape, _ = busiest(y, x)
    blocks = resident(shape.points, device)
    choices = (dataclasses.replace(shape, gaps=gaps) for gaps in sorted(GAPS, reverse=True))
    widest = next((each for each in choices if resident(each.room, device) == blocks), shape)
    return turns(widest, fitted(widest))


def idle(shape: TileShape, warps: int) -> float:
    """Share of loop iterations in which a thread has no work, averaged over the three passes."""
    groups = ceil(shape.groups / warps) * warps / (shape.y.first / shape.group)
    taken = (
        _taken(shape.y.second * shape.x.points, WARP * warps),
        groups * _taken(shape.group * shape.x.second, WARP),
        groups * _taken(shape.group_rows * shape.x.first, WARP),
    )
    return 1 - len(taken) / sum(taken)


def _taken(items: int, threads: int) -> float:
    """Time of a loop over `items` relative to one without idle threads: `items` rounded up to whole iterations."""
    return ceil(items / threads) * threads / items
