"""Layers whose pixels become halves in the kernel that multiplies, as its blocks read them.

Three warps beside the one that copies weights read the pixels of a stage where they lie, scale and split them, and
write both parts to shared memory: no halves of images are written to memory or read from it. What a tile of other
channels of the result reads is made again.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from warpsmith.generator.conv2d.halves.halving import Images
from warpsmith.generator.conv2d.halves.maximum import Maximum
from warpsmith.generator.conv2d.problem import Conv2d
from warpsmith.generator.conv2d.text import Conv2dText
from warpsmith.generator.conv2d.warpgroup.image_geometry import ImageGeometry
from warpsmith.generator.program import Launch, Pointer, Program, Unit, Workspace
from warpsmith.generator.render import render
from warpsmith.generator.space import Config
from warpsmith.generator.steps import aligned

NAME = "conv2d_warpgroup_gather"
MAIN = "multiply"
"""The unit of the kernel that multiplies."""
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
        if self.warpgroups == 1:
            return 0
        sums = self.columns // 2 * (2 if self.arithmetic.promotes else 1)
        wanted = max(-(-(sums + SPARE_REGISTERS) // 8) * 8, LEAST_REGISTERS)
        return min(wanted, REGISTERS[self.warpgroups])

    @property
    def copying_registers(self) -> int:
        """What is left of those that a block has from the start: who asked for more would wait for ever."""
        from_the_start = 65536 // self.threads // 8 * 8
        left = (self.warpgroups + 1) * from_the_start - self.warpgroups * self.registers
        return min(left, MOST_GATHERING)

    @property
    def shared_bytes(self) -> int:
        return super().shared_bytes + POWER_BYTES

    @property
    def workspace_bytes(self) -> int:
        """Of all workspaces, as a plan lays them out."""
        return sum(aligned(each.nbytes) for each in (*self.images.workspaces(), *self.filters.workspaces()))


def gathering_program(problem: Conv2d, config: Config) -> Program:
    """That of fprop or dgrad."""
    geometry = GatheringGeometry.of(problem, config)
    images, filters, maximum = geometry.images, geometry.filters, geometry.images.maximum
    text = render("conv2d/warpgroup_image.cu.jinja", p=Conv2dText.of(problem), g=geometry, config=config.key())
    largest = () if maximum is None else (Pointer(maximum.workspace.name),)
    behind = (*filters.powers, *((Pointer("b"),) if problem.bias else ()), Pointer(problem.output.name))
    before = (Pointer(images.operand.name), Pointer(filters.halves.name), *largest)
    turns = () if maximum is None else maximum.turns
    launches = [_multiply(geometry, (*before, turn, *behind)) for turn in turns]
    first = () if maximum is None else (maximum.launch(),)
    steps = (*filters.launches(), *first, *(launches or [_multiply(geometry, (*before, *behind))]))
    units = () if maximum is None else (maximum.unit(problem),)
    units = (*units, *filters.units(problem), Unit(MAIN, text))
    return Program(NAME, config, units, steps, (*filters.workspaces(), *images.workspaces()))


def _multiply(geometry: GatheringGeometry, arguments: tuple[Pointer, ...]) -> Launch:
    launch = Launch.of_blocks(NAME, geometry.blocks, geometry.threads, arguments)
    return dataclasses.replace(launch, shared_bytes=geometry.shared_bytes, unit=MAIN)
