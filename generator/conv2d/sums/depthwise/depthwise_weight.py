"""The weight side of `conv2d_depthwise` (wgrad): search space, model, default config and program."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from math import prod

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.sided_family import LayerSide
from warpsmith.generator.conv2d.layer.text import Conv2dText, conv2d_arguments
from warpsmith.generator.conv2d.sums.depthwise.depthwise_image import (
    COLUMNS,
    DEFAULT_WRITTEN,
    MAX_REGISTERS,
    MAX_THREADS,
    MAX_WRITTEN,
    MIN_BLOCKS,
    OTHER_REGISTERS,
    ROWS,
    USUAL_THREADS,
    divisors,
    powers,
)
from warpsmith.generator.conv2d.sums.depthwise.depthwise_image_geometry import FLOAT_BYTES, NAME, WARP
from warpsmith.generator.conv2d.sums.depthwise.depthwise_model import (
    COPY_INSTRUCTIONS,
    memory_ns,
    resident_blocks,
    total_ns,
)
from warpsmith.generator.conv2d.sums.depthwise.depthwise_tile import round_up
from warpsmith.generator.conv2d.sums.depthwise.depthwise_weight_geometry import (
    SERIAL_MEMBERS,
    WEIGHT_NAMES,
    DepthwiseWeightGeometry,
)
from warpsmith.generator.conv2d.sums.ranking import best_of_each_shape, mixed, shape_of
from warpsmith.generator.device import Device
from warpsmith.generator.program import Launch, Pointer, Program, Workspace
from warpsmith.generator.render import render
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
    def geometry(*values: Value) -> DepthwiseWeightGeometry:
        return DepthwiseWeightGeometry.of(problem, Config.of(dict(zip(WEIGHT_NAMES, values, strict=True))))

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


SUM_THREADS = 256
SUMS = "sums"
"""Name of the workspace for the blocks' partial sums."""
MOST_SUMS = 64
"""Most sums per thread."""
SPLITS_NS = 1800.0
"""Time of the kernel that adds up what blocks found, from the end of the first one on."""
WAITS = {1: 1.0, 2: 0.4, 3: 0.2, 4: 0.15}
"""Share of a step's latency that a block waits for its copies, by number of stages; from three stages on a guess."""
BLOCKS_WANTED = (1, 2, 6)
"""Blocks per SM to aim at."""


def weight_ns(problem: Conv2d, g: DepthwiseWeightGeometry, device: Device) -> float:
    """Expected nanoseconds of one config of wgrad."""
    x, dy = g.tile, g.gradients
    loops = -(-g.strips // g.down)
    steps = -(-g.steps // g.splits)
    rows = g.stride[0] * (g.rows - 1) + g.tap_rows
    reads = rows * -(-g.window_columns // x.read)
    own = g.filters * g.rows * -(-g.columns // dy.read)
    planes = g.images * g.block_groups
    x_copies = planes * g.block_channels * x.plane_copies / g.threads
    dy_copies = planes * g.block_filters * g.filters * dy.plane_copies / g.threads
    summed = g.keys * g.sums / g.threads * (g.members if g.members <= SERIAL_MEMBERS else g.members + 6 * WARP)
    issue = steps * (loops * (g.written + reads + own + 20) + COPY_INSTRUCTIONS * (x_copies + dy_copies) + 60)
    issue += 3 * g.sums + 2 * summed + 100
    turns = steps * (loops * (reads * x.read + own * dy.read) + x_copies * x.vector + dy_copies * dy.vector)
    turns += g.sums + summed
    resident = resident_blocks(g.threads, g.registers + OTHER_REGISTERS, g.shared_bytes, device)
    if g.min_blocks > resident:
        return float("inf")
    again = (g.tap_blocks * g.channel_blocks * g.filter_blocks) ** 0.5
    nbytes = 4.0 * again * (problem.inputs[0].size + problem.inputs[1].size) + 8.0 * g.splits * problem.output.size
    waits = WAITS[g.stages]
    total = total_ns(
        issue, turns, steps * waits, g.threads // WARP, resident, g.blocks, memory_ns(nbytes, device), device
    )
    return total + (SPLITS_NS + 25.0 * g.splits if g.splits > 1 else 0.0)


@lru_cache(maxsize=256)
def weight_ranked(problem: Conv2d, device: Device) -> tuple[Config, ...]:
    """The legal config expected to be fastest for each thread shape, sorted by expected time."""
    space = weight_space(problem, device)
    threads = _weight_threads(problem, space)
    configs = (Config.of(each) for thread in threads for each in _weight_blocks(problem, space, thread, device))
    found = best_of_each_shape(
        filter(space.contains, dict.fromkeys(configs)),
        shape_of("columns", "rows", "filters", "tap_rows"),
        lambda config: weight_ns(problem, DepthwiseWeightGeometry.of(problem, config), device),
    )
    return found or tuple(filter(None, [smallest_weight(space)]))


def weight_variants(config: Config, space: Space) -> list[Config]:
    """Legal configs near this one that differ in portions only: the model cannot tell them apart, but timing can."""
    splits, images = config.integer("splits"), config.integer("images")
    changes: list[dict[str, Value]] = [{"stages": each} for each in STAGES[1:]]
    changes += {"splits": 2 * splits}, {"splits": splits // 2}
    changes += ({"images": images // 2, "stages": each} for each in STAGES[1:])
    changes += ({"min_blocks": 3},)
    found = (Config.of({**config.values(), **change}) for change in changes)
    return [each for each in found if space.contains(each)]


def _numbers(space: Space) -> dict[str, tuple[int, ...]]:
    """The values of each parameter, all of which are numbers."""
    return {each.name: tuple(int(value) for value in each.values) for each in space.parameters}


def _weight_threads(problem: Conv2d, space: Space) -> Iterator[dict[str, int]]:
    """The thread shapes that are worth a look: some 20."""
    values = _numbers(space)
    tap_columns = problem.weight[3]
    for columns, rows in itertools.product(values["columns"], values["rows"]):
        if columns * rows > 64 or columns * rows < min(4, problem.output_size[0] * problem.output_size[1]):
            continue
        for filters in values["filters"]:
            fitting = [
                each
                for each in values["tap_rows"]
                if filters * each * tap_columns <= MOST_SUMS
                and filters * each * tap_columns * columns * rows <= DEFAULT_WRITTEN
            ]
            if fitting or filters == 1:
                yield {"columns": columns, "rows": rows, "filters": filters, "tap_rows": max(fitting, default=1)}


def _weight_blocks(problem: Conv2d, space: Space, thread: dict[str, int], device: Device) -> Iterator[dict[str, Value]]:
    """Block shapes for this thread shape: all filters, channels and taps of a group side by side if they fit."""
    values = _numbers(space)
    across = -(-problem.output_size[1] // thread["columns"])
    strips = -(-problem.output_size[0] // thread["rows"])
    block_filters = problem.group_filters // thread["filters"]
    for threads, downs, bands in itertools.product(USUAL_THREADS, (1, 4, strips), (1, 2, 8)):
        left = max(threads // across, 1)
        down = max(each for each in values["down"] if each <= min(left, downs, max(strips // bands, 1)))
        left //= down
        filters = max(each for each in values["block_filters"] if each <= left and block_filters % each == 0)
        channels = max(each for each in values["block_channels"] if each <= max(left // filters, 1))
        rest = max(left // (filters * channels), 1)
        taps_left = problem.weight[2] // thread["tap_rows"]
        taps = max(each for each in values["block_taps"] if each <= max(rest, 1) and taps_left % each == 0)
        images = max(each for each in values["images"] if each <= max(rest // taps, 1))
        if bands not in values["bands"]:
            continue
        weights_blocks = (
            (taps_left // taps) * (block_filters // filters) * (problem.group_channels // channels) * problem.groups
        )
        for wanted in BLOCKS_WANTED:
            splits = wanted * device.multiprocessors / weights_blocks
            yield {
                **thread,
                "block_taps": taps,
                "block_filters": filters,
                "block_channels": channels,
                "block_groups": 1,
                "images": images,
                "down": down,
                "bands": bands,
                "splits": max(each for each in values["splits"] if each <= max(splits, 1)),
                "stages": 1,
                "min_blocks": 1,
            }


class DepthwiseWeights(LayerSide):
    """wgrad."""

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        if smallest_weight(self.space(problem, device)) is None:
            return f"the window of one result does not fit {device.shared_per_block_bytes} bytes of shared memory"
        return None

    def space(self, problem: Conv2d, device: Device) -> Space:
        return weight_space(problem, device)

    def default(self, problem: Conv2d, device: Device) -> Config:
        return weight_ranked(problem, device)[0]

    def starts(self, problem: Conv2d, device: Device) -> tuple[Config, ...]:
        best, *others = weight_ranked(problem, device)
        return mixed(others, weight_variants(best, self.space(problem, device)))

    def expected_ns(self, problem: Conv2d, device: Device) -> float | None:
        return weight_ns(problem, DepthwiseWeightGeometry.of(problem, self.default(problem, device)), device)

    def unrolled(self, problem: Conv2d, config: Config) -> int:
        return DepthwiseWeightGeometry.of(problem, config).written

    def program(self, problem: Conv2d, config: Config) -> Program:
        geometry = DepthwiseWeightGeometry.of(problem, config)
        text = Conv2dText.of(problem)
        source = render("conv2d/depthwise_weight.cu.jinja", p=text, g=geometry, config=config.key())
        *inputs, output = conv2d_arguments(problem)
        target = output if geometry.splits == 1 else Pointer(SUMS)
        launch = Launch(
            NAME, (geometry.blocks, 1, 1), (geometry.threads, 1, 1), (*inputs, target), geometry.shared_bytes
        )
        if geometry.splits == 1:
            return Program.of_source(NAME, config, source, (launch,))
        blocks = -(-problem.output.size // SUM_THREADS)
        total = Launch.of_blocks(f"{NAME}_sum", blocks, SUM_THREADS, (Pointer(SUMS), output))
        workspace = Workspace(SUMS, FLOAT_BYTES * geometry.splits * problem.output.size)
        return Program.of_source(NAME, config, source, (launch, total), (workspace,))
