"""Parameters and constraints of a tile, shared by the operations that transform tiles."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping

from warpsmith.generator.device import Device
from warpsmith.generator.fft.words import Twiddles
from warpsmith.generator.space import Constraint, Parameter, Value
from warpsmith.generator.tiles.radices import (
    GAPS,
    GROUPS,
    INSTRUCTIONS,
    MOST_CORNERS,
    axes_of_columns,
    axes_of_rows,
    idle,
    resident,
)
from warpsmith.generator.tiles.tile import COMPLEX_BYTES, WARP, Axis, TileShape, fitted, turns

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
def likely_values(y: Axis, x: Axis, device: Device, tiles: int = 1) -> tuple[Mapping[str, Value], ...]:
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


def unrolled(y: Axis, x: Axis) -> int:
    """Unrolled multiply-adds of one copy of a tile's passes, forward and backward.

    Other instructions count by the time that they take the compiler.
    """
    corners = x.first * INSTRUCTIONS[y.second] + y.second * (INSTRUCTIONS[x.first] + 4 * x.first)
    return INSTRUCTIONS[y.first] + 4 * y.first + corners + INSTRUCTIONS[x.second]


def tile_constraints(device: Device, tiles: int = 1) -> tuple[Constraint, ...]:
    """Constraints of a block that holds `tiles` tiles in shared memory."""
    limit, whole = device.shared_per_block_bytes, device.shared_per_multiprocessor_bytes

    def room(y_radices: str, x_radices: str, gaps: int) -> int:
        points = Axis.of(y_radices).points * Axis.of(x_radices).points
        return tiles * COMPLEX_BYTES * (points + points * gaps // 100)

    def shape(y_radices: str, x_radices: str, group: int = 1, gaps: int = 0) -> TileShape:
        return TileShape(Axis.of(y_radices), Axis.of(x_radices), group, gaps)

    return (
        Constraint(
            f"a thread transforms at most {MOST_CORNERS} points at once",
            lambda y_radices, x_radices: Axis.of(y_radices).second * Axis.of(x_radices).first <= MOST_CORNERS,
        ),
        Constraint(
            f"a tile with its gaps fits {limit} bytes of shared memory",
            lambda y_radices, x_radices, gaps: room(y_radices, x_radices, gaps) <= limit,
        ),
        Constraint(
            "a group has no more values than the digit", lambda y_radices, group: group <= Axis.of(y_radices).first
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
