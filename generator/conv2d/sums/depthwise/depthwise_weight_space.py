"""Search space of `conv2d_depthwise` for the gradient of the weights (wgrad)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache
from math import prod

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.sums.depthwise.depthwise_image_geometry import FLOAT_BYTES, WARP
from warpsmith.generator.conv2d.sums.depthwise.depthwise_image_space import (
    COLUMNS,
    MAX_REGISTERS,
    MAX_THREADS,
    MAX_WRITTEN,
    MIN_BLOCKS,
    OTHER_REGISTERS,
    ROWS,
    divisors,
    powers,
)
from warpsmith.generator.conv2d.sums.depthwise.depthwise_tile import round_up
from warpsmith.generator.conv2d.sums.depthwise.depthwise_weight_geometry import WEIGHT_NAMES, WeightGeometry
from warpsmith.generator.device import Device
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value

BLOCK = ("columns", "block_taps", "block_filters", "block_channels", "block_groups", "images", "down")
"""Parameters that determine the number of threads per block."""
IMAGES = (1, 2, 4, 8, 16, 32)
STAGES = (1, 2, 3, 4)
MAX_SPLITS = 64
"""Most blocks per weight; the last kernel reads one partial sum of each, one after the other."""
MAX_TERMS = 8192
"""Most terms that a thread adds up one after the other. A rounding error may be as large as half the last digit of each
sum.
"""


def weight_space(problem: Conv2d, device: Device) -> Space:
    rows, columns = problem.output_size
    images, taps = problem.input[0], problem.weight[2]
    return Space(
        parameters=(
            Parameter("columns", _within(COLUMNS, columns), "columns of y a thread"),
            Parameter("rows", _within(ROWS, rows), "rows of y at once"),
            Parameter("filters", divisors(problem.group_filters), "filters a thread"),
            Parameter("tap_rows", divisors(taps), "rows of taps a thread"),
            Parameter("block_taps", divisors(taps), "threads of a block side by side in rows of taps"),
            Parameter("block_filters", divisors(problem.group_filters), "threads side by side in filters"),
            Parameter("block_channels", divisors(problem.group_channels), "threads side by side in channels"),
            Parameter("block_groups", _dividing(problem.groups), "threads side by side in groups"),
            Parameter("images", tuple(each for each in IMAGES if each < 2 * images), "images at once"),
            Parameter("down", powers(rows), "threads down a band of y"),
            Parameter("bands", _bands(rows), "parts of a plane from top to bottom, one by one"),
            Parameter("splits", _splits(problem), "blocks that share the images of a weight"),
            Parameter("stages", STAGES, "buffers of tiles: all but one are copied meanwhile"),
            Parameter("min_blocks", (1, 2, 3, 4), MIN_BLOCKS),
        ),
        constraints=(*_thread_constraints(problem), *_block_constraints(problem, device)),
    )


def smallest_weight(space: Space) -> Config | None:
    """The config that takes least memory: a block has a row or two of one channel. None if even that is too much."""
    values = {each.name: each.values for each in space.parameters}
    wanted = {name: each[0] for name, each in values.items()}
    wanted |= {"bands": values["bands"][-1]}
    choices = itertools.product(reversed(values["splits"]), values["columns"])
    configs = (Config.of({**wanted, "splits": splits, "columns": columns}) for splits, columns in choices)
    return next((config for config in configs if space.contains(config)), None)


def _within(values: tuple[int, ...], count: int) -> tuple[int, ...]:
    """The values that do not exceed `count`: a thread does not reach beyond its line."""
    return tuple(each for each in values if each <= count)


def _dividing(groups: int) -> tuple[int, ...]:
    """Powers of two that divide the number of groups."""
    return tuple(each for each in powers(min(groups, MAX_THREADS)) if groups % each == 0)


def _bands(rows: int) -> tuple[int, ...]:
    """Powers of two for which no band lies within the one before."""
    return tuple(each for each in powers(rows) if (each - 1) * -(-rows // each) < rows)


def _splits(problem: Conv2d) -> tuple[int, ...]:
    """Powers of two; only 1 if the workspace has no room for more."""
    most = min(MAX_SPLITS, problem.input[0] * problem.output_size[0])
    limit = problem.workspace_limit // (FLOAT_BYTES * problem.output.size)
    return tuple(each for each in powers(most) if each == 1 or each <= limit)


def _thread_constraints(problem: Conv2d) -> tuple[Constraint, ...]:
    all_rows, all_columns = problem.output_size
    _, channels, taps, tap_columns = problem.weight
    filters_of_group = problem.group_filters
    return (
        Constraint(
            f"threads across have fewer than 1.5 times the {all_columns} columns of y",
            lambda columns: 2 * (-(-all_columns // columns) * columns) < 3 * all_columns,
        ),
        Constraint(
            f"at most {MAX_WRITTEN} multiply-adds are written out, or one position's of a row of taps",
            lambda columns, rows, filters, tap_rows: (
                columns * rows * filters * tap_rows == 1
                or columns * rows * filters * tap_rows * tap_columns <= MAX_WRITTEN
            ),
        ),
        Constraint(
            f"{taps} rows of taps are whole threads and blocks",
            lambda tap_rows, block_taps: taps % (tap_rows * block_taps) == 0,
        ),
        Constraint(
            f"{filters_of_group} filters and {channels} channels of a group are whole threads and blocks",
            lambda filters, block_filters: filters_of_group % (filters * block_filters) == 0,
        ),
        Constraint(
            f"a band of the {all_rows} rows of y is no larger than they are, and no smaller than a thread's",
            lambda rows, bands: rows <= -(-all_rows // bands),
        ),
        Constraint(
            "every thread down a band has rows of it",
            lambda rows, bands, down: bands * down * rows < all_rows + bands * rows,
        ),
    )


def _block_constraints(problem: Conv2d, device: Device) -> tuple[Constraint, ...]:
    all_images, (rows, columns) = problem.input[0], problem.output_size

    def threads(columns_of_thread: int, *others: int) -> int:
        return round_up(-(-columns // columns_of_thread) * prod(others), WARP)

    def terms(bands: int, columns: int, down: int, images: int, splits: int) -> int:
        steps = -(-all_images // images) * bands
        return -(-steps // splits) * columns * -(-rows // (bands * down))

    most_splits = _splits(problem)[-1]
    return (
        Constraint(
            f"a block has at most {MAX_THREADS} threads",
            lambda *values: threads(*values) <= MAX_THREADS,
            BLOCK,
        ),
        Constraint(
            f"splits share {all_images} images, or bands of them, and none is idle",
            lambda images, bands, splits: splits <= -(-all_images // images) * bands,
        ),
        Constraint(
            f"a thread adds up at most {MAX_TERMS} terms one after the other, where there are other blocks to do so",
            lambda bands, columns, down, images, splits: (
                splits == most_splits or terms(bands, columns, down, images, splits) <= MAX_TERMS
            ),
        ),
        Constraint(
            "each stage needs a step",
            lambda images, bands, splits, stages: (stages - 1) * splits < -(-all_images // images) * bands,
        ),
        *_memory_constraints(problem, device, threads),
    )


def _memory_constraints(problem: Conv2d, device: Device, threads: Callable[..., int]) -> tuple[Constraint, ...]:
    """Constraints on registers and shared memory; `threads` computes the threads per block from the values of BLOCK."""

    @cache
    def geometry(*values: Value) -> WeightGeometry:
        return WeightGeometry.of(problem, Config.of(dict(zip(WEIGHT_NAMES, values, strict=True))))

    def registers(columns: int, rows: int, filters: int, tap_rows: int) -> int:
        return geometry(columns, rows, filters, tap_rows, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1).registers + OTHER_REGISTERS

    return (
        Constraint(
            f"a thread needs at most {MAX_REGISTERS} registers: its sums, gradients, a row of its window, and "
            f"{OTHER_REGISTERS} more",
            lambda columns, rows, filters, tap_rows: (
                columns * rows * filters * tap_rows == 1 or registers(columns, rows, filters, tap_rows) <= MAX_REGISTERS
            ),
        ),
        Constraint(
            f"a multiprocessor has {device.registers_per_multiprocessor} registers for the blocks that it must hold",
            lambda rows, filters, tap_rows, min_blocks, columns, *block: (
                min_blocks
                * threads(columns, *block)
                * min(registers(columns, rows, filters, tap_rows), device.limits.registers_per_thread)
                <= device.registers_per_multiprocessor
            ),
            ("rows", "filters", "tap_rows", "min_blocks", *BLOCK),
        ),
        Constraint(
            f"a block's tiles, and its sums, fit {device.shared_per_block_bytes} bytes of shared memory",
            lambda *values: geometry(*values).shared_bytes <= device.shared_per_block_bytes,
            WEIGHT_NAMES,
        ),
    )
