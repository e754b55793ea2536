"""`conv2d_warpgroup_tf32` on the CPU: TMA im2col copies of float32 pixels, rounded to TF32 in registers."""

from __future__ import annotations

import random
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
from warpsmith.generator.conv2d.products.wgmma.tf32_family import Conv2dWarpgroupTf32
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.space import Config, Value

FAMILY = Conv2dWarpgroupTf32()
DEVICE = DeviceRef(DeviceKind.HOST).device()
TF32: dict[str, Any] = {"layout": "nhwc", "precision": "tf32"}
SHAPES: dict[str, dict[str, Any]] = {
    "padded": {"input": (3, 20, 6, 5), "weight": (20, 20, 3, 3), "padding": 1},
    "one image, even filter": {"input": (1, 36, 7, 9), "weight": (40, 36, 2, 4), "padding": ((1, 0), (2, 1))},
    "strides": {"input": (2, 36, 11, 9), "weight": (20, 36, 3, 5), "stride": (2, 3), "padding": (1, 2)},
    "strides beyond filters": {"input": (2, 32, 9, 8), "weight": (32, 32, 1, 2), "stride": (2, 3), "padding": (0, 3)},
    "dilation": {"input": (2, 64, 11, 12), "weight": (20, 64, 3, 3), "dilation": (2, 3), "padding": (2, 1)},
    "both": {"input": (1, 24, 14, 13), "weight": (20, 24, 3, 4), "stride": (3, 2), "dilation": (2, 3)},
    "pointwise": {"input": (3, 32, 5, 6), "weight": (72, 32, 1, 1), "stride": 2},
    "a filter as large as the image": {"input": (9, 32, 4, 5), "weight": (20, 32, 4, 5)},
    "odd results": {"input": (2, 24, 5, 7), "weight": (33, 24, 1, 1)},
    "deep": {"input": (2, 100, 5, 6), "weight": (140, 100, 3, 2), "padding": 1},
}


def layer(name: str, pass_: Pass, **more: Any) -> Conv2d:
    return Conv2d(**SHAPES[name], **TF32, pass_=pass_, **more)


def config_of(problem: Conv2d, **wanted: Value) -> Config:
    """A config with at least the `wanted` values."""
    config = FAMILY.space(problem, DEVICE).like({**FAMILY.default(problem, DEVICE).values(), **wanted})
    assert config is not None
    assert {name: config.values()[name] for name in wanted} == wanted
    return config


def solved(*passes: Pass) -> list[tuple[str, Pass]]:
    """Layers and those of the passes whose sources have whole vectors of channels."""
    each = ((name, pass_) for name in SHAPES for pass_ in passes)
    return [(name, pass_) for name, pass_ in each if FAMILY.why_not(layer(name, pass_), DEVICE) is None]


@pytest.mark.parametrize("pass_", list(Pass))
@pytest.mark.parametrize("is_random", [False, True])
def test_is_right_by_default_or_at_random(host: Runtime, quickest: HostCompiler, pass_: Pass, is_random: bool) -> None:
    cases = []
    for turn, (name, _) in enumerate(exhaustive.share(solved(pass_), int(is_random), 2)):
        ends = {} if pass_.sums_images else {"bias": turn % 2 == 0, "relu": turn % 3 == 0}
        problem = layer(name, pass_, **ends)
        drawn = FAMILY.space(problem, DEVICE).drawn(random.Random(problem.key())) if is_random else None
        cases.append((problem, FAMILY.program(problem, drawn or FAMILY.default(problem, DEVICE))))
    check(host, quickest, cases)


@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize(("rows", "columns"), [(32, 64), (64, 32), (64, 64)])
def test_gradients_of_weights_in_all_tiles_of_a_warp(
    host: Runtime, quickest: HostCompiler, rows: int, columns: int, splits: int
) -> None:
    problem = layer("deep", Pass.WGRAD, workspace=1 << 24)
    tile = {"rows": rows, "columns": columns, "down": 2 if rows == 32 else 1, "across": 2, "stages": 2}
    config = Config.of({**tile, "min_blocks": 1, "splits": splits})
    assert FAMILY.space(problem, DEVICE).why_not(config) is None
    check(host, quickest, [(problem, FAMILY.program(problem, config))])


@pytest.mark.parametrize("pass_", [Pass.FPROP, Pass.DGRAD])
@pytest.mark.parametrize("sharing", ["row", "none"])
def test_taps_share_pixels_or_have_their_own(host: Runtime, quickest: HostCompiler, sharing: str, pass_: Pass) -> None:
    problem = layer("strides", pass_, bias=True, relu=True)
    check(host, quickest, [(problem, FAMILY.program(problem, config_of(problem, sharing=sharing)))])


@pytest.mark.parametrize(("blocks", "pass_"), [(2, Pass.FPROP), (3, Pass.DGRAD), (4, Pass.FPROP), (5, Pass.DGRAD)])
def test_blocks_of_a_cluster_sum_over_parts_of_the_channels(
    host: Runtime, quickest: HostCompiler, blocks: int, pass_: Pass
) -> None:
    problem = layer("deep", pass_, bias=blocks > 2, relu=blocks > 3)
    config = config_of(problem, blocks=blocks, warpgroups=2 if blocks == 3 else 1)
    program = FAMILY.program(problem, config)
    assert f"__cluster_dims__({blocks}, 1, 1)" in program.units[-1].source
    check(host, quickest, [(problem, program)])


@pytest.mark.usefixtures("compile_without_optimisation")
def test_clean_under_the_sanitizers(tmp_path: Path) -> None:
    cases = [
        layer("one image, even filter", Pass.FPROP),
        *(layer("strides", pass_) for pass_ in (Pass.DGRAD, Pass.WGRAD)),
    ]
    sanitized.check([(each, FAMILY.program(each, FAMILY.default(each, DEVICE))) for each in cases], tmp_path)
