"""What blocks compute of the gradient of weights, and the kernel that adds up the parts of its sums."""

from __future__ import annotations

import abc
import dataclasses
import functools
import itertools
from typing import Any, ClassVar, Self

from warpsmith.generator.conv2d.halves.arithmetic import Arithmetic
from warpsmith.generator.conv2d.halves.folding import Folding, folded
from warpsmith.generator.conv2d.halves.halving import CHUNK, Images
from warpsmith.generator.conv2d.halves.lattice import Lattice, Tap
from warpsmith.generator.conv2d.problem import Conv2d
from warpsmith.generator.steps import aligned

PIXEL_BYTES = 2 * CHUNK
"""Of eight halves."""
SUM_BLOCKS = 528
"""Of blocks that add up the parts of sums at the least, where there are so many channels: four a multiprocessor."""
SUM_FLOATS = 4096
"""That such a block holds in shared memory, about."""


@dataclasses.dataclass(frozen=True, slots=True)
class TapSet:
    """Taps of one plane whose sums a block computes side by side."""

    shifts: tuple[int, ...]
    """Positions from the first pixel of x that they read to those of each."""
    weights: tuple[int, ...]
    """Their places in the filter; -1 where there is no tap."""


@dataclasses.dataclass(frozen=True, slots=True)
class LineTapSet(TapSet):
    """Of images that lie on one line."""

    first: int
    """From a position of dy to the first pixel of x that they read, in planes one behind the other."""


@dataclasses.dataclass(frozen=True)
class WeightTiles(abc.ABC):
    """One config on wgrad, as far as it does not depend on who multiplies."""

    lattice: Lattice
    taps: int
    """Of a block, side by side."""
    rows: int
    """Of a tile: channels of x, for each tap."""
    columns: int
    """Of a tile: channels of dy."""
    terms: int
    """Positions that are summed up in a stage."""
    stages: int
    splits: int
    """Parts of a sum, each of a block of its own."""
    arithmetic: Arithmetic
    x: Images
    dy: Images
    tap_sets: tuple[TapSet, ...]
    run: int
    """Positions of a chunk of x that a stage has."""

    is_turned = True
    """Not what is summed over lies side by side in shared memory, but channels."""
    maps: ClassVar[bool] = False
    """Whether the copy engine brings pixels from where operands have them, by maps; else they lie on one line."""

    @classmethod
    def tiled(
        cls,
        family: str,
        problem: Conv2d,
        taps: int,
        rows: int,
        columns: int,
        terms: int,
        **own: Any,
    ) -> Self:
        """Tiles of so many taps, channels of x and channels of dy, and sums of so many positions a stage.

        Args:
            family: whose tiles they are.
            problem: wgrad.
            taps, rows, columns, terms: of the config.
            own: stages, splits, and the fields of the subclass.
        """
        tap_sets, span = _tap_sets(problem, taps, terms)
        return cls(
            lattice=Lattice.of(folded(problem)),
            taps=taps,
            rows=rows,
            columns=columns,
            terms=terms,
            arithmetic=Arithmetic.of(problem),
            x=_x(family, problem, terms, span),
            dy=_dy(family, problem, terms, columns),
            tap_sets=tap_sets,
            run=terms + span,
            **own,
        )

    @property
    @abc.abstractmethod
    def x_pitch(self) -> int:
        """From chunk to chunk of a stage, in positions."""

    @property
    @abc.abstractmethod
    def threads(self) -> int:
        """Of a block."""

    @property
    @abc.abstractmethod
    def shared_bytes(self) -> int:
        """Of a block."""

    @property
    def x_chunks(self) -> int:
        """Of a stage."""
        return self.rows // CHUNK

    @property
    def dy_chunks(self) -> int:
        """Of a stage."""
        return self.columns // CHUNK

    @property
    def tiles_down(self) -> int:
        """Of the channels of x, in a group."""
        return -(-self.x.chunks // self.x_chunks)

    @property
    def is_ragged(self) -> bool:
        """Whether the last tile has more channels than x, which are copies of others."""
        return self.x.chunks % self.x_chunks > 0

    @property
    def tiles_across(self) -> int:
        """Of the channels of dy, in a group."""
        return self.dy.chunks // self.dy_chunks

    @property
    def steps(self) -> int:
        """Stages that a sum goes through, all parts of it together."""
        return self.dy.length // self.terms

    @property
    def split_steps(self) -> int:
        """Stages of a part of a sum; the last one may have fewer."""
        return -(-self.steps // self.splits)

    @property
    def has_steps(self) -> bool:
        """Whether no part is left without a stage."""
        return (self.splits - 1) * self.split_steps < self.steps

    @property
    def tiles(self) -> int:
        """Blocks without splits."""
        return len(self.tap_sets) * self.x.groups * self.tiles_down * self.tiles_across

    @property
    def blocks(self) -> int:
        """Of the launch."""
        return self.tiles * self.splits

    @property
    def weights(self) -> int:
        """Of all filters."""
        return self.tap_count * self.x.groups * self.x.channels * self.dy.channels

    @functools.cached_property
    def tap_count(self) -> int:
        """Of a filter."""
        return sum(weight >= 0 for each in self.tap_sets for weight in each.weights)

    @property
    def stage_bytes(self) -> int:
        """Of shared memory, both operands."""
        return self.arithmetic.parts * PIXEL_BYTES * (self.x_chunks * self.x_pitch + self.dy_chunks * self.terms)

    @property
    def sum_bytes(self) -> int:
        """Of the workspace for parts of sums."""
        return 4 * self.splits * self.weights

    @property
    def sum_filters(self) -> int:
        """Of a block that adds up parts: those that lie side by side in them."""
        return max(1, min(32, SUM_FLOATS // self.tap_count))

    @property
    def sum_channels(self) -> int:
        """Of such a block: their weights lie side by side in the result. Fewer where blocks would be too few."""
        most = max(1, min(8, SUM_FLOATS // (self.tap_count * self.sum_filters)))
        return max(1, min(most, self.x.groups * self.x.channels * self.sum_tiles_across // SUM_BLOCKS))

    @property
    def sum_tiles_across(self) -> int:
        """Of the filters of a group."""
        return -(-self.dy.channels // self.sum_filters)

    @property
    def sum_tiles_down(self) -> int:
        """Of the channels of a group."""
        return -(-self.x.channels // self.sum_channels)

    @property
    def sum_blocks(self) -> int:
        """Of the launch that adds up parts."""
        return self.x.groups * self.sum_tiles_across * self.sum_tiles_down

    @property
    def halves_bytes(self) -> int:
        """Of both operands."""
        return self.x.nbytes + self.dy.nbytes

    @property
    def workspace_bytes(self) -> int:
        """Of all workspaces, as a plan lays them out."""
        nbytes = (*self.x.workspaces(), *self.dy.workspaces())
        return sum(aligned(each.nbytes) for each in nbytes) + aligned(self.sum_bytes)


def _length(lattice: Lattice, terms: int) -> int:
    """Positions of dy, in whole stages."""
    return -(-lattice.positions // terms) * terms


# Parts that many configs of one problem share: a model of a family looks at hundreds of them.
@functools.lru_cache(maxsize=256)
def _tap_sets(problem: Conv2d, taps: int, terms: int) -> tuple[tuple[LineTapSet, ...], int]:
    """The taps that blocks take side by side, and the largest shift within a set."""
    lattice = Lattice.of(folded(problem))
    sets = [list(each) for each in _sets(lattice.phases[0], taps)]
    span = max(each[-1].shift - each[0].shift for each in sets)
    length = _length(lattice, terms) + lattice.reach + span
    return tuple(_tap_set(each, taps, length) for each in sets), span


@functools.lru_cache(maxsize=256)
def _x(family: str, problem: Conv2d, terms: int, span: int) -> Images:
    """The images, with so many positions beyond the last stage."""
    layer = folded(problem)
    lattice, chunks = Lattice.of(layer), -(-layer.group_channels // CHUNK)
    length = _length(lattice, terms) + lattice.reach + span
    arithmetic, folding = Arithmetic.of(problem), Folding.of(problem)
    return Images.of_sources(family, problem, problem.inputs[0], arithmetic, lattice, chunks, length, folding)


@functools.lru_cache(maxsize=256)
def _dy(family: str, problem: Conv2d, terms: int, columns: int) -> Images:
    """The results' gradients, in whole stages and tiles of so many channels."""
    lattice, chunks = Lattice.of(folded(problem)), -(-problem.group_filters // columns) * columns // CHUNK
    return Images.of_results(family, problem, problem.inputs[1], lattice, chunks, _length(lattice, terms), terms)


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
