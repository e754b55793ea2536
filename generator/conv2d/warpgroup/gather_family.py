"""Layers as products of matrices by Hopper's tensor cores, whose blocks make halves of the pixels that they read.

What `conv2d_warpgroup` does, without a launch that writes halves of images to memory: see `gathering.py`.

Source: as of `conv2d_warpgroup`.
"""

from __future__ import annotations

from warpsmith.generator.conv2d.halves.choice import Choice
from warpsmith.generator.conv2d.halves.maximum import samples
from warpsmith.generator.conv2d.halves.model import BYTES_A_US, CLOCKS_A_US, LAUNCH_US
from warpsmith.generator.conv2d.problem import Conv2d
from warpsmith.generator.conv2d.text import require_conv2d
from warpsmith.generator.conv2d.warpgroup.choice import image_choice, weight_choice
from warpsmith.generator.conv2d.warpgroup.family import Conv2dWarpgroup
from warpsmith.generator.conv2d.warpgroup.gathering import (
    NAME,
    REGISTERS,
    GatheringGeometry,
    GatheringWeights,
    gathering_program,
)
from warpsmith.generator.conv2d.warpgroup.space import (
    image_constraints,
    image_parameters,
    least_image,
    registers,
    weight_space,
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
        found = super().why_not(problem, device)
        return None if found is None else found.replace("the halves that it writes", "what lies beside them")

    def expected_ns(self, problem: Problem) -> float:
        conv2d = require_conv2d(problem)
        sampled = [samples(operand) for operand in conv2d.inputs]
        read = sum(each.nbytes for each, sample in zip(conv2d.inputs, sampled, strict=True) if not sample)
        choice, halves = self._choice(conv2d, H200), 0
        if conv2d.pass_ is not Pass.WGRAD:
            halves = conv2d.inputs[1].nbytes + GatheringGeometry.of(conv2d, choice.config).filters.nbytes
        moved = (read + halves) / BYTES_A_US + (4 + any(sampled)) * LAUNCH_US
        return 1000 * (choice.clocks / CLOCKS_A_US + moved)

    def space(self, problem: Problem, device: Device) -> Space:
        conv2d = require_conv2d(problem)
        return (_weight_space if conv2d.pass_ is Pass.WGRAD else _image_space)(conv2d, device)

    def default(self, problem: Problem, device: Device) -> Config:
        return self._choice(require_conv2d(problem), device).config

    def program(self, problem: Problem, config: Config) -> Program:
        return gathering_program(require_conv2d(problem), config)

    def _choice(self, problem: Conv2d, device: Device) -> Choice:
        choose = weight_choice if problem.pass_ is Pass.WGRAD else image_choice
        return choose(problem, device, self.space(problem, device))


def _image_space(problem: Conv2d, device: Device) -> Space:
    least = least_image(problem).values()

    def geometry(**chosen: Value) -> GatheringGeometry:
        return GatheringGeometry.of(problem, Config.of({**least, **chosen}))

    def fits(warpgroups: int, columns: int, channels: int, reach: str, pixel_stages: int, filter_stages: int) -> bool:
        tile: dict[str, Value] = {"warpgroups": warpgroups, "columns": columns, "channels": channels, "reach": reach}
        stages = {"pixel_stages": pixel_stages, "filter_stages": filter_stages}
        return geometry(**tile, **stages).shared_bytes <= device.shared_per_block_bytes

    own = (
        Constraint(
            _REGISTERS_TOLD,
            lambda warpgroups, columns: registers(problem, columns) <= REGISTERS[warpgroups],
        ),
        Constraint(f"{_SHARED_TOLD} {device.shared_per_block_bytes} bytes", fits),
        Constraint(
            f"halves of weights take at most {problem.workspace} bytes",
            lambda columns, channels: geometry(columns=columns, channels=channels).workspace_bytes <= problem.workspace,
        ),
    )
    return Space(image_parameters(device), (*image_constraints(problem, device), *own))


def _weight_space(problem: Conv2d, device: Device) -> Space:
    """Parts of sums that fit beside halves in memory fit without them."""

    def fits(taps: int, channel_groups: int, columns: int, terms: int, stages: int) -> bool:
        tile: dict[str, Value] = {"taps": taps, "channel_groups": channel_groups, "columns": columns, "terms": terms}
        geometry = GatheringWeights.of(problem, Config.of({**tile, "stages": stages, "splits": 1}))
        return geometry.shared_bytes <= device.shared_per_block_bytes

    usual = weight_space(problem, device)
    own = (
        Constraint(
            _REGISTERS_TOLD,
            lambda taps, channel_groups, columns: registers(problem, columns) <= REGISTERS[taps * channel_groups],
        ),
        Constraint(f"{_SHARED_TOLD} {device.shared_per_block_bytes} bytes", fits),
    )
    return Space(usual.parameters, (*usual.constraints, *own))


_REGISTERS_TOLD = (
    f"beside threads that gather a thread has {', '.join(map(str, REGISTERS.values()))} registers with 1, 2 or 3 "
    "warpgroups"
)
_SHARED_TOLD = "stages and what finds a power of two take shared memory of"
