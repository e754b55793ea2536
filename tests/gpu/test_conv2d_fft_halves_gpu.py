"""Layers with split fp16 spectra on a GPU: tiles of many sizes, maxima that a sample misses, the sanitizers."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gpu.test_conv2d_gpu import some
from gpu.test_conv2d_warpgroup_gpu import on_hopper
from host.test_conv2d_fft_halves import SHAPES, TILED, WHOLE
from random_configs import some_configs
from warpsmith.devices.cuda.runtime import cuda_device
from warpsmith.devices.select import CompilerChoice, DeviceRef
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.products.split16.split16_maximum import SAMPLED_SIZE
from warpsmith.plans.match import Match, MatchKind
from warpsmith.plans.plan import Plan
from warpsmith.tuner.operations.conv2d.oracle import reference
from warpsmith.tuner.operations.registry import random_operands

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures(on_hopper.__name__)]

LAYERS: dict[str, dict[str, Any]] = {
    "AlexNet 3": {"input": (32, 192, 13, 13), "weight": (384, 192, 3, 3), "padding": 1},
    "OverFeat 2": {"input": (40, 96, 24, 24), "weight": (256, 96, 5, 5)},
    "channels that fill no tile": {"input": (70, 160, 9, 9), "weight": (96, 160, 3, 3), "padding": 1},
    "sets of frequencies": {"input": (16, 64, 32, 32), "weight": (64, 64, 7, 7)},
}
every_pass = pytest.mark.parametrize("pass_", Pass)


@every_pass
@pytest.mark.parametrize("family", [WHOLE, TILED], ids=lambda family: family.name)
@pytest.mark.parametrize("shape", [*SHAPES, *LAYERS])
def test_is_right(shape: str, family: Any, pass_: Pass, check_configs: Callable[..., None]) -> None:
    own = {**SHAPES, **LAYERS}[shape]
    if own.get("bias") and pass_ is not Pass.FPROP:
        own = {name: value for name, value in own.items() if name not in ("bias", "relu")}
    problem = Conv2d(**own, pass_=pass_)
    if family.why_not(problem, cuda_device(0)) is None:
        check_configs([problem], some(3, (family.name,)), CompilerChoice.NVRTC, (family,))
    else:
        assert family is TILED


@pytest.mark.parametrize("spike", [1.0, 1e6, 1e30])
def test_what_a_sample_did_not_tell_is_transformed_again(spike: float) -> None:
    torch = pytest.importorskip("torch")
    device = DeviceRef.parse("cuda:0")
    problem = Conv2d((32, 128, 33, 33), (32, 128, 3, 3))  # type: ignore[arg-type]
    assert problem.inputs[0].size >= SAMPLED_SIZE
    program = WHOLE.program(problem, WHOLE.default(problem, device.device()))
    operands = random_operands(problem, 5)
    operands["x"][1, 3, 2, 5] = spike
    operands["x"][30, 3, 2, 2] = -spike / 7
    expected, _ = reference(problem, operands)
    binaries = device.compiler().compile_program(program)
    plan = Plan.load(problem, Match(MatchKind.DEFAULT, program, None, ()), binaries, device.open())
    result = plan(*(torch.from_numpy(each).cuda() for each in operands.values())).cpu().numpy()
    assert np.linalg.norm(result - expected) <= 1e-6 * np.linalg.norm(expected)


@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_under_compute_sanitizer(check_under_sanitizer: Callable[..., None], tool: str) -> None:
    device = cuda_device(0)
    cases = [
        (problem, WHOLE.program(problem, config))
        for name, pass_ in itertools.product(("odd points", "more rows than a warpgroup has"), Pass)
        for problem in [Conv2d(**SHAPES[name], pass_=pass_)]
        for config in some_configs(WHOLE, problem, device, 2)
    ]
    check_under_sanitizer(tool, device, cases)
