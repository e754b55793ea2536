"""Search space of `conv2d_depthwise_last` for the gradient of the weights (wgrad)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.sums.depthwise.depthwise_image import MIN_BLOCKS, divisors, powers
from warpsmith.generator.conv2d.sums.depthwise.depthwise_image_geometry import WARP
from warpsmith.generator.conv2d.sums.depthwise.depthwise_weight import MAX_TERMS
from warpsmith.generator.conv2d.sums.depthwise_last.depthwise_last_image_geometry import FLOAT_BYTES
from warpsmith.generator.conv2d.sums.depthwise_last.depthwise_last_image_space import (
    COLUMNS,
    LANES,
    MAX_REGISTERS,
    OTHER_REGISTERS,
    STRIPS,
    THREADS,
)
from warpsmith.generator.conv2d.sums.depthwise_last.depthwise_last_limits import vectors_of
from warpsmith.generator.conv2d.sums.depthwise_last.depthwise_last_weight_geometry import WEIGHT_NAMES, WeightGeometry
from warpsmith.generator.device import Device
from warpsmith.generator.family import MAX_UNROLLED
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value

ROWS = (1, 2, 4)
SPLITS = (1, 2, 3, 4, 6, 8, 11, 16, 22, 32, 44, 66, 88, 132)
"""Blocks per weight. The larger ones fill a GPU of 132 SMs; the last kernel reads as many partial sums one after the
other.
"""
MAX_BLOCK_TAPS = 32
STRIP = ("vector", "columns", "rows", "tap_rows")


def weight_space(problem: Conv2d, device: Device) -> Space:
    (rows, columns), channels = problem.output_size, problem.input[1]
    return Space(
        parameters=(
            Parameter("vector", vectors_of(problem), "channels a thread, which are read at once"),
            Parameter("columns", tuple(each for each in COLUMNS if each <= columns), "columns of y a thread at once"),
            Parameter("rows", tuple(each for each in ROWS if each <= rows), "rows of y a thread at once"),
            Parameter("tap_rows", divisors(problem.weight[2]), "rows of taps a thread"),
            Parameter(
                "lanes", tuple(each for each in LANES if each < 2 * channels), "threads side by side in channels"
            ),
            Parameter("block_taps", _block_taps(problem), "threads side by side in rows of taps"),
            Parameter("members", STRIPS, "threads of a block with the same taps of the same channels"),
            Parameter("splits", _splits(problem), "blocks that share the positions of a weight"),
            Parameter("min_blocks", (1, 2, 3, 4), MIN_BLOCKS),
        ),
        constraints=(*_thread_constraints(problem), *_block_constraints(problem, device)),
    )


def _block_taps(problem: Conv2d) -> tuple[int, ...]:
    """Powers of two with which fewer than half of the threads have no taps."""
    return tuple(each for each in powers(MAX_BLOCK_TAPS) if each < 2 * problem.weight[2])


def _splits(problem: Conv2d) -> tuple[int, ...]:
    """The values of SPLITS whose partial sums fit the workspace; 1 always does."""
    limit = problem.workspace_limit // (FLOAT_BYTES * problem.output.size)
    return tuple(each for each in SPLITS if each == 1 or each <= limit)


def _geometries(problem: Conv2d) -> Callable[..., WeightGeometry]:
    """The geometry of a config as a function of its values in the order of WEIGHT_NAMES."""
    return cache(lambda *values: WeightGeometry.of(problem, Config.of(dict(zip(WEIGHT_NAMES, values, strict=True)))))


def _registers(geometry: Callable[..., WeightGeometry], *strip: Value) -> int:
    return geometry(*strip, 1, 1, 1, 1, 1).registers + OTHER_REGISTERS


def _thread_constraints(problem: Conv2d) -> tuple[Constraint, ...]:
    channels, tap_rows_of_all, geometry = problem.input[1], problem.weight[2], _geometries(problem)
    return (
        Constraint(
            f"at most {MAX_UNROLLED} multiply-adds are written out",
            lambda *strip: geometry(*strip, 1, 1, 1, 1, 1).written <= MAX_UNROLLED,
            STRIP,
        ),
        Constraint(
            f"a thread needs at most {MAX_REGISTERS} registers: sums, gradients, pixels, and {OTHER_REGISTERS} more",
            lambda *strip: _registers(geometry, *strip) <= MAX_REGISTERS or set(strip) == {1},
            STRIP,
        ),
        Constraint(
            f"the {channels} channels have a thread each, and fewer than half of them are idle",
            lambda vector, lanes: lanes * vector < 2 * channels,
        ),
        Constraint(
            f"the {tap_rows_of_all} rows of taps have a thread each, and fewer than half of them are idle",
            lambda tap_rows, block_taps: tap_rows * block_taps < 2 * tap_rows_of_all,
        ),
    )


def _block_constraints(problem: Conv2d, device: Device) -> tuple[Constraint, ...]:
    most_splits, (least, most), geometry = _splits(problem)[-1], THREADS, _geometries(problem)
    return (
        Constraint(
            f"a block has {least} to {most} threads, in whole warps",
            lambda lanes, block_taps, members: (
                least <= lanes * block_taps * members <= most and lanes * block_taps * members % WARP == 0
            ),
        ),
        Constraint(
            "every block has strips for half of its threads, or is the only one",
            lambda columns, rows, members, splits: (
                splits == 1 or members * splits < 2 * geometry(1, columns, rows, 1, 1, 1, 1, 1, 1).all_strips
            ),
        ),
        Constraint(
            f"a thread adds up at most {MAX_TERMS} terms one after the other, where there are others to do so",
            lambda columns, rows, members, splits: (
                splits == most_splits or geometry(1, columns, rows, 1, 1, 1, members, splits, 1).terms <= MAX_TERMS
            ),
        ),
        Constraint(
            f"a multiprocessor has {device.registers_per_multiprocessor} registers for the blocks that it must hold",
            lambda lanes, block_taps, members, min_blocks, *strip: (
                min_blocks
                * lanes
                * block_taps
                * members
                * min(_registers(geometry, *strip), device.limits.registers_per_thread)
                <= device.registers_per_multiprocessor
            ),
            ("lanes", "block_taps", "members", "min_blocks", *STRIP),
        ),
        Constraint(
            f"a row of a block's sums fits {device.shared_per_block_bytes} bytes of shared memory",
            lambda vector, lanes, block_taps, members: (
                geometry(vector, 1, 1, 1, lanes, block_taps, members, 1, 1).shared_bytes
                <= device.shared_per_block_bytes
            ),
        ),
    )
