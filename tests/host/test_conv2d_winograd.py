"""`conv2d_winograd` on the CPU: transforms and split fp16 products, against the float64 reference."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import exhaustive
import sanitized
from joined import plans_of
from verified import check
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.runtime import Runtime
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.products.winograd.winograd_family import Conv2dWinograd
from warpsmith.generator.conv2d.products.winograd.winograd_image import WinogradImageGeometry, least_of
from warpsmith.generator.conv2d.products.winograd.winograd_weight import LEAST
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.space import Config, Value
from warpsmith.tuner.operations.conv2d.oracle import reference
from warpsmith.tuner.operations.registry import random_operands

WINOGRAD = Conv2dWinograd()
DEVICE = DeviceRef(DeviceKind.HOST).device()
SHAPES: dict[str, dict[str, Any]] = {
    "one result": {"input": (1, 3, 3, 3), "weight": (2, 3, 3, 3)},
    "one image": {"input": (1, 7, 6, 5), "weight": (9, 7, 3, 3), "padding": 1},
    "whole vectors": {"input": (1, 17, 6, 6), "weight": (20, 17, 3, 3), "padding": 1},
    "odd sizes": {"input": (1, 20, 5, 9), "weight": (33, 20, 3, 3), "padding": ((2, 0), (1, 2))},
    "more padding than a filter meets": {"input": (1, 20, 4, 5), "weight": (18, 20, 3, 3), "padding": ((3, 4), (0, 5))},
}
LARGE_TILES: dict[str, dict[str, Any]] = {
    "whole vectors": {"input": (1, 1024, 4, 8), "weight": (17, 1024, 3, 3), "padding": 1},
    "odd sizes": {"input": (1, 1031, 5, 7), "weight": (9, 1031, 3, 3), "padding": ((2, 0), (1, 2))},
    "much padding": {"input": (1, 1024, 3, 2), "weight": (3, 1024, 3, 3), "padding": ((3, 4), (0, 5))},
}
"""Layers with enough channels for tiles of 4x4 results."""
every_pass = pytest.mark.parametrize("pass_", [Pass.FPROP, Pass.DGRAD])


def config_of(problem: Conv2d, **wanted: Value) -> Config:
    """A config with at least the `wanted` values."""
    config = Config.of({**WINOGRAD.default(problem, DEVICE).values(), **wanted})
    assert WINOGRAD.space(problem, DEVICE).why_not(config) is None
    return config


def errors_of(host: Runtime, compiler: HostCompiler, *cases: tuple[Conv2d, Config]) -> list[float]:
    """Largest errors in the measure that `accuracy` names. The testbed has already checked them against the bound."""
    return check(host, compiler, [(problem, WINOGRAD.program(problem, config)) for problem, config in cases])


@every_pass
def test_is_right_by_default_or_at_random(host: Runtime, quickest: HostCompiler, pass_: Pass) -> None:
    """Every second case runs the default config, the others a random one."""
    cases = []
    for number, shape in enumerate(SHAPES.values()):
        problem = Conv2d(**shape, pass_=pass_)
        is_drawn = (number + list(Pass).index(pass_)) % 2 > 0
        drawn = WINOGRAD.space(problem, DEVICE).drawn(random.Random(problem.key())) if is_drawn else None
        cases.append((problem, drawn or WINOGRAD.default(problem, DEVICE)))
    errors_of(host, quickest, *cases)


def large(shape: dict[str, Any], pass_: Pass, **fields: Any) -> Conv2d:
    """Layer of LARGE_TILES whose sums run over the many channels in either pass."""
    if pass_ is Pass.DGRAD:
        (filters, channels, *taps), (images, _, *size) = shape["weight"], shape["input"]
        shape = {**shape, "weight": (channels, filters, *taps), "input": (images, filters, *size)}
    return Conv2d(**shape, pass_=pass_, **fields)


@pytest.mark.parametrize(
    ("shape", "pass_"),
    [
        (LARGE_TILES["whole vectors"], Pass.FPROP),
        (LARGE_TILES["odd sizes"], Pass.DGRAD),
        pytest.param(LARGE_TILES["much padding"], Pass.FPROP, marks=exhaustive.EXHAUSTIVE),
    ],
    ids=LARGE_TILES,
)
def test_is_right_with_large_tiles(host: Runtime, quick: HostCompiler, shape: dict[str, Any], pass_: Pass) -> None:
    problem = large(shape, pass_, bias=True, relu=True)
    (error,) = errors_of(host, quick, (problem, config_of(problem, tile=4)))
    assert error < 8e-7


def test_errors_of_small_tiles_are_smaller(host: Runtime, quick: HostCompiler) -> None:
    problem = Conv2d(**LARGE_TILES["odd sizes"])
    small, other = errors_of(host, quick, *((problem, config_of(problem, tile=tile)) for tile in (2, 4)))
    assert small < 3e-7
    assert small < other


@every_pass
def test_adds_a_bias_and_ends_in_a_relu(host: Runtime, quickest: HostCompiler, pass_: Pass) -> None:
    layers = [Conv2d(**SHAPES["odd sizes"], bias=bias, relu=not bias, pass_=pass_) for bias in (True, False)]
    errors_of(host, quickest, *((each, WINOGRAD.default(each, DEVICE)) for each in layers))


@every_pass
def test_takes_a_batch_in_parts(host: Runtime, quickest: HostCompiler, pass_: Pass) -> None:
    problem = Conv2d(input=(6, 17, 5, 6), weight=(18, 17, 3, 3), padding=1, pass_=pass_, bias=True)
    errors_of(host, quickest, (problem, config_of(problem, parts=3)))


def test_takes_a_batch_in_parts_where_the_workspace_is_small(host: Runtime, quickest: HostCompiler) -> None:
    whole = Conv2d(input=(4, 20, 12, 12), weight=(20, 20, 3, 3), padding=1)
    nbytes = WinogradImageGeometry.of(whole, config_of(whole, parts=2)).workspace_bytes
    problem = dataclasses.replace(whole, workspace=nbytes)
    config = WINOGRAD.default(problem, DEVICE)
    assert config.integer("parts") > 1
    errors_of(host, quickest, (problem, config))


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_gradients_of_weights_are_right(host: Runtime, quickest: HostCompiler, shape: dict[str, Any]) -> None:
    """The layers are smaller than the family accepts, because emulating those takes minutes. The data are random
    deviates only: on stress data, sums of few terms exceed the error bound.
    """
    problem = Conv2d(**shape, pass_=Pass.WGRAD)
    drawn = WINOGRAD.space(problem, DEVICE).drawn(random.Random(problem.key()))
    assert drawn is not None
    operands = random_operands(problem, 5)
    expected, scale = reference(problem, operands)
    configs = (WINOGRAD.default(problem, DEVICE), drawn)
    plans = plans_of(host, quickest, [(problem, WINOGRAD.program(problem, config)) for config in configs])
    for config, plan in zip(configs, plans, strict=True):
        error = np.asarray(plan(*operands.values())) - expected
        assert np.abs(error / scale).max() < 6e-7, config
        assert np.linalg.norm(error) < 4e-7 * np.linalg.norm(expected), config


def test_gradients_of_weights_write_their_own_memory_alone(host: Runtime, quickest: HostCompiler) -> None:
    """The testbed guards and poisons memory, and two runs must give the same bits."""
    problem = Conv2d(**SHAPES["one image"], pass_=Pass.WGRAD)
    config = config_of(problem, splits=1)
    errors_of(host, quickest, (problem, config))


@pytest.mark.usefixtures("compile_without_optimisation")
def test_clean_under_the_sanitizers(tmp_path: Path) -> None:
    """Layers with padding and with cropped rows, computed with the smallest tiles."""
    padded = [Conv2d(**SHAPES["one image"], pass_=pass_) for pass_ in Pass]
    cropped = Conv2d(input=(2, 5, 5, 4), weight=(3, 5, 3, 3), padding=((3, 4), (0, 5)), pass_=Pass.DGRAD)
    cases = []
    for problem in (*padded, cropped):
        least = LEAST if problem.pass_ is Pass.WGRAD else least_of(problem)[0]
        cases.append((problem, WINOGRAD.program(problem, Config.of(least))))
    sanitized.check(cases, tmp_path)
