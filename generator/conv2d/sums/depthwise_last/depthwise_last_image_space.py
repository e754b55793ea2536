"""Search space of `conv2d_depthwise_last` for results that are images (fprop, dgrad)."""

from __future__ import annotations

from functools import cache

from warpsmith.generator.conv2d.layer.axes import axes_of
from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.sums.depthwise.depthwise_image import MIN_BLOCKS, divisors
from warpsmith.generator.conv2d.sums.depthwise.depthwise_image_geometry import WARP
from warpsmith.generator.conv2d.sums.depthwise_last.depthwise_last_image_geometry import NAMES, ImageGeometry
from warpsmith.generator.conv2d.sums.depthwise_last.depthwise_last_limits import vectors_of
from warpsmith.generator.device import Device
from warpsmith.generator.family import MAX_UNROLLED
from warpsmith.generator.halves import stores_of_halves
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value

OTHER_REGISTERS = 32
"""Registers per thread beside sums, pixels and weights: addresses and counters."""
MAX_REGISTERS = 224
"""Most registers per thread by this count; ptxas keeps more pixels in flight than one row of them."""
THREADS = (64, 512)
"""Fewest and most threads per block."""
COLUMNS = (1, 2, 3, 4, 5, 6, 7, 8, 14)
ROWS = (1, 2, 3, 4, 5, 7, 8)
LANES = (1, 2, 4, 8, 16, 32, 64)
STRIPS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


def image_space(problem: Conv2d, device: Device) -> Space:
    down, across = axes_of(problem)
    channels = problem.input[1]
    return Space(
        parameters=(
            Parameter("vector", vectors_of(problem), "channels a thread, which are read at once"),
            Parameter("columns", _within(COLUMNS, across.steps), "columns of the result a thread"),
            Parameter("rows", _within(ROWS, down.steps), "rows of the result a thread"),
            Parameter("tap_rows", _tap_rows(problem), "rows of taps that use a row of pixels once it is read"),
            Parameter(
                "lanes", tuple(each for each in LANES if each < 2 * channels), "threads side by side in channels"
            ),
            Parameter("strips", STRIPS, "threads of a block in other pixels"),
            Parameter("min_blocks", (1, 2, 3, 4), MIN_BLOCKS),
        ),
        constraints=_constraints(problem, device),
    )


def _within(values: tuple[int, ...], count: int) -> tuple[int, ...]:
    """The values that do not exceed `count`; a thread at the end of a line may have fewer."""
    return tuple(each for each in values if each <= max(count, 1))


def _tap_rows(problem: Conv2d) -> tuple[int, ...]:
    """Equal parts of a filter's rows. Phases of a stride have different counts, so they take one row at once or all."""
    rows, _ = axes_of(problem)
    most = max(rows.most_taps, 1)
    return divisors(most) if len(rows.phases) == 1 else tuple(dict.fromkeys((1, most)))


def _constraints(problem: Conv2d, device: Device) -> tuple[Constraint, ...]:
    channels = problem.input[1]
    least, most = THREADS

    @cache
    def geometry(*values: Value) -> ImageGeometry:
        return ImageGeometry.of(problem, Config.of(dict(zip(NAMES, values, strict=True))))

    def thread(vector: int, columns: int, rows: int, tap_rows: int) -> ImageGeometry:
        return geometry(vector, columns, rows, tap_rows, 1, 1, 1)

    def registers(vector: int, columns: int, rows: int) -> int:
        return thread(vector, columns, rows, 1).registers + OTHER_REGISTERS

    return (
        Constraint(
            f"at most {MAX_UNROLLED} multiply-adds are written out",
            lambda vector, columns, rows, tap_rows: thread(vector, columns, rows, tap_rows).written <= MAX_UNROLLED,
        ),
        Constraint(
            f"a thread needs at most {MAX_REGISTERS} registers: its sums, a row of pixels, and {OTHER_REGISTERS} more",
            lambda vector, columns, rows: (
                rows * columns * vector == 1 or registers(vector, columns, rows) <= MAX_REGISTERS
            ),
        ),
        Constraint(
            f"the {channels} channels have a thread each, and at most half of them are idle",
            lambda vector, lanes: lanes * vector < 2 * channels,
        ),
        Constraint(
            f"a block has {least} to {most} threads, in whole warps",
            lambda lanes, strips: least <= lanes * strips <= most and lanes * strips % WARP == 0,
        ),
        Constraint(
            f"a multiprocessor has {device.registers_per_multiprocessor} registers for the blocks that it must hold",
            lambda vector, columns, rows, lanes, strips, min_blocks: (
                min_blocks * lanes * strips * min(registers(vector, columns, rows), device.limits.registers_per_thread)
                <= device.registers_per_multiprocessor
            ),
        ),
        Constraint(
            f"the weights of a block's channels fit {device.shared_per_block_bytes} bytes of shared memory",
            lambda vector, lanes: geometry(vector, 1, 1, 1, lanes, 1, 1).shared_bytes <= device.shared_per_block_bytes,
        ),
        *stores_of_halves(problem.dtype, device, "vector"),
    )
