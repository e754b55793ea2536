"""Layers in the frequency domain tile by tile on the CPU: all passes, with guarded and poisoned memory."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import exhaustive
from joined import plan_of
from sanitized import check
from verified import evaluated
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.runtime import Runtime
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.fourier.fourier_family import Conv2dFft
from warpsmith.generator.conv2d.fourier.parts import FourierParts
from warpsmith.generator.conv2d.fourier.plane_transforms import TILES, Basis
from warpsmith.generator.conv2d.fourier.variants import FOURIER
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.fft.block.block_family import FftBlock
from warpsmith.generator.pipeline import Pipeline
from warpsmith.generator.program import Program
from warpsmith.store.record import Failure, FailureKind, Measurement
from warpsmith.tuner.operations.conv2d.oracle import reference
from warpsmith.tuner.operations.registry import random_operands

FAMILY = FOURIER["conv2d_fft_tiled"]
DEVICE = DeviceRef(DeviceKind.HOST).device()
LAYER: dict[str, Any] = {"input": (2, 8, 21, 20), "weight": (5, 8, 3, 3), "padding": 1}
UNEVEN: dict[str, Any] = {"input": (3, 5, 17, 23), "weight": (3, 5, 5, 2), "padding": ((2, 0), (0, 3))}
SMALL: dict[str, Any] = {"input": (1, 5, 5, 4), "weight": (4, 5, 4, 3), "padding": ((3, 1), (2, 2))}
"""A layer whose planes are smaller than a tile."""
every_pass = pytest.mark.parametrize("pass_", Pass)


def default(problem: Conv2d, family: Pipeline[Conv2d] = FAMILY) -> Program:
    return family.program(problem, family.default(problem, DEVICE))


@exhaustive.meeting()
@every_pass
@pytest.mark.parametrize("shape", [LAYER, UNEVEN], ids=["squares", "uneven"])
def test_is_right_by_default(host: Runtime, quickest: HostCompiler, shape: dict[str, Any], pass_: Pass) -> None:
    problem = Conv2d(**shape, pass_=pass_)
    outcome = evaluated(host, quickest, problem, default(problem))
    assert isinstance(outcome, Measurement), outcome


@pytest.mark.parametrize(
    ("family", "pass_"),
    [
        (FAMILY, Pass.DGRAD),
        (FOURIER["conv2d_fft_tiled_tensor"], Pass.FPROP),
        (FAMILY.alternatives(Conv2d(**SMALL, pass_=Pass.WGRAD))[1], Pass.WGRAD),
    ],
)
def test_a_tile_may_be_larger_than_a_plane(
    host: Runtime, quickest: HostCompiler, family: Pipeline[Conv2d], pass_: Pass
) -> None:
    problem = Conv2d(**SMALL, pass_=pass_)
    outcome = evaluated(host, quickest, problem, default(problem, family))
    assert isinstance(outcome, Measurement), outcome


def test_takes_a_batch_in_parts_and_adds_its_bias_to_each(host: Runtime, quickest: HostCompiler) -> None:
    whole = Conv2d(**UNEVEN, bias=True, relu=True)
    taken = sum(each.nbytes for each in FAMILY.workspaces(whole))
    problem = dataclasses.replace(whole, workspace=taken - 1)
    program = default(problem)
    assert [step.entry for step in program.launches].count("add_bias") == 3
    assert sum(each.nbytes for each in program.workspaces) <= problem.workspace_limit
    outcome = evaluated(host, quickest, problem, program)
    assert isinstance(outcome, Measurement), outcome


@pytest.mark.parametrize("family", [FAMILY, FOURIER["conv2d_fft"]], ids=lambda family: family.name)
def test_adds_up_the_parts_of_a_gradient_of_weights(host: Runtime, quickest: HostCompiler, family: Conv2dFft) -> None:
    whole = Conv2d((6, 4, 9, 11), (4, 4, 3, 3), pass_=Pass.WGRAD)
    taken = sum(each.nbytes for each in family.workspaces(whole))
    problem = dataclasses.replace(whole, workspace=taken - 1)
    program = default(problem, family)
    assert [step.entry for step in program.launches].count("add_parts") == 1
    assert len(program.steps) == 2 * 3 + 2
    assert sum(each.nbytes for each in program.workspaces) <= problem.workspace_limit
    outcome = evaluated(host, quickest, problem, program)
    assert isinstance(outcome, Measurement), outcome


def test_is_right_at_random_and_as_accurate_as_float32(host: Runtime, quickest: HostCompiler) -> None:
    """The Euclidean norm of the error stays below 1e-6. The bound for single elements does not guarantee that."""
    problem = Conv2d(**LAYER)
    config = FAMILY.space(problem, DEVICE).drawn(random.Random(3))
    assert config is not None
    plan = plan_of(host, quickest, problem, FAMILY.program(problem, config))
    operands = random_operands(problem, 5)
    expected, _ = reference(problem, operands)
    result = np.asarray(plan(*operands.values()))
    assert np.linalg.norm(result - expected) <= 1e-6 * np.linalg.norm(expected)


def test_a_tile_that_begins_elsewhere_is_found(host: Runtime, quickest: HostCompiler) -> None:
    problem = Conv2d(**LAYER)
    program = default(problem)
    (first,) = (unit for unit in program.units if unit.name == "first")
    moved = dataclasses.replace(first, source=first.source.replace("origin.column + x", "origin.column + x + 1"))
    assert moved != first
    units = tuple(moved if unit is first else unit for unit in program.units)
    outcome = evaluated(host, quickest, problem, dataclasses.replace(program, units=units))
    assert isinstance(outcome, Failure)
    assert outcome.kind is FailureKind.WRONG


def test_tiles_stay_within_their_planes_under_the_sanitizers(tmp_path: Path) -> None:
    """Transforms tiles of a layer's image and of its result. In each, some tiles reach beyond every side."""
    parts = FourierParts(Conv2d(**UNEVEN), Basis(8, 8), 1, TILES)
    transforms = (parts.forward[0], parts.inverse)
    block = FftBlock()
    check([(each, block.program(each, block.default(each, DEVICE))) for each in transforms], tmp_path)
