"""The image side of `conv2d_depthwise_last` (fprop, dgrad): geometry, search space, model, default and program."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache

from warpsmith.generator.conv2d.layer.axes import LayerAxis, axes_of
from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.sided_family import LayerSide
from warpsmith.generator.conv2d.layer.text import Conv2dText, conv2d_arguments
from warpsmith.generator.conv2d.sums.depthwise.depthwise_image import MIN_BLOCKS, divisors
from warpsmith.generator.conv2d.sums.depthwise.depthwise_image_geometry import WARP
from warpsmith.generator.conv2d.sums.depthwise.depthwise_model import (
    ROUND_INSTRUCTIONS,
    TURN_BYTES,
    memory_ns,
    resident_blocks,
    total_ns,
)
from warpsmith.generator.conv2d.sums.depthwise_last.depthwise_last_model import (
    FLOAT_BYTES,
    NAME,
    OTHER_INSTRUCTIONS,
    ROW_INSTRUCTIONS,
    STAGE_INSTRUCTIONS,
    Reads,
    load_instructions,
    load_turns,
    met,
    pixel_instructions,
    vectors_of,
)
from warpsmith.generator.conv2d.sums.ranking import MOST_STARTS, THREAD_SHAPE, best_of_each_shape
from warpsmith.generator.device import Device
from warpsmith.generator.family import MAX_UNROLLED
from warpsmith.generator.pair_stores import pair_stores
from warpsmith.generator.program import Launch, Program
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value

WEIGHT_VECTOR = 4
"""Most weights of neighbouring channels that a thread reads from shared memory at once: 16 bytes."""
IMAGE_NAMES = ("vector", "columns", "rows", "tap_rows", "lanes", "strips", "min_blocks")
"""Names of the parameters."""


@dataclasses.dataclass(frozen=True, slots=True)
class DepthwiseLastImageGeometry:
    """One config of fprop or dgrad. Rows and columns count steps of a phase (`LayerAxis`).

    A strip is `rows` by `columns` of all phases in one image. A thread computes one strip in `vector` channels, a block
    `strips` strips in `lanes` times as many channels.
    """

    vector: int
    """Channels per thread, which are contiguous in memory."""
    columns: int
    rows: int
    tap_rows: int
    """Rows of taps that use a row of pixels once it is read."""
    lanes: int
    """Threads side by side in channels."""
    strips: int
    """Strips per block."""
    min_blocks: int
    """Blocks that an SM must have room for (minBlocksPerMultiprocessor of __launch_bounds__)."""
    itemsize: int
    """Bytes per element."""
    images: int
    channels: int
    filter_rows: int
    filter_columns: int
    row_axis: LayerAxis
    column_axis: LayerAxis

    @classmethod
    def of(cls, problem: Conv2d, config: Config) -> DepthwiseLastImageGeometry:
        rows, columns = axes_of(problem)
        return cls(
            **{name: config.integer(name) for name in IMAGE_NAMES},
            itemsize=problem.dtype.itemsize,
            images=problem.input[0],
            channels=problem.input[1],
            filter_rows=problem.weight[2],
            filter_columns=problem.weight[3],
            row_axis=rows,
            column_axis=columns,
        )

    @property
    def threads(self) -> int:
        return self.lanes * self.strips

    @property
    def block_channels(self) -> int:
        return self.lanes * self.vector

    @property
    def channel_blocks(self) -> int:
        return -(-self.channels // self.block_channels)

    @property
    def across(self) -> int:
        """Strips across an image."""
        return -(-self.column_axis.steps // self.columns)

    @property
    def down(self) -> int:
        """Strips down an image."""
        return -(-self.row_axis.steps // self.rows)

    @property
    def all_strips(self) -> int:
        return self.images * self.across * self.down

    @property
    def blocks(self) -> int:
        return -(-self.all_strips // self.strips) * self.channel_blocks

    @property
    def phases(self) -> int:
        """Row phases times column phases."""
        return len(self.row_axis.phases) * len(self.column_axis.phases)

    @property
    def weight_vector(self) -> int:
        """Weights that a thread reads at once."""
        return min(self.vector, WEIGHT_VECTOR)

    @property
    def tap_pitch(self) -> int:
        """Floats from one tap's weights to the next one's in shared memory.

        The pitch has a spare vector, so that neighbouring taps, which are written together, lie in different banks.
        """
        return self.block_channels + self.weight_vector

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory per block: the weights of its channels."""
        return FLOAT_BYTES * self.filter_rows * self.filter_columns * self.tap_pitch

    @property
    def checks_rows(self) -> bool:
        """Whether a thread may read source rows outside of the image."""
        return self.row_axis.reaches_outside(self.rows)

    @property
    def checks_columns(self) -> bool:
        """Whether a thread may read source columns outside of the image."""
        return self.column_axis.reaches_outside(self.columns)

    @property
    def has_gaps(self) -> bool:
        """Whether a window has rows or columns that no tap reads."""
        axes = (self.row_axis, self.column_axis)
        return any(axis.multiple > 1 or taps.spread > 1 for axis in axes for taps in axis.phases)

    @property
    def ragged_rows(self) -> bool:
        """Whether some strips have fewer rows than others."""
        return self.row_axis.results % (len(self.row_axis.phases) * self.rows) != 0

    @property
    def ragged_columns(self) -> bool:
        """Whether some strips have fewer columns than others."""
        return self.column_axis.results % (len(self.column_axis.phases) * self.columns) != 0

    @property
    def written(self) -> int:
        """Multiply-adds per thread that are unrolled in the source."""
        row_taps = sum(min(self.tap_rows, each.count) for each in self.row_axis.phases)
        column_taps = sum(each.count for each in self.column_axis.phases)
        return self.vector * self.rows * self.columns * row_taps * column_taps

    @property
    def window(self) -> int:
        """Pixels of a row that a thread reads at once, in the largest phase."""
        axis = self.column_axis
        return max(met(each.count, each.spread, axis.multiple, self.columns) for each in axis.phases)

    @property
    def reads(self) -> Reads:
        """Everything that a thread reads."""
        rows = pixels = checked = weights = products = 0
        last = self.column_axis.multiple * (self.across - 1) * self.columns
        for down in self.row_axis.phases:
            taps = min(self.tap_rows, down.count)
            rounds = down.count // taps if taps else 0
            of_round = met(taps, down.spread, self.row_axis.multiple, self.rows)
            for across in self.column_axis.phases:
                rows += rounds * of_round
                window = met(across.count, across.spread, self.column_axis.multiple, self.columns)
                behind = across.low + last + window - self.column_axis.sources
                pixels += rounds * of_round * window
                checked += rounds * of_round * min(max(-across.low, 0) + max(behind, 0), window)
                weights += down.count * across.count * (self.rows if taps > 1 else 1)
                products += down.count * across.count * self.rows * self.columns
        return Reads(rows, pixels, checked, weights, products)

    @property
    def registers(self) -> int:
        """Fewest registers per thread: sums, weights of two taps, and a row of pixels in their element type."""
        return self.vector * (self.rows * self.columns + 2) + self.vector * self.window * self.itemsize // FLOAT_BYTES


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
    def geometry(*values: Value) -> DepthwiseLastImageGeometry:
        return DepthwiseLastImageGeometry.of(problem, Config.of(dict(zip(IMAGE_NAMES, values, strict=True))))

    def thread(vector: int, columns: int, rows: int, tap_rows: int) -> DepthwiseLastImageGeometry:
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
        *pair_stores(problem.dtype, device, "vector"),
    )


USUAL_THREADS = (64, 128, 256)
USUAL_COLUMNS = (1, 2, 4, 7, 8)
USUAL_ROWS = (1, 2, 4, 7)
PIXEL_BYTES = (32, 128)
"""Fewest and most bytes of neighbouring channels that a block reads per pixel: a sector of memory to a cache line. A
block with few channels has few weights.
"""


SMALLEST = dict.fromkeys(IMAGE_NAMES, 1) | {"strips": 64}
"""The config that takes least memory: 8 KiB for 31x31 taps."""


MAX_PHASES = 16
"""Most phases of a strided dgrad; each has its own code."""


def image_ns(problem: Conv2d, g: DepthwiseLastImageGeometry, device: Device) -> float:
    """Expected nanoseconds of one config of fprop or dgrad."""
    reads, itemsize = g.reads, problem.dtype.itemsize
    results = g.rows * g.columns * g.phases
    rounds = -(-g.row_axis.most_taps // g.tap_rows)
    staged = g.filter_rows * g.filter_columns * g.block_channels / g.threads
    issue = (
        g.vector * reads.products
        + pixel_instructions(reads, g.vector, problem.dtype)
        + reads.rows * ROW_INSTRUCTIONS
        + reads.weights * g.vector / g.weight_vector
        + results * (3 + load_instructions(g.vector, problem.dtype))
        + staged * STAGE_INSTRUCTIONS
        + (rounds - 1) * g.phases * ROUND_INSTRUCTIONS
        + OTHER_INSTRUCTIONS
    )
    # Lanes of a warp with the same channels read the same weights, which are broadcast.
    lanes = min(g.lanes, WARP)
    weight_turns = max(lanes * g.vector * 4, g.weight_vector * 4 * WARP / 4) / TURN_BYTES
    pixel_turns = load_turns(g.vector, g.lanes, itemsize)
    turns = reads.weights * weight_turns + (reads.pixels + results) * pixel_turns
    resident = resident_blocks(g.threads, max(g.registers + OTHER_REGISTERS, 32), g.shared_bytes, device)
    if g.min_blocks > resident:
        return float("inf")
    nbytes = sum(operand.nbytes for operand in problem.operands)
    return total_ns(issue, turns, 1, g.threads // WARP, resident, g.blocks, memory_ns(nbytes, device), device)


@lru_cache(maxsize=256)
def ranked(problem: Conv2d, device: Device) -> tuple[Config, ...]:
    """The legal config expected to be fastest for each thread shape, sorted by expected time."""
    found = best_of_each_shape(
        _legal(problem, device),
        THREAD_SHAPE,
        lambda config: image_ns(problem, DepthwiseLastImageGeometry.of(problem, config), device),
    )
    return found or (Config.of(SMALLEST),)


def usual_lanes(problem: Conv2d, vector: int, lanes: Sequence[int]) -> Sequence[int]:
    """The values of `lanes` that read whole sectors and at most a cache line; the largest value if there are none."""
    (least, most), nbytes = PIXEL_BYTES, vector * problem.dtype.itemsize
    return [each for each in lanes if least <= each * nbytes <= most] or lanes[-1:]


def _legal(problem: Conv2d, device: Device) -> Iterator[Config]:
    """Legal configs that are worth a look."""
    space = image_space(problem, device)
    values = space.integers()
    columns_of = [each for each in values["columns"] if each in USUAL_COLUMNS]
    rows_of = [each for each in values["rows"] if each in USUAL_ROWS]
    strips = itertools.product(values["vector"], columns_of, rows_of, values["tap_rows"][::-1], USUAL_THREADS)
    for vector, columns, rows, tap_rows, threads in strips:
        for lanes in usual_lanes(problem, vector, values["lanes"]):
            wanted = {
                "vector": vector,
                "columns": columns,
                "rows": rows,
                "tap_rows": tap_rows,
                "lanes": lanes,
                "strips": threads // lanes,
                "min_blocks": 1,
            }
            config = Config.of(wanted)
            if space.contains(config):
                yield config


class DepthwiseLastImages(LayerSide):
    """fprop and dgrad."""

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        down, across = axes_of(problem)
        if (phases := len(down.phases) * len(across.phases)) > MAX_PHASES:
            return f"writes out every phase of a stride, {MAX_PHASES} of them at the most; this one has {phases}"
        return None

    def space(self, problem: Conv2d, device: Device) -> Space:
        return image_space(problem, device)

    def default(self, problem: Conv2d, device: Device) -> Config:
        return ranked(problem, device)[0]

    def starts(self, problem: Conv2d, device: Device) -> tuple[Config, ...]:
        return ranked(problem, device)[1 : MOST_STARTS + 1]

    def expected_ns(self, problem: Conv2d, device: Device) -> float | None:
        return image_ns(problem, DepthwiseLastImageGeometry.of(problem, self.default(problem, device)), device)

    def unrolled(self, problem: Conv2d, config: Config) -> int:
        return DepthwiseLastImageGeometry.of(problem, config).written

    def program(self, problem: Conv2d, config: Config) -> Program:
        image, text = DepthwiseLastImageGeometry.of(problem, config), Conv2dText.of(problem)
        source = render("conv2d/depthwise_last_image.cu.jinja", p=text, g=image, config=config.key())
        launch = Launch(
            NAME, (image.blocks, 1, 1), (image.threads, 1, 1), conv2d_arguments(problem), image.shared_bytes
        )
        return Program.of_source(NAME, config, source, (launch,))
