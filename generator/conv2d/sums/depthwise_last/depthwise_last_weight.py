"""The weight side of `conv2d_depthwise_last` (wgrad): geometry, search space, model, default and program."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from functools import cache, lru_cache

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.sided_family import LayerSide
from warpsmith.generator.conv2d.layer.text import Conv2dText, conv2d_arguments
from warpsmith.generator.conv2d.sums.depthwise.depthwise_image import MIN_BLOCKS, divisors, powers
from warpsmith.generator.conv2d.sums.depthwise.depthwise_image_geometry import WARP
from warpsmith.generator.conv2d.sums.depthwise.depthwise_model import (
    L2_SHARE,
    MEMORY_SHARE,
    memory_ns,
    resident_blocks,
    total_ns,
)
from warpsmith.generator.conv2d.sums.depthwise.depthwise_weight import MAX_TERMS
from warpsmith.generator.conv2d.sums.depthwise_last.depthwise_last_image import (
    COLUMNS,
    LANES,
    MAX_REGISTERS,
    OTHER_REGISTERS,
    STRIPS,
    THREADS,
    USUAL_COLUMNS,
    USUAL_THREADS,
    usual_lanes,
)
from warpsmith.generator.conv2d.sums.depthwise_last.depthwise_last_model import (
    ADD_INSTRUCTIONS,
    FLOAT_BYTES,
    NAME,
    OTHER_INSTRUCTIONS,
    ROW_INSTRUCTIONS,
    SPLIT_NS,
    STRIP_INSTRUCTIONS,
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
from warpsmith.generator.program import Launch, Pointer, Program, Workspace
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value

WEIGHT_NAMES = ("vector", "columns", "rows", "tap_rows", "lanes", "block_taps", "members", "splits", "min_blocks")
"""Names of the parameters."""


@dataclasses.dataclass(frozen=True, slots=True)
class DepthwiseLastWeightGeometry:
    """One config of wgrad.

    A strip is `rows` by `columns` positions of y in one image; the last strips overlap the ones before them. A thread
    has the sums of `tap_rows` rows of taps in `vector` channels, and goes over every (members * splits)-th strip. A
    block has `lanes` times as many channels, `block_taps` times as many rows of taps, which read the same strips, and
    `members` threads for each combination of both. `splits` blocks share the strips.
    """

    vector: int
    columns: int
    rows: int
    tap_rows: int
    lanes: int
    block_taps: int
    members: int
    splits: int
    min_blocks: int
    itemsize: int
    images: int
    channels: int
    filter_rows: int
    filter_columns: int
    output_rows: int
    output_columns: int
    outside: int
    """Columns of padding, left and right together."""
    stride: tuple[int, int]
    dilation: tuple[int, int]

    @classmethod
    def of(cls, problem: Conv2d, config: Config) -> DepthwiseLastWeightGeometry:
        rows, columns = problem.output_size
        return cls(
            **{name: config.integer(name) for name in WEIGHT_NAMES},
            itemsize=problem.dtype.itemsize,
            images=problem.input[0],
            channels=problem.input[1],
            filter_rows=problem.weight[2],
            filter_columns=problem.weight[3],
            output_rows=rows,
            output_columns=columns,
            outside=sum(problem.padding[1]),
            stride=problem.stride,
            dilation=problem.dilation,
        )

    @property
    def threads(self) -> int:
        return self.keys * self.members

    @property
    def keys(self) -> int:
        """Threads of a block with different sums."""
        return self.lanes * self.block_taps

    @property
    def block_channels(self) -> int:
        return self.lanes * self.vector

    @property
    def channel_blocks(self) -> int:
        return -(-self.channels // self.block_channels)

    @property
    def tap_blocks(self) -> int:
        """Blocks along the rows of a filter."""
        return -(-self.filter_rows // (self.tap_rows * self.block_taps))

    @property
    def blocks(self) -> int:
        return self.channel_blocks * self.tap_blocks * self.splits

    @property
    def across(self) -> int:
        """Strips across an image."""
        return -(-self.output_columns // self.columns)

    @property
    def down(self) -> int:
        """Strips down an image."""
        return -(-self.output_rows // self.rows)

    @property
    def all_strips(self) -> int:
        return self.images * self.across * self.down

    @property
    def thread_strips(self) -> int:
        """Most strips that a thread goes over."""
        return -(-self.all_strips // (self.members * self.splits))

    @property
    def terms(self) -> int:
        """Most terms that a thread adds up one after the other."""
        return self.thread_strips * self.rows * self.columns

    @property
    def ragged_rows(self) -> bool:
        """Whether the last strip of a column shares rows with the one above it."""
        return self.output_rows % self.rows != 0

    @property
    def ragged_columns(self) -> bool:
        """Whether the last strip of a row shares columns with the one before it."""
        return self.output_columns % self.columns != 0

    @property
    def ragged_taps(self) -> bool:
        """Whether some threads have no taps."""
        return self.filter_rows % (self.tap_rows * self.block_taps) != 0

    @property
    def has_gaps(self) -> bool:
        """Whether a window has rows or columns that no tap reads."""
        return max(*self.stride, *self.dilation) > 1

    @property
    def row_sums(self) -> int:
        """Sums per thread for one row of taps; a block adds up one row of taps at a time."""
        return self.vector * self.filter_columns

    @property
    def sum_pitch(self) -> int:
        """Floats from one of a thread's sums to the next in shared memory. Neighbouring sums lie in different banks."""
        return self.threads + self.keys

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory per block: the sums of all threads for one row of taps."""
        return FLOAT_BYTES * self.row_sums * self.sum_pitch

    @property
    def written(self) -> int:
        """Multiply-adds per thread and strip that are unrolled in the source."""
        return self.row_sums * self.tap_rows * self.rows * self.columns

    @property
    def window(self) -> int:
        """Pixels of a row that a thread reads at once."""
        return met(self.filter_columns, self.dilation[1], self.stride[1], self.columns)

    @property
    def reads(self) -> Reads:
        """What a thread reads for one strip; `weights` counts the gradients of y."""
        rows = met(self.tap_rows, self.dilation[0], self.stride[0], self.rows)
        positions = self.rows * self.columns
        checked = rows * min(self.outside, self.window)
        return Reads(rows, rows * self.window, checked, positions, positions * self.tap_rows * self.filter_columns)

    @property
    def registers(self) -> int:
        """Fewest registers per thread: sums, and gradients and a row of pixels in their element type."""
        read = self.rows * self.columns + self.window
        return self.row_sums * self.tap_rows + self.vector * read * self.itemsize // FLOAT_BYTES


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


def _geometries(problem: Conv2d) -> Callable[..., DepthwiseLastWeightGeometry]:
    """The geometry of a config as a function of its values in the order of WEIGHT_NAMES."""
    return cache(
        lambda *values: DepthwiseLastWeightGeometry.of(problem, Config.of(dict(zip(WEIGHT_NAMES, values, strict=True))))
    )


def _registers(geometry: Callable[..., DepthwiseLastWeightGeometry], *strip: Value) -> int:
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


SUM_THREADS = 128
PARTS = "parts"
"""Name of the workspace for the blocks' partial sums."""


def weight_ns(problem: Conv2d, g: DepthwiseLastWeightGeometry, device: Device) -> float:
    """Expected nanoseconds of one config of wgrad."""
    reads, itemsize = g.reads, problem.dtype.itemsize
    strip = (
        g.vector * reads.products
        + pixel_instructions(reads, g.vector, problem.dtype)
        + reads.weights * load_instructions(g.vector, problem.dtype)
        + reads.rows * ROW_INSTRUCTIONS
        + STRIP_INSTRUCTIONS
    )
    added = g.tap_rows * g.row_sums * ADD_INSTRUCTIONS + OTHER_INSTRUCTIONS
    turns = (reads.pixels + reads.weights) * load_turns(g.vector, g.lanes, itemsize)
    resident = resident_blocks(g.threads, g.registers + OTHER_REGISTERS, g.shared_bytes, device)
    if g.min_blocks > resident:
        return float("inf")
    # Blocks of other rows of taps read the same pixels, mostly from L2.
    rates = device.rates
    l2_slower = MEMORY_SHARE * rates.memory_bytes_per_ns / (L2_SHARE * rates.l2_bytes_per_ns)
    again = max(g.tap_blocks * l2_slower, 1.0)
    nbytes = sum(operand.nbytes for operand in problem.inputs) * again
    issue, all_turns = g.thread_strips * strip + added, g.thread_strips * turns
    total = total_ns(issue, all_turns, 1, g.threads // WARP, resident, g.blocks, memory_ns(nbytes, device), device)
    return total + (rates.launch_ns + g.splits * SPLIT_NS if g.splits > 1 else 0.0)


@lru_cache(maxsize=256)
def weight_ranked(problem: Conv2d, device: Device) -> tuple[Config, ...]:
    """The legal config expected to be fastest for each thread shape, sorted by expected time."""
    return best_of_each_shape(
        _legal_weights(problem, device),
        THREAD_SHAPE,
        lambda config: weight_ns(problem, DepthwiseLastWeightGeometry.of(problem, config), device),
    )


def _legal_weights(problem: Conv2d, device: Device) -> Iterator[Config]:
    """Legal configs worth a look, with as many splits as keep all blocks resident, or the next fewer ones."""
    space = weight_space(problem, device)
    values = space.integers()
    columns_of = [each for each in values["columns"] if each in USUAL_COLUMNS]
    strips = itertools.product(values["vector"], columns_of, values["rows"], values["tap_rows"][::-1], USUAL_THREADS)
    for vector, columns, rows, tap_rows, threads in strips:
        most_taps = -(-problem.weight[2] // tap_rows)
        block_taps = [each for each in values["block_taps"] if each in (1, 8) and each < 2 * most_taps]
        for lanes, taps in itertools.product(usual_lanes(problem, vector, values["lanes"]), block_taps):
            wanted = {
                "vector": vector,
                "columns": columns,
                "rows": rows,
                "tap_rows": tap_rows,
                "lanes": lanes,
                "block_taps": taps,
                "members": max(threads // (lanes * taps), 1),
                "min_blocks": 1,
            }
            whole = DepthwiseLastWeightGeometry.of(problem, Config.of({**wanted, "splits": 1}))
            resident = resident_blocks(threads, whole.registers + OTHER_REGISTERS, whole.shared_bytes, device)
            busy = (2 * whole.all_strips - 1) // whole.members
            most = max(min(resident * device.multiprocessors // whole.blocks, busy), 1)
            few = [each for each in values["splits"] if each <= most][-2:]
            more = [each for each in values["splits"] if each > most]
            legal = (config for splits in few if space.contains(config := Config.of({**wanted, "splits": splits})))
            if (found := tuple(legal)) == ():  # the constraints demand more splits than that
                legal = (config for splits in more if space.contains(config := Config.of({**wanted, "splits": splits})))
                found = tuple(itertools.islice(legal, 1))
            yield from found


class DepthwiseLastWeights(LayerSide):
    """wgrad."""

    def space(self, problem: Conv2d, device: Device) -> Space:
        return weight_space(problem, device)

    def default(self, problem: Conv2d, device: Device) -> Config:
        return weight_ranked(problem, device)[0]

    def starts(self, problem: Conv2d, device: Device) -> tuple[Config, ...]:
        return weight_ranked(problem, device)[1 : MOST_STARTS + 1]

    def expected_ns(self, problem: Conv2d, device: Device) -> float | None:
        return weight_ns(problem, DepthwiseLastWeightGeometry.of(problem, self.default(problem, device)), device)

    def unrolled(self, problem: Conv2d, config: Config) -> int:
        return DepthwiseLastWeightGeometry.of(problem, config).written

    def program(self, problem: Conv2d, config: Config) -> Program:
        geometry, text = DepthwiseLastWeightGeometry.of(problem, config), Conv2dText.of(problem)
        source = render(
            "conv2d/depthwise_last_weight.cu.jinja", p=text, g=geometry, sum_threads=SUM_THREADS, config=config.key()
        )
        *inputs, output = conv2d_arguments(problem)
        is_split, weights = geometry.splits > 1, problem.output.size
        arguments = (*inputs, Pointer(PARTS) if is_split else output)
        launch = Launch(NAME, (geometry.blocks, 1, 1), (geometry.threads, 1, 1), arguments, geometry.shared_bytes)
        if not is_split:
            return Program.of_source(NAME, config, source, (launch,))
        total = Launch.of_blocks(f"{NAME}_sum", -(-weights // SUM_THREADS), SUM_THREADS, (Pointer(PARTS), output))
        workspace = Workspace(PARTS, FLOAT_BYTES * geometry.splits * weights)
        return Program.of_source(NAME, config, source, (launch, total), (workspace,))
