"""`conv2d_gather` on the CPU: gradients of weights of few channels, against the float64 reference."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import pytest

import exhaustive
import sanitized
from verified import check
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.runtime import Runtime
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.products.pointwise.gather_family import Conv2dGather
from warpsmith.generator.conv2d.products.pointwise.pointwise_weight_geometry import LEAST
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.space import Config, Value

GATHER = Conv2dGather()
DEVICE = DeviceRef(DeviceKind.HOST).device()
LAYERS: dict[str, dict[str, Any]] = {
    "stem": {"input": (2, 3, 15, 16), "weight": (24, 3, 7, 7), "stride": 2, "padding": 3},
    "padded": {"input": (3, 3, 8, 8), "weight": (18, 3, 3, 3), "padding": 1},
    "whole": {"input": (2, 4, 9, 12), "weight": (16, 4, 3, 3)},
    "patches": {"input": (2, 3, 8, 16), "weight": (33, 3, 4, 4), "stride": 4},
    "dilated": {"input": (2, 2, 11, 9), "weight": (20, 2, 3, 2), "padding": (2, 1), "dilation": (2, 3)},
    "uneven": {"input": (1, 5, 10, 7), "weight": (8, 5, 2, 5), "padding": ((1, 0), (2, 3)), "stride": (3, 1)},
    "skipping": {"input": (2, 1, 13, 13), "weight": (9, 1, 1, 2), "stride": 5},
}
TILES: tuple[dict[str, Value], ...] = (
    {"down": 2, "across": 1, "rows": 16, "columns": 16, "stages": 3, "splits": 2},
    {"down": 1, "across": 2, "rows": 32, "columns": 8, "stages": 2, "splits": 1},
    {"down": 1, "across": 4, "rows": 16, "columns": 8, "stages": 4, "splits": 2},
    {"down": 1, "across": 1, "rows": 16, "columns": 32, "stages": 2, "splits": 3},
)


def layer_of(name: str) -> Conv2d:
    return Conv2d(**LAYERS[name], pass_=Pass.WGRAD)


def config_of(problem: Conv2d, **wanted: Value) -> Config:
    """The smallest tile with the `wanted` values, as far as they are legal."""
    config = GATHER.space(problem, DEVICE).like({**LEAST, **wanted})
    assert config is not None
    return config


def errors_of(host: Runtime, compiler: HostCompiler, *cases: tuple[Conv2d, Config]) -> list[float]:
    """Largest error of each result. Fails if one exceeds its program's bound."""
    return check(host, compiler, [(problem, GATHER.program(problem, config)) for problem, config in cases])


def test_is_right_in_tiles_of_each_kind_and_by_default(host: Runtime, quickest: HostCompiler) -> None:
    problems = [layer_of(name) for name in LAYERS]
    cases = [(each, config_of(each, **tile)) for each, tile in zip(problems, itertools.cycle(TILES), strict=False)]
    errors_of(host, quickest, *cases, (problems[0], GATHER.default(problems[0], DEVICE)))


@exhaustive.meeting()
@pytest.mark.parametrize("tile", TILES, ids=["short", "across", "four", "wide"])
@pytest.mark.parametrize("name", LAYERS)
def test_is_right_in_every_tile(host: Runtime, quickest: HostCompiler, name: str, tile: dict[str, Value]) -> None:
    problem = layer_of(name)
    errors_of(host, quickest, (problem, config_of(problem, **tile)))


def test_multiplies_low_parts_where_float32_is_asked_for_alone(host: Runtime, quickest: HostCompiler) -> None:
    problem = layer_of("stem")
    layers = (problem, dataclasses.replace(problem, precision="tf32"))
    exact, rounded = errors_of(host, quickest, *((each, config_of(each, **TILES[0])) for each in layers))
    assert exact < 1e-6 < 1e-5 < rounded


@pytest.mark.usefixtures("compile_as_asked")  # such products run three times as long unoptimised
def test_kernels_are_clean_under_the_sanitizers(tmp_path: Path) -> None:
    problems = [layer_of(name) for name in ("padded", "uneven")]
    sanitized.check([(each, GATHER.program(each, config_of(each, **TILES[0]))) for each in problems], tmp_path)
