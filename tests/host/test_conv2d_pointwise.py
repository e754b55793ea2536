"""`conv2d_pointwise` on the CPU: layers of one tap from float32 pixels, against the float64 reference."""

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
from warpsmith.generator.conv2d import Conv2d, ImageLayout, Pass
from warpsmith.generator.conv2d.products.pointwise import pointwise_image, pointwise_weight_geometry
from warpsmith.generator.conv2d.products.pointwise.pointwise_family import Conv2dPointwise
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.space import Config, Value

POINTWISE = Conv2dPointwise()
DEVICE = DeviceRef(DeviceKind.HOST).device()
SHAPES: dict[str, dict[str, Any]] = {
    "fours": {"input": (2, 24, 6, 6), "weight": (40, 24, 1, 1)},
    "pairs": {"input": (3, 40, 3, 6), "weight": (18, 40, 1, 1)},
    "odd": {"input": (3, 33, 5, 5), "weight": (21, 33, 1, 1)},
    "strides": {"input": (2, 16, 7, 8), "weight": (24, 16, 1, 1), "stride": (2, 3)},
    "twos": {"input": (2, 40, 8, 12), "weight": (24, 40, 1, 1), "stride": 2},
    "several_loads": {"input": (1, 130, 4, 4), "weight": (16, 130, 1, 1)},
}
TILES: tuple[dict[str, Value], ...] = (
    {"down": 2, "across": 1, "rows": 16, "columns": 16, "channels": 16, "stages": 3, "tiles": 2},
    {"down": 1, "across": 2, "rows": 32, "columns": 16, "channels": 32, "stages": 2, "tiles": 1},
    {"down": 1, "across": 1, "rows": 16, "columns": 32, "channels": 64, "stages": 2, "tiles": 3},
    {"warps": 4, "down": 1, "across": 1, "rows": 16, "columns": 64, "channels": 32, "stages": 2, "tiles": 2},
    {"warps": 4, "down": 2, "across": 2, "rows": 32, "columns": 64, "channels": 64, "stages": 3, "tiles": 1},
)
WEIGHT_TILES: tuple[dict[str, Value], ...] = (
    {"down": 2, "across": 1, "rows": 16, "columns": 16, "stages": 3, "splits": 2},
    {"down": 1, "across": 2, "rows": 32, "columns": 8, "stages": 2, "splits": 1},
    {"down": 1, "across": 1, "rows": 16, "columns": 32, "stages": 2, "splits": 3},
)
every_pass = pytest.mark.parametrize("pass_", Pass)
images = pytest.mark.parametrize("pass_", [Pass.FPROP, Pass.DGRAD])


def tiles_of(pass_: Pass) -> tuple[dict[str, Value], ...]:
    return WEIGHT_TILES if pass_ is Pass.WGRAD else TILES


def config_of(problem: Conv2d, **wanted: Value) -> Config:
    """The smallest tile with the `wanted` values, as far as they are legal."""
    least = pointwise_weight_geometry.LEAST if problem.pass_ is Pass.WGRAD else pointwise_image.LEAST
    config = POINTWISE.space(problem, DEVICE).like(
        {**least, **{name: wanted[name] for name in wanted if name in least}}
    )
    assert config is not None
    return config


def errors_of(host: Runtime, compiler: HostCompiler, *cases: tuple[Conv2d, Config]) -> list[float]:
    """Largest error of each result. Fails if one exceeds its program's bound."""
    return check(host, compiler, [(problem, POINTWISE.program(problem, config)) for problem, config in cases])


@every_pass
def test_is_right_in_tiles_of_each_kind_and_by_default(host: Runtime, quickest: HostCompiler, pass_: Pass) -> None:
    problems = [Conv2d(**shape, pass_=pass_) for shape in SHAPES.values()]
    tiles = itertools.islice(itertools.cycle(tiles_of(pass_)), pass_.number, pass_.number + len(problems))
    cases = [(each, config_of(each, **tile)) for each, tile in zip(problems, tiles, strict=True)]
    errors_of(host, quickest, *cases, (problems[0], POINTWISE.default(problems[0], DEVICE)))


@exhaustive.meeting()
@images
@pytest.mark.parametrize("tile", TILES, ids=["short", "wide", "deep", "warpgroup", "warpgroups"])
@pytest.mark.parametrize("shape", SHAPES)
def test_is_right_in_every_tile(
    host: Runtime, quickest: HostCompiler, shape: str, tile: dict[str, Value], pass_: Pass
) -> None:
    problem = Conv2d(**SHAPES[shape], pass_=pass_)
    errors_of(host, quickest, (problem, config_of(problem, **tile)))


@exhaustive.meeting()
@pytest.mark.parametrize("layout", ImageLayout)
@pytest.mark.parametrize("tile", WEIGHT_TILES, ids=["short", "whole", "wide"])
@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_of_weights_are_right_in_every_tile(
    host: Runtime, quickest: HostCompiler, shape: str, tile: dict[str, Value], layout: ImageLayout
) -> None:
    problem = Conv2d(**SHAPES[shape], layout=layout, pass_=Pass.WGRAD)
    errors_of(host, quickest, (problem, config_of(problem, **tile)))


@images
def test_adds_a_bias_and_ends_in_a_relu(host: Runtime, quickest: HostCompiler, pass_: Pass) -> None:
    layers = [Conv2d(**SHAPES[name], bias=True, relu=True, pass_=pass_) for name in ("fours", "strides")]
    errors_of(host, quickest, *((each, config_of(each, **TILES[0])) for each in layers))


@every_pass
def test_multiplies_low_parts_where_float32_is_asked_for_alone(
    host: Runtime, quickest: HostCompiler, pass_: Pass
) -> None:
    problem = Conv2d(**SHAPES["fours"], pass_=pass_)
    layers = (problem, dataclasses.replace(problem, precision="tf32"))
    exact, rounded = errors_of(host, quickest, *((each, config_of(each, **tiles_of(pass_)[0])) for each in layers))
    assert exact < 1e-6 < 1e-5 < rounded


@pytest.mark.usefixtures("compile_as_asked")  # such products run three times as long unoptimised
def test_kernels_are_clean_under_the_sanitizers(tmp_path: Path) -> None:
    problems = [Conv2d(**SHAPES[name], pass_=pass_) for name in ("pairs", "strides") for pass_ in Pass]
    sanitized.check(
        [(each, POINTWISE.program(each, config_of(each, **tiles_of(each.pass_)[0]))) for each in problems], tmp_path
    )
