"""`conv2d_warpgroup_groups` on a GPU."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from channels_last import KINDS
from gpu.test_conv2d_gpu import some
from gpu.test_conv2d_warpgroup_gpu import on_hopper
from host.test_conv2d_groups import FAMILY, SHAPES, layer
from random_configs import some_configs
from warpsmith.devices.cuda.runtime import cuda_device
from warpsmith.devices.select import CompilerChoice
from warpsmith.generator.conv2d import Pass

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures(on_hopper.__name__)]


@pytest.mark.parametrize("pass_", Pass)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_is_right(shape: str, kind: str, pass_: Pass, check_configs: Callable[..., None]) -> None:
    check_configs([layer(shape, kind, pass_)], some(4, (FAMILY.name,)), CompilerChoice.NVRTC, (FAMILY,))


@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_under_compute_sanitizer(check_under_sanitizer: Callable[..., None], tool: str) -> None:
    device = cuda_device(0)
    cases = [
        (problem, FAMILY.program(problem, config))
        for name, pass_ in itertools.product(("4 channels", "12 channels, 20 filters"), Pass)
        for problem in [layer(name, "bf16", pass_)]
        for config in some_configs(FAMILY, problem, device, 2)
    ]
    check_under_sanitizer(tool, device, cases)
