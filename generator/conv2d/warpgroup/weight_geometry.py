"""What a block of `conv2d_warpgroup` computes of the gradient of weights, and the memory that takes."""

from __future__ import annotations

import dataclasses
import itertools

from warpsmith.generator.conv2d.problem import Conv2d
from warpsmith.generator.conv2d.warpgroup.arithmetic import Arithmetic
from warpsmith.generator.conv2d.warpgroup.halving import CHUNK, Images
from warpsmith.generator.conv2d.warpgroup.image_geometry import (
    BARRIER_BYTES,
    COPYING_REGISTERS,
    PIXEL_BYTES,
    REGISTERS,
    block_threads,
)
from warpsmith.generator.conv2d.warpgroup.lattice import Lattice, Tap
from warpsmith.generator.space import Config
from warpsmith.generator.steps import aligned

GROUP_CHANNELS = 64
"""Channels of x of a warpgroup: the rows of a wgmma product."""
SUM_THREADS = 256
"""Of a block that adds up the parts of sums."""
SUM_BLOCKS = 528
"""Of such blocks at the least, where there are so many channels: four a multiprocessor."""
SUM_FLOATS = 4096
"""That such a block holds in shared memory, about."""


@dataclasses.dataclass(frozen=True, slots=True)
class TapSet:
    """Taps of one plane whose sums a block computes side by side."""

    first: int
    """From a position of dy to the first pixel of x that they read, in planes one behind the other."""
    shifts: tuple[int, ...]
    """From there to the pixels of each."""
    weights: tuple[int, ...]
    """Their places in the filter; -1 where there is no tap."""


@dataclasses.dataclass(frozen=True)
class WeightGeometry:
    """One config on wgrad."""

    lattice: Lattice
    taps: int
    """Of a block, side by side."""
    channel_groups: int
    """Warpgroups of a block side by side in channels of x, for each tap."""
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
    x_pitch: int
    """From chunk to chunk of a stage, in positions."""

    is_turned = True
    """Not what is summed over lies side by side in shared memory, but channels."""

    @classmethod
    def of(cls, problem: Conv2d, config: Config) -> WeightGeometry:
        lattice, arithmetic = Lattice.of(problem), Arithmetic.of(problem)
        taps, channel_groups = config.integer("taps"), config.integer("channel_groups")
        columns, terms = config.integer("columns"), config.integer("terms")
        sets = [list(each) for each in _sets(lattice.phases[0], taps)]
        span = max(each[-1].shift - each[0].shift for each in sets)
        length = -(-lattice.positions // terms) * terms
        x_length = length + lattice.reach + span
        filters = columns
        x_chunks = -(-problem.group_channels // CHUNK)
        dy_chunks = -(-problem.group_filters // filters) * filters // CHUNK
        x, dy = problem.inputs
        return cls(
            lattice=lattice,
            taps=taps,
            channel_groups=channel_groups,
            columns=columns,
            terms=terms,
            stages=config.integer("stages"),
            splits=config.integer("splits"),
            arithmetic=arithmetic,
            x=Images.of_sources(problem, x, lattice, x_chunks, x_length),
            dy=Images.of_results(problem, dy, lattice, dy_chunks, length, terms),
            tap_sets=tuple(_tap_set(each, taps, x_length) for each in sets),
            run=terms + span,
            x_pitch=odd(terms + span),
        )

    @property
    def warpgroups(self) -> int:
        """Of a block, which multiply."""
        return self.taps * self.channel_groups

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
    def x_chunks(self) -> int:
        """Of a stage."""
        return GROUP_CHANNELS * self.channel_groups // CHUNK

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

    @property
    def tap_count(self) -> int:
        """Of a filter."""
        return sum(weight >= 0 for each in self.tap_sets for weight in each.weights)

    @property
    def stage_bytes(self) -> int:
        """Of shared memory, both operands."""
        return self.arithmetic.parts * PIXEL_BYTES * (self.x_chunks * self.x_pitch + self.dy_chunks * self.terms)

    @property
    def copied_bytes(self) -> int:
        """Of a stage: without what lies between chunks."""
        return self.arithmetic.parts * PIXEL_BYTES * (self.x_chunks * self.run + self.dy_chunks * self.terms)

    @property
    def shared_bytes(self) -> int:
        """Of a block."""
        return self.stages * (self.stage_bytes + 2 * BARRIER_BYTES)

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


def odd(count: int) -> int:
    """The next odd number: chunks so far apart, in 16 bytes, lie in banks of their own."""
    return count | 1


def _sets(taps: tuple[Tap, ...], size: int) -> list[tuple[Tap, ...]]:
    planes = (tuple(each) for _, each in itertools.groupby(taps, key=lambda tap: tap.plane))
    return [each[first : first + size] for each in planes for first in range(0, len(each), size)]


def _tap_set(taps: list[Tap], size: int, length: int) -> TapSet:
    low, missing = taps[0].shift, size - len(taps)
    shifts = tuple(tap.shift - low for tap in taps)
    return TapSet(
        first=taps[0].plane * length + low,
        shifts=(*shifts, *[shifts[-1]] * missing),
        weights=(*(tap.weight for tap in taps), *[-1] * missing),
    )
