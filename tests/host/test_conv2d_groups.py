"""`conv2d_warpgroup_groups` on the CPU: groups that are merged, with zeros between them."""

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
from warpsmith.generator.conv2d.products.wgmma.groups_family import Conv2dWarpgroupGroups
from warpsmith.generator.device import DeviceKind

FAMILY = Conv2dWarpgroupGroups()
DEVICE = DeviceRef(DeviceKind.HOST).device()
SHAPES: dict[str, dict[str, Any]] = {
    "4 channels": {"input": (2, 128, 6, 5), "weight": (128, 4, 3, 3), "groups": 32, "padding": 1},
    "1 channel, 2 filters": {"input": (3, 32, 5, 7), "weight": (64, 1, 2, 3), "groups": 32, "padding": (1, 0)},
    "12 channels, 20 filters": {"input": (1, 96, 5, 6), "weight": (160, 12, 3, 2), "groups": 8},
    "24 channels": {"input": (2, 144, 4, 5), "weight": (144, 24, 1, 3), "groups": 6},
    "32 channels, strides": {"input": (2, 128, 9, 8), "weight": (128, 32, 3, 3), "groups": 4, "stride": (2, 3)},
    "all groups become one": {"input": (2, 40, 7, 6), "weight": (40, 8, 3, 3), "groups": 5, "dilation": (2, 1)},
    "one tap": {"input": (2, 64, 4, 6), "weight": (64, 16, 1, 1), "groups": 4},
}


layer = functools.partial(layer_of, SHAPES)


@pytest.mark.parametrize("kind", KINDS)
def test_is_right_by_default_or_at_random(host: Runtime, quickest: HostCompiler, kind: str) -> None:
    check(host, quickest, by_default_or_at_random(FAMILY, DEVICE, SHAPES, kind, has_ends=True))


@pytest.mark.usefixtures("compile_without_optimisation")
def test_clean_under_the_sanitizers(tmp_path: Path) -> None:
    """Vectors of filters and sums that end inside a block."""
    cases = [layer("12 channels, 20 filters", "float16", pass_) for pass_ in Pass]
    sanitized.check([(each, FAMILY.program(each, FAMILY.default(each, DEVICE))) for each in cases], tmp_path)
