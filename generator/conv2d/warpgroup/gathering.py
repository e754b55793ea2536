"""Layers of 16-bit numbers with channels last, whose blocks read pixels where they lie.

Three warps beside the one that copies weights bring eight channels of a pixel at a time, by asynchronous copies of 16
bytes, and zeros where a tap reads beyond an image: no launch lays images out before. A stage of pixels is of a row of a
filter, or of one tap, and each reads rows of its own; so there are no positions between images, and between rows none
where each tap has its own pixels. Of the gradient of weights four warps bring both operands.
"""

from __future__ import annotations

import dataclasses
import enum
import itertools
from collections.abc import Iterator
from typing import ClassVar, Self

from warpsmith.generator.conv2d.halves.image_tiles import Reach, Step
from warpsmith.generator.conv2d.halves.lattice import Lattice, LineTap
from warpsmith.generator.conv2d.halves.programs import MAIN, PARTS, multiplying, summing
from warpsmith.generator.conv2d.halves.weight_tiles import TapSet
from warpsmith.generator.conv2d.problem import Conv2d
from warpsmith.generator.conv2d.text import Conv2dText
from warpsmith.generator.conv2d.warpgroup.image_geometry import ImageGeometry
from warpsmith.generator.conv2d.warpgroup.weight_geometry import WeightGeometry
from warpsmith.generator.conv2d.words import Pass
from warpsmith.generator.program import Argument, Pointer, Program, Unit, Workspace
from warpsmith.generator.render import render
from warpsmith.generator.space import Config
from warpsmith.generator.steps import aligned

NAME = "conv2d_warpgroup_gather"
GATHERING_WARPS = 3
REGISTERS, COPYING_REGISTERS = {1: 0, 2: 216, 3: 152}, {1: 0, 2: 72, 3: 56}
"""Of a thread that multiplies, and of one that copies, by the warpgroups that multiply; 0 where it has enough from the
start. With 32 those that copy put some of the places that they look up into memory."""
PLACE_BYTES = 16
"""Of shared memory for where a position's pixel lies."""
UNROLL = 4
"""Positions whose places are looked up at once: one after the other takes 5 clocks an instruction."""
GATHER_CLOCKS, STAGE_CLOCKS = 156, 955
"""Of a warp's copy of 16 bytes a lane, and of a stage beside: what stages of 32 to 96 such copies took on an H100,
however many stages there were and whichever lanes copied what."""


class Sharing(enum.StrEnum):
    """Which taps of a filter read the same stage of pixels."""

    ROW = "row"
    """Those of a row, one position further on each; between rows lie positions of zeros."""
    NONE = "none"
    """Each tap has its own pixels, and each position a result."""


@dataclasses.dataclass(frozen=True, slots=True)
class GatheredStep(Step):
    """A tap of pixels that are read where they lie."""

    row: int
    """Of the source that the first row of the result reads; negative above it."""
    column: int
    """Of the source that the stage's first pixel of a row is."""


@dataclasses.dataclass(frozen=True, slots=True)
class GatheredTapSet(TapSet):
    """Taps of a row of a filter whose sums a block computes side by side."""

    row: int
    """Of x that the first row of dy reads; negative above it."""
    column: int
    """Of x that the first column of dy reads, for the first of these taps."""


@dataclasses.dataclass(frozen=True)
class GatheringGeometry(ImageGeometry):
    """One config on fprop or dgrad."""

    name: ClassVar[str] = NAME
    gathers: ClassVar[bool] = True
    warps: ClassVar[int] = GATHERING_WARPS
    unroll: ClassVar[int] = UNROLL

    @classmethod
    def of(cls, problem: Conv2d, config: Config) -> Self:
        sharing = Sharing(config.text("sharing"))
        on_line = super().of(problem, Config.of({**config.values(), "reach": Reach.ROW.value}))
        lattice = _lattice(on_line.lattice, sharing is Sharing.ROW)
        phases = [list(_steps(lattice, *phase, sharing)) for phase in _phases(lattice)]
        steps = tuple(itertools.chain.from_iterable(phases))
        return dataclasses.replace(
            on_line,
            lattice=lattice,
            steps=steps,
            first_taps=(0, *itertools.accumulate(map(len, phases))),
            run=on_line.positions + max((step.shift for step in steps), default=0),
        )

    @property
    def registers(self) -> int:
        return REGISTERS[self.warpgroups]

    @property
    def copying_registers(self) -> int:
        return COPYING_REGISTERS[self.warpgroups]

    @property
    def copy_clocks(self) -> float:
        return _gather_clocks(self.chunks * self.run, self.warps)

    @property
    def pixel_pitch(self) -> int:
        """An odd number: chunks of a pixel lie in banks of their own."""
        return self.run | 1

    @property
    def shared_bytes(self) -> int:
        return super().shared_bytes + PLACE_BYTES * self.run

    @property
    def halves_bytes(self) -> int:
        """Of weights alone."""
        return self.filters.nbytes

    @property
    def workspace_bytes(self) -> int:
        return sum(aligned(each.nbytes) for each in self.filters.workspaces())


@dataclasses.dataclass(frozen=True)
class GatheringWeights(WeightGeometry):
    """One config on wgrad."""

    name: ClassVar[str] = NAME
    gathers: ClassVar[bool] = True
    warps: ClassVar[int] = GATHERING_WARPS + 1
    unroll: ClassVar[int] = UNROLL

    @classmethod
    def of(cls, problem: Conv2d, config: Config) -> Self:
        on_line = super().of(problem, config)
        lattice = _lattice(on_line.lattice, on_line.taps > 1)
        tap_sets = tuple(_tap_sets(lattice, on_line.taps))
        length = -(-lattice.positions // on_line.terms) * on_line.terms
        return dataclasses.replace(
            on_line,
            lattice=lattice,
            tap_sets=tap_sets,
            dy=dataclasses.replace(on_line.dy, length=length),
            run=on_line.terms + max(each.shifts[-1] for each in tap_sets),
        )

    @property
    def registers(self) -> int:
        return REGISTERS[self.warpgroups]

    @property
    def copying_registers(self) -> int:
        return COPYING_REGISTERS[self.warpgroups]

    @property
    def copy_clocks(self) -> float:
        copies = self.x_chunks * self.run + self.dy_chunks * self.terms
        return _gather_clocks(copies, self.warps)

    @property
    def dy_pitch(self) -> int:
        """An odd number, as that of x."""
        return self.terms + 1

    @property
    def halves_bytes(self) -> int:
        """None are made."""
        return 0

    @property
    def workspace_bytes(self) -> int:
        return aligned(self.sum_bytes)


def _gather_clocks(copies: int, warps: int) -> float:
    """Of a stage of so many copies of 16 bytes by so many warps."""
    return GATHER_CLOCKS * copies / (32 * warps) + STAGE_CLOCKS


def _lattice(on_line: Lattice, shares: bool) -> Lattice:
    """Without rows between images; without columns between rows too where no taps share pixels."""
    rows, columns = on_line.rows, on_line.columns
    rows = dataclasses.replace(rows, pitch=rows.steps)
    return dataclasses.replace(
        on_line, rows=rows, columns=columns if shares else dataclasses.replace(columns, pitch=columns.steps)
    )


def _phases(lattice: Lattice) -> Iterator[tuple[tuple[LineTap, ...], tuple[LineTap, ...]]]:
    """Rows and columns of the filter that results of each phase read."""
    return itertools.product(lattice.rows.phases, lattice.columns.phases)


def _by_plane(across: tuple[LineTap, ...]) -> Iterator[list[LineTap]]:
    """Columns of one plane, which a shift leads from one to the next."""
    in_order = sorted(across, key=lambda tap: (tap.plane, tap.shift))
    return (list(taps) for _, taps in itertools.groupby(in_order, key=lambda tap: tap.plane))


def _steps(
    lattice: Lattice, down: tuple[LineTap, ...], across: tuple[LineTap, ...], sharing: Sharing
) -> Iterator[GatheredStep]:
    """Those of a phase, a row of the filter after the other."""
    stages = list(_by_plane(across)) if sharing is Sharing.ROW else [[tap] for tap in across]
    for row, stage in itertools.product(down, stages):
        first, last = stage[0], stage[-1]
        for tap in stage:
            yield GatheredStep(
                shift=tap.shift - first.shift,
                weight=row.weight * lattice.filter_columns + tap.weight,
                begins=tap is first,
                ends=tap is last,
                row=lattice.rows.source(row),
                column=lattice.columns.source(first),
            )


def _tap_sets(lattice: Lattice, size: int) -> Iterator[GatheredTapSet]:
    """At most so many taps of a row and a plane each; what is missing is the last one again, and stores nothing."""
    ((down, across),) = _phases(lattice)
    for row, plane in itertools.product(down, list(_by_plane(across))):
        for begin in range(0, len(plane), size):
            taps = plane[begin : begin + size]
            shifts = [tap.shift - taps[0].shift for tap in taps]
            missing = size - len(taps)
            yield GatheredTapSet(
                shifts=(*shifts, *[shifts[-1]] * missing),
                weights=(*(row.weight * lattice.filter_columns + tap.weight for tap in taps), *[-1] * missing),
                row=lattice.rows.source(row),
                column=lattice.columns.source(taps[0]),
            )


def gathering_program(problem: Conv2d, config: Config) -> Program:
    """That of any pass."""
    return (_weight_program if problem.pass_ is Pass.WGRAD else _image_program)(problem, config)


def _image_program(problem: Conv2d, config: Config) -> Program:
    geometry = GatheringGeometry.of(problem, config)
    source, filters = geometry.images.operand, geometry.filters
    text = render("conv2d/warpgroup_image.cu.jinja", p=Conv2dText.of(problem), g=geometry, config=config.key())
    bias = (Pointer("b"),) if problem.bias else ()
    arguments = Pointer(source.name), Pointer(filters.halves.name), *bias, Pointer(problem.output.name)
    steps = (*filters.launches(), multiplying(NAME, geometry, arguments))
    return Program(NAME, config, (*filters.units(problem), Unit(MAIN, text)), steps, filters.workspaces())


def _weight_program(problem: Conv2d, config: Config) -> Program:
    return weights_where_they_lie(problem, config, GatheringWeights.of(problem, config), Pointer("x"), Pointer("dy"))


def weights_where_they_lie(
    problem: Conv2d, config: Config, geometry: GatheringWeights, x: Argument, dy: Argument
) -> Program:
    """That of wgrad, whose kernel takes x and dy as these arguments."""
    name = geometry.name
    text = render("conv2d/warpgroup_weight.cu.jinja", p=Conv2dText.of(problem), g=geometry, config=config.key())
    multiply = multiplying(name, geometry, (x, dy, Pointer(PARTS)))
    total, add = summing(name, problem, geometry)
    return Program(name, config, (Unit(MAIN, text), total), (multiply, add), (Workspace(PARTS, geometry.sum_bytes),))
