"""The image side of `conv2d_depthwise` (fprop, dgrad): search space, model, default config and program."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from functools import cache, lru_cache

from warpsmith.generator.conv2d.layer.axes import axes_of
from warpsmith.generator.conv2d.layer.fold import PADDED, Fold, folds
from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.sided_family import LayerSide
from warpsmith.generator.conv2d.layer.text import Conv2dText, conv2d_arguments, text_key
from warpsmith.generator.conv2d.sums.depthwise.depthwise_image_geometry import (
    IMAGE_NAMES,
    NAME,
    WARP,
    DepthwiseImageGeometry,
    Stores,
)
from warpsmith.generator.conv2d.sums.depthwise.depthwise_model import (
    IMAGE_COPY_INSTRUCTIONS,
    MOST_APART,
    ROUND_INSTRUCTIONS,
    SECTOR,
    STORE_INSTRUCTIONS,
    WEIGHT_INSTRUCTIONS,
    l2_ns,
    memory_ns,
    resident_blocks,
    total_ns,
)
from warpsmith.generator.conv2d.sums.depthwise.depthwise_tile import round_up
from warpsmith.generator.conv2d.sums.direct_image_geometry import channels_of
from warpsmith.generator.conv2d.sums.ranking import best_of_each_shape, mixed, shape_of
from warpsmith.generator.device import Device
from warpsmith.generator.program import Launch, Pointer, Program
from warpsmith.generator.render import render
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
    def geometry(*values: Value) -> DepthwiseImageGeometry:
        return DepthwiseImageGeometry.of(problem, Config.of(dict(zip((*IMAGE_NAMES, "stores"), values, strict=True))))

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
            (*IMAGE_NAMES, "stores"),
        ),
    )


MAX_PHASES = 16
"""Most phases of a strided dgrad; each has its own code."""
DEFAULT_WRITTEN = 1500
"""Most unrolled multiply-adds of a default config, which nobody searched for; they compile in about a second."""
USUAL_THREADS = (64, 128, 256)
BEST = 6
"""Thread shapes that are tried with every block shape."""


def image_ns(problem: Conv2d, g: DepthwiseImageGeometry, device: Device) -> float:
    """Expected nanoseconds of one config of fprop or dgrad."""
    tile = g.tile
    row_chunks = sum(-(-each.count // min(g.tap_rows, max(each.count, 1))) for each in g.row_axis.phases)
    taps = sum(each.count for each in g.row_axis.phases) * sum(each.count for each in g.column_axis.phases)
    products = g.filters * g.rows * g.columns * taps * g.channels
    chunk_taps = min(g.tap_rows, g.row_axis.most_taps)
    rows = g.row_axis.multiple * (g.rows - 1) + chunk_taps
    column_phases = len(g.column_axis.phases)
    reads = row_chunks * column_phases * rows * -(-g.window_columns // tile.read) * g.channels
    weight_rows = sum(each.count for each in g.row_axis.phases) * column_phases * g.filters * g.channels
    weight_reads = weight_rows * (g.weight_pitch // g.weight_vector)
    loop = ROUND_INSTRUCTIONS * row_chunks * g.channels if row_chunks > len(g.row_axis.phases) else 0
    copies = g.units * g.channels * tile.plane_copies / g.threads
    weight_rows_copied = -(-g.units * g.block_filters * g.filters * g.channels * g.filter_rows // g.threads)
    weights = weight_rows_copied * g.filter_columns
    numbers = g.filters * g.rows * g.columns * g.phases / g.channel_rounds
    stores = numbers / g.store_vector
    store_turns = stores * max(min(g.columns, SECTOR) if g.stores is Stores.DIRECT else 1, g.store_vector)
    staged = 3 * numbers if g.stores is Stores.STAGED else 0.0
    copied = IMAGE_COPY_INSTRUCTIONS * copies + WEIGHT_INSTRUCTIONS * weight_rows_copied + weights
    issue = products + reads + weight_reads + copied + STORE_INSTRUCTIONS * stores + 3 * staged + loop + 60
    turns = reads * tile.read + weight_reads * 1.3 + (copies * tile.vector) + weights + store_turns + staged
    resident = resident_blocks(g.threads, max(g.registers + OTHER_REGISTERS, 32), g.shared_bytes, device)
    if g.min_blocks > resident:
        return float("inf")
    hidden = 0.4 if g.stages > 1 else 1.0
    # Tile rows that two bands share are read twice, mostly from L2.
    again = max(g.row_bands * tile.rows / max(g.row_axis.sources, 1), 1.0) ** 0.5
    nbytes = 4.0 * (problem.inputs[0].size * again * g.filter_blocks**0.5 + problem.output.size)
    # Neighbouring threads whose stores lie apart fill only a part of each sector of 32 bytes.
    apart = g.columns * len(g.column_axis.phases) if g.stores is Stores.DIRECT else 1
    written = 4.0 * problem.output.size * max(min(apart, MOST_APART) / g.store_vector, 1.0)
    return total_ns(
        issue * g.steps,
        turns * g.steps,
        g.steps * hidden,
        g.threads // 32,
        resident,
        g.blocks,
        max(memory_ns(nbytes, device), l2_ns(written, device)),
        device,
    )


@lru_cache(maxsize=256)
def ranked(problem: Conv2d, device: Device) -> tuple[Config, ...]:
    """The legal config expected to be fastest for each thread shape, sorted by expected time."""
    space = image_space(problem, device)
    configs = (Config.of(each) for thread in _threads(problem, space) for each in _blocks(problem, space, thread))
    found = best_of_each_shape(
        filter(space.contains, configs),
        shape_of("columns", "rows", "filters"),
        lambda config: image_ns(problem, DepthwiseImageGeometry.of(problem, config), device),
    )
    return found or tuple(filter(None, [smallest_image(problem, space)]))


def variants(config: Config, space: Space) -> list[Config]:
    """Legal configs near this one that differ in portions only: the model cannot tell them apart, but timing can."""
    units = config.integer("units")
    changes: tuple[dict[str, Value], ...] = (
        {"units": 4 * units},
        {"rounds": 2, "stages": 2},
        {"rounds": 4, "stages": 2},
        {"units": 2 * units, "rounds": 4, "stages": 2},
        {"min_blocks": 3},
    )
    found = (Config.of({**config.values(), **change}) for change in changes)
    return [each for each in found if space.contains(each)]


def _threads(problem: Conv2d, space: Space) -> Iterator[dict[str, Value]]:
    """The thread shapes that are worth a look: some 30."""
    values = {each.name: each.values for each in space.parameters}
    (down, across), (_, results) = axes_of(problem), channels_of(problem)
    taps_of_row = sum(each.count for each in across.phases)
    for columns, rows, filters in itertools.product(values["columns"], values["rows"], values["filters"]):
        assert isinstance(columns, int) and isinstance(rows, int) and isinstance(filters, int)  # noqa: PT018
        if columns * rows * filters > 64 or (filters < min(results, 4) and rows * columns > 8):
            continue
        if columns * rows * filters < min(4, across.steps * down.steps) or filters > results:
            continue
        fitting = [
            each
            for each in values["tap_rows"]
            if isinstance(each, int)
            and filters * rows * columns * taps_of_row * each * len(down.phases) <= DEFAULT_WRITTEN
            and filters * taps_of_row * each <= 64
        ]
        yield {"columns": columns, "rows": rows, "filters": filters, "tap_rows": max(fitting, default=1)}


def _blocks(problem: Conv2d, space: Space, thread: dict[str, Value]) -> Iterator[dict[str, Value]]:
    """Block shapes for this thread shape: whole planes if several fit, otherwise bands."""
    values = {each.name: each.values for each in space.parameters}
    (down, across), (sources, results) = axes_of(problem), channels_of(problem)
    rows, columns, filters = (int(thread[name]) for name in ("rows", "columns", "filters"))
    per_plane = -(-down.steps // rows) * -(-across.steps // columns)
    block_filters = min((each for each in values["block_filters"] if int(each) * filters >= results), default=1)
    channels = max(each for each in values["channels"] if int(each) <= 4 or int(each) == sources)
    rest: dict[str, Value] = {**thread, "block_filters": block_filters, "rounds": 1, "stages": 1, "min_blocks": 1}
    rest["channels"] = sources if len(down.phases) * len(across.phases) > 1 or sources <= 8 else channels
    for threads, stores in itertools.product(USUAL_THREADS, Stores):
        wanted = max(threads // (per_plane * int(block_filters)), 1)
        units = max((each for each in values["units"] if int(each) <= wanted), default=1)
        bands = max(-(-per_plane * int(block_filters) // threads), 1)
        row_bands = min((each for each in values["row_bands"] if int(each) >= bands), default=values["row_bands"][-1])
        left = max(-(-bands // int(row_bands)), 1)
        column_bands = min((each for each in values["column_bands"] if int(each) >= left), default=1)
        yield {**rest, "units": units, "row_bands": row_bands, "column_bands": column_bands, "stores": stores.value}


class DepthwiseImages(LayerSide):
    """fprop and dgrad. If the padding repeats pixels, dgrad is solved for the padded image."""

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        if folds(problem) and (nbytes := _fold(problem).workspace.nbytes) > problem.workspace_limit:
            return f"the gradient of the padded images takes {nbytes} bytes of workspace"
        down, across = axes_of(_summed(problem))
        if (phases := len(down.phases) * len(across.phases)) > MAX_PHASES:
            return f"writes out every phase of a stride, {MAX_PHASES} of them at the most; this one has {phases}"
        if smallest_image(_summed(problem), self.space(problem, device)) is None:
            return f"the window of one result does not fit {device.shared_per_block_bytes} bytes of shared memory"
        return None

    def space(self, problem: Conv2d, device: Device) -> Space:
        return image_space(_summed(problem), device)

    def default(self, problem: Conv2d, device: Device) -> Config:
        return ranked(_summed(problem), device)[0]

    def starts(self, problem: Conv2d, device: Device) -> tuple[Config, ...]:
        best, *others = ranked(_summed(problem), device)
        return mixed(others, variants(best, self.space(problem, device)))

    def expected_ns(self, problem: Conv2d, device: Device) -> float | None:
        summed = _summed(problem)
        return image_ns(summed, DepthwiseImageGeometry.of(summed, self.default(problem, device)), device)

    def unrolled(self, problem: Conv2d, config: Config) -> int:
        return DepthwiseImageGeometry.of(_summed(problem), config).written

    def program(self, problem: Conv2d, config: Config) -> Program:
        image, fold = DepthwiseImageGeometry.of(_summed(problem), config), _fold(problem) if folds(problem) else None
        end = dataclasses.replace(Conv2dText.of(_summed(problem)), key=text_key(problem))
        text = end if fold is None else end.writing_float()
        source = render("conv2d/depthwise_image.cu.jinja", p=text, end=end, g=image, fold=fold, config=config.key())
        arguments = conv2d_arguments(problem)
        launch = Launch(NAME, (image.blocks, 1, 1), (image.threads, 1, 1), arguments, image.shared_bytes)
        if fold is None:
            return Program.of_source(NAME, config, source, (launch,))
        source_of, weights, *biases, target = arguments
        launch = dataclasses.replace(launch, arguments=(source_of, weights, Pointer(PADDED)))
        folding = fold.launch(target, biases=tuple(biases))
        return Program.of_source(NAME, config, source, (launch, folding), (fold.workspace,))


def _summed(problem: Conv2d) -> Conv2d:
    """The layer whose sum is computed: on padded images if their gradient is folded afterwards."""
    return problem.of_padded if folds(problem) else problem


def _fold(problem: Conv2d) -> Fold:
    return Fold.of(problem, "conv2d_depthwise_fold", problem.input[0])
