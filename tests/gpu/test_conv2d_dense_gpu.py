"""`conv2d_dense` on a GPU."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from gpu.test_conv2d_gpu import some
from host.test_conv2d_dense import FAMILY, KINDS, SHAPES, layer
from random_configs import some_configs
from warpsmith.devices.cuda.runtime import cuda_device
from warpsmith.devices.select import CompilerChoice
from warpsmith.generator.conv2d import Pass

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_is_right(shape: str, kind: str, check_configs: Callable[..., None]) -> None:
    problems = [layer(shape, kind, pass_) for pass_ in Pass]
    problems += [layer(shape, kind, pass_, bias=True, relu=True) for pass_ in (Pass.FPROP, Pass.DGRAD)]
    check_configs(problems, some(4, (FAMILY.name,)), CompilerChoice.NVRTC, (FAMILY,))


@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_under_compute_sanitizer(check_under_sanitizer: Callable[..., None], tool: str) -> None:
    device = cuda_device(0)
    cases = [
        (problem, FAMILY.program(problem, config))
        for name, pass_ in itertools.product(("odd channels", "a classifier"), Pass)
        for problem in [layer(name, "bfloat16", pass_)]
        for config in some_configs(FAMILY, problem, device, 3)
    ]
    check_under_sanitizer(tool, device, cases)
