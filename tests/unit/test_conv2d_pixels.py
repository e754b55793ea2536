"""`conv2d_warpgroup_pixels`: refusals and how many pixels are merged."""

from __future__ import annotations

from typing import Any

import pytest

from warpsmith.generator.conv2d import Conv2d
from warpsmith.generator.conv2d.products.wgmma.pixels_family import Conv2dWarpgroupPixels, merged
from warpsmith.generator.presets import A100, H200

FAMILY = Conv2dWarpgroupPixels()
LAST: dict[str, Any] = {"dtype": "bfloat16", "precision": "bf16", "layout": "nhwc"}
PAIRS: dict[str, Any] = {"input": (24, 116, 28, 28), "weight": (116, 116, 1, 1), **LAST}


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"dtype": "float32", "precision": "ieee"}, "16-bit numbers with channels last"),
        ({"layout": "nchw"}, "16-bit numbers with channels last"),
        ({"weight": (116, 116, 3, 3)}, "one tap in one group"),
        ({"weight": (116, 58, 1, 1), "groups": 2}, "one tap in one group"),
        ({"stride": (1, 2)}, "without strides and padding"),
        ({"padding": 1}, "without strides and padding"),
        ({"nonfinite": "window"}, "needs nonfinite any"),
        ({"input": (24, 64, 28, 28), "weight": (128, 64, 1, 1)}, "conv2d_warpgroup_im2col"),
        ({"input": (24, 116, 7, 7)}, "unlike 7x7 of 116 and 116 channels"),
        ({"workspace": 1 << 10}, "bytes of workspace"),
    ],
)
def test_refuses(changed: dict[str, Any], says: str) -> None:
    why_not = FAMILY.why_not(Conv2d(**{**PAIRS, **changed}), H200)
    assert why_not is not None
    assert says in why_not


def test_refuses_other_gpus_than_hopper() -> None:
    assert FAMILY.why_not(Conv2d(**PAIRS), A100) is not None


@pytest.mark.parametrize(
    ("channels", "filters", "plane", "count", "merged_plane"),
    [
        (116, 116, (28, 28), 2, (28, 14)),
        (58, 58, (28, 28), 4, (28, 7)),
        (24, 58, (14, 14), 4, (1, 49)),
        (17, 3, (8, 8), 8, (8, 1)),
        (20, 12, (6, 5), 2, (1, 15)),
    ],
)
def test_merges_the_fewest_pixels_that_fill_vectors(
    channels: int, filters: int, plane: tuple[int, int], count: int, merged_plane: tuple[int, int]
) -> None:
    problem = Conv2d(input=(24, channels, *plane), weight=(filters, channels, 1, 1), pass_="dgrad", **LAST)
    layer = merged(problem)
    assert layer is not None
    assert layer.input == (24, count * channels, *merged_plane)
    assert layer.weight == (count * filters, count * channels, 1, 1)
    assert layer.inputs[0].nbytes == problem.inputs[0].nbytes
    assert layer.output.nbytes == problem.output.nbytes
