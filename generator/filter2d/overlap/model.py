"""What a tile costs, by counting: which sizes and radices are worth trying first.

A pass reads and writes every element of the tile in shared memory, which delivers 128 bytes a clock, and takes so many
float32 instructions, of which a multiprocessor has 128 lanes a clock. Blocks that share a multiprocessor do one while
others do the other. A larger tile wastes fewer results at its edge, and leaves room for fewer blocks.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from math import ceil

from warpsmith.generator.device import Device
from warpsmith.generator.filter2d.overlap.tile import COMPLEX_BYTES, WARP, Axis, TileShape, fitted, turns
from warpsmith.generator.filter2d.problem import Filter2d

LONG = (4, 5, 6, 7, 8, 9, 10, 12, 14, 15, 16, 18, 20, 21, 24, 25, 27, 28, 30, 32)
"""Points of the first and the third pass."""
SHORT = (2, 3, 4, 5, 6, 7, 8)
"""Points of the second one, along each axis."""
MOST_CORNERS = 32
"""And together: a thread holds so many complex numbers."""
INSTRUCTIONS = {
    **{2: 4, 3: 12, 4: 16, 5: 36, 6: 40, 7: 66, 8: 52, 9: 92, 10: 108, 12: 112, 14: 184, 15: 200, 16: 154},
    **{18: 236, 20: 272, 21: 330, 24: 298, 25: 424, 27: 390, 28: 448, 30: 516, 32: 410},
}
"""float32 instructions of a transform within a thread, as nvcc counts them for sm_90."""
_TWIDDLE = 4
"""Of a complex product."""
_TRANSFERS = 8
"""Reads and writes of a tile's element in shared memory: two for each pass but the first and the last, which do one."""
_BESIDE = 6.0
"""Clocks of 128 bytes beside those, for 128 bytes of a tile: pixels, results, the filter's spectrum, twiddles."""
_LANES = 128
"""float32 lanes of a multiprocessor, and bytes that its shared memory delivers at once."""
_OVERHEAD = 1.2
"""Instructions for each that computes: addresses, loads, stores."""
_SINGLE = 1.15
"""What a block alone on a multiprocessor loses besides, while it waits at barriers and for memory."""
GROUPS = (1, 2, 3, 4, 5, 6, 7, 8)
"""Values of the columns' first digit whose rows a warp transforms at a time."""
GAPS = (0, 2, 6, 12)
"""Percent of a tile that may be left out against bank conflicts."""
_LIKELY = 24
"""Sizes of tiles whose bank conflicts are counted."""
_FEW_WARPS = (4, 5, 6, 7, 8)
"""Of a block, for which the model finds out how many of their turns have no work at best."""
RESERVED_BYTES = 1024
"""Shared memory of a block that the system takes (CUDA programming guide, compute capability 8.0 and later)."""


def resident(elements: int, device: Device) -> int:
    """Blocks of so many complex numbers that share a multiprocessor; 0 where not even one fits."""
    nbytes = COMPLEX_BYTES * elements
    if nbytes > device.shared_per_block_bytes:
        return 0
    return max(1, device.shared_per_multiprocessor_bytes // (nbytes + RESERVED_BYTES))


def instructions(y: Axis, x: Axis) -> float:
    """float32 instructions for each point of a tile, forward."""
    turned = sum(_TWIDDLE * (axis.first - 1) / axis.first for axis in (y, x))
    return turned + sum(INSTRUCTIONS[radix] / radix for radix in (y.first, y.second, x.first, x.second))


def clocks(problem: Filter2d, y: Axis, x: Axis, device: Device, conflicts: float = 1.0) -> float:
    """That the whole problem takes, by the model; infinite where a tile does not fit. `conflicts` is how many turns an
    access to shared memory takes.
    """
    points, (r, s) = y.points * x.points, problem.filter
    blocks = resident(points, device)
    if not blocks:
        return float("inf")
    rows, columns = problem.output_shape
    tiles = ceil(rows / (y.points - r + 1)) * ceil(columns / (x.points - s + 1))
    pairs = ceil(tiles / 2) * problem.planes * problem.filters
    arithmetic = (2 * instructions(y, x) + _TWIDDLE) * _OVERHEAD / _LANES
    transfers = (_TRANSFERS * conflicts + _BESIDE) * COMPLEX_BYTES / _LANES
    longer, shorter = max(arithmetic, transfers), min(arithmetic, transfers)
    # Of a few blocks the last round is long; what only one of them does is not hidden.
    waves = max(pairs / (device.multiprocessors * blocks), 1.0)
    rounds = (ceil(waves) + waves) / 2
    busy = 1 - idle(*_busiest(y, x))
    alone = _SINGLE if blocks == 1 else 1.0
    return rounds * blocks * points * (longer + shorter / blocks) * alone / busy


@functools.cache
def axes_of_columns(points: int) -> tuple[Axis, ...]:
    """Ways to take a column of so many points apart: the first pass has the larger radix."""
    return tuple(Axis(long, points // long) for long in LONG if points % long == 0 and points // long in SHORT)


@functools.cache
def axes_of_rows(points: int) -> tuple[Axis, ...]:
    """Ways to take a row of so many points apart: the third pass has the larger radix."""
    return tuple(Axis(axis.second, axis.first) for axis in axes_of_columns(points))


def sizes(problem: Filter2d, axis: int) -> tuple[int, ...]:
    """Points of a tile along an axis that are worth a try: more than the filter has taps by an eighth, and no more than
    the whole result needs, where fewer do.
    """
    taps, results = problem.filter[axis], problem.output_shape[axis]
    every = sorted({a * b for a, b in itertools.product(LONG, SHORT) if a * b >= max(16, taps + taps // 8)})
    enough = next((size for size in every if size >= results + taps - 1), None)
    return tuple(size for size in every if enough is None or size <= enough)


@functools.lru_cache(maxsize=256)
def likely_axes(problem: Filter2d, device: Device) -> tuple[tuple[Axis, Axis], ...]:
    """Rows and columns of tiles that fit, each size once, the quickest first by the model."""
    choices = []
    for rows, columns in itertools.product(sizes(problem, 0), sizes(problem, 1)):
        if resident(rows * columns, device):
            ways = itertools.product(axes_of_columns(rows), axes_of_rows(columns))
            legal = [(y, x) for y, x in ways if y.second * x.first <= MOST_CORNERS]
            if legal:
                choices.append(min(legal, key=lambda each: (instructions(*each), each[0].first, each[1].second)))
    choices.sort(key=lambda each: (clocks(problem, each[0], each[1], device), each[0].points, each[1].points))
    few, others = choices[:_LIKELY], choices[_LIKELY:]
    few.sort(key=lambda each: clocks(problem, each[0], each[1], device, _conflicts(*each, device)))
    return (*few, *others)


@functools.lru_cache(maxsize=4096)
def _busiest(y: Axis, x: Axis) -> tuple[TileShape, int]:
    """The group and the number of warps, of a few, that leave threads the least without work."""
    choices = itertools.product((TileShape(y, x, group, 0) for group in GROUPS if group <= y.first), _FEW_WARPS)
    return min(choices, key=lambda each: idle(*each))


@functools.lru_cache(maxsize=1024)
def _conflicts(y: Axis, x: Axis, device: Device) -> float:
    """Turns of an access, with the gaps for which there is room without losing a block."""
    shape, _ = _busiest(y, x)
    blocks = resident(shape.points, device)
    choices = (dataclasses.replace(shape, gaps=gaps) for gaps in sorted(GAPS, reverse=True))
    widest = next((each for each in choices if resident(each.room, device) == blocks), shape)
    return turns(widest, fitted(widest))


def idle(shape: TileShape, warps: int) -> float:
    """The share of its turns in which a thread has no work, on average over the passes."""
    groups = ceil(shape.groups / warps) * warps / (shape.y.first / shape.group)
    taken = (
        _taken(shape.y.second * shape.x.points, WARP * warps),
        groups * _taken(shape.group * shape.x.second, WARP),
        groups * _taken(shape.group_rows * shape.x.first, WARP),
    )
    return 1 - len(taken) / sum(taken)


def _taken(items: int, threads: int) -> float:
    """How many items' time some take, for each of them."""
    return ceil(items / threads) * threads / items
