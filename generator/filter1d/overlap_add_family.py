"""`filter1d` by overlap-add: a block makes all products of its own samples, and overlapping sums of blocks are added.

A block has `threads * outputs` sums at most, taps - 1 of them beyond the first output of the next block. Three ways add
the sums that blocks share:

- `steps`: launches one after the other, each with blocks that share no output. An output's first block stores its sum,
  the others read it and add. The document's two steps are too few where taps - 1 is more than a block's samples.
- `atomics`: one launch adds atomically to a result that another launch set to zero. It is legal where at most two
  blocks add to one output, since 0 + a + b has the same bits in either order.
- `carry`: a block of threads walks over consecutive blocks and keeps the sums beyond each in shared memory. The first
  sums of a run and the last ones go to a workspace, and a second launch adds these.

Each way has the same bits in every run. Sums of float16 or bfloat16 results are carried only, since the other ways
would round them at each addition. A tap that is not finite makes NaN of the zeros around a block's samples.

Source: "Parallel filters", section 4.1, overlap-add and its steps.
"""

from __future__ import annotations

import dataclasses
import enum

from warpsmith.generator.architectures import MAX_GRID
from warpsmith.generator.device import Device
from warpsmith.generator.family import Family
from warpsmith.generator.filter1d.fields import SignalLayout
from warpsmith.generator.filter1d.overlap import AddBlocks, BlockCounts, addends, ceil_div, step_blocks
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.filter1d.text import (
    Filter1dText,
    Weights,
    count_type,
    filter1d_arguments,
    filter1d_constants,
    weights_parameter,
    why_no_epilogue,
)
from warpsmith.generator.filter1d.window_tile import (
    Windows,
    WindowTile,
    unroll_constraint,
    unroll_parameter,
    usual_block,
    usual_unroll,
    windows_constraint,
    windows_parameter,
)
from warpsmith.generator.problem import DType
from warpsmith.generator.program import Argument, Launch, Pointer, Program, Workspace
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value, words

THREADS = (64, 128, 256, 512, 1024)
OWN = (1, 2, 4, 8, 16)
STEPS = (0, 1, 2, 3, 4, 8)
RUNS = (0, 4, 16, 64)
WALKS = 16
"""Walks for each SM with which the default keeps longer runs."""
LANES = 32
"""Outputs to whose multiples the length of a block is rounded down, so that its loads and stores begin alike."""


class Way(enum.StrEnum):
    """Way in which the sums that blocks share are added."""

    STEPS = "steps"
    ATOMICS = "atomics"
    CARRY = "carry"


def overlap_of(problem: Filter1d) -> int:
    """Sums of a block beyond the first of the next block, whatever its length."""
    return AddBlocks.of(problem, 1).overlap


def length_of(problem: Filter1d, sums: int) -> int:
    """Outputs from block to block if a block has at most `sums` sums; 0 if these are too few."""
    return max(0, sums - overlap_of(problem)) // LANES * LANES


@dataclasses.dataclass(frozen=True, slots=True)
class Filter1dOverlapAddGeometry:
    """Geometry of one config on one problem."""

    blocks: AddBlocks
    tile: WindowTile
    way: Way
    rows: int
    steps: int
    run: int
    """Blocks over which a block of threads walks; 0 unless sums are carried."""

    @classmethod
    def of(cls, problem: Filter1d, config: Config) -> Filter1dOverlapAddGeometry:
        threads = config.integer("threads")
        blocks = AddBlocks.of(problem, length_of(problem, threads * config.integer("outputs")))
        return cls(
            blocks=blocks,
            tile=WindowTile.of(
                problem, threads, blocks.sums, config.integer("unroll"), Weights.of(config), Windows.of(config)
            ),
            way=Way(config.text("way")),
            rows=problem.rows,
            steps=config.integer("steps"),
            run=config.integer("run"),
        )

    @property
    def step_blocks(self) -> tuple[range, ...]:
        """Blocks of each step."""
        return tuple(each for each in step_blocks(self.blocks.count, self.steps) if each)

    @property
    def runs(self) -> int:
        """Runs of a channel."""
        return ceil_div(self.blocks.count, self.run) if self.run else 0

    @property
    def walked(self) -> int:
        """Blocks of a channel. The last run has enough of them that the sums beyond the run before it end there."""
        if not self.run:
            return self.blocks.count
        before = (self.runs - 1) * self.run
        return before + max(self.blocks.count - before, ceil_div(self.blocks.overlap, self.blocks.length))

    @property
    def joint_elements(self) -> int:
        """Sums at both ends of all runs, for all channels."""
        return self.rows * (self.runs + 1) * self.blocks.overlap

    @property
    def joint_bytes(self) -> int:
        """Bytes of the first, or of the last, sums of all runs."""
        return self.rows * self.runs * self.blocks.overlap * self.tile.number_bytes

    @property
    def count(self) -> str:
        """C++ type that counts the elements that the launch besides the sums visits."""
        elements = self.joint_elements if self.way is Way.CARRY else self.rows * self.blocks.outputs
        return count_type(elements, self.tile.threads)

    @property
    def counts(self) -> BlockCounts:
        """Counts of the launches that make the sums, beside the document's table. Workspaces are not counted."""
        threads, has_joints = self.tile.threads, self.way is Way.CARRY and self.blocks.overlap > 0
        steps = {Way.STEPS: len(self.step_blocks), Way.ATOMICS: 2, Way.CARRY: 1 + has_joints}[self.way]
        counts = self.blocks.counts(self.rows, threads, steps)
        if self.way is not Way.CARRY:
            return counts
        groups = self.rows * self.runs
        return dataclasses.replace(
            counts,
            groups=groups,
            work_items=groups * threads,
            local_elements=counts.local_elements + self.blocks.overlap,
            global_writes=self.rows * self.blocks.outputs,
        )

    @property
    def summary(self) -> tuple[str, ...]:
        """Header lines that say what the kernels do."""
        first = f"Overlap-add: blocks of {self.blocks.samples.length} samples, each with {self.blocks.sums} sums."
        return (first, *_SUMMARIES[self.way])


_SUMMARIES = {
    Way.STEPS: ("Launches one after the other add the blocks, each those that share no output.",),
    Way.ATOMICS: (
        "The first launch sets the result to zero; the second adds atomically, two sums to an output at most.",
    ),
    Way.CARRY: (
        "A block of threads walks over a run of blocks and keeps the sums beyond each block in shared memory.",
        "A second launch adds the sums at the joints of the runs.",
    ),
}


class Filter1dOverlapAdd(Family[Filter1d]):
    """`filter1d` with disjoint blocks of samples, whose overlapping sums are added."""

    name = "filter1d_overlap_add"

    def why_not(self, problem: Filter1d, device: Device) -> str | None:
        if (reason := why_no_epilogue(problem)) is not None:
            return reason
        if problem.layout is not SignalLayout.BCT:
            return "loads samples of a channel that lie side by side: layout bct"
        if self.space(problem, device).why_empty is not None:
            return (
                f"no block for {problem.taps} taps, {problem.down} samples apart, fits shared memory and a grid of "
                f"{MAX_GRID} blocks"
            )
        return None

    def space(self, problem: Filter1d, device: Device) -> Space:
        return Space(
            parameters=(
                Parameter("way", words(_ways(problem)), "how sums that blocks share are added"),
                Parameter("threads", THREADS, "threads of a block"),
                Parameter("outputs", OWN, "sums of a thread"),
                windows_parameter(problem),
                Parameter("steps", STEPS, "launches one after the other, with way steps; else 0"),
                Parameter("run", RUNS, "blocks over which a block of threads walks, with way carry; else 0"),
                weights_parameter(problem, (Weights.SHARED, Weights.GLOBAL)),
                unroll_parameter(),
            ),
            constraints=_constraints(problem, device),
        )

    def default(self, problem: Filter1d, device: Device) -> Config:
        space, (threads, outputs) = self.space(problem, device), usual_block(problem, device)
        values: dict[str, Value] = {
            "way": Way.CARRY.value,
            "threads": threads,
            "outputs": outputs,
            "windows": Windows.BESIDE.value,
            "steps": 0,
            "run": _usual_run(problem, device, threads * outputs),
            "weights": space.parameters[6].values[0],
            "unroll": usual_unroll(problem),
        }
        return space.like(values) or next(space.configs())

    def starts(self, problem: Filter1d, device: Device) -> tuple[Config, ...]:
        """The default with each way."""
        space, usual = self.space(problem, device), self.default(problem, device).values()
        ways: tuple[dict[str, Value], ...] = (
            {"way": Way.STEPS.value, "steps": 2, "run": 0},
            {"way": Way.ATOMICS.value, "run": 0},
        )
        made = (Config.of({**usual, **way}) for way in ways)
        return tuple(each for each in made if space.contains(each))

    def unrolled(self, problem: Filter1d, config: Config) -> int:
        once = config.integer("outputs") * min(config.integer("unroll"), problem.taps)
        return once * max(1, config.integer("steps"))

    def program(self, problem: Filter1d, config: Config) -> Program:
        geometry, weights = Filter1dOverlapAddGeometry.of(problem, config), Weights.of(config)
        source = render(
            "filter1d/overlap_add.cu.jinja",
            p=Filter1dText.of(problem),
            g=geometry,
            t=geometry.tile,
            config=config.key(),
            weights=weights.value,
        )
        arguments, threads = filter1d_arguments(problem, weights), geometry.tile.threads

        def launch(entry: str, blocks: int, more: tuple[Argument, ...] = ()) -> Launch:
            made = Launch.of_blocks(f"{self.name}{entry}", blocks, threads, (*arguments, *more))
            return dataclasses.replace(made, constants=filter1d_constants(weights))

        if geometry.way is Way.STEPS:
            steps = enumerate(geometry.step_blocks)
            launches = tuple(launch(f"_step{step}", problem.rows * len(blocks)) for step, blocks in steps)
            return Program.of_source(self.name, config, source, launches)
        groups = geometry.counts.groups
        if geometry.way is Way.ATOMICS:
            zero_blocks = ceil_div(problem.output.size, threads)
            zero = Launch.of_blocks(f"{self.name}_zero", zero_blocks, threads, (Pointer("result"),))
            return Program.of_source(self.name, config, source, (zero, launch("", groups)))
        if not geometry.blocks.overlap:
            return Program.of_source(self.name, config, source, (launch("", groups),))
        joints = (Pointer("heads"), Pointer("tails"))
        add = Launch.of_blocks(
            f"{self.name}_joints", ceil_div(geometry.joint_elements, threads), threads, (Pointer("result"), *joints)
        )
        workspaces = tuple(Workspace(each.buffer, geometry.joint_bytes) for each in joints)
        return Program.of_source(self.name, config, source, (launch("", groups, joints), add), workspaces)


def _usual_run(problem: Filter1d, device: Device, sums: int) -> int:
    """The longest run whose walks still fill the device several times over, so that few SMs idle at the end."""
    blocks = problem.rows * ceil_div(problem.signal, sums * problem.down)
    return next((run for run in RUNS[:1:-1] if blocks >= run * WALKS * device.multiprocessors), RUNS[1])


def _ways(problem: Filter1d) -> tuple[Way, ...]:
    """Ways whose additions are not rounded to the result's type."""
    is_wide = problem.output_dtype in (DType.FLOAT32, DType.COMPLEX64)
    return tuple(Way) if is_wide else (Way.CARRY,)


def _constraints(problem: Filter1d, device: Device) -> tuple[Constraint, ...]:
    overlap, shared = overlap_of(problem), device.limits.static_shared_bytes

    def length(threads: int, outputs: int) -> int:
        return max(1, length_of(problem, threads * outputs))  # a search asks each rule about any values

    return (
        Constraint(
            f"a block has at least {LANES} outputs more than the {overlap} that the next block adds to as well",
            lambda threads, outputs: length_of(problem, threads * outputs) > 0,
        ),
        Constraint(
            f"a block has at most {shared} bytes of shared memory for {problem.taps} taps, down {problem.down}",
            lambda threads, outputs, windows, way, weights: (
                _shared_bytes(problem, threads, outputs, windows, way, weights) <= shared
            ),
        ),
        windows_constraint(),
        Constraint(
            f"a grid has at most {MAX_GRID} blocks, for {problem.rows} channels of {problem.signal} samples",
            lambda threads, outputs, run: _most_blocks(problem, length(threads, outputs), run, threads) <= MAX_GRID,
        ),
        Constraint(
            "steps are for way steps, and that way has some", lambda way, steps: (way == Way.STEPS) == (steps > 0)
        ),
        Constraint("runs are for way carry, and that way has some", lambda way, run: (way == Way.CARRY) == (run > 0)),
        Constraint(
            f"blocks of one step share no output: 1 + ceil({overlap} / length) steps at least",
            lambda threads, outputs, steps: not steps or steps >= addends(length(threads, outputs), overlap),
        ),
        Constraint(
            f"atomic additions have one order only for two blocks: no block is shorter than {overlap} outputs",
            lambda threads, outputs, way: way != Way.ATOMICS or addends(length(threads, outputs), overlap) <= 2,
        ),
        Constraint(
            f"the sums beyond a run end in the next run: it has {overlap} outputs at least",
            lambda threads, outputs, run: not run or run * length(threads, outputs) >= overlap,
        ),
        unroll_constraint(problem),
    )


def _shared_bytes(problem: Filter1d, threads: int, outputs: int, windows: str, way: str, weights: str) -> int:
    sums = length_of(problem, threads * outputs) + overlap_of(problem)
    tile = WindowTile.of(problem, threads, sums, 1, Weights(weights), Windows(windows))
    return tile.shared_bytes + (way == Way.CARRY) * overlap_of(problem) * tile.number_bytes


def _most_blocks(problem: Filter1d, length: int, run: int, threads: int) -> int:
    """Blocks of the largest launch, or of a channel if these are more: a kernel counts both in int."""
    blocks = AddBlocks.of(problem, length).count
    if not run:
        return max(problem.rows * blocks, ceil_div(problem.output.size, threads))
    runs = ceil_div(blocks, run)
    return max(
        problem.rows * runs, blocks + 2 * run, ceil_div(problem.rows * (runs + 1) * overlap_of(problem), threads)
    )
