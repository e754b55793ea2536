"""Families of the kernels of "Optimizing a CNN in CUDA", whose parameters are the document's choices.

They are there to be compared (`warpsmith bench ladder`). A search tries them only if it names them, and they neither
answer nor win: atomic additions give other bits from run to run, and `conv2d_direct` has what the others do and more.
"""

from __future__ import annotations

import dataclasses

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.sided_family import SidedFamily
from warpsmith.generator.conv2d.sums.ladder.ladder_choices import Mask, why_not_a_ladders_layer
from warpsmith.generator.conv2d.sums.ladder.ladder_image import NAME, LadderImage, LadderImages, image_space
from warpsmith.generator.conv2d.sums.ladder.ladder_weight import LadderWeights
from warpsmith.generator.conv2d.sums.ladder.masked_gradient import MaskedGradient
from warpsmith.generator.device import Device
from warpsmith.generator.family import Family
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config, Space


class Conv2dLadder(SidedFamily):
    """`conv2d` with one column of a plane of results per thread, or one weight of a tap per block."""

    name = NAME
    may_answer = False
    may_win = False
    image, weight = LadderImages(), LadderWeights()

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        return why_not_a_ladders_layer(problem) or super().why_not(problem, device)


class MaskedLadder(Family[MaskedGradient]):
    """The error of the document: dgrad with the gradient of the ReLU behind it."""

    name = "conv2d_masked_ladder"
    may_answer = False
    may_win = False

    def why_not(self, problem: MaskedGradient, device: Device) -> str | None:
        if not problem.layer.pass_.is_transposed:
            return f"masks the gradient of dgrad, and no {problem.layer.pass_}"
        return why_not_a_ladders_layer(problem.layer)

    def space(self, problem: MaskedGradient, device: Device) -> Space:
        return image_space(problem.layer, device, is_masked=True)

    def default(self, problem: MaskedGradient, device: Device) -> Config:
        """The baseline of the document."""
        values = LadderImages().default(problem.layer, device).values()
        return Config.of({**values, "mask": Mask.FUSED.value})

    def program(self, problem: MaskedGradient, config: Config) -> Program:
        image = LadderImage.of(problem.layer, config, Mask(config.text("mask")))
        return dataclasses.replace(image.program(problem.layer, config), family=self.name)
