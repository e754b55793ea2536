"""`conv2d_mma` and `conv2d_slices` on a GPU: every kind of arithmetic, layout and pass, and the same bits each time."""

from __future__ import annotations

import contextlib
import dataclasses
import random
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from gpu.test_conv2d_gpu import some
from random_configs import some_configs
from warpsmith.devices.cuda.compiler import NvrtcCompiler
from warpsmith.devices.cuda.runtime import CudaRuntime, cuda_device
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.products.mma.mma_family import Conv2dMma
from warpsmith.generator.conv2d.products.ozaki.ozaki_family import Conv2dSlices
from warpsmith.generator.family import Family
from warpsmith.generator.space import Config
from warpsmith.plans.match import Match, MatchKind
from warpsmith.plans.plan import Plan
from warpsmith.tuner.operations.conv2d.oracle import reference
from warpsmith.tuner.operations.registry import random_operands

pytestmark = pytest.mark.gpu

FAMILY = Conv2dMma()
LAYERS: dict[str, dict[str, Any]] = {
    "resnet": {"input": (8, 64, 56, 56), "weight": (64, 64, 3, 3), "padding": 1},
    "downsampling": {"input": (8, 64, 57, 55), "weight": (128, 64, 3, 3), "padding": 1, "stride": 2},
    "pointwise": {"input": (8, 512, 14, 14), "weight": (256, 512, 1, 1)},
    "grouped": {"input": (4, 96, 28, 28), "weight": (160, 48, 5, 3), "groups": 2, "padding": (2, 1)},
    "atrous": {"input": (2, 65, 33, 33), "weight": (47, 65, 3, 3), "padding": 6, "dilation": 6},
}
KINDS: dict[str, dict[str, Any]] = {
    "ieee": {},
    "tf32": {"precision": "tf32"},
    "float16": {"dtype": "float16"},
    "bf16": {"dtype": "bfloat16", "precision": "bf16", "layout": "nhwc"},
    "channels last": {"layout": "nhwc"},
}
every_pass = pytest.mark.parametrize("pass_", Pass)
CheckConfigs = Callable[..., None]


@every_pass
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_is_right(layer: dict[str, Any], kind: dict[str, Any], pass_: Pass, check_configs: CheckConfigs) -> None:
    with_end = {} if pass_ is Pass.WGRAD else {"bias": True, "relu": True}
    check_configs([Conv2d(**layer, **kind, **with_end, pass_=pass_)], some(3, (FAMILY.name,)))


def computed(family: Family, problem: Conv2d, config: Config, operands: dict[str, Any]) -> Any:
    """The result of a plan of one config, after two calls have given the same bits."""
    torch = pytest.importorskip("torch")
    program = family.program(problem, config)
    binaries = NvrtcCompiler(cuda_device(0).arch).compile_program(program)
    with contextlib.closing(CudaRuntime(0)) as runtime:
        plan = Plan.load(problem, Match(MatchKind.DEFAULT, program, None, ()), binaries, runtime)
        given = [torch.from_numpy(operands[each.name]).cuda() for each in problem.inputs]
        first, again = (plan(*given).cpu().numpy() for _ in range(2))
    assert np.array_equal(first.view(np.uint32), again.view(np.uint32))
    return again


def check_sums_of_positive_terms(family: Family, problem: Conv2d, configs: Iterable[Config]) -> None:
    """Asserts that the results of operands without signs are within the bound, for each config."""
    operands = {name: np.abs(values) for name, values in random_operands(problem, 1).items()}
    expected, scale = reference(problem, operands)
    for config in configs:
        result = computed(family, problem, config, operands)
        assert (np.abs(result - expected) <= 1e-6 * scale).all(), config.key()


@every_pass
def test_sums_of_positive_terms_lose_no_more_than_the_bound(pass_: Pass) -> None:
    """The truncation errors of tensor cores add up if all terms have one sign."""
    problem = Conv2d(**LAYERS["pointwise"], pass_=pass_)
    check_sums_of_positive_terms(FAMILY, problem, [FAMILY.default(problem, cuda_device(0))])


@pytest.mark.parametrize("pass_", [Pass.FPROP, Pass.DGRAD])
@pytest.mark.parametrize("is_wide", [False, True])
def test_sums_of_digits_have_the_same_bits_in_every_tile(pass_: Pass, is_wide: bool) -> None:
    problem, family = Conv2d(**LAYERS["grouped"], pass_=pass_), Conv2dSlices()
    operands = {name: values.copy() for name, values in random_operands(problem, 1).items()}
    if is_wide:
        operands[problem.inputs[0].name].flat[7] = 1e5
    expected, scale = reference(problem, operands)
    space, rng = family.space(problem, cuda_device(0)), random.Random(1)
    configs = [family.default(problem, cuda_device(0)), *filter(None, (space.drawn(rng) for _ in range(3)))]
    first, *others = (computed(family, problem, config, operands) for config in configs)
    assert (np.abs(first - expected) <= 1e-6 * scale).all()
    for other in others:
        assert np.array_equal(first.view(np.uint32), other.view(np.uint32))


@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "synccheck"])
def test_is_clean_under_compute_sanitizer(check_under_sanitizer: Callable[..., None], tool: str) -> None:
    device = cuda_device(0)
    small = {"input": (2, 24, 13, 15), "weight": (40, 24, 3, 3), "padding": 1, "stride": 2}
    problems = [dataclasses.replace(Conv2d(**small), pass_=pass_) for pass_ in Pass]
    cases = [
        (problem, FAMILY.program(problem, config))
        for problem in problems
        for config in some_configs(FAMILY, problem, device, 3)
    ]
    check_under_sanitizer(tool, device, cases)
