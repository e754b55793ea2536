"""`conv2d_warpgroup_pixels` on the CPU: pixels that are merged, with zeros between their filters."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest

import sanitized
from channels_last import KINDS, by_default_or_at_random, layer_of
from verified import check
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.runtime import Runtime
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.conv2d import Pass
from warpsmith.generator.conv2d.products.wgmma.pixels_family import Conv2dWarpgroupPixels
from warpsmith.generator.device import DeviceKind

FAMILY = Conv2dWarpgroupPixels()
DEVICE = DeviceRef(DeviceKind.HOST).device()
SHAPES: dict[str, dict[str, Any]] = {
    "pairs": {"input": (2, 20, 6, 6), "weight": (36, 20, 1, 1)},
    "pairs across rows": {"input": (3, 12, 6, 5), "weight": (4, 12, 1, 1)},
    "fours": {"input": (2, 58, 4, 4), "weight": (58, 58, 1, 1)},
    "eights of odd channels": {"input": (1, 17, 8, 9), "weight": (3, 17, 1, 1)},
    "few filters": {"input": (2, 64, 8, 4), "weight": (2, 64, 1, 1)},
}


layer = functools.partial(layer_of, SHAPES)


@pytest.mark.parametrize("kind", KINDS)
def test_is_right_by_default_or_at_random(host: Runtime, quickest: HostCompiler, kind: str) -> None:
    check(host, quickest, by_default_or_at_random(FAMILY, DEVICE, SHAPES, kind, has_ends=True))


@pytest.mark.parametrize("pass_", [Pass.FPROP, Pass.DGRAD])
@pytest.mark.parametrize("name", ["pairs across rows", "eights of odd channels"])
def test_pixels_have_the_biases_of_their_own_channels(
    host: Runtime, quickest: HostCompiler, name: str, pass_: Pass
) -> None:
    problem = layer(name, "f16", pass_, bias=True)
    check(host, quickest, [(problem, FAMILY.program(problem, FAMILY.default(problem, DEVICE)))])


@pytest.mark.usefixtures("compile_without_optimisation")
def test_clean_under_the_sanitizers(tmp_path: Path) -> None:
    """Vectors of filters and sums that end inside a block."""
    cases = [layer("pairs across rows", "float16", pass_) for pass_ in Pass]
    sanitized.check([(each, FAMILY.program(each, FAMILY.default(each, DEVICE))) for each in cases], tmp_path)
