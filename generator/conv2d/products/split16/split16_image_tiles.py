"""Tiles of fprop and dgrad as an implicit GEMM, and the order in which they go through the taps of a filter."""

from __future__ import annotations

import abc
import dataclasses
import enum
import functools
import itertools
from typing import Any, ClassVar, Self

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.words import ImageLayout
from warpsmith.generator.conv2d.products.split16.split16_arithmetic import Arithmetic
from warpsmith.generator.conv2d.products.split16.split16_folding import Folding
from warpsmith.generator.conv2d.products.split16.split16_lattice import Lattice, Tap
from warpsmith.generator.conv2d.products.split16.split16_operand import Filters, Images
from warpsmith.generator.steps import aligned


class Reach(enum.StrEnum):
    """The taps that share one stage; one range of pixels in shared memory serves all of them."""

    ROW = "row"
    """The taps of one row of the filter."""
    FILTER = "filter"
    """All taps that read one plane."""


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One tap in the order in which a tile goes through them."""

    shift: int
    """Positions from the first pixel of the stage to the tap's first pixel."""
    weight: int
    begins: bool
    """Whether this is the first tap that reads its stage."""
    ends: bool


@dataclasses.dataclass(frozen=True, slots=True)
class LineStep(Step):
    """A step for images that lie on one line."""

    first: int
    """Positions from a tile's first position to the first pixel of the stage; planes lie one behind the other."""


@dataclasses.dataclass(frozen=True)
class ImageTiles(abc.ABC):
    """One config of fprop or dgrad, without the parts that depend on the kind of MMA instruction.

    M of the implicit GEMM is the positions, N the channels of the result, and K the source channels of each tap.
    """

    lattice: Lattice
    tile_m: int
    """Positions per tile (M)."""
    columns: int
    """Channels of the result per tile (N)."""
    arithmetic: Arithmetic
    images: Images
    filters: Filters
    steps: tuple[Step, ...]
    """The steps of all phases, one phase after the other."""
    first_taps: tuple[int, ...]
    """Index into `steps` of each phase's first step, followed by the number of all steps."""
    run: int
    """Pixels of a channel vector per stage."""
    channels_last: bool
    """Whether the channels of a result pixel are contiguous, as in the accumulators."""
    folding: Folding | None
    """Folding of dgrad, whose result channels are rows and columns of the image; None otherwise."""
    result_strides: tuple[int, ...]
    stays_scaled: bool = dataclasses.field(default=False, kw_only=True)
    """Whether results keep the powers of two of both operands, because a later kernel removes them."""

    is_transposed = False
    """Whether operands lie transposed in shared memory. They do not: K is contiguous."""
    maps: ClassVar[bool] = False
    """Whether TMA tensor maps fetch pixels from the operand's own layout; otherwise pixels lie on one line."""
    own_results: int = dataclasses.field(default=0, kw_only=True)
    """Channels of the result that have biases of their own, which others repeat; 0 if all have."""

    @classmethod
    def tiled(
        cls,
        family: str,
        problem: Conv2d,
        arithmetic: Arithmetic,
        tile_m: int,
        columns: int,
        channels: int,
        reach: Reach,
        **own: Any,
    ) -> Self:
        """Build the tiles of a config.

        Args:
            family: family that owns the tiles.
            problem: fprop or dgrad.
            arithmetic: element type and number of parts of the operands.
            tile_m: positions per tile.
            columns, channels, reach: as in the config; `channels` is the source channels per stage.
            own: the fields of the subclass.
        """
        folding, is_transposed = _folding(problem, arithmetic), problem.pass_.is_transposed
        lattice, chunks = _lattice(problem, arithmetic), channels // arithmetic.chunk
        steps, first_taps, span = _walk(problem, arithmetic, tile_m, reach)
        length = _line_length(lattice, tile_m, span)
        filters = _filters(family, problem, arithmetic, columns, chunks)
        return cls(
            lattice=lattice,
            tile_m=tile_m,
            columns=columns,
            arithmetic=arithmetic,
            images=_images(family, problem, arithmetic, filters.blocks * chunks, length),
            filters=filters,
            steps=steps,
            first_taps=first_taps,
            run=tile_m + span,
            channels_last=problem.layout is ImageLayout.NHWC and not (is_transposed and folding),
            folding=folding if is_transposed else None,
            result_strides=problem.output.element_strides,
            **own,
        )

    @property
    def phase_order(self) -> tuple[int, ...]:
        """Phases in the order in which blocks take all tiles of each; empty if phases take turns."""
        return ()

    @property
    def positions_are_results(self) -> bool:
        """Whether position m is pixel m of the result, whose address then needs no division. A line is taken not to
        be, though it has no gaps where no tap reaches beyond an image.
        """
        return False

    @property
    @abc.abstractmethod
    def blocks(self) -> int:
        """Blocks of the launch."""

    @property
    @abc.abstractmethod
    def threads(self) -> int:
        """Threads per block."""

    @property
    @abc.abstractmethod
    def shared_bytes(self) -> int:
        """Bytes of shared memory per block."""

    @property
    def family(self) -> str:
        """Family that owns the tiles; the GEMM kernel has the same name."""
        return self.images.family

    @property
    def results(self) -> int:
        """Channels of the result, per group."""
        return self.filters.results

    @property
    def scales_back(self) -> bool:
        """Whether results are multiplied by powers of two that undo the scaling of the operands."""
        return self.arithmetic.scales and not self.stays_scaled

    @property
    def scaled_images(self) -> int:
        """Number of images whose results have a power of two each; 1 if all results share one, or have none."""
        return self.images.scaled_images if self.scales_back else 1

    @property
    def chunks(self) -> int:
        """Channel vectors per stage."""
        return self.filters.block_chunks

    @property
    def tiles_across(self) -> int:
        """Tiles along the channels of the result, per group."""
        return self.filters.tiles

    @property
    def tiles_down(self) -> int:
        """Tiles along the positions of a phase."""
        return -(-self.lattice.positions // self.tile_m)

    @property
    def tiles(self) -> int:
        """Tiles of all phases and groups."""
        return len(self.lattice.phases) * self.filters.groups * self.tiles_across * self.tiles_down

    @property
    def is_ragged(self) -> bool:
        """Whether the last tile has more columns than the result has channels left."""
        return self.results % self.columns > 0

    @property
    def split16_bytes(self) -> int:
        """Bytes of both 16-bit operands."""
        return self.images.nbytes + self.filters.nbytes

    @property
    def workspace_bytes(self) -> int:
        """Bytes of all workspaces, aligned as a plan lays them out."""
        nbytes = (*self.images.workspaces(), *self.filters.workspaces())
        return sum(aligned(each.nbytes) for each in nbytes)


def _folding(problem: Conv2d, arithmetic: Arithmetic) -> Folding | None:
    """Folding of the layer. Slices are scaled channel by channel, and so are not folded."""
    return None if arithmetic.is_sliced else Folding.of(problem)


def _lattice(problem: Conv2d, arithmetic: Arithmetic) -> Lattice:
    folding = _folding(problem, arithmetic)
    return Lattice.of(problem if folding is None else folding.layer)


def _line_length(lattice: Lattice, tile_m: int, span: int) -> int:
    """Positions of a line in whole tiles, plus those that the last tile reads beyond them."""
    return -(-lattice.positions // tile_m) * tile_m + lattice.reach + span


# Cached because many configs of one problem share them, and a family's model looks at hundreds of configs.
@functools.lru_cache(maxsize=256)
def _walk(
    problem: Conv2d, arithmetic: Arithmetic, tile_m: int, reach: Reach
) -> tuple[tuple[LineStep, ...], tuple[int, ...], int]:
    """The steps of all phases, the index of each phase's first step, and the largest shift within a stage."""
    lattice = _lattice(problem, arithmetic)
    phases = [_stages(taps, reach) for taps in lattice.phases]
    span = max((stage[-1].shift - stage[0].shift for stages in phases for stage in stages), default=0)
    length = _line_length(lattice, tile_m, span)
    steps = [tuple(itertools.chain.from_iterable(_steps(stage, length) for stage in stages)) for stages in phases]
    return tuple(itertools.chain.from_iterable(steps)), (0, *itertools.accumulate(map(len, steps))), span


@functools.lru_cache(maxsize=256)
def _images(family: str, problem: Conv2d, arithmetic: Arithmetic, chunks: int, length: int) -> Images:
    """The 16-bit source images, with `chunks` channel vectors and `length` positions per plane."""
    folding = None if problem.pass_.is_transposed else _folding(problem, arithmetic)
    lattice = _lattice(problem, arithmetic)
    return Images.of_sources(family, problem, problem.inputs[0], arithmetic, lattice, chunks, length, folding)


@functools.lru_cache(maxsize=256)
def _filters(family: str, problem: Conv2d, arithmetic: Arithmetic, columns: int, chunks: int) -> Filters:
    """The 16-bit weights, in tiles of `columns` result channels and blocks of `chunks` channel vectors."""
    folding = _folding(problem, arithmetic)
    layer = problem if folding is None else folding.layer
    summed, results = layer.summed_channels, layer.result_channels
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
        is_transposed=problem.pass_.is_transposed,
        folding=folding,
    )


def _stages(taps: tuple[Tap, ...], reach: Reach) -> list[list[Tap]]:
    """The taps of a phase, grouped by the stage that they share."""
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
