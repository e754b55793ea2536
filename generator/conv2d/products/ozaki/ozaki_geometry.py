"""Tiles of `conv2d_slices`: those of `conv2d_mma`, with bytes instead of fp16 numbers."""

from __future__ import annotations

import dataclasses

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.products.mma.mma_image import MmaImageGeometry
from warpsmith.generator.conv2d.products.mma.mma_tiles import OTHER_REGISTERS, MmaWarps
from warpsmith.generator.conv2d.products.ozaki.ozaki_slices import DIGITS, LEVELS, Measure, Range, Slices
from warpsmith.generator.conv2d.products.split16.split16_image_tiles import summed_and_results
from warpsmith.generator.space import Config
from warpsmith.generator.steps import aligned

NAME = "conv2d_slices"


@dataclasses.dataclass(frozen=True)
class SlicesGeometry(MmaImageGeometry):
    """One config of fprop or dgrad."""

    @classmethod
    def of(cls, problem: Conv2d, config: Config) -> SlicesGeometry:
        return cls.of_arithmetic(NAME, problem, Slices.of(problem), config)

    @property
    def range(self) -> Range:
        """The launch that scales both operands and checks their range."""
        measures = Measure.of_images(self.images), Measure.of_filters(self.filters)
        return Range(NAME, measures, self.filters.groups, self.filters.tap_count)

    @property
    def sum_steps(self) -> int:
        """All steps of a stage, because integer sums are not truncated."""
        return self.chunks // 2

    @property
    def workspace_bytes(self) -> int:
        others = (*(each.workspace for each in self.range.measures), self.range.workspace)
        return super().workspace_bytes + sum(aligned(each.nbytes) for each in others)


def terms_of(problem: Conv2d) -> int:
    """Most terms of a result's sum."""
    summed, _ = summed_and_results(problem)
    return summed * problem.weight[2] * problem.weight[3]


def registers(warps: MmaWarps) -> int:
    """Approximate registers per thread: accumulators of all levels, and the slices that it multiplies."""
    return LEVELS * warps.rows * warps.columns // 32 + DIGITS * warps.columns // 4 + 8 + OTHER_REGISTERS
