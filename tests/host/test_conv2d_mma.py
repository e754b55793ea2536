"""`conv2d_mma` on the CPU: split fp16 products by warps, against the float64 reference."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

import exhaustive
import sanitized
from host.test_conv2d_warpgroup import CHANNELS_LAST, KINDS, SHAPES
from verified import check
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.runtime import Runtime
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.products.mma.mma_family import Conv2dMma
from warpsmith.generator.conv2d.products.mma.mma_image import LEAST_IMAGE
from warpsmith.generator.conv2d.products.mma.mma_weight import LEAST_WEIGHT
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.space import Config, Value

MMA = Conv2dMma()
DEVICE = DeviceRef(DeviceKind.HOST).device()
TILES: tuple[dict[str, Value], ...] = (
    {"warps_down": 2, "channels": 16, "terms": 32, "stages": 3, "reach": "filter", "taps": 2, "splits": 3},
    {"warps_across": 2, "channels": 32, "terms": 64, "stages": 2, "taps": 1, "splits": 2},
    {"warp_rows": 64, "channels": 16, "terms": 32, "stages": 4, "taps": 3, "splits": 1},
)
"""Small tiles, which the CPU computes quickly. Each shape is computed with one of them."""
every_pass = pytest.mark.parametrize("pass_", Pass)


def config_of(problem: Conv2d, **wanted: Value) -> Config:
    """The smallest tile with the `wanted` values, as far as they are legal."""
    least = LEAST_WEIGHT if problem.pass_ is Pass.WGRAD else LEAST_IMAGE
    config = MMA.space(problem, DEVICE).like({**least, **{name: wanted[name] for name in wanted if name in least}})
    assert config is not None
    return config


def errors_of(host: Runtime, compiler: HostCompiler, *cases: tuple[Conv2d, Config]) -> list[float]:
    """Largest error of each result. Fails if one exceeds its program's bound."""
    return check(host, compiler, [(problem, MMA.program(problem, config)) for problem, config in cases])


@every_pass
def test_is_right_in_tiles_of_each_kind_and_by_default(host: Runtime, quickest: HostCompiler, pass_: Pass) -> None:
    """One pass of each shape with one kind of tile. Row spans of output positions are those of `conv2d_warpgroup`."""
    cases = []
    for number, shape in enumerate(SHAPES.values()):
        if pass_ is list(Pass)[number % 3]:
            problem = Conv2d(**shape, pass_=pass_)
            cases.append((problem, config_of(problem, **TILES[number // 3 % len(TILES)])))
    padded = Conv2d(**SHAPES["padded"], pass_=pass_)
    errors_of(host, quickest, *cases, (padded, MMA.default(padded, DEVICE)))


@exhaustive.meeting()
@every_pass
@pytest.mark.parametrize("kind", [KINDS[name] for name in ("tf32", "float16", "bfloat16", "bf16")])
def test_is_right_in_every_arithmetic(host: Runtime, quickest: HostCompiler, kind: dict[str, str], pass_: Pass) -> None:
    problem = Conv2d(**SHAPES["strides"], **kind, pass_=pass_)
    errors_of(host, quickest, (problem, config_of(problem, **TILES[0])))


@exhaustive.meeting()
@every_pass
@pytest.mark.parametrize("layout", CHANNELS_LAST, ids=["vectors", "steps", "others"])
def test_is_right_with_channels_last(
    host: Runtime, quickest: HostCompiler, layout: dict[str, Any], pass_: Pass
) -> None:
    with_end = {} if pass_ is Pass.WGRAD else {"bias": True, "relu": True}
    dtype = ("float32", "float16")[CHANNELS_LAST.index(layout) % 2]
    problem = Conv2d(**layout, **with_end, dtype=dtype, pass_=pass_)
    errors_of(host, quickest, (problem, config_of(problem, **TILES[1])))


@pytest.mark.parametrize("pass_", [Pass.FPROP, Pass.DGRAD])
def test_adds_a_bias_and_ends_in_a_relu(host: Runtime, quickest: HostCompiler, pass_: Pass) -> None:
    layers = [Conv2d(**SHAPES["groups"], bias=bias, relu=not bias, pass_=pass_) for bias in (True, False)]
    errors_of(host, quickest, *((each, config_of(each, **TILES[0])) for each in layers))


@every_pass
def test_multiplies_low_parts_where_float32_is_asked_for_alone(
    host: Runtime, quickest: HostCompiler, pass_: Pass
) -> None:
    problem = Conv2d(**SHAPES["strides"], pass_=pass_)
    layers = (problem, dataclasses.replace(problem, precision="tf32"))
    exact, rounded = errors_of(host, quickest, *((each, config_of(each, **TILES[0])) for each in layers))
    assert exact < 1e-6 < 1e-5 < rounded


@pytest.mark.usefixtures("compile_as_asked")  # such products run three times as long unoptimised
def test_kernels_are_clean_under_the_sanitizers(tmp_path: Path) -> None:
    problems = [Conv2d(**SHAPES["strides"], pass_=pass_) for pass_ in Pass]
    sanitized.check([(each, MMA.program(each, config_of(each, **TILES[0]))) for each in problems], tmp_path)
