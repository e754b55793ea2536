"""Layers as products of matrices by Hopper's tensor cores, whose 16-bit pixels the copy engine brings.

What `conv2d_warpgroup_gather` does, without warps that copy pixels, or launches that lay weights out: see `im2col.py`.

Source: as of `conv2d_warpgroup_gather`.
"""

from __future__ import annotations

from warpsmith.generator.conv2d.halves.choice import Choice
from warpsmith.generator.conv2d.halves.halving import CHUNK
from warpsmith.generator.conv2d.halves.image_tiles import summed_and_results
from warpsmith.generator.conv2d.halves.model import CLOCKS_A_US, LAUNCH_US
from warpsmith.generator.conv2d.problem import Conv2d
from warpsmith.generator.conv2d.text import require_conv2d
from warpsmith.generator.conv2d.warpgroup.choice import best_tile, weight_choice
from warpsmith.generator.conv2d.warpgroup.gather_family import (
    PREFERRED,
    STAGES,
    Conv2dWarpgroupGather,
    gathered_image_space,
    gathered_weight_space,
    least_gathered_image,
)
from warpsmith.generator.conv2d.warpgroup.gathering import Sharing
from warpsmith.generator.conv2d.warpgroup.im2col import (
    CHANNELS,
    NAME,
    Im2colGeometry,
    Im2colWeights,
    im2col_program,
)
from warpsmith.generator.conv2d.warpgroup.space import LEAST_WEIGHT
from warpsmith.generator.conv2d.words import Pass
from warpsmith.generator.device import H200, Device
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config, Parameter, Space

COLUMNS = (64, 96, 128, 192, 256)
"""Where channels of the result lie side by side, of which a copy brings 64; those of 96 bring more than is read."""


class Conv2dWarpgroupIm2col(Conv2dWarpgroupGather):
    """`conv2d` by wgmma instructions, on 16-bit pixels that the copy engine brings from where they lie."""

    name = NAME

    def why_not(self, problem: Problem, device: Device) -> str | None:
        if isinstance(problem, Conv2d) and (why_not := _why_no_lines(problem)) is not None:
            return why_not
        if (why_not := super().why_not(problem, device)) is not None:
            return why_not
        conv2d = require_conv2d(problem)
        kind = Im2colWeights if conv2d.pass_ is Pass.WGRAD else Im2colGeometry
        return kind.of(conv2d, self._least(conv2d)).why_not

    def expected_ns(self, problem: Problem) -> float:
        conv2d = require_conv2d(problem)
        launches = 2 if conv2d.pass_ is Pass.WGRAD else 1
        return 1000 * (self._choice(conv2d, H200).clocks / CLOCKS_A_US + launches * LAUNCH_US)

    def space(self, problem: Problem, device: Device) -> Space:
        conv2d = require_conv2d(problem)
        return (_weight_space if conv2d.pass_ is Pass.WGRAD else _image_space)(conv2d, device)

    def program(self, problem: Problem, config: Config) -> Program:
        return im2col_program(require_conv2d(problem), config)

    def _least(self, problem: Conv2d) -> Config:
        if problem.pass_ is Pass.WGRAD:
            return Config.of({**LEAST_WEIGHT, "columns": CHANNELS})
        columns = {"columns": CHANNELS} if problem.pass_ is Pass.DGRAD else {}
        return Config.of({**least_gathered_image(problem).values(), "channels": CHANNELS, **columns})

    def _choice(self, problem: Conv2d, device: Device) -> Choice:
        if problem.pass_ is Pass.WGRAD:
            return weight_choice(problem, device, Im2colWeights, STAGES[::-1], _weight_space(problem, device))
        space = _image_space(problem, device)
        choices = [{"sharing": each.value, "channels": CHANNELS} for each in Sharing]
        return best_tile(problem, device, space, choices, Im2colGeometry, self._least(problem), PREFERRED)


def _why_no_lines(problem: Conv2d) -> str | None:
    """Channels that copies cannot bring, or that leave most of a line empty."""
    both = problem.group_channels, problem.group_filters
    for channels in both if problem.pass_ is not Pass.FPROP else both[:1]:
        if 2 * channels <= CHANNELS:
            return f"reads {CHANNELS} channels at once, of which a group has {channels}"
    for channels in both if problem.pass_ is Pass.WGRAD else summed_and_results(problem)[:1]:
        if problem.groups > 1 and channels % CHANNELS:
            return f"reads {CHANNELS} channels at once, of which a group has {channels}"
    if problem.group_channels % CHUNK:
        return f"reads {CHUNK} channels of a weight at once"
    return None


def _weight_space(problem: Conv2d, device: Device) -> Space:
    usual = gathered_weight_space(problem, device, Im2colWeights)
    columns = Parameter("columns", COLUMNS, "channels of dy, a warpgroup")
    parameters = (columns if each.name == "columns" else each for each in usual.parameters)
    return Space(tuple(parameters), usual.constraints)


def _image_space(problem: Conv2d, device: Device) -> Space:
    usual = gathered_image_space(problem, device, Im2colGeometry)
    own = {"channels": Parameter("channels", (CHANNELS,), "that a stage sums over: 128 bytes of a pixel")}
    if problem.pass_ is Pass.DGRAD:
        own["columns"] = Parameter("columns", COLUMNS, "channels of the result, a warpgroup")
    return Space(tuple(own.get(each.name, each) for each in usual.parameters), usual.constraints)
