"""`conv2d_winograd` on the CPU: transforms and products of halves, against the float64 reference."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest

from host.test_conv2d_fft import evaluated
from warpsmith.devices.base import Runtime
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.winograd.family import Conv2dWinograd
from warpsmith.generator.conv2d.winograd.geometry import WinogradGeometry
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.space import Config, Value
from warpsmith.store.record import Measurement

WINOGRAD = Conv2dWinograd()
DEVICE = DeviceRef(DeviceKind.HOST).device()
SHAPES: dict[str, dict[str, Any]] = {
    "one result": {"input": (1, 3, 3, 3), "weight": (2, 3, 3, 3)},
    "one image": {"input": (1, 7, 6, 5), "weight": (9, 7, 3, 3), "padding": 1},
    "whole vectors": {"input": (2, 33, 8, 8), "weight": (34, 33, 3, 3), "padding": 1},
    "odd sizes": {"input": (2, 36, 9, 13), "weight": (33, 36, 3, 3), "padding": ((2, 0), (1, 2))},
    "many channels": {"input": (3, 70, 5, 4), "weight": (40, 70, 3, 3), "padding": 2},
    "more padding than a filter meets": {"input": (1, 20, 4, 5), "weight": (18, 20, 3, 3), "padding": ((3, 4), (0, 5))},
}
every_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
every_pass = pytest.mark.parametrize("pass_", [Pass.FPROP, Pass.DGRAD])
every_tile = pytest.mark.parametrize("tile", [2, 4])


def config_of(problem: Conv2d, **wanted: Value) -> Config:
    """A config that has at least `wanted`."""
    config = Config.of({**WINOGRAD.default(problem, DEVICE).values(), **wanted})
    assert WINOGRAD.space(problem, DEVICE).why_not(config) is None
    return config


def error_of(host: Runtime, compiler: HostCompiler, problem: Conv2d, config: Config) -> float:
    """The largest, of what `accuracy` names; the testbed has held it against the bound."""
    outcome = evaluated(host, compiler, problem, WINOGRAD.program(problem, config))
    assert isinstance(outcome, Measurement), (config, outcome)
    return outcome.max_error


@every_pass
@every_shape
def test_is_right_by_default_and_at_random(
    host: Runtime, quickest: HostCompiler, shape: dict[str, Any], pass_: Pass
) -> None:
    problem = Conv2d(**shape, pass_=pass_)
    drawn = WINOGRAD.space(problem, DEVICE).drawn(random.Random(problem.key()))
    assert drawn is not None
    for config in (WINOGRAD.default(problem, DEVICE), drawn):
        error_of(host, quickest, problem, config)


@every_pass
@every_tile
def test_errors_are_those_of_the_tile(host: Runtime, quickest: HostCompiler, tile: int, pass_: Pass) -> None:
    problem = Conv2d(input=(2, 64, 18, 15), weight=(65, 64, 3, 3), padding=1, pass_=pass_)
    error = error_of(host, quickest, problem, config_of(problem, tile=tile))
    assert error < {2: 1.2e-7, 4: 6e-7}[tile]


@every_pass
def test_adds_a_bias_and_ends_in_a_relu(host: Runtime, quickest: HostCompiler, pass_: Pass) -> None:
    for bias, relu in ((True, True), (True, False), (False, True)):
        problem = Conv2d(**SHAPES["odd sizes"], bias=bias, relu=relu, pass_=pass_)
        error_of(host, quickest, problem, WINOGRAD.default(problem, DEVICE))


@every_pass
@every_tile
def test_takes_a_batch_in_parts(host: Runtime, quickest: HostCompiler, tile: int, pass_: Pass) -> None:
    problem = Conv2d(input=(6, 32, 6, 7), weight=(32, 32, 3, 3), padding=1, pass_=pass_)
    for parts in (2, 3, 6):
        error_of(host, quickest, problem, config_of(problem, tile=tile, parts=parts))


def test_takes_a_batch_in_parts_where_the_workspace_is_small(host: Runtime, quickest: HostCompiler) -> None:
    whole = Conv2d(input=(4, 32, 12, 12), weight=(32, 32, 3, 3), padding=1)
    nbytes = WinogradGeometry.of(whole, config_of(whole, parts=2)).workspace_bytes
    problem = dataclasses.replace(whole, workspace=nbytes)
    config = WINOGRAD.default(problem, DEVICE)
    assert config.integer("parts") > 1
    error_of(host, quickest, problem, config)


@every_pass
def test_multiplies_high_parts_alone_where_less_is_asked(host: Runtime, quickest: HostCompiler, pass_: Pass) -> None:
    problem = Conv2d(**SHAPES["odd sizes"], pass_=pass_)
    rounded = dataclasses.replace(problem, precision="tf32")
    errors = [error_of(host, quickest, each, WINOGRAD.default(each, DEVICE)) for each in (problem, rounded)]
    assert errors[0] < 1e-6 < 1e-5 < errors[1]
