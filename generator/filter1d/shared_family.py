"""`filter1d` by overlap-discard: a block makes a slice of one channel's outputs from a tile in shared memory.

Each thread loads as many samples of the tile as it makes outputs, and the first taps - 1 threads load the halo. Blocks
at the ends of the signal, whose samples or outputs do not all exist, have loads and stores of their own. Zeros stand
for samples beyond the ends, so that a tap that is not finite makes NaN there. With `align` the first block makes only
the remainder of outputs, so that the tiles of the others begin at multiples of 64 or 128 bytes.

The document has one output a thread, and a read of shared memory for each product. Outputs of a thread that lie side by
side (`windows`) read 16 bytes at a time and share them in registers.

Source: "Parallel filters", section 4.1, overlap-discard, and its last paragraph on alignment.
"""

from __future__ import annotations

import dataclasses

from warpsmith.generator.architectures import MAX_GRID
from warpsmith.generator.device import Device
from warpsmith.generator.family import Family, Work
from warpsmith.generator.filter1d.fields import SignalLayout
from warpsmith.generator.filter1d.overlap import DiscardBlocks
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.filter1d.text import (
    Filter1dText,
    Weights,
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
    why_no_tile,
    windows_constraint,
    windows_parameter,
)
from warpsmith.generator.program import Launch, Program
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value

THREADS = (64, 128, 256, 512, 1024)
OWN = (1, 2, 4, 8)


def aligning(problem: Filter1d, length: int, align: int) -> int | None:
    """Outputs of the first block by which the tiles of the others, of `length` outputs, begin at multiples of `align`
    bytes; None if no number does that, or if the tiles begin there anyway.
    """
    size, signal = problem.dtype.itemsize, problem.operands[0]
    row = problem.pitch or problem.signal * signal.dtype.itemsize
    if length * problem.down * size % align or (problem.rows > 1 and row % align):
        return None
    found = (each for each in range(1, min(length, align) + 1) if not _first_byte(problem, each) % align)
    first = next(found, None)
    return None if first is None or not _first_byte(problem, length) % align else first


def _first_byte(problem: Filter1d, outputs: int) -> int:
    """Offset in bytes, from the first sample, of the window after the first `outputs`."""
    return (problem.first_lag + outputs * problem.down) * problem.dtype.itemsize


@dataclasses.dataclass(frozen=True, slots=True)
class Filter1dSharedGeometry:
    """Geometry of one config on one problem."""

    blocks: DiscardBlocks
    tile: WindowTile
    align: int

    @classmethod
    def of(cls, problem: Filter1d, config: Config) -> Filter1dSharedGeometry:
        threads, align = config.integer("threads"), config.integer("align")
        length = threads * config.integer("outputs")
        first = aligning(problem, length, align) if align else 0
        return cls(
            blocks=DiscardBlocks.of(problem, length, first or 0),
            tile=WindowTile.of(
                problem, threads, length, config.integer("unroll"), Weights.of(config), Windows.of(config)
            ),
            align=align,
        )

    @property
    def summary(self) -> tuple[str, ...]:
        """Header lines that say what the kernel does."""
        outputs = self.blocks.outputs
        lines = (
            f"Overlap-discard: a block makes {outputs.length} outputs of one channel from a tile of {self.blocks.tile}"
            " samples in shared memory.",
            "Blocks at the ends of the signal check each sample and each output; the others check none.",
        )
        aligned = (
            f"The first block makes {outputs.first} outputs: the other tiles begin at multiples of {self.align} bytes."
        )
        return (*lines, aligned) if outputs.first else lines


class Filter1dShared(Family[Filter1d]):
    """`filter1d` with tiles of samples in shared memory."""

    name = "filter1d_shared"

    def why_not(self, problem: Filter1d, device: Device) -> str | None:
        if (reason := why_no_epilogue(problem)) is not None:
            return reason
        if problem.layout is not SignalLayout.BCT:
            return "loads samples of a channel that lie side by side: layout bct"
        if (reason := why_no_tile(problem, device, THREADS[0])) is not None:
            return reason
        if not any(self._fits(problem, device, threads, 1) for threads in THREADS):
            return f"{problem.rows} channels of {problem.result_length} outputs take more than {MAX_GRID} blocks"
        return None

    def space(self, problem: Filter1d, device: Device) -> Space:
        rows, shared = problem.rows, device.limits.static_shared_bytes
        return Space(
            parameters=(
                Parameter("threads", THREADS, "threads of a block"),
                Parameter("outputs", OWN, "outputs of a thread"),
                windows_parameter(problem),
                Parameter("align", (0, 64, 128), "bytes to whose multiples the first block's remainder aligns tiles"),
                weights_parameter(problem, (Weights.SHARED, Weights.GLOBAL)),
                unroll_parameter(),
            ),
            constraints=(
                Constraint(
                    f"a grid has at most {MAX_GRID} blocks, for {rows} channels of {problem.result_length} outputs",
                    lambda threads, outputs: rows * -(-problem.result_length // (threads * outputs)) < MAX_GRID - rows,
                ),
                Constraint(
                    f"a block has at most {shared} bytes of shared memory for {problem.taps} taps, down {problem.down}",
                    lambda threads, outputs, windows, weights: (
                        _shared_bytes(problem, threads, outputs, windows, weights) <= shared
                    ),
                ),
                windows_constraint(),
                Constraint(
                    f"the first block can align the other tiles, which are not aligned without it: {problem.key()}",
                    lambda threads, outputs, align: not align or bool(aligning(problem, threads * outputs, align)),
                ),
                unroll_constraint(problem),
            ),
        )

    def default(self, problem: Filter1d, device: Device) -> Config:
        space, (threads, outputs) = self.space(problem, device), usual_block(problem, device)
        weights = space.parameters[4].values[0]
        wanted: dict[str, Value] = {
            "threads": threads,
            "outputs": outputs,
            "windows": Windows.BESIDE.value,
            "align": 0,
            "weights": weights,
            "unroll": usual_unroll(problem),
        }
        return space.like(wanted) or next(space.configs())

    def starts(self, problem: Filter1d, device: Device) -> tuple[Config, ...]:
        """The document's kernel, and the default with each alignment."""
        space, usual = self.space(problem, device), self.default(problem, device).values()
        written: dict[str, Value] = {"threads": 256, "outputs": 1, "windows": Windows.APART.value}
        made = (Config.of({**usual, **change}) for change in (written, {"align": 64}, {"align": 128}))
        return tuple(each for each in made if space.contains(each))

    def work(self, problem: Filter1d, config: Config) -> Work | None:
        if Weights.of(config) is Weights.LITERAL:
            return None  # the compiler drops taps of zero
        geometry = Filter1dSharedGeometry.of(problem, config)
        counts = geometry.blocks.counts(problem.rows, geometry.tile.threads)
        return Work(problem.multiply_adds, counts.global_reads * problem.dtype.itemsize)

    def unrolled(self, problem: Filter1d, config: Config) -> int:
        return config.integer("outputs") * min(config.integer("unroll"), problem.taps)

    def program(self, problem: Filter1d, config: Config) -> Program:
        geometry, weights = Filter1dSharedGeometry.of(problem, config), Weights.of(config)
        source = render(
            "filter1d/shared.cu.jinja",
            p=Filter1dText.of(problem),
            g=geometry,
            t=geometry.tile,
            config=config.key(),
            weights=weights.value,
        )
        counts = geometry.blocks.counts(problem.rows, geometry.tile.threads)
        launch = Launch(
            entry=self.name,
            grid=(counts.groups, 1, 1),
            block=(counts.group_size, 1, 1),
            arguments=filter1d_arguments(problem, weights),
            constants=filter1d_constants(weights),
        )
        return Program.of_source(self.name, config, source, (launch,))

    def _fits(self, problem: Filter1d, device: Device, threads: int, outputs: int) -> bool:
        blocks = problem.rows * -(-problem.result_length // (threads * outputs))
        shared_bytes = _shared_bytes(problem, threads, outputs, Windows.APART, Weights.GLOBAL)
        return blocks < MAX_GRID - problem.rows and shared_bytes <= device.limits.static_shared_bytes


def _shared_bytes(problem: Filter1d, threads: int, outputs: int, windows: str, weights: str) -> int:
    return WindowTile.of(problem, threads, threads * outputs, 1, Weights(weights), Windows(windows)).shared_bytes
