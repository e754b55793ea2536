"""The image side of `conv2d_direct` (fprop, dgrad): search space, default config and program."""

from __future__ import annotations

import dataclasses
from math import prod

from warpsmith.generator.architectures import STATIC_SHARED_BYTES
from warpsmith.generator.conv2d.layer.axes import axes_of
from warpsmith.generator.conv2d.layer.fold import PADDED, Fold, folds
from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.sided_family import LayerSide
from warpsmith.generator.conv2d.layer.text import Conv2dText, conv2d_arguments, text_key
from warpsmith.generator.conv2d.sums.direct_image_geometry import (
    MAX_LOADS,
    MAX_WRITTEN,
    NAME,
    DirectImageGeometry,
    Path,
    Spacing,
    Written,
    channels_of,
    shared_bytes,
)
from warpsmith.generator.device import Device
from warpsmith.generator.program import Launch, Pointer, Program
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value

MAX_TAPS = 128
"""Most taps in a filter row, which is always unrolled."""
MAX_PHASES = 64
"""Most phases of a strided dgrad; each has its own code."""
MAX_SUMS = 64
"""Most sums per thread, a register each; more leave an SM too few threads to hide its loads."""
MIN_SUMS = 4
"""Fewest sums per thread, if there is enough work."""
OTHER_REGISTERS = 40
"""Registers per thread beside its sums: pixels, weights, addresses. Of 120 random configs of a 3x3 layer of 64
channels, ptxas spilled registers in 9, at most 56 bytes.
"""
MIN_THREADS, MAX_THREADS, DEFAULT_THREADS = 128, 512, 256
SECTOR_PIXELS = 8
"""Pixels in a 32-byte sector, which memory delivers at once."""
BLOCK_COLUMNS, BLOCK_ROWS, BLOCK_FILTERS = (1, 2, 4, 8, 16, 32), (1, 2, 4, 8, 16), (1, 2, 4, 8, 16, 32, 64)
FILTERS, ROWS, COLUMNS, CHANNELS = (1, 2, 4, 8, 16), (1, 2, 4), (1, 2, 4), (1, 2, 4)


def image_space(problem: Conv2d, device: Device) -> Space:
    paths = tuple(each.value for each in Path)
    return Space(
        parameters=(
            Parameter("filters", FILTERS, "channels of the result a thread"),
            Parameter("rows", ROWS, "rows of the result a thread"),
            Parameter("columns", COLUMNS, "and columns"),
            Parameter("block_columns", BLOCK_COLUMNS, "threads across a block"),
            Parameter("block_rows", BLOCK_ROWS, "threads down a block"),
            Parameter("block_filters", BLOCK_FILTERS, "threads of a block side by side in channels of the result"),
            Parameter("channels", CHANNELS, "channels of the source in each round of the loop"),
            Parameter(
                "spacing", tuple(each.value for each in Spacing), "where the columns of a thread lie in its block"
            ),
            Parameter("min_blocks", (0, 2), "blocks a multiprocessor must hold; 0 leaves it open"),
            Parameter("pixels", paths, "where pixels are read from"),
            Parameter("weights", paths, "where weights are read from"),
        ),
        constraints=(
            *_thread_constraints(problem),
            *_block_constraints(problem),
            *_device_constraints(problem, device),
        ),
    )


def image_default(problem: Conv2d, device: Device) -> Config:
    """Eight channels by four pixels per thread, or what fits: a pixel is read once for eight channels, a weight for
    four pixels. The four pixels lie in a row if rows are long, otherwise in a column.

    Blocks are as wide as the image if that is narrow, since threads beside it have nothing to do.
    """
    axes, (summed, channels) = axes_of(problem), channels_of(problem)
    down, across = axes
    filters = _at_most(FILTERS, min(channels, 8))
    columns = _at_most(COLUMNS, min(max(across.steps // 8, 1), 4))
    rows = _at_most(ROWS, min(4 // columns, down.steps))
    spacing = Spacing.APART if columns > 1 else Spacing.ADJACENT
    rounds = (each for each in reversed(CHANNELS) if each <= summed)
    short = (
        each
        for each in rounds
        if Written.of(axes, filters, rows, columns, each, apart=spacing is Spacing.APART).unrolls_rows
    )
    block_columns = min(_covering(BLOCK_COLUMNS, -(-across.steps // columns)), 32)
    block_rows = _covering(BLOCK_ROWS, min(-(-down.steps // rows), DEFAULT_THREADS // block_columns))
    filters_left = min(-(-channels // filters), DEFAULT_THREADS // (block_columns * block_rows))
    wanted: dict[str, Value] = {
        "filters": filters,
        "rows": rows,
        "columns": columns,
        "block_columns": block_columns,
        "block_rows": block_rows,
        "block_filters": _covering(BLOCK_FILTERS, max(filters_left, 1)),
        "channels": next(short, 1),
        "spacing": spacing.value,
        "min_blocks": 0,
        "pixels": Path.GLOBAL.value,
        "weights": Path.SHARED.value,
    }
    return image_space(problem, device).like(wanted) or Config.of(wanted)


def _at_most(values: tuple[int, ...], most: int) -> int:
    """The largest value that is not more than `most`."""
    return max(value for value in values if value <= most)


def _covering(values: tuple[int, ...], count: int) -> int:
    """The smallest value that is not less than `count`, or the largest of all."""
    return next((value for value in values if value >= count), values[-1])


def _thread_constraints(problem: Conv2d) -> tuple[Constraint, ...]:
    axes, (summed, results) = axes_of(problem), channels_of(problem)
    down, across = axes
    # Halving the remainder of each axis leads to a block of MIN_THREADS threads with MIN_SUMS sums each.
    room = _at_most(BLOCK_FILTERS, results) * _at_most(BLOCK_ROWS, down.steps) * _at_most(BLOCK_COLUMNS, across.steps)
    # A thread reads little more for four adjacent columns than for one.
    is_short = Written.of(axes, 1, 1, MIN_SUMS, 1, apart=False).is_short
    least = MIN_SUMS if is_short and room >= MIN_SUMS * MIN_THREADS else 1
    return (
        Constraint(
            f"a thread larger than a phase of the result ({results} channels, {down.steps} rows, {across.steps} "
            "columns) has sums to spare",
            lambda filters, rows, columns: (
                filters < 2 * results and rows < 2 * down.steps and columns < 2 * across.steps
            ),
        ),
        Constraint(
            "one column a thread has no spacing; several have both",
            lambda columns, spacing: columns > 1 or spacing == Spacing.ADJACENT,
        ),
        Constraint(
            f"a thread has at most {MAX_SUMS} sums: more leave too few threads to hide the loads",
            lambda filters, rows, columns: filters * rows * columns <= MAX_SUMS,
        ),
        Constraint(
            f"a thread has {least} sums at the least: what is read for fewer is used too seldom",
            lambda filters, rows, columns: filters * rows * columns >= least,
        ),
        Constraint(f"the loop goes through {summed} channels", lambda channels: channels <= summed),
        Constraint(
            f"at most {MAX_WRITTEN} multiply-adds and {MAX_LOADS} reads of pixels are written out, or one result",
            lambda filters, rows, columns, channels, spacing: (
                filters * rows * columns * channels == 1
                or Written.of(axes, filters, rows, columns, channels, apart=spacing == Spacing.APART).is_short
            ),
        ),
    )


def _block_constraints(problem: Conv2d) -> tuple[Constraint, ...]:
    (down, across), (_, results) = axes_of(problem), channels_of(problem)
    whole = [_covering(BLOCK_COLUMNS, across.steps), _covering(BLOCK_ROWS, down.steps)]
    least = min(MIN_THREADS, prod([*whole, _covering(BLOCK_FILTERS, results)]))
    return (
        Constraint(
            "every row, column and channel of a block has a thread with work",
            lambda filters, rows, columns, block_columns, block_rows, block_filters: (
                block_columns < 2 * -(-across.steps // columns)
                and block_rows < 2 * -(-down.steps // rows)
                and block_filters < 2 * -(-results // filters)
            ),
        ),
        Constraint(
            f"a row of threads has {SECTOR_PIXELS} pixels or the whole row: memory gives {SECTOR_PIXELS} at once",
            lambda columns, block_columns: columns * block_columns >= min(SECTOR_PIXELS, across.steps),
        ),
        Constraint(
            f"a block has {least} to {MAX_THREADS} threads: fewer leave the multiprocessor empty, more leave it no "
            "choice",
            lambda block_columns, block_rows, block_filters: (
                least <= block_columns * block_rows * block_filters <= MAX_THREADS
            ),
        ),
    )


def _device_constraints(problem: Conv2d, device: Device) -> tuple[Constraint, ...]:
    axes = axes_of(problem)
    return (
        Constraint(
            f"a multiprocessor has {device.registers_per_multiprocessor} registers, of which a thread needs one a sum "
            f"and {OTHER_REGISTERS} more",
            lambda filters, rows, columns, block_columns, block_rows, block_filters, min_blocks: (
                (filters * rows * columns + OTHER_REGISTERS)
                * block_columns
                * block_rows
                * block_filters
                * max(min_blocks, 1)
                <= device.registers_per_multiprocessor
            ),
        ),
        Constraint(
            f"a multiprocessor holds {device.threads_per_multiprocessor} threads",
            lambda block_columns, block_rows, block_filters, min_blocks: (
                block_columns * block_rows * block_filters * max(min_blocks, 1) <= device.threads_per_multiprocessor
            ),
        ),
        Constraint(
            f"a kernel declares at most {STATIC_SHARED_BYTES} bytes of shared memory",
            lambda filters, rows, columns, block_columns, block_rows, block_filters, channels, pixels, weights: (
                shared_bytes(
                    axes,
                    filters * block_filters,
                    rows * block_rows,
                    columns * block_columns,
                    channels,
                    pixels=pixels,
                    weights=weights,
                )
                <= STATIC_SHARED_BYTES
            ),
        ),
    )


class DirectImages(LayerSide):
    """fprop and dgrad. If the padding repeats pixels, dgrad is solved for the padded image."""

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        if (taps := problem.weight[3]) > MAX_TAPS:
            return f"writes out the taps of a filter's row, {MAX_TAPS} of them at the most; this one has {taps}"
        if folds(problem) and (nbytes := _fold(problem).workspace.nbytes) > problem.workspace_limit:
            return f"the gradient of the padded images takes {nbytes} bytes of workspace"
        row_axis, column_axis = axes_of(_summed(problem))
        phases = len(row_axis.phases) * len(column_axis.phases)
        if phases > MAX_PHASES:
            return f"writes out every phase of a stride, {MAX_PHASES} of them at the most; this one has {phases}"
        return None

    def space(self, problem: Conv2d, device: Device) -> Space:
        return image_space(_summed(problem), device)

    def default(self, problem: Conv2d, device: Device) -> Config:
        return image_default(_summed(problem), device)

    def unrolled(self, problem: Conv2d, config: Config) -> int:
        return DirectImageGeometry.of(_summed(problem), config).written.multiply_adds

    def program(self, problem: Conv2d, config: Config) -> Program:
        image = DirectImageGeometry.of(_summed(problem), config)
        end = dataclasses.replace(Conv2dText.of(_summed(problem)), key=text_key(problem))
        fold = _fold(problem) if folds(problem) else None
        text = end if fold is None else end.writing_float()
        source = render("conv2d/direct_image.cu.jinja", p=text, end=end, g=image, fold=fold, config=config.key())
        block = (image.block_columns, image.block_rows, image.block_filters)
        launch = Launch(NAME, (image.blocks, 1, 1), block, conv2d_arguments(problem))
        if fold is None:
            return Program.of_source(NAME, config, source, (launch,))
        source_of, weights, *biases, target = conv2d_arguments(problem)
        launch = dataclasses.replace(launch, arguments=(source_of, weights, Pointer(PADDED)))
        folding = fold.launch(target, biases=tuple(biases))
        return Program.of_source(NAME, config, source, (launch, folding), (fold.workspace,))


def _summed(problem: Conv2d) -> Conv2d:
    """The layer whose sum is computed: on padded images if their gradient is folded afterwards."""
    return problem.of_padded if folds(problem) else problem


def _fold(problem: Conv2d) -> Fold:
    return Fold.of(problem, "conv2d_direct_fold", problem.input[0])
