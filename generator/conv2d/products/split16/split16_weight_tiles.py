"""Tiles of wgrad as an implicit GEMM, and the kernel that adds up its split-K partial sums."""

from __future__ import annotations

import abc
import dataclasses
import functools
import itertools
from typing import Any, ClassVar, Self

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.products.split16.split16_arithmetic import Arithmetic
from warpsmith.generator.conv2d.products.split16.split16_folding import Folding, folded
from warpsmith.generator.conv2d.products.split16.split16_lattice import Lattice, Tap
from warpsmith.generator.conv2d.products.split16.split16_operand import CHUNK, Images
from warpsmith.generator.steps import aligned

PIXEL_BYTES = 2 * CHUNK
"""Bytes of one channel vector (8 fp16 numbers)."""
SUM_BLOCKS = 528
"""Fewest blocks of the kernel that adds up partial sums, if there are enough channels: four per SM."""
SUM_FLOATS = 4096
"""Approximate number of floats that such a block keeps in shared memory."""


@dataclasses.dataclass(frozen=True, slots=True)
class TapSet:
    """Taps of one plane whose sums a block computes side by side."""

    shifts: tuple[int, ...]
    """Positions from the first pixel of x that the set reads to each tap's first pixel."""
    weights: tuple[int, ...]
    """Index of each tap in the filter; -1 for an empty slot."""


@dataclasses.dataclass(frozen=True, slots=True)
class LineTapSet(TapSet):
    """A tap set for images that lie on one line."""

    first: int
    """Positions from a position of dy to the first pixel of x that the set reads; planes lie one behind the other."""


@dataclasses.dataclass(frozen=True)
class WeightTiles(abc.ABC):
    """One config of wgrad, without the parts that depend on the kind of MMA instruction.

    M of the implicit GEMM is the channels of x for each tap, N the channels of dy, and K the positions.
    """

    lattice: Lattice
    taps: int
    """Taps per block, side by side."""
    rows: int
    """Channels of x per tile, for each tap (M)."""
    columns: int
    """Channels of dy per tile (N)."""
    tile_k: int
    """Positions per stage (K)."""
    stages: int
    splits: int
    """Split-K factor; each part of a sum has its own block."""
    arithmetic: Arithmetic
    x: Images
    dy: Images
    tap_sets: tuple[TapSet, ...]
    run: int
    """Positions of a channel vector of x per stage."""

    is_transposed = True
    """Whether operands lie transposed in shared memory: channels (M, N) are contiguous, not positions (K)."""
    maps: ClassVar[bool] = False
    """Whether TMA tensor maps fetch pixels from the operands' own layout; otherwise pixels lie on one line."""

    @classmethod
    def tiled(
        cls,
        family: str,
        problem: Conv2d,
        taps: int,
        rows: int,
        columns: int,
        tile_k: int,
        **own: Any,
    ) -> Self:
        """Build the tiles of a config.

        Args:
            family: family that owns the tiles.
            problem: wgrad.
            taps, rows, columns: as in the config; see the attributes.
            tile_k: `terms` of the config.
            own: stages, splits, and the fields of the subclass.
        """
        tap_sets, span = _tap_sets(problem, taps, tile_k)
        return cls(
            lattice=Lattice.of(folded(problem)),
            taps=taps,
            rows=rows,
            columns=columns,
            tile_k=tile_k,
            arithmetic=Arithmetic.of(problem),
            x=_x(family, problem, tile_k, span),
            dy=_dy(family, problem, tile_k, columns),
            tap_sets=tap_sets,
            run=tile_k + span,
            **own,
        )

    @property
    @abc.abstractmethod
    def x_pitch(self) -> int:
        """Positions from one channel vector of a stage to the next."""

    @property
    @abc.abstractmethod
    def threads(self) -> int:
        """Threads per block."""

    @property
    @abc.abstractmethod
    def shared_bytes(self) -> int:
        """Bytes of shared memory per block."""

    @property
    def x_chunks(self) -> int:
        """Channel vectors of x per stage."""
        return self.rows // CHUNK

    @property
    def dy_chunks(self) -> int:
        """Channel vectors of dy per stage."""
        return self.columns // CHUNK

    @property
    def tiles_down(self) -> int:
        """Tiles along the channels of x, per group."""
        return -(-self.x.chunks // self.x_chunks)

    @property
    def is_ragged(self) -> bool:
        """Whether the last tile has more channels than x has left; the surplus ones repeat others."""
        return self.x.chunks % self.x_chunks > 0

    @property
    def tiles_across(self) -> int:
        """Tiles along the channels of dy, per group."""
        return self.dy.chunks // self.dy_chunks

    @property
    def steps(self) -> int:
        """Stages of a whole sum, all its parts together."""
        return self.dy.length // self.tile_k

    @property
    def split_steps(self) -> int:
        """Stages per part of a sum; the last part may have fewer."""
        return -(-self.steps // self.splits)

    @property
    def has_steps(self) -> bool:
        """Whether every part has at least one stage."""
        return (self.splits - 1) * self.split_steps < self.steps

    @property
    def tiles(self) -> int:
        """Blocks before the split-K factor."""
        return len(self.tap_sets) * self.x.groups * self.tiles_down * self.tiles_across

    @property
    def blocks(self) -> int:
        return self.tiles * self.splits

    @property
    def weights(self) -> int:
        """Weights of all filters."""
        return self.tap_count * self.x.groups * self.x.channels * self.dy.channels

    @functools.cached_property
    def tap_count(self) -> int:
        """Taps per filter."""
        return sum(weight >= 0 for each in self.tap_sets for weight in each.weights)

    @property
    def stage_bytes(self) -> int:
        """Bytes of shared memory per stage, both operands."""
        return self.arithmetic.parts * PIXEL_BYTES * (self.x_chunks * self.x_pitch + self.dy_chunks * self.tile_k)

    @property
    def sum_bytes(self) -> int:
        """Bytes of the workspace for partial sums."""
        return 4 * self.splits * self.weights

    @property
    def sum_filters(self) -> int:
        """Filters per block of the summing kernel; they are contiguous in the partial sums."""
        return max(1, min(32, SUM_FLOATS // self.tap_count))

    @property
    def sum_channels(self) -> int:
        """Channels per block of the summing kernel; their weights are contiguous in the result. Fewer where the launch
        would have less than SUM_BLOCKS blocks.
        """
        most = max(1, min(8, SUM_FLOATS // (self.tap_count * self.sum_filters)))
        return max(1, min(most, self.x.groups * self.x.channels * self.sum_tiles_across // SUM_BLOCKS))

    @property
    def sum_tiles_across(self) -> int:
        """Blocks along the filters of a group, in the summing kernel."""
        return -(-self.dy.channels // self.sum_filters)

    @property
    def sum_tiles_down(self) -> int:
        """Blocks along the channels of a group, in the summing kernel."""
        return -(-self.x.channels // self.sum_channels)

    @property
    def sum_blocks(self) -> int:
        """Blocks of the summing kernel."""
        return self.x.groups * self.sum_tiles_across * self.sum_tiles_down

    @property
    def split16_bytes(self) -> int:
        """Bytes of both 16-bit operands."""
        return self.x.nbytes + self.dy.nbytes

    @property
    def workspace_bytes(self) -> int:
        """Bytes of all workspaces, aligned as a plan lays them out."""
        nbytes = (*self.x.workspaces(), *self.dy.workspaces())
        return sum(aligned(each.nbytes) for each in nbytes) + aligned(self.sum_bytes)


def _length(lattice: Lattice, tile_k: int) -> int:
    """Positions of dy, rounded up to whole stages."""
    return -(-lattice.positions // tile_k) * tile_k


# Cached because many configs of one problem share them, and a family's model looks at hundreds of configs.
@functools.lru_cache(maxsize=256)
def _tap_sets(problem: Conv2d, taps: int, tile_k: int) -> tuple[tuple[LineTapSet, ...], int]:
    """The tap sets of the blocks, and the largest shift within a set."""
    lattice = Lattice.of(folded(problem))
    sets = [list(each) for each in _sets(lattice.phases[0], taps)]
    span = max(each[-1].shift - each[0].shift for each in sets)
    length = _length(lattice, tile_k) + lattice.reach + span
    return tuple(_tap_set(each, taps, length) for each in sets), span


@functools.lru_cache(maxsize=256)
def _x(family: str, problem: Conv2d, tile_k: int, span: int) -> Images:
    """The 16-bit images, with `span` positions beyond the last stage."""
    layer = folded(problem)
    lattice, chunks = Lattice.of(layer), -(-layer.group_channels // CHUNK)
    length = _length(lattice, tile_k) + lattice.reach + span
    arithmetic, folding = Arithmetic.of(problem), Folding.of(problem)
    return Images.of_sources(family, problem, problem.inputs[0], arithmetic, lattice, chunks, length, folding)


@functools.lru_cache(maxsize=256)
def _dy(family: str, problem: Conv2d, tile_k: int, columns: int) -> Images:
    """The 16-bit gradients of the results, in whole stages and in whole tiles of `columns` channels."""
    lattice, chunks = Lattice.of(folded(problem)), -(-problem.group_filters // columns) * columns // CHUNK
    return Images.of_results(family, problem, problem.inputs[1], lattice, chunks, _length(lattice, tile_k), tile_k)


def _sets(taps: tuple[Tap, ...], size: int) -> list[tuple[Tap, ...]]:
    planes = (tuple(each) for _, each in itertools.groupby(taps, key=lambda tap: tap.plane))
    return [each[first : first + size] for each in planes for first in range(0, len(each), size)]


def _tap_set(taps: list[Tap], size: int, length: int) -> LineTapSet:
    low, missing = taps[0].shift, size - len(taps)
    shifts = tuple(tap.shift - low for tap in taps)
    return LineTapSet(
        first=taps[0].plane * length + low,
        shifts=(*shifts, *[shifts[-1]] * missing),
        weights=(*(tap.weight for tap in taps), *[-1] * missing),
    )
