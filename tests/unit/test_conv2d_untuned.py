"""The family that answers for layers of networks that nobody tuned, and the model of sums over taps."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.sums.direct_model import direct_ns
from warpsmith.generator.presets import H200
from warpsmith.generator.ranking import default_answer

BFLOAT: dict[str, Any] = {"dtype": "bfloat16", "precision": "bf16", "layout": "nhwc"}
SMALL = Conv2d((1, 512, 7, 7), (512, 512, 3, 3), padding=1)  # type: ignore[arg-type]
FEW = Conv2d((4, 16, 256, 256), (16, 16, 3, 3), padding=1)  # type: ignore[arg-type]
POINTWISE = Conv2d((24, 64, 56, 56), (256, 64, 1, 1), **BFLOAT)
STEM = Conv2d((24, 3, 224, 224), (16, 3, 3, 3), stride=2, padding=1)  # type: ignore[arg-type]
GROUPS = Conv2d((24, 512, 14, 14), (512, 16, 3, 3), padding=1, groups=32)  # type: ignore[arg-type]
MASK = Conv2d((24, 64, 256, 256), (2, 64, 1, 1), **BFLOAT)
PLANES = Conv2d((24, 192, 7, 7), (384, 192, 3, 3), padding=1)  # type: ignore[arg-type]
LONG = Conv2d((24, 64, 27, 27), (192, 64, 5, 5), padding=2)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("layer", "pass_", "measured_us"),
    [
        (SMALL, Pass.FPROP, 939.5),
        (SMALL, Pass.DGRAD, 805.1),
        (SMALL, Pass.WGRAD, 128.3),
        (FEW, Pass.FPROP, 60.6),
        (FEW, Pass.WGRAD, 582.4),
        (POINTWISE, Pass.FPROP, 864.1),
        (STEM, Pass.WGRAD, 676.1),
        (GROUPS, Pass.DGRAD, 49.9),
        (MASK, Pass.WGRAD, 3519.9),
    ],
)
def test_sums_over_taps_take_about_what_is_expected(layer: Conv2d, pass_: Pass, measured_us: float) -> None:
    """Medians of the default on an H200, 2026-11-28."""
    expected_us = direct_ns(dataclasses.replace(layer, pass_=pass_), H200) / 1000
    assert expected_us / 1.8 < measured_us < expected_us * 1.8


@pytest.mark.parametrize(
    ("layer", "pass_", "family"),
    [
        (SMALL, Pass.WGRAD, "conv2d_warpgroup"),  # 28 us where sums over taps took 128
        (FEW, Pass.FPROP, "conv2d_depthwise"),  # 40 us for 68
        (STEM, Pass.WGRAD, "conv2d_gather"),  # 35 us, as conv2d_depthwise; sums over taps took 676
        (GROUPS, Pass.DGRAD, "conv2d_depthwise"),  # 28 us for 50
        (MASK, Pass.WGRAD, "conv2d_warpgroup_pixels"),  # 67 us for 349
        (PLANES, Pass.WGRAD, "conv2d_warpgroup"),  # transforms were wrong on its stress data
        (LONG, Pass.FPROP, "conv2d_fft_tiled_warpgroup"),  # 67 us where whole planes took 97
    ],
)
def test_the_family_that_is_expected_to_be_fastest_answers(layer: Conv2d, pass_: Pass, family: str) -> None:
    assert default_answer(dataclasses.replace(layer, pass_=pass_), H200)[0].name == family
