"""Layers as products of matrices by Hopper's tensor cores, whose blocks make halves of the pixels that they read.

What `conv2d_warpgroup` does, without a launch that writes halves of images to memory: see `gathering.py`. The gradient
of the weights is left to that family.

Source: as of `conv2d_warpgroup`.
"""

from __future__ import annotations

from warpsmith.generator.conv2d.halves.maximum import samples
from warpsmith.generator.conv2d.halves.model import BYTES_A_US, CLOCKS_A_US, LAUNCH_US
from warpsmith.generator.conv2d.problem import Conv2d
from warpsmith.generator.conv2d.text import require_conv2d
from warpsmith.generator.conv2d.warpgroup.choice import image_choice
from warpsmith.generator.conv2d.warpgroup.family import Conv2dWarpgroup
from warpsmith.generator.conv2d.warpgroup.gathering import NAME, REGISTERS, GatheringGeometry, gathering_program
from warpsmith.generator.conv2d.warpgroup.space import (
    image_constraints,
    image_parameters,
    least_image,
    registers,
)
from warpsmith.generator.conv2d.words import Pass
from warpsmith.generator.device import H200, Device
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config, Constraint, Space, Value


class Conv2dWarpgroupGather(Conv2dWarpgroup):
    """`conv2d` by wgmma instructions, on halves that lie in shared memory alone."""

    name = NAME
    may_answer = False  # no GPU has run it yet: a search alone takes it

    def is_likely(self, problem: Problem, device: Device) -> bool:  # noqa: ARG002 - until times say where it is
        return False

    def why_not(self, problem: Problem, device: Device) -> str | None:
        if isinstance(problem, Conv2d) and problem.pass_ is Pass.WGRAD:
            return "gathers pixels for fprop and dgrad only"
        return super().why_not(problem, device)

    def expected_ns(self, problem: Problem) -> float:
        conv2d = require_conv2d(problem)
        choice, weights = image_choice(conv2d, H200, self.space(conv2d, H200)), conv2d.inputs[1]
        image = conv2d.inputs[0]
        halves = GatheringGeometry.of(conv2d, choice.config).filters.nbytes
        moved = 2 * weights.nbytes + halves + (0 if samples(image) else image.nbytes)
        return 1000 * (choice.clocks / CLOCKS_A_US + moved / BYTES_A_US + (5 if samples(image) else 4) * LAUNCH_US)

    def space(self, problem: Problem, device: Device) -> Space:
        return _space(require_conv2d(problem), device)

    def default(self, problem: Problem, device: Device) -> Config:
        conv2d = require_conv2d(problem)
        return image_choice(conv2d, device, self.space(conv2d, device)).config

    def program(self, problem: Problem, config: Config) -> Program:
        return gathering_program(require_conv2d(problem), config)


def _space(problem: Conv2d, device: Device) -> Space:
    least = least_image(problem).values()

    def geometry(**chosen: Value) -> GatheringGeometry:
        return GatheringGeometry.of(problem, Config.of({**least, **chosen}))

    own = (
        Constraint(
            f"beside threads that gather a thread has {', '.join(map(str, REGISTERS.values()))} registers with 1, 2 or "
            "3 warpgroups",
            lambda warpgroups, columns: registers(problem, columns) <= REGISTERS[warpgroups],
        ),
        Constraint(
            f"a block has at most {device.shared_per_block_bytes} bytes of shared memory, some for a power of two",
            lambda warpgroups, columns, channels, reach, pixel_stages, filter_stages: (
                geometry(
                    warpgroups=warpgroups,
                    columns=columns,
                    channels=channels,
                    reach=reach,
                    pixel_stages=pixel_stages,
                    filter_stages=filter_stages,
                ).shared_bytes
                <= device.shared_per_block_bytes
            ),
        ),
        Constraint(
            f"halves of weights take at most {problem.workspace} bytes",
            lambda columns, channels: geometry(columns=columns, channels=channels).workspace_bytes <= problem.workspace,
        ),
    )
    return Space(image_parameters(device), (*image_constraints(problem, device), *own))
