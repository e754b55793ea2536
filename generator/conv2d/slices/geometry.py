"""What a block of `conv2d_slices` computes: the tiles of `conv2d_mma`, of bytes instead of halves."""

from __future__ import annotations

import dataclasses

from warpsmith.generator.conv2d.halves.image_tiles import summed_and_results
from warpsmith.generator.conv2d.mma.image_geometry import ImageGeometry
from warpsmith.generator.conv2d.mma.warps import OTHER_REGISTERS, Warps
from warpsmith.generator.conv2d.problem import Conv2d
from warpsmith.generator.conv2d.slices.slicing import DIGITS, LEVELS, Measure, Range, Slices
from warpsmith.generator.space import Config
from warpsmith.generator.steps import aligned

NAME = "conv2d_slices"


@dataclasses.dataclass(frozen=True)
class SlicesGeometry(ImageGeometry):
    """One config on fprop or dgrad."""

    @classmethod
    def of(cls, problem: Conv2d, config: Config) -> SlicesGeometry:
        return cls.of_arithmetic(NAME, problem, Slices.of(problem), config)

    @property
    def range(self) -> Range:
        """What measures both operands."""
        measures = Measure.of_images(self.images), Measure.of_filters(self.filters)
        return Range(NAME, measures, self.filters.groups, self.filters.tap_count)

    @property
    def sum_steps(self) -> int:
        """All of a stage: no sum is cut off."""
        return self.chunks // 2

    @property
    def workspace_bytes(self) -> int:
        others = (*(each.workspace for each in self.range.measures), self.range.workspace)
        return super().workspace_bytes + sum(aligned(each.nbytes) for each in others)


def terms_of(problem: Conv2d) -> int:
    """Of a result's sum, at the most."""
    summed, _ = summed_and_results(problem)
    return summed * problem.weight[2] * problem.weight[3]


def registers(warps: Warps) -> int:
    """Of a thread, about: the sums of all levels, and the digits that it multiplies."""
    return LEVELS * warps.rows * warps.columns // 32 + DIGITS * warps.columns // 4 + 8 + OTHER_REGISTERS
