"""What a block of `conv2d_warpgroup` computes of a result that is an image, and the shared memory that takes."""

from __future__ import annotations

import dataclasses
import enum
import itertools

from warpsmith.generator.conv2d.problem import Conv2d
from warpsmith.generator.conv2d.warpgroup.arithmetic import Arithmetic
from warpsmith.generator.conv2d.warpgroup.halving import CHUNK, Filters, Images
from warpsmith.generator.conv2d.warpgroup.lattice import Lattice, Tap
from warpsmith.generator.conv2d.words import ImageLayout, Pass
from warpsmith.generator.space import Config
from warpsmith.generator.steps import aligned

GROUP_POSITIONS = 64
"""Results of a warpgroup side by side: the rows of a wgmma product."""
PIXEL_BYTES = 2 * CHUNK
"""Of eight halves."""
BARRIER_BYTES = 8
REGISTERS = {1: 248, 2: 232, 3: 160}
"""Of a thread that multiplies, by the warpgroups that do: a quarter of a multiprocessor has 512 for each lane, of which
a warp that copies keeps COPYING_REGISTERS."""
COPYING_REGISTERS = 24
STAGED_BYTES = 4 * 16 * (GROUP_POSITIONS + 4)
"""Of results on their way out, a warpgroup's."""


class Reach(enum.StrEnum):
    """Which taps' pixels are copied at once; a run of pixels serves all of them."""

    ROW = "row"
    """Those of a row of the filter."""
    FILTER = "filter"
    """All of them that read one plane."""


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """A tap, in the order in which a tile goes through them."""

    first: int
    """From a tile's first position to the first pixel of the tap's stage, in planes one behind the other."""
    shift: int
    """From there to the tap's own pixels."""
    weight: int
    begins: bool
    """Whether no tap before it reads this stage."""
    ends: bool


@dataclasses.dataclass(frozen=True)
class ImageGeometry:
    """One config on fprop or dgrad."""

    lattice: Lattice
    warpgroups: int
    columns: int
    pixel_stages: int
    filter_stages: int
    blocks: int
    """Of threads, which take tiles in turns."""
    arithmetic: Arithmetic
    images: Images
    filters: Filters
    steps: tuple[Step, ...]
    """Those of each phase, one phase after the other."""
    first_taps: tuple[int, ...]
    """Of each phase, and how many there are in all."""
    run: int
    """Pixels of a chunk that a stage has."""
    channels_last: bool
    """Whether the channels of a pixel of the result lie side by side."""

    is_turned = False
    """What lies side by side in shared memory is summed over."""

    @classmethod
    def of(cls, problem: Conv2d, config: Config) -> ImageGeometry:
        lattice = Lattice.of(problem)
        is_fprop = problem.pass_ is Pass.FPROP
        summed, results = problem.group_channels, problem.group_filters
        summed, results = (summed, results) if is_fprop else (results, summed)
        warpgroups, columns = config.integer("warpgroups"), config.integer("columns")
        chunks, arithmetic = config.integer("channels") // CHUNK, Arithmetic.of(problem)
        phases = [_stages(taps, Reach(config.text("reach"))) for taps in lattice.phases]
        span = max((stage[-1].shift - stage[0].shift for stages in phases for stage in stages), default=0)
        positions = GROUP_POSITIONS * warpgroups
        length = -(-lattice.positions // positions) * positions + lattice.reach + span
        steps = [tuple(itertools.chain.from_iterable(_steps(stage, length) for stage in stages)) for stages in phases]
        channel_blocks = -(-summed // (chunks * CHUNK))
        source, weights = problem.inputs[0], problem.inputs[1]
        images = Images.of_sources(problem, source, lattice, channel_blocks * chunks, length)
        filters = Filters(
            operand=weights,
            arithmetic=arithmetic,
            groups=problem.groups,
            summed=summed,
            results=results,
            filter_columns=problem.weight[3],
            tap_count=problem.weight[2] * problem.weight[3],
            columns=columns,
            tiles=-(-results // columns),
            block_chunks=chunks,
            blocks=channel_blocks,
            is_turned=not is_fprop,
        )
        tiles = len(phases) * problem.groups * filters.tiles * -(-lattice.positions // positions)
        return cls(
            lattice=lattice,
            warpgroups=warpgroups,
            columns=columns,
            pixel_stages=config.integer("pixel_stages"),
            filter_stages=config.integer("filter_stages"),
            blocks=min(config.integer("blocks") or tiles, tiles),
            arithmetic=arithmetic,
            images=images,
            filters=filters,
            steps=tuple(itertools.chain.from_iterable(steps)),
            first_taps=(0, *itertools.accumulate(map(len, steps))),
            run=positions + span,
            channels_last=problem.layout is ImageLayout.NHWC,
        )

    @property
    def threads(self) -> int:
        """Of a block: its warpgroups, and the one that copies."""
        return block_threads(self.warpgroups)

    @property
    def registers(self) -> int:
        """That each thread which multiplies takes; 0 where it has enough from the start."""
        return REGISTERS[self.warpgroups] if self.warpgroups > 1 else 0

    @property
    def copying_registers(self) -> int:
        """That those which copy keep."""
        return COPYING_REGISTERS

    @property
    def results(self) -> int:
        """Channels of the result, in a group."""
        return self.filters.results

    @property
    def chunks(self) -> int:
        """Of a block of channels."""
        return self.filters.block_chunks

    @property
    def tiles_across(self) -> int:
        """Of the channels of the result, in a group."""
        return self.filters.tiles

    @property
    def tiles_down(self) -> int:
        """Of the positions of a phase."""
        return -(-self.lattice.positions // (GROUP_POSITIONS * self.warpgroups))

    @property
    def tiles(self) -> int:
        """Of all phases and groups."""
        return len(self.lattice.phases) * self.filters.groups * self.tiles_across * self.tiles_down

    @property
    def is_ragged(self) -> bool:
        """Whether the last tile has columns to spare."""
        return self.results % self.columns > 0

    @property
    def staged_bytes(self) -> int:
        """Of results on their way out; those whose channels lie side by side are stored as they are."""
        return 0 if self.channels_last else self.warpgroups * STAGED_BYTES

    @property
    def shared_bytes(self) -> int:
        """Of a block."""
        chunks = self.arithmetic.parts * self.chunks
        pixels = self.pixel_stages * chunks * self.run
        filters = self.filter_stages * chunks * self.columns
        barriers = 2 * BARRIER_BYTES * (self.pixel_stages + self.filter_stages)
        return PIXEL_BYTES * (pixels + filters) + self.staged_bytes + barriers

    @property
    def halves_bytes(self) -> int:
        """Of both operands."""
        return self.images.nbytes + self.filters.nbytes

    @property
    def workspace_bytes(self) -> int:
        """Of all workspaces, as a plan lays them out."""
        nbytes = (*self.images.workspaces(), *self.filters.workspaces())
        return sum(aligned(each.nbytes) for each in nbytes)


def block_threads(warpgroups: int) -> int:
    """Of a block with so many warpgroups that multiply, and one that copies."""
    return 128 * (warpgroups + 1)


def _stages(taps: tuple[Tap, ...], reach: Reach) -> list[list[Tap]]:
    """The taps of a phase, those together whose pixels are copied at once."""
    groups = itertools.groupby(taps, key=lambda tap: (tap.plane, tap.row if reach is Reach.ROW else 0))
    return [list(stage) for _, stage in groups]


def _steps(stage: list[Tap], length: int) -> list[Step]:
    low = stage[0].shift
    return [
        Step(
            first=tap.plane * length + low,
            shift=tap.shift - low,
            weight=tap.weight,
            begins=tap is stage[0],
            ends=tap is stage[-1],
        )
        for tap in stage
    ]
