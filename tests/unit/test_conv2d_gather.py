"""`conv2d_warpgroup_gather`: what it refuses, chooses and expects."""

from __future__ import annotations

import random
from typing import Any

import pytest

from unit.test_conv2d_warpgroup import LAYERS
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.warpgroup.family import Conv2dWarpgroup
from warpsmith.generator.conv2d.warpgroup.gather_family import Conv2dWarpgroupGather
from warpsmith.generator.conv2d.warpgroup.gathering import GatheringGeometry, GatheringWeights
from warpsmith.generator.conv2d.warpgroup.space import registers
from warpsmith.generator.device import H200
from warpsmith.generator.registry import answering
from warpsmith.generator.space import Config

FAMILY = Conv2dWarpgroupGather()
every_layer = pytest.mark.parametrize("layer", LAYERS)
every_pass = pytest.mark.parametrize("pass_", Pass)


def geometry_of(problem: Conv2d, config: Config) -> GatheringGeometry | GatheringWeights:
    return (GatheringWeights if problem.pass_ is Pass.WGRAD else GatheringGeometry).of(problem, config)


@every_layer
@every_pass
def test_never_answers_unsearched(layer: dict[str, Any], pass_: Pass) -> None:
    assert answering(Conv2d(**layer, pass_=pass_), H200)[0].name != FAMILY.name


@every_layer
@every_pass
def test_blocks_fit_a_multiprocessor(layer: dict[str, Any], pass_: Pass) -> None:
    problem = Conv2d(**layer, pass_=pass_)
    space, rng = FAMILY.space(problem, H200), random.Random(problem.key())
    configs = [FAMILY.default(problem, H200), *(space.drawn(rng) for _ in range(20))]
    for config in filter(None, configs):
        geometry = geometry_of(problem, config)
        images = (geometry.x, geometry.dy) if isinstance(geometry, GatheringWeights) else (geometry.images,)
        power_bytes = len(images) * 4 * geometry.threads // 32
        program = FAMILY.program(problem, config)
        multiplying = [each for each in program.launches if each.entry == FAMILY.name]
        assert all(each.shared_bytes + power_bytes <= H200.shared_per_block_bytes for each in multiplying)
        assert len(multiplying) == (2 if any(each.is_sampled for each in images) else 1)
        assert sum(each.nbytes for each in program.workspaces) <= problem.workspace
        assert not {"halves_x", "halves_dy"} & {each.name for each in program.workspaces}


@every_layer
@every_pass
def test_registers_are_those_that_a_block_has_from_the_start(layer: dict[str, Any], pass_: Pass) -> None:
    problem = Conv2d(**layer, pass_=pass_)
    space, rng = FAMILY.space(problem, H200), random.Random(problem.key())
    for config in filter(None, (space.drawn(rng) for _ in range(40))):
        geometry = geometry_of(problem, config)
        if geometry.registers:
            assert geometry.registers % 8 == geometry.copying_registers % 8 == 0
            assert geometry.registers >= registers(problem, geometry.columns)
            assert geometry.copying_registers >= 56
            used = 128 * (geometry.warpgroups * geometry.registers + geometry.copying_registers)
            assert used <= geometry.threads * min(65536 // geometry.threads // 8 * 8, geometry.registers)


@every_pass
def test_is_expected_to_take_less_than_what_writes_halves(pass_: Pass) -> None:
    problem = Conv2d((32, 64, 56, 56), (64, 64, 3, 3), padding=1, pass_=pass_)  # type: ignore[arg-type]
    assert FAMILY.expected_ns(problem) < 0.8 * Conv2dWarpgroup().expected_ns(problem)
