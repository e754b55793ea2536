"""Layers whose pixels become halves in the kernel that multiplies, as its blocks read them.

Three warps beside the one that copies weights read the pixels of a stage where they lie, scale and split them, and
write both parts to shared memory: no halves of images are written to memory or read from it. What a tile of other
channels of the result reads is made again. Of the gradient of weights four warps do so with both operands.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from warpsmith.generator.conv2d.halves.halving import Images
from warpsmith.generator.conv2d.halves.maximum import Maximum
from warpsmith.generator.conv2d.halves.programs import MAIN, PARTS, multiplying, summing
from warpsmith.generator.conv2d.problem import Conv2d
from warpsmith.generator.conv2d.text import Conv2dText
from warpsmith.generator.conv2d.warpgroup.image_geometry import ImageGeometry
from warpsmith.generator.conv2d.warpgroup.weight_geometry import WeightGeometry
from warpsmith.generator.conv2d.words import Pass
from warpsmith.generator.program import Pointer, Program, Unit, Workspace
from warpsmith.generator.render import render
from warpsmith.generator.space import Config

NAME = "conv2d_warpgroup_gather"
GATHERING_WARPS = 3
REGISTERS = {1: 248, 2: 216, 3: 152}
"""Of a thread that multiplies at the most, by the warpgroups that do, beside threads that gather."""
SPARE_REGISTERS, LEAST_REGISTERS, MOST_GATHERING = 36, 136, 128
"""Beside its sums a thread that multiplies has 22 to 36, and 136 in all at the least, which leaves 104 for those that
gather: these need more than 56 where they read through strides."""
POWER_BYTES = 128
"""Of shared memory in which the threads of a block find the power of two, a number a warp."""


@dataclasses.dataclass(frozen=True, slots=True)
class GatheredImages(Images):
    """Images of which halves lie in shared memory alone."""

    @property
    def maximum(self) -> Maximum | None:
        own = super(GatheredImages, self).maximum
        return None if own is None else dataclasses.replace(own, has_turns=own.is_sampled)

    def workspaces(self) -> tuple[Workspace, ...]:
        return () if self.maximum is None else (self.maximum.workspace,)


@dataclasses.dataclass(frozen=True)
class GatheringGeometry(ImageGeometry):
    """One config on fprop or dgrad."""

    name: ClassVar[str] = NAME
    gathers: ClassVar[bool] = True
    images_class: ClassVar[type[Images]] = GatheredImages
    warps: ClassVar[int] = GATHERING_WARPS

    @property
    def registers(self) -> int:
        return registers_of(self)

    @property
    def copying_registers(self) -> int:
        return left_registers(self)

    @property
    def shared_bytes(self) -> int:
        return super().shared_bytes + POWER_BYTES


@dataclasses.dataclass(frozen=True)
class GatheringWeights(WeightGeometry):
    """One config on wgrad."""

    name: ClassVar[str] = NAME
    gathers: ClassVar[bool] = True
    images_class: ClassVar[type[Images]] = GatheredImages
    warps: ClassVar[int] = GATHERING_WARPS + 1

    @property
    def registers(self) -> int:
        return registers_of(self)

    @property
    def copying_registers(self) -> int:
        return left_registers(self)

    @property
    def shared_bytes(self) -> int:
        return super().shared_bytes + 2 * POWER_BYTES


def registers_of(geometry: ImageGeometry | WeightGeometry) -> int:
    """Of a thread that multiplies; 0 where it has enough from the start."""
    if geometry.warpgroups == 1:
        return 0
    sums = geometry.columns // 2 * (2 if geometry.arithmetic.promotes else 1)
    wanted = max(-(-(sums + SPARE_REGISTERS) // 8) * 8, LEAST_REGISTERS)
    return min(wanted, REGISTERS[geometry.warpgroups])


def left_registers(geometry: ImageGeometry | WeightGeometry) -> int:
    """What is left for a thread that gathers of those that a block has from the start: who asked for more would wait
    for ever. ptxas gives each thread what fits, and no more than it ever takes.
    """
    from_the_start = min(65536 // geometry.threads // 8 * 8, geometry.registers or MOST_GATHERING)
    left = (geometry.warpgroups + 1) * from_the_start - geometry.warpgroups * geometry.registers
    return min(left, MOST_GATHERING)


def gathering_program(problem: Conv2d, config: Config) -> Program:
    """That of any pass."""
    return (_weight_program if problem.pass_ is Pass.WGRAD else _image_program)(problem, config)


def _image_program(problem: Conv2d, config: Config) -> Program:
    geometry = GatheringGeometry.of(problem, config)
    images, filters = geometry.images, geometry.filters
    text = render("conv2d/warpgroup_image.cu.jinja", p=Conv2dText.of(problem), g=geometry, config=config.key())
    behind = (*filters.powers, *((Pointer("b"),) if problem.bias else ()), Pointer(problem.output.name))
    multiply = [
        multiplying(NAME, geometry, (Pointer(images.operand.name), *scaled, Pointer(filters.halves.name), *behind))
        for scaled in _turns(images)
    ]
    units = (*images.largest_units(problem), *filters.units(problem), Unit(MAIN, text))
    steps = (*filters.launches(), *images.largest_launches(), *multiply)
    return Program(NAME, config, units, steps, (*filters.workspaces(), *images.workspaces()))


def _weight_program(problem: Conv2d, config: Config) -> Program:
    geometry = GatheringWeights.of(problem, config)
    x, dy = geometry.x, geometry.dy
    text = render("conv2d/warpgroup_weight.cu.jinja", p=Conv2dText.of(problem), g=geometry, config=config.key())
    multiply = [
        multiplying(NAME, geometry, (Pointer("x"), *of_x, Pointer("dy"), *of_dy, Pointer(PARTS)))
        for of_x, of_dy in _both(_turns(x), _turns(dy))
    ]
    total, add = summing(NAME, problem, geometry)
    units = (*x.largest_units(problem), *dy.largest_units(problem), Unit(MAIN, text), total)
    steps = (*x.largest_launches(), *dy.largest_launches(), *multiply, add)
    workspaces = (*x.workspaces(), *dy.workspaces(), Workspace(PARTS, geometry.sum_bytes))
    return Program(NAME, config, units, steps, workspaces)


def _turns(images: Images) -> list[tuple[Pointer, ...]]:
    """What each launch needs to know of how images are scaled."""
    maximum = images.maximum
    if maximum is None:
        return [()]
    largest = Pointer(maximum.workspace.name)
    return [(largest, turn) for turn in maximum.turns] or [(largest,)]


def _both(
    one: list[tuple[Pointer, ...]], other: list[tuple[Pointer, ...]]
) -> list[tuple[tuple[Pointer, ...], tuple[Pointer, ...]]]:
    """Of both operands, where one may have fewer turns."""
    count = max(len(one), len(other))
    return [(one[min(turn, len(one) - 1)], other[min(turn, len(other) - 1)]) for turn in range(count)]
