"""`conv2d_warpgroup_groups`: refusals and how many groups are merged."""

from __future__ import annotations

from typing import Any

import pytest

from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.products.wgmma.groups_family import Conv2dWarpgroupGroups, merged
from warpsmith.generator.presets import H200

FAMILY = Conv2dWarpgroupGroups()
LAST: dict[str, Any] = {"dtype": "bfloat16", "precision": "bf16", "layout": "nhwc"}
FOURS: dict[str, Any] = {"input": (24, 128, 56, 56), "weight": (128, 4, 3, 3), "groups": 32, "padding": 1, **LAST}


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"dtype": "float32", "precision": "ieee"}, "16-bit numbers with channels last"),
        ({"layout": "nchw"}, "16-bit numbers with channels last"),
        ({"weight": (128, 128, 3, 3), "groups": 1}, "groups of less than 64 channels"),
        ({"weight": (128, 64, 3, 3), "groups": 2}, "groups of less than 64 channels"),
        ({"input": (24, 21, 56, 56), "weight": (21, 3, 3, 3), "groups": 7}, "unlike 7 groups of 3 and 3 channels"),
        ({"padding_mode": "reflect"}, "zeros"),
        ({"nonfinite": "window"}, "needs nonfinite any"),
        ({"workspace": 1 << 10}, "147456 bytes of workspace"),
        ({"workspace": 1 << 10, "pass_": Pass.WGRAD}, "294912 bytes of workspace"),
    ],
)
def test_refuses(changed: dict[str, Any], says: str) -> None:
    why_not = FAMILY.why_not(Conv2d(**{**FOURS, **changed}), H200)
    assert why_not is not None
    assert says in why_not


@pytest.mark.parametrize(
    ("channels", "groups", "count"), [(4, 32, 16), (8, 32, 8), (16, 32, 4), (32, 32, 2), (24, 14, 2), (24, 5, 5)]
)
def test_merges_groups_to_one_copy_of_channels(channels: int, groups: int, count: int) -> None:
    """64 channels are one copy; beyond, more is copied and multiplied than needed."""
    shape = {"input": (24, channels * groups, 14, 14), "weight": (channels * groups, channels, 3, 3), "groups": groups}
    layer = merged(Conv2d(**{**FOURS, **shape}))
    assert layer is not None
    assert layer.groups == groups // count
    assert layer.weight == (channels * groups, channels * count, 3, 3)
