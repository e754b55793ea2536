"""Radices of a tile's axes, what they cost, and the parameters and constraints of a tile that operations share."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Mapping
from math import ceil

from warpsmith.generator.device import Device
from warpsmith.generator.fft.text import Twiddles
from warpsmith.generator.space import Constraint, Parameter, Value
from warpsmith.generator.tiles.tile import COMPLEX_BYTES, WARP, TileAxis, TileShape, fitted, turns

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


def instructions(y: TileAxis, x: TileAxis) -> float:
    """float32 instructions of the forward transform, per point of a tile."""
    twiddled = sum(TWIDDLE * (axis.first - 1) / axis.first for axis in (y, x))
    return twiddled + sum(INSTRUCTIONS[radix] / radix for radix in (y.first, y.second, x.first, x.second))


@functools.cache
def axes_of_columns(points: int) -> tuple[TileAxis, ...]:
    """Splits of a column into two radices: the first pass has one of LONG, the second one of SHORT."""
    return tuple(TileAxis(long, points // long) for long in LONG if points % long == 0 and points // long in SHORT)


@functools.cache
def axes_of_rows(points: int) -> tuple[TileAxis, ...]:
    """Splits of a row into two radices: the second pass has one of SHORT, the third one of LONG."""
    return tuple(TileAxis(axis.second, axis.first) for axis in axes_of_columns(points))


def products(least: int) -> tuple[int, ...]:
    """Numbers of points, from `least` on and ascending, that are a radix of LONG times one of SHORT."""
    return tuple(sorted({a * b for a, b in itertools.product(LONG, SHORT) if a * b >= least}))


@functools.cache
def best_axes(rows: int, columns: int) -> tuple[TileAxis, TileAxis] | None:
    """The radices of a tile that take the fewest instructions.

    None if no split keeps the second pass within MOST_CORNERS points.
    """
    ways = itertools.product(axes_of_columns(rows), axes_of_rows(columns))
    legal = [(y, x) for y, x in ways if y.second * x.first <= MOST_CORNERS]
    return min(legal, key=lambda each: (instructions(*each), each[0].first, each[1].second), default=None)


@functools.lru_cache(maxsize=4096)
def busiest(y: TileAxis, x: TileAxis) -> tuple[TileShape, int]:
    """The group and the warps per block, out of a few, that leave threads idle for the smallest share of iterations."""
    choices = itertools.product((TileShape(y, x, group, 0) for group in GROUPS if group <= y.first), _FEW_WARPS)
    return min(choices, key=lambda each: idle(*each))


@functools.lru_cache(maxsize=1024)
def conflicts(y: TileAxis, x: TileAxis, device: Device) -> float:
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


WARPS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 15, 16, 18, 20, 21, 24, 28, 32)
MANY_WARPS = 15
"""Resident warps per SM that a default aims at."""
OTHER_REGISTERS = 30
"""Registers of a thread besides those that hold its points."""
MOST_IDLE = 0.5
"""Largest share of a warp's loop iterations without work at which a config is legal."""


def tile_parameters(rows: tuple[int, ...], columns: tuple[int, ...]) -> tuple[Parameter, ...]:
    """Parameters of a tile that has one of the sizes `rows` by one of the sizes `columns`."""
    y = tuple(each.text for size in rows for each in axes_of_columns(size))
    x = tuple(each.text for size in columns for each in axes_of_rows(size))
    twiddles = (Twiddles.TABLE.value, Twiddles.POWERS.value)
    return (
        Parameter("y_radices", y, "rows of a tile as two radices, in the order of passes"),
        Parameter("x_radices", x, "columns of a tile, likewise"),
        Parameter("gaps", GAPS, "percent of a tile that may be left out against bank conflicts"),
        Parameter("group", GROUPS, "values of the first digit of rows that a warp transforms at a time"),
        Parameter("warps", WARPS, "warps of a block"),
        Parameter("min_blocks", (0, 2, 3, 4, 6), "blocks a multiprocessor must hold; 0 leaves it open"),
        Parameter("twiddles", twiddles, "all from memory, or some as products"),
    )


@functools.lru_cache(maxsize=64)
def likely_values(y: TileAxis, x: TileAxis, device: Device, tiles: int = 1) -> tuple[Mapping[str, Value], ...]:
    """Values of `tile_parameters` for blocks of `tiles` tiles of this size, the likeliest first; not all are legal."""
    blocks = resident(tiles * y.points * x.points, device)
    found, seen = [], set()
    for gaps, group in itertools.product(GAPS, GROUPS):
        shape = TileShape(y, x, group, gaps)
        layout = fitted(shape)
        if (group, layout) in seen:
            continue  # larger gaps give the same layout
        seen.add((group, layout))
        lost = turns(shape, layout) * (1 if resident(tiles * layout.elements(shape), device) == blocks else 2)
        for warps in WARPS:
            distance = abs(math.log2(warps * blocks / MANY_WARPS))
            cost = lost * (1 + idle(shape, warps)) * (1 + distance / 2)
            values: dict[str, Value] = {"y_radices": y.text, "x_radices": x.text, "gaps": gaps, "group": group}
            values |= {"warps": warps, "min_blocks": 0, "twiddles": Twiddles.TABLE.value}
            found.append((cost, values))
    return tuple(values for _, values in sorted(found, key=lambda each: each[0]))


def unrolled(y: TileAxis, x: TileAxis) -> int:
    """Unrolled multiply-adds of one copy of a tile's passes, forward and backward.

    Other instructions count by the time that they take the compiler.
    """
    corners = x.first * INSTRUCTIONS[y.second] + y.second * (INSTRUCTIONS[x.first] + 4 * x.first)
    return INSTRUCTIONS[y.first] + 4 * y.first + corners + INSTRUCTIONS[x.second]


def tile_constraints(device: Device, tiles: int = 1) -> tuple[Constraint, ...]:
    """Constraints of a block that holds `tiles` tiles in shared memory."""
    limit, whole = device.shared_per_block_bytes, device.shared_per_multiprocessor_bytes

    def room(y_radices: str, x_radices: str, gaps: int) -> int:
        points = TileAxis.of(y_radices).points * TileAxis.of(x_radices).points
        return tiles * COMPLEX_BYTES * (points + points * gaps // 100)

    def shape(y_radices: str, x_radices: str, group: int = 1, gaps: int = 0) -> TileShape:
        return TileShape(TileAxis.of(y_radices), TileAxis.of(x_radices), group, gaps)

    return (
        Constraint(
            f"a thread transforms at most {MOST_CORNERS} points at once",
            lambda y_radices, x_radices: TileAxis.of(y_radices).second * TileAxis.of(x_radices).first <= MOST_CORNERS,
        ),
        Constraint(
            f"a tile with its gaps fits {limit} bytes of shared memory",
            lambda y_radices, x_radices, gaps: room(y_radices, x_radices, gaps) <= limit,
        ),
        Constraint(
            "a group has no more values than the digit", lambda y_radices, group: group <= TileAxis.of(y_radices).first
        ),
        Constraint(
            f"a warp has work in {100 - round(100 * MOST_IDLE)} of 100 turns",
            lambda y_radices, x_radices, group, warps: idle(shape(y_radices, x_radices, group), warps) <= MOST_IDLE,
        ),
        Constraint(
            f"twice its points and {OTHER_REGISTERS} registers a thread fit a multiprocessor of "
            f"{device.registers_per_multiprocessor} so often",
            lambda y_radices, x_radices, warps, min_blocks: (
                (2 * shape(y_radices, x_radices).most_points + OTHER_REGISTERS) * WARP * warps * max(1, min_blocks)
                <= device.registers_per_multiprocessor
            ),
        ),
        Constraint(
            f"a multiprocessor holds {device.threads_per_multiprocessor} threads and {whole} bytes of shared memory",
            lambda y_radices, x_radices, gaps, warps, min_blocks: (
                max(1, min_blocks) * WARP * warps <= device.threads_per_multiprocessor
                and (
                    min_blocks < 2
                    or min_blocks * (room(y_radices, x_radices, gaps) + device.limits.reserved_shared_bytes) <= whole
                )
            ),
        ),
    )
