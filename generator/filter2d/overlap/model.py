"""What a tile costs, by counting: which sizes and radices are worth trying first.

A pass reads and writes every element of the tile in shared memory, and takes so many float32 instructions. Blocks that
share a multiprocessor do one while others do the other. A larger tile wastes fewer results at its edge, and leaves room
for fewer blocks.
"""

from __future__ import annotations

import functools
import itertools
from math import ceil

from warpsmith.generator.device import Device
from warpsmith.generator.filter2d.problem import Filter2d
from warpsmith.generator.rates import REFERENCE
from warpsmith.generator.tiles.radices import (
    TWIDDLE,
    best_axes,
    busiest,
    conflicts,
    idle,
    instructions,
    products,
    resident,
)
from warpsmith.generator.tiles.tile import COMPLEX_BYTES, Axis

CLOCK_SHARE = 1.75 / REFERENCE.cycles_per_ns
"""Share of the boost clock that float32 instructions leave (measured, H200)."""
_TRANSFERS = 8
"""Reads and writes of a tile's element in shared memory: two for each pass but the first and the last, which do one."""
_BESIDE = 6.0
"""Further ones in whose time the rest of a tile is done: pixels, results, the filter's spectrum, twiddles. A guess."""
_OVERHEAD = 1.2
"""Instructions for each that computes: addresses, loads, stores."""
_SINGLE = 1.15
"""What a block alone on a multiprocessor loses besides, while it waits at barriers and for memory. A guess."""
_LIKELY = 48
"""Sizes of tiles that are looked at more closely."""


def nanoseconds(problem: Filter2d, y: Axis, x: Axis, device: Device, turns: float = 1.0, busy: float = 1.0) -> float:
    """That the whole problem takes, by the model; infinite where a tile does not fit.

    Args:
        problem: what is filtered.
        y: radices of a tile's columns.
        x: and of its rows.
        device: what it is filtered on.
        turns: that an access to shared memory takes, 1 without bank conflicts.
        busy: the share of their turns in which threads have work.
    """
    points, (r, s) = y.points * x.points, problem.filter
    blocks = resident(points, device)
    if not blocks:
        return float("inf")
    rows, columns = problem.output_shape
    tiles = ceil(rows / (y.points - r + 1)) * ceil(columns / (x.points - s + 1))
    pairs = ceil(tiles / 2) * problem.planes * problem.filters
    # About half of the way back is left out in columns without results, and two transfers.
    valid = (x.points - s + 1) / x.points
    rates = device.rates.of_multiprocessor(CLOCK_SHARE)
    arithmetic = (instructions(y, x) * (1.5 + valid / 2) + TWIDDLE) * _OVERHEAD / rates.multiply_adds_per_ns
    transfers = ((_TRANSFERS - 2 + 2 * valid) * turns + _BESIDE) * COMPLEX_BYTES / rates.shared_bytes_per_ns
    longer, shorter = max(arithmetic, transfers), min(arithmetic, transfers)
    # Of a few blocks the last round is long; what only one of them does is not hidden.
    waves = max(pairs / (device.multiprocessors * blocks), 1.0)
    rounds = (ceil(waves) + waves) / 2
    alone = _SINGLE if blocks == 1 else 1.0
    return rounds * blocks * points * (longer + shorter / blocks) * alone / busy


def sizes(problem: Filter2d, axis: int) -> tuple[int, ...]:
    """Points of a tile along an axis that are worth a try: more than the filter has taps by an eighth, and no more than
    the whole result needs, where fewer do.
    """
    taps, results = problem.filter[axis], problem.output_shape[axis]
    every = products(max(16, taps + taps // 8))
    enough = next((size for size in every if size >= results + taps - 1), None)
    return tuple(size for size in every if enough is None or size <= enough)


@functools.lru_cache(maxsize=256)
def likely_axes(problem: Filter2d, device: Device) -> tuple[tuple[Axis, Axis], ...]:
    """Rows and columns of tiles that fit, each size once, the quickest first by the model."""
    choices = [
        axes
        for rows, columns in itertools.product(sizes(problem, 0), sizes(problem, 1))
        if resident(rows * columns, device) and (axes := best_axes(rows, columns))
    ]
    choices.sort(key=lambda each: (nanoseconds(problem, each[0], each[1], device), each[0].points, each[1].points))
    few, others = choices[:_LIKELY], choices[_LIKELY:]
    few.sort(key=lambda each: _closer_ns(problem, each[0], each[1], device))
    return (*few, *others)


def _closer_ns(problem: Filter2d, y: Axis, x: Axis, device: Device) -> float:
    """The same with bank conflicts and idle threads, which take longer to count."""
    return nanoseconds(problem, y, x, device, conflicts(y, x, device), 1 - idle(*busiest(y, x)))
