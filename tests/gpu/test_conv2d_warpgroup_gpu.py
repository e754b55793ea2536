"""`conv2d_warpgroup` on a GPU: all arithmetics, passes, layouts, sanitizers."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from conv2d_layers import spread
from gpu.test_conv2d_gpu import some
from host.test_conv2d_warpgroup import CHANNELS_LAST, KINDS, SHAPES
from random_configs import some_configs
from sampled_layers import Beside, outcome_beside
from warpsmith.devices.cuda.runtime import cuda_device
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.conv2d import Conv2d, PaddingMode, Pass
from warpsmith.generator.conv2d.products.mma.mma_family import Conv2dMma
from warpsmith.generator.conv2d.products.wgmma.wgmma_family import Conv2dWarpgroup
from warpsmith.store.record import Measurement

pytestmark = pytest.mark.gpu

FAMILY = Conv2dWarpgroup()
CheckConfigs = Callable[..., None]
every_pass = pytest.mark.parametrize("pass_", Pass)
LAYERS: dict[str, dict[str, Any]] = {
    "many channels": {"input": (16, 192, 13, 13), "weight": (384, 192, 3, 3), "padding": 1},
    "odd channels": {"input": (5, 100, 29, 31), "weight": (33, 100, 4, 5), "padding": ((2, 1), (0, 3))},
    "two axes": {"input": (8, 64, 56, 55), "weight": (128, 64, 3, 3), "padding": 1, "stride": (2, 1)},
    "atrous": {"input": (2, 256, 65, 65), "weight": (256, 256, 3, 3), "padding": 2, "dilation": 2},
    "pointwise": {"input": (8, 256, 14, 14), "weight": (512, 256, 1, 1), "stride": 2},
    "grouped": {"input": (4, 256, 28, 28), "weight": (256, 64, 3, 3), "groups": 4, "padding": 1},
    "one image": {"input": (1, 64, 64, 64), "weight": (64, 64, 5, 5), "padding": 2},
}


@pytest.fixture(autouse=True)
def on_hopper() -> None:
    if cuda_device(0).compute_capability != (9, 0):
        pytest.skip("products by warpgroups need compute capability 9.0")


@every_pass
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_small_layers(shape: dict[str, Any], pass_: Pass, check_configs: CheckConfigs) -> None:
    check_configs([Conv2d(**shape, pass_=pass_)], some(4, (FAMILY.name,)))


@every_pass
@pytest.mark.parametrize("name", LAYERS)
def test_random_configs(name: str, pass_: Pass, check_configs: CheckConfigs) -> None:
    check_configs([Conv2d(**LAYERS[name], pass_=pass_)], some(8, (FAMILY.name,)))


@every_pass
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_arithmetic(kind: dict[str, str], pass_: Pass, check_configs: CheckConfigs) -> None:
    shapes = (*CHANNELS_LAST, SHAPES["strides"], LAYERS["many channels"], LAYERS["odd channels"])
    check_configs([Conv2d(**shape, **kind, pass_=pass_) for shape in shapes], some(2, (FAMILY.name,)))


def test_candidates_where_every_two_options_meet(check_configs: CheckConfigs) -> None:
    solved = [each for each in spread() if each.padding_mode is PaddingMode.ZEROS]
    check_configs(solved, some(1, (FAMILY.name,)))


@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_under_compute_sanitizer(check_under_sanitizer: Callable[..., None], tool: str) -> None:
    device = cuda_device(0)
    shapes = (
        {**SHAPES["strides"], "input": (2, 20, 11, 9), "weight": (18, 20, 3, 5)},
        SHAPES["groups"],
        {"input": (3, 40, 13, 13), "weight": (70, 40, 3, 3), "padding": 1},
        {**CHANNELS_LAST[0], "dtype": "float16"},
    )
    cases = [
        (problem, FAMILY.program(problem, config))
        for shape, pass_ in itertools.product(shapes, Pass)
        for problem in [Conv2d(**shape, pass_=pass_)]
        for config in some_configs(FAMILY, problem, device, 2)
    ]
    check_under_sanitizer(tool, device, cases)


SAMPLED: dict[str, dict[str, Any]] = {
    "strided": {"input": (16, 64, 73, 73), "weight": (64, 64, 3, 3), "stride": 2, "padding": 1},
    "few channels": {"input": (32, 3, 224, 224), "weight": (64, 3, 7, 7), "stride": 2, "padding": 3},
    "channels last": {"input": (16, 64, 73, 73), "weight": (64, 64, 3, 3), "padding": 1, "layout": "nhwc"},
}
"""Layers with at least one operand whose maximum is sampled."""


@every_pass
@pytest.mark.parametrize("shape", SAMPLED.values(), ids=SAMPLED)
def test_numbers_beyond_the_sample(shape: dict[str, Any], pass_: Pass) -> None:
    problem, device = Conv2d(**shape, pass_=pass_), DeviceRef.parse("cuda:0")
    for family in (FAMILY, Conv2dMma()):
        program = family.program(problem, family.default(problem, device.device()))
        binaries = device.compiler().compile_program(program)
        for beside in Beside:
            with contextlib.closing(device.open()) as runtime:
                outcome = outcome_beside(runtime, problem, program, binaries, beside)
            assert isinstance(outcome, Measurement), (family.name, beside, outcome)
