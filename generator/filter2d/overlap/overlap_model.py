"""Cost model of `filter2d_overlap_save`: which tile sizes and radices are worth trying first.

A pass reads and writes every element of the tile in shared memory, and executes float32 instructions. Blocks that share
an SM overlap one with the other. A larger tile wastes fewer results at its edge, and leaves room for fewer blocks.
"""

from __future__ import annotations

import functools
import itertools
from math import ceil

from warpsmith.generator.device import REFERENCE, Device
from warpsmith.generator.filter2d.problem import Filter2d
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
"""Accesses to an element in shared memory: two for each pass, but one for the first and for the last pass."""
_BESIDE = 6.0
"""Accesses besides those, in whose time the rest of a tile is done: pixels, results, the filter's spectrum, twiddles. A
guess.
"""
_OVERHEAD = 1.2
"""Instructions for each computing one: addresses, loads, stores."""
_SINGLE = 1.15
"""Slowdown of a single block on an SM, which waits at barriers and for memory. A guess."""
_LIKELY = 48
"""Tile sizes whose cost is also counted with bank conflicts and idle threads."""


def nanoseconds(problem: Filter2d, y: Axis, x: Axis, device: Device, turns: float = 1.0, busy: float = 1.0) -> float:
    """Nanoseconds that the whole problem takes by the model; infinite if a tile does not fit.

    Args:
        problem: filter problem.
        y: radices of a tile's columns.
        x: radices of a tile's rows.
        device: device that filters.
        turns: wavefronts per access to shared memory, 1 without bank conflicts.
        busy: share of loop iterations in which threads have work.
    """
    points, (r, s) = y.points * x.points, problem.filter
    blocks = resident(points, device)
    if not blocks:
        return float("inf")
    rows, columns = problem.output_shape
    tiles = ceil(rows / (y.points - r + 1)) * ceil(columns / (x.points - s + 1))
    pairs = ceil(tiles / 2) * problem.planes * problem.filters
    # Columns without results save about half of the arithmetic of the inverse, and two accesses.
    valid = (x.points - s + 1) / x.points
    rates = device.rates.of_multiprocessor(CLOCK_SHARE)
    arithmetic = (instructions(y, x) * (1.5 + valid / 2) + TWIDDLE) * _OVERHEAD / rates.multiply_adds_per_ns
    transfers = ((_TRANSFERS - 2 + 2 * valid) * turns + _BESIDE) * COMPLEX_BYTES / rates.shared_bytes_per_ns
    longer, shorter = max(arithmetic, transfers), min(arithmetic, transfers)
    # The last round of few blocks is long. Only one block's part of the shorter time is not hidden.
    waves = max(pairs / (device.multiprocessors * blocks), 1.0)
    rounds = (ceil(waves) + waves) / 2
    alone = _SINGLE if blocks == 1 else 1.0
    return rounds * blocks * points * (longer + shorter / blocks) * alone / busy


def sizes(problem: Filter2d, axis: int) -> tuple[int, ...]:
    """Points of a tile along an axis that are worth a try.

    They exceed the filter's taps by an eighth at least. The largest is the smallest size that holds the whole result.
    """
    taps, results = problem.filter[axis], problem.output_shape[axis]
    every = products(max(16, taps + taps // 8))
    enough = next((size for size in every if size >= results + taps - 1), None)
    return tuple(size for size in every if enough is None or size <= enough)


@functools.lru_cache(maxsize=256)
def likely_axes(problem: Filter2d, device: Device) -> tuple[tuple[Axis, Axis], ...]:
    """Rows and columns of tiles that fit, each size once, the fastest first by the model."""
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
    """Nanoseconds with bank conflicts and idle threads, which take longer to count."""
    return nanoseconds(problem, y, x, device, conflicts(y, x, device), 1 - idle(*busiest(y, x)))
