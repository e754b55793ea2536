"""Convolution layers for the tests on the host and on a GPU."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from pairs import covering
from warpsmith.generator.conv2d import Conv2d, ImageLayout, PaddingMode, Pass
from warpsmith.generator.conv2d.layer.words import DTYPES


def layer(pass_: Pass, epilogue: int = 0, **fields: Any) -> Conv2d:
    """Problem of one pass. fprop gets one of four epilogues by number; dgrad has one only if `fields` name it."""
    ends = {"bias": bool(epilogue & 1), "relu": bool(epilogue & 2)} if pass_ is Pass.FPROP else {}
    return Conv2d(**fields, pass_=pass_, **ends)


def small_fields(stride: Any, padding: Any, dilation: Any, groups: int) -> dict[str, Any]:
    """Fields of a small layer: two rectangular images, four channels, six or eight filters of 3x2."""
    return {
        "input": (2, 4, 7, 9),
        "weight": (8 if groups == 4 else 6, 4 // groups, 3, 2),
        "stride": stride,
        "padding": padding,
        "dilation": dilation,
        "groups": groups,
    }


def small(pass_: Pass) -> list[Conv2d]:
    """Small layers with all combinations of strides, paddings, dilations and groups."""
    options = itertools.product((1, 2), (0, 1), (1, 2), (1, 2, 4))
    return [layer(pass_, number, **small_fields(*each)) for number, each in enumerate(options)]


FACTORS: dict[str, tuple[Any, ...]] = {
    "stride": (1, 2, (3, 1)),
    "padding": (0, 1, ((0, 2), (3, 1))),
    "dilation": (1, 2, (1, 3)),
    "channels": ((1, 1, 1), (1, 4, 33), (1, 33, 12), (1, 3, 100), (2, 12, 4), (3, 33, 3), (12, 12, 12), (33, 33, 33)),
    "taps": ((1, 1), (3, 3), (2, 4), (5, 2)),
    "padding_mode": tuple(PaddingMode),
    "dtype": DTYPES,
    "layout": tuple(ImageLayout),
    "pass_": tuple(Pass),
    "epilogue": (0, 1, 2, 3),
}
"""Values that `spread` combines in pairs. "channels" gives groups, channels and filters of one image."""


def spread() -> list[Conv2d]:
    """Layers on rectangular images that combine every two values of two FACTORS."""
    return [_layer(case) for case in covering(FACTORS, lambda _: True)]


def _layer(case: Mapping[str, Any]) -> Conv2d:
    groups, channels, filters = case["channels"]
    ends = {"bias": bool(case["epilogue"] & 1), "relu": bool(case["epilogue"] & 2)}
    names = ("stride", "padding", "dilation", "padding_mode", "dtype", "layout", "pass_")
    return Conv2d(
        input=(1, channels, 9, 13),
        weight=(filters, channels // groups, *case["taps"]),
        groups=groups,
        **{name: case[name] for name in names},
        **(ends if case["pass_"] is not Pass.WGRAD else {}),
    )
