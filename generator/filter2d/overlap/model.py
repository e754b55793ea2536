"""What a tile costs, by counting: which sizes and radices are worth trying first.

A step reads and writes every element of the tile in shared memory, which delivers 128 bytes a clock, and takes so many
float32 instructions, of which a multiprocessor has 128 lanes a clock. Blocks that share a multiprocessor do one while
others do the other. A larger tile wastes fewer results at its edge, and leaves room for fewer blocks.
"""

from __future__ import annotations

import functools
import itertools
from math import ceil

from warpsmith.generator.device import Device
from warpsmith.generator.filter2d.overlap.tile import COMPLEX_BYTES, Axis
from warpsmith.generator.filter2d.problem import Filter2d

RADICES = (4, 5, 6, 7, 8, 9, 10, 12, 14, 15, 16)
"""Points of a transform within a thread."""
_INSTRUCTIONS = {4: 16, 5: 36, 6: 44, 7: 66, 8: 52, 9: 88, 10: 100, 12: 120, 14: 184, 15: 200, 16: 154}
"""float32 instructions of one, as nvcc counts them for sm_90."""
_TWIDDLE = 4
"""Of a complex product."""
_TRANSFERS = 12
"""Reads and writes of a tile's element in shared memory."""
_LANES = 128
"""float32 lanes of a multiprocessor, and bytes that its shared memory delivers at once."""
_OVERHEAD = 1.25
"""Instructions for each that computes: addresses, loads, stores."""
RESERVED_BYTES = 1024
"""Shared memory of a block that the system takes (CUDA programming guide, compute capability 8.0 and later)."""


def resident(elements: int, device: Device) -> int:
    """Blocks of so many complex numbers that share a multiprocessor; 0 where not even one fits."""
    nbytes = COMPLEX_BYTES * elements
    if nbytes > device.shared_per_block_bytes:
        return 0
    return max(1, device.shared_per_multiprocessor_bytes // (nbytes + RESERVED_BYTES))


@functools.cache
def best_axis(points: int) -> Axis | None:
    """The radices of so many points that take the fewest instructions; the even ones among equals."""
    axes = [Axis(first, second) for first, second in itertools.product(RADICES, RADICES) if first * second == points]
    return min(axes, key=lambda axis: (instructions(axis), abs(axis.first - axis.second), axis.first), default=None)


def instructions(axis: Axis) -> float:
    """For each point of a transform of that many points."""
    first = (_INSTRUCTIONS[axis.first] + _TWIDDLE * (axis.first - 1)) / axis.first
    return first + _INSTRUCTIONS[axis.second] / axis.second


def clocks(problem: Filter2d, y: Axis, x: Axis, device: Device) -> float:
    """That the whole problem takes, by the model; infinite where a tile does not fit."""
    points, (r, s) = y.points * x.points, problem.filter
    blocks = resident(points, device)
    if not blocks:
        return float("inf")
    rows, columns = problem.output_shape
    tiles = ceil(rows / (y.points - r + 1)) * ceil(columns / (x.points - s + 1))
    pairs = ceil(tiles / 2) * problem.planes * problem.filters
    arithmetic = (2 * (instructions(y) + instructions(x)) + _TWIDDLE) * _OVERHEAD / _LANES
    transfers = _TRANSFERS * COMPLEX_BYTES / _LANES
    longer, shorter = max(arithmetic, transfers), min(arithmetic, transfers)
    # Of a few blocks the last round is long; what only one of them does is not hidden.
    waves = max(pairs / (device.multiprocessors * blocks), 1.0)
    return ceil(waves) ** 0.5 * waves**0.5 * blocks * points * (longer + shorter / blocks)


def axes_of(problem: Filter2d, axis: int) -> tuple[int, ...]:
    """Points of a tile along an axis that are worth a try: more than the filter has taps by an eighth, and no more than
    the whole result needs, where fewer do.
    """
    taps, results = problem.filter[axis], problem.output_shape[axis]
    sizes = sorted({a * b for a, b in itertools.product(RADICES, RADICES) if a * b >= taps + taps // 8})
    enough = next((size for size in sizes if size >= results + taps - 1), None)
    return tuple(size for size in sizes if enough is None or size <= enough)


@functools.lru_cache(maxsize=256)
def likely_axes(problem: Filter2d, device: Device) -> tuple[tuple[Axis, Axis], ...]:
    """Rows and columns of tiles that fit, the quickest first by the model."""
    choices = [
        (y, x)
        for rows, columns in itertools.product(axes_of(problem, 0), axes_of(problem, 1))
        if (y := best_axis(rows)) and (x := best_axis(columns)) and resident(y.points * x.points, device)
    ]
    return tuple(sorted(choices, key=lambda each: (clocks(problem, *each, device), each[0].points, each[1].points)))
