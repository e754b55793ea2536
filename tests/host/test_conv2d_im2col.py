"""`conv2d_warpgroup_im2col` on the CPU: TMA im2col copies of 16-bit pixels through a tensor map."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest

import exhaustive
import sanitized
from channels_last import KINDS, by_default_or_at_random, layer_of
from verified import check
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.runtime import Runtime
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.products.wgmma.im2col_family import Conv2dWarpgroupIm2col
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.space import Config, Value

FAMILY = Conv2dWarpgroupIm2col()
DEVICE = DeviceRef(DeviceKind.HOST).device()
SHAPES: dict[str, dict[str, Any]] = {
    "padded": {"input": (3, 40, 6, 5), "weight": (40, 40, 3, 3), "padding": 1},
    "one image, even filter": {"input": (1, 72, 7, 9), "weight": (40, 72, 2, 4), "padding": ((1, 0), (2, 1))},
    "groups": {"input": (2, 128, 5, 7), "weight": (128, 64, 3, 2), "groups": 2},
    "strides": {"input": (2, 72, 11, 9), "weight": (40, 72, 3, 5), "stride": (2, 3), "padding": (1, 2)},
    "strides beyond filters": {"input": (2, 64, 9, 8), "weight": (64, 64, 1, 2), "stride": (2, 3), "padding": (0, 3)},
    "dilation": {"input": (2, 64, 11, 12), "weight": (40, 64, 3, 3), "dilation": (2, 3), "padding": (2, 1)},
    "both": {"input": (1, 48, 14, 13), "weight": (40, 48, 3, 4), "stride": (3, 2), "dilation": (2, 3)},
    "much padding": {"input": (2, 64, 3, 4), "weight": (40, 64, 1, 2), "padding": (2, 4)},
    "pointwise": {"input": (3, 64, 5, 6), "weight": (72, 64, 1, 1), "stride": 2},
    "a filter as large as the image": {"input": (9, 64, 4, 5), "weight": (40, 64, 4, 5)},
    "few channels": {"input": (2, 16, 6, 5), "weight": (24, 16, 3, 3), "padding": 1},
    "chunks": {"input": (1, 24, 5, 7), "weight": (8, 24, 2, 3), "stride": 2},
    "groups within copies": {"input": (2, 64, 5, 7), "weight": (128, 16, 3, 2), "groups": 4},
    "groups that end within copies": {"input": (1, 160, 6, 17), "weight": (160, 80, 1, 2), "groups": 2},
    "positions of 512": {"input": (2, 40, 16, 16), "weight": (72, 40, 1, 1)},
    "positions of 640": {"input": (2, 72, 16, 20), "weight": (40, 72, 1, 1)},
    "deep, few pixels": {"input": (2, 200, 5, 6), "weight": (140, 200, 1, 1)},
    "deep, filter": {"input": (3, 136, 5, 4), "weight": (200, 136, 3, 2), "padding": 1},
    "deep, strides and groups": {"input": (1, 288, 6, 7), "weight": (288, 144, 2, 3), "groups": 2, "stride": 2},
}
layer = functools.partial(layer_of, SHAPES)


def config_of(problem: Conv2d, **wanted: Value) -> Config:
    """A config with at least the `wanted` values."""
    config = FAMILY.space(problem, DEVICE).like({**FAMILY.default(problem, DEVICE).values(), **wanted})
    assert config is not None
    return config


def checked(host: Runtime, compiler: HostCompiler, *cases: tuple[Conv2d, Config]) -> None:
    check(host, compiler, [(problem, FAMILY.program(problem, config)) for problem, config in cases])


@pytest.mark.parametrize("kind", KINDS)
def test_is_right_by_default_or_at_random(host: Runtime, quickest: HostCompiler, kind: str) -> None:
    check(host, quickest, by_default_or_at_random(FAMILY, DEVICE, SHAPES, kind))


@pytest.mark.parametrize("pass_", [Pass.FPROP, Pass.DGRAD])
@pytest.mark.parametrize("sharing", ["row", "none"])
def test_taps_share_pixels_or_have_their_own(host: Runtime, quickest: HostCompiler, sharing: str, pass_: Pass) -> None:
    """Each layer in one pass by default."""
    cases, turn = [], (sharing == "row") + (pass_ is Pass.DGRAD)
    for name in exhaustive.share(("strides", "padded"), turn, 2):
        problem = layer(name, "float16", pass_, bias=True, relu=True)
        config = config_of(problem, sharing=sharing)
        assert config.text("sharing") == sharing
        cases.append((problem, config))
    checked(host, quickest, *cases)


@pytest.mark.parametrize("taps", [1, 2, 3])
def test_taps_of_a_block(host: Runtime, quickest: HostCompiler, taps: int) -> None:
    """Two of three taps in a block leave a warpgroup without a tap."""
    problem = layer("groups" if taps == 2 else "padded", "bf16", Pass.WGRAD)
    config = config_of(problem, taps=taps)
    assert config.integer("taps") == taps
    checked(host, quickest, (problem, config))


@pytest.mark.parametrize(
    ("splits", "names"),
    [
        (1, ("groups", "one image, even filter")),
        (2, ("padded", "much padding")),
        (3, ("groups that end within copies",)),
        (5, ("positions of 640",)),
        (8, ("positions of 512",)),
        (10, ("positions of 640",)),
    ],
)
def test_blocks_store_weights_or_partial_sums(
    host: Runtime, quickest: HostCompiler, splits: int, names: tuple[str, ...]
) -> None:
    """Channels and filters that are no whole tiles: blocks of one part, clusters of two to eight, and partial sums."""
    cases = []
    for name in names:
        problem = layer(name, "float16" if splits == 2 else "bf16", Pass.WGRAD)
        config = config_of(problem, splits=splits, terms=64 if splits == 1 else 32, taps=1)
        program = FAMILY.program(problem, config)
        assert config.integer("splits") == splits
        assert len(program.steps) == (2 if splits > 8 else 1)
        assert len(program.workspaces) == (1 if splits > 8 else 0)
        assert ("__cluster_dims__" in program.units[0].source) == (1 < splits <= 8)
        cases.append((problem, config))
    checked(host, quickest, *cases)


@pytest.mark.parametrize(
    ("blocks", "name", "pass_"),
    [
        (2, "deep, filter", Pass.FPROP),
        (2, "deep, strides and groups", Pass.DGRAD),
        (3, "deep, few pixels", Pass.DGRAD),
        (3, "deep, strides and groups", Pass.FPROP),
        (4, "deep, few pixels", Pass.FPROP),
        (4, "deep, filter", Pass.DGRAD),
    ],
)
@pytest.mark.parametrize("sharing", ["row", "none"])
def test_blocks_of_a_cluster_sum_over_parts_of_the_channels(
    host: Runtime, quickest: HostCompiler, sharing: str, blocks: int, name: str, pass_: Pass
) -> None:
    """Unequal parts, the last of which ends within a copy; tiles that end within vectors of a warp."""
    kind = "float16" if blocks == 2 else "bf16"
    problem = layer(name, kind, pass_, bias=blocks > 2, relu=sharing == "none")
    own = "row" if sharing == "row" and SHAPES[name]["weight"][3] > 1 else "none"
    config = config_of(problem, sharing=own, blocks=blocks, warpgroups=1 if sharing == "row" else 2)
    program = FAMILY.program(problem, config)
    assert config.integer("blocks") == blocks
    assert f"__cluster_dims__({blocks}, 1, 1)" in program.units[0].source
    assert len(program.launches) == 1
    assert program.launches[0].grid[0] % blocks == 0
    checked(host, quickest, (problem, config))


@pytest.mark.parametrize("pass_", [Pass.DGRAD, Pass.WGRAD])
def test_columns_that_are_no_whole_copies(host: Runtime, quickest: HostCompiler, pass_: Pass) -> None:
    problem = Conv2d((2, 96, 4, 5), (96, 96, 1, 2), **KINDS["bfloat16"], layout="nhwc", pass_=pass_)  # type: ignore[arg-type]
    config = config_of(problem, columns=96)
    assert config.integer("columns") == 96
    checked(host, quickest, (problem, config))


@pytest.mark.parametrize(
    ("columns", "results", "pass_", "blocks"),
    [
        (48, 48, Pass.FPROP, 0),
        (48, 40, Pass.FPROP, 0),
        (80, 160, Pass.DGRAD, 0),
        (112, 104, Pass.FPROP, 0),
        (112, 112, Pass.DGRAD, 2),
        (144, 136, Pass.DGRAD, 0),
        (160, 88, Pass.FPROP, 3),
    ],
)
def test_tiles_that_end_between_powers_of_two(
    host: Runtime, quickest: HostCompiler, columns: int, results: int, pass_: Pass, blocks: int
) -> None:
    """Their last exchange of vectors has two for four; some end within the result, or beyond it."""
    channels, filters = (136, results) if pass_ is Pass.FPROP else (results, 136)
    kind = "bfloat16" if blocks else "f16"
    problem = Conv2d(
        (2, channels, 4, 5), (filters, channels, 2, 1), **KINDS[kind], layout="nhwc", pass_=pass_, bias=True
    )  # type: ignore[arg-type]
    config = config_of(problem, columns=columns, blocks=blocks)
    assert (config.integer("columns"), config.integer("blocks")) == (columns, blocks)
    checked(host, quickest, (problem, config))


@pytest.mark.usefixtures("compile_without_optimisation")
def test_clean_under_the_sanitizers(tmp_path: Path) -> None:
    """Images and channels that end inside a copy."""
    layers = zip(("strides", "one image, even filter", "dilation"), ("float16", "bfloat16", "f16"), Pass, strict=True)
    cases = [layer(*each) for each in layers]
    sanitized.check([(each, FAMILY.program(each, FAMILY.default(each, DEVICE))) for each in cases], tmp_path)
