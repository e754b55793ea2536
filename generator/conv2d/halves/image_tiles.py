"""What blocks compute of a result that is an image, and in which order they go through the taps of a filter."""

from __future__ import annotations

import abc
import dataclasses
import enum
import functools
import itertools
from typing import Any, ClassVar, Self

from warpsmith.generator.conv2d.halves.arithmetic import Arithmetic
from warpsmith.generator.conv2d.halves.folding import Folding
from warpsmith.generator.conv2d.halves.halving import Filters, Images
from warpsmith.generator.conv2d.halves.lattice import Lattice, Tap
from warpsmith.generator.conv2d.problem import Conv2d
from warpsmith.generator.conv2d.words import ImageLayout, Pass
from warpsmith.generator.steps import aligned


class Reach(enum.StrEnum):
    """Which taps' pixels are copied at once; a run of pixels serves all of them."""

    ROW = "row"
    """Those of a row of the filter."""
    FILTER = "filter"
    """All of them that read one plane."""


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """A tap, in the order in which a tile goes through them."""

    shift: int
    """Positions from the first pixel of the tap's stage to its own."""
    weight: int
    begins: bool
    """Whether no tap before it reads this stage."""
    ends: bool


@dataclasses.dataclass(frozen=True, slots=True)
class LineStep(Step):
    """Of images that lie on one line."""

    first: int
    """From a tile's first position to the first pixel of the tap's stage, in planes one behind the other."""


@dataclasses.dataclass(frozen=True)
class ImageTiles(abc.ABC):
    """One config on fprop or dgrad, as far as it does not depend on who multiplies."""

    lattice: Lattice
    positions: int
    """Of a tile."""
    columns: int
    """Of a tile: channels of the result."""
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
    """Whether the channels of a pixel of the result lie side by side, as sums have them."""
    folding: Folding | None
    """Where channels of the sums are pixels of the result."""
    result_strides: tuple[int, ...]
    """Of the result, in elements."""
    stays_scaled: bool = dataclasses.field(default=False, kw_only=True)
    """Whether results keep the powers of two of both operands: who reads them takes these off."""

    is_turned = False
    """What lies side by side in shared memory is summed over."""
    maps: ClassVar[bool] = False
    """Whether the copy engine brings pixels from where the operand has them, by a map; else they lie on one line."""

    @classmethod
    def tiled(
        cls,
        family: str,
        problem: Conv2d,
        arithmetic: Arithmetic,
        positions: int,
        columns: int,
        channels: int,
        reach: Reach,
        **own: Any,
    ) -> Self:
        """Tiles of so many positions and channels of the result, and sums of so many channels a stage.

        Args:
            family: whose tiles they are.
            problem: fprop or dgrad.
            arithmetic: what numbers become.
            positions, columns, channels, reach: of the config.
            own: the fields of the subclass.
        """
        folding, is_fprop = _folding(problem, arithmetic), problem.pass_ is Pass.FPROP
        lattice, chunks = _lattice(problem, arithmetic), channels // arithmetic.chunk
        steps, first_taps, span = _walk(problem, arithmetic, positions, reach)
        length = _line_length(lattice, positions, span)
        filters = _filters(family, problem, arithmetic, columns, chunks)
        return cls(
            lattice=lattice,
            positions=positions,
            columns=columns,
            arithmetic=arithmetic,
            images=_images(family, problem, arithmetic, filters.blocks * chunks, length),
            filters=filters,
            steps=steps,
            first_taps=first_taps,
            run=positions + span,
            channels_last=problem.layout is ImageLayout.NHWC and (is_fprop or folding is None),
            folding=None if is_fprop else folding,
            result_strides=problem.output.element_strides,
            **own,
        )

    @property
    @abc.abstractmethod
    def blocks(self) -> int:
        """Of the launch."""

    @property
    @abc.abstractmethod
    def threads(self) -> int:
        """Of a block."""

    @property
    @abc.abstractmethod
    def shared_bytes(self) -> int:
        """Of a block."""

    @property
    def family(self) -> str:
        """Whose tiles they are, and the name of the kernel that multiplies."""
        return self.images.family

    @property
    def results(self) -> int:
        """Channels of the result, in a group."""
        return self.filters.results

    @property
    def scales_back(self) -> bool:
        """Whether results are multiplied by powers of two."""
        return self.arithmetic.scales and not self.stays_scaled

    @property
    def scaled_images(self) -> int:
        """Images whose results have a power of two each; 1 where all results have the same, or none."""
        return self.images.scaled_images if self.scales_back else 1

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
        return -(-self.lattice.positions // self.positions)

    @property
    def tiles(self) -> int:
        """Of all phases and groups."""
        return len(self.lattice.phases) * self.filters.groups * self.tiles_across * self.tiles_down

    @property
    def is_ragged(self) -> bool:
        """Whether the last tile has columns to spare."""
        return self.results % self.columns > 0

    @property
    def halves_bytes(self) -> int:
        """Of both operands."""
        return self.images.nbytes + self.filters.nbytes

    @property
    def workspace_bytes(self) -> int:
        """Of all workspaces, as a plan lays them out."""
        nbytes = (*self.images.workspaces(), *self.filters.workspaces())
        return sum(aligned(each.nbytes) for each in nbytes)


def summed_and_results(problem: Conv2d) -> tuple[int, int]:
    """Channels of a group that a result of fprop or dgrad sums over, and those of the result."""
    both = problem.group_channels, problem.group_filters
    return both if problem.pass_ is Pass.FPROP else both[::-1]


def _folding(problem: Conv2d, arithmetic: Arithmetic) -> Folding | None:
    """Slices are measured channel by channel, and so not folded."""
    return None if arithmetic.is_sliced else Folding.of(problem)


def _lattice(problem: Conv2d, arithmetic: Arithmetic) -> Lattice:
    folding = _folding(problem, arithmetic)
    return Lattice.of(problem if folding is None else folding.layer)


def _line_length(lattice: Lattice, positions: int, span: int) -> int:
    """Positions of a line in whole tiles, with those that the last one reads beyond them."""
    return -(-lattice.positions // positions) * positions + lattice.reach + span


# Parts that many configs of one problem share: a model of a family looks at hundreds of them.
@functools.lru_cache(maxsize=256)
def _walk(
    problem: Conv2d, arithmetic: Arithmetic, positions: int, reach: Reach
) -> tuple[tuple[LineStep, ...], tuple[int, ...], int]:
    """The steps of all phases, the number of the first one of each, and the largest shift within a stage."""
    lattice = _lattice(problem, arithmetic)
    phases = [_stages(taps, reach) for taps in lattice.phases]
    span = max((stage[-1].shift - stage[0].shift for stages in phases for stage in stages), default=0)
    length = _line_length(lattice, positions, span)
    steps = [tuple(itertools.chain.from_iterable(_steps(stage, length) for stage in stages)) for stages in phases]
    return tuple(itertools.chain.from_iterable(steps)), (0, *itertools.accumulate(map(len, steps))), span


@functools.lru_cache(maxsize=256)
def _images(family: str, problem: Conv2d, arithmetic: Arithmetic, chunks: int, length: int) -> Images:
    """The images that are summed over, with so many chunks of channels and positions of a plane."""
    folding = _folding(problem, arithmetic) if problem.pass_ is Pass.FPROP else None
    lattice = _lattice(problem, arithmetic)
    return Images.of_sources(family, problem, problem.inputs[0], arithmetic, lattice, chunks, length, folding)


@functools.lru_cache(maxsize=256)
def _filters(family: str, problem: Conv2d, arithmetic: Arithmetic, columns: int, chunks: int) -> Filters:
    """The weights, in tiles of so many channels of the result and blocks of so many chunks."""
    folding = _folding(problem, arithmetic)
    layer = problem if folding is None else folding.layer
    summed, results = summed_and_results(layer)
    return Filters(
        family=family,
        operand=problem.inputs[1],
        arithmetic=arithmetic,
        groups=problem.groups,
        summed=summed,
        results=results,
        filter_columns=layer.weight[3],
        tap_count=layer.weight[2] * layer.weight[3],
        columns=columns,
        tiles=-(-results // columns),
        block_chunks=chunks,
        blocks=-(-summed // (chunks * arithmetic.chunk)),
        is_turned=problem.pass_ is not Pass.FPROP,
        folding=folding,
    )


def _stages(taps: tuple[Tap, ...], reach: Reach) -> list[list[Tap]]:
    """The taps of a phase, those together whose pixels are copied at once."""
    groups = itertools.groupby(taps, key=lambda tap: (tap.plane, tap.row if reach is Reach.ROW else 0))
    return [list(stage) for _, stage in groups]


def _steps(stage: list[Tap], length: int) -> list[LineStep]:
    low = stage[0].shift
    return [
        LineStep(
            first=tap.plane * length + low,
            shift=tap.shift - low,
            weight=tap.weight,
            begins=tap is stage[0],
            ends=tap is stage[-1],
        )
        for tap in stage
    ]
