"""Search space of `conv2d_depthwise` for results that are images (fprop, dgrad)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from warpsmith.generator.conv2d.layer.axes import axes_of
from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.sums.depthwise.depthwise_image_geometry import NAMES, WARP, ImageGeometry, Stores
from warpsmith.generator.conv2d.sums.depthwise.depthwise_tile import round_up
from warpsmith.generator.conv2d.sums.direct_image_geometry import channels_of
from warpsmith.generator.device import Device
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value

OTHER_REGISTERS = 36
"""Registers per thread beside sums, weights and pixels: addresses and counters."""
MAX_REGISTERS = 200
"""Most registers per thread by this count; ptxas keeps more pixels in flight than one row of them."""
MAX_THREADS = 512
MAX_WRITTEN = 3000
"""Most unrolled multiply-adds; a compiler takes 2 s for this many."""
MIN_BLOCKS = "blocks a multiprocessor must hold; with 1 ptxas does not spill to have more of them"
"""Meaning of the parameter `min_blocks`."""
ROWS = COLUMNS = (1, 2, 4, 7, 8, 14, 16, 28)
FILTERS = (1, 2, 4, 8, 16)
UNITS = (1, 2, 4, 8, 16, 32, 64, 128)
ROUNDS = (1, 2, 4, 8)


def image_space(problem: Conv2d, device: Device) -> Space:
    (down, across), (sources, results) = axes_of(problem), channels_of(problem)
    return Space(
        parameters=(
            Parameter("columns", _up_to(COLUMNS, across.steps), "columns of the result a thread"),
            Parameter("rows", _up_to(ROWS, down.steps), "rows of the result a thread"),
            Parameter("filters", _covering(FILTERS, results), "channels of the result a thread"),
            Parameter("tap_rows", _tap_rows(problem), "rows of taps whose weights are in registers"),
            Parameter("row_bands", powers(down.steps), "parts of a plane from top to bottom, a block each"),
            Parameter("column_bands", powers(across.steps), "parts of a plane from left to right"),
            Parameter("block_filters", _covering(FILTERS, results), "threads of a block side by side in channels"),
            Parameter("units", _covering(UNITS, problem.input[0] * problem.groups), "groups of an image a block"),
            Parameter("channels", divisors(sources), "channels of the source that are staged at once"),
            Parameter("rounds", _covering(ROUNDS, problem.input[0] * problem.groups), "sets of units, one by one"),
            Parameter("stages", (1, 2), "buffers of tiles: with two the next is copied meanwhile"),
            Parameter("stores", tuple(each.value for each in Stores), "how sums come to global memory"),
            Parameter("min_blocks", (1, 2, 3, 4), MIN_BLOCKS),
        ),
        constraints=(*_thread_constraints(problem), *_block_constraints(problem, device)),
    )


def smallest_image(problem: Conv2d, space: Space) -> Config | None:
    """The config that takes least memory: a block has a pixel or two of one unit. None if even that is too much."""
    values = {each.name: each.values for each in space.parameters}
    (down, across), (sources, _) = axes_of(problem), channels_of(problem)
    together = len(down.phases) * len(across.phases) > 1
    wanted = {name: each[0] for name, each in values.items()}
    wanted |= {"row_bands": values["row_bands"][-1], "column_bands": values["column_bands"][-1]}
    config = Config.of({**wanted, "channels": sources if together else 1})
    return config if space.contains(config) else None


def powers(count: int) -> tuple[int, ...]:
    return tuple(2**n for n in range(count.bit_length()))


def divisors(count: int) -> tuple[int, ...]:
    return tuple(each for each in range(1, count + 1) if count % each == 0)


def _up_to(values: tuple[int, ...], count: int) -> tuple[int, ...]:
    """The values that do not exceed `count`. All of them are useful, because the last thread of a line may have less to
    do.
    """
    return tuple(each for each in values if each <= max(count, 1))


def _covering(values: tuple[int, ...], count: int) -> tuple[int, ...]:
    """The values below twice `count`."""
    return tuple(each for each in values if each < 2 * count)


def _tap_rows(problem: Conv2d) -> tuple[int, ...]:
    """Equal parts of a filter's rows. Phases of a stride have different counts, so they take one row at once or all."""
    rows, _ = axes_of(problem)
    most = rows.most_taps
    return divisors(most) if len(rows.phases) == 1 else tuple(dict.fromkeys((1, most)))


def _thread_constraints(problem: Conv2d) -> tuple[Constraint, ...]:
    (down, across), (sources, results) = axes_of(problem), channels_of(problem)
    phases = len(down.phases) * len(across.phases)
    column_taps, row_phases = sum(each.count for each in across.phases), down.phases

    def written(columns: int, rows: int, filters: int, tap_rows: int) -> int:
        return filters * rows * columns * column_taps * sum(min(tap_rows, each.count) for each in row_phases)

    return (
        Constraint(
            f"threads across have fewer than 1.5 times the {across.steps} columns",
            lambda columns: 2 * (-(-across.steps // columns) * columns) < 3 * across.steps or columns == 1,
        ),
        Constraint(
            f"threads down have fewer than 1.5 times the {down.steps} rows",
            lambda rows: 2 * (-(-down.steps // rows) * rows) < 3 * down.steps or rows == 1,
        ),
        Constraint(
            f"at most {MAX_WRITTEN} multiply-adds are written out, or one pixel's of a row of taps",
            lambda columns, rows, filters, tap_rows: (
                columns * rows * filters * tap_rows == 1 or written(columns, rows, filters, tap_rows) <= MAX_WRITTEN
            ),
        ),
        Constraint(
            f"the {results} channels of a group have a thread each, and none is idle",
            lambda filters, block_filters: block_filters < 2 * -(-results // filters),
        ),
        Constraint(
            f"{phases} phases that share a tile need all {sources} channels of it",
            lambda channels: phases == 1 or channels == sources,
        ),
        Constraint(
            "bands of a plane have a thread's rows and columns each",
            lambda columns, rows, row_bands, column_bands: (
                row_bands <= -(-down.steps // rows) and column_bands <= -(-across.steps // columns)
            ),
        ),
        Constraint(
            "rows that are staged are whole", lambda column_bands, stores: column_bands == 1 or stores == "direct"
        ),
    )


def _block_constraints(problem: Conv2d, device: Device) -> tuple[Constraint, ...]:
    (down, across), (sources, _) = axes_of(problem), channels_of(problem)
    units_of_problem = problem.input[0] * problem.groups

    def threads(columns: int, rows: int, row_bands: int, column_bands: int, block_filters: int, units: int) -> int:
        wide = -(-across.steps // (columns * column_bands)) * -(-down.steps // (rows * row_bands))
        return round_up(wide * block_filters * units, WARP)

    return (
        Constraint(
            f"a block has at most {MAX_THREADS} threads",
            lambda columns, rows, row_bands, column_bands, block_filters, units: (
                threads(columns, rows, row_bands, column_bands, block_filters, units) <= MAX_THREADS
            ),
        ),
        Constraint(
            "a block of several units has whole planes: tiles of one plane share rows, those of two do not",
            lambda row_bands, column_bands, units: units == 1 or row_bands * column_bands == 1,
        ),
        Constraint(
            f"there are {units_of_problem} units for a block's rounds",
            lambda units, rounds: rounds == 1 or units * rounds <= units_of_problem,
        ),
        Constraint(
            "two stages need a second step: another round, or other channels",
            lambda channels, rounds, stages: stages == 1 or rounds * (sources // channels) > 1,
        ),
        *_memory_constraints(problem, device, threads),
    )


def _memory_constraints(problem: Conv2d, device: Device, threads: Callable[..., int]) -> tuple[Constraint, ...]:
    """Constraints on registers and shared memory; `threads` computes the threads per block."""

    @cache
    def geometry(*values: Value) -> ImageGeometry:
        return ImageGeometry.of(problem, Config.of(dict(zip((*NAMES, "stores"), values, strict=True))))

    def registers(columns: int, rows: int, filters: int, tap_rows: int) -> int:
        one = geometry(rows, columns, filters, tap_rows, 1, 1, 1, 1, 1, 1, 1, 1, Stores.DIRECT.value)
        return one.registers + OTHER_REGISTERS

    return (
        Constraint(
            f"a thread needs at most {MAX_REGISTERS} registers: its sums, weights, a row of its window, and "
            f"{OTHER_REGISTERS} more",
            lambda columns, rows, filters, tap_rows: (
                columns * rows * filters * tap_rows == 1 or registers(columns, rows, filters, tap_rows) <= MAX_REGISTERS
            ),
        ),
        Constraint(
            f"a multiprocessor has {device.registers_per_multiprocessor} registers for the blocks that it must hold",
            lambda columns, rows, filters, tap_rows, row_bands, column_bands, block_filters, units, min_blocks: (
                min_blocks
                * threads(columns, rows, row_bands, column_bands, block_filters, units)
                * min(registers(columns, rows, filters, tap_rows), device.limits.registers_per_thread)
                <= device.registers_per_multiprocessor
            ),
        ),
        Constraint(
            f"a block's tiles, weights and staged results fit {device.shared_per_block_bytes} bytes of shared memory",
            lambda *values: geometry(*values).shared_bytes <= device.shared_per_block_bytes,
            (*NAMES, "stores"),
        ),
    )
