"""Convolution layers for the tests on the host and on a GPU."""

from __future__ import annotations

import itertools
from typing import Any

from warpsmith.generator.conv2d import Conv2d, Pass


def layer(pass_: Pass, epilogue: int = 0, **fields: Any) -> Conv2d:
    """A problem in the words of a caller; fprop ends in one of four ways."""
    ends = {"bias": bool(epilogue & 1), "relu": bool(epilogue & 2)} if pass_ is Pass.FPROP else {}
    return Conv2d(**fields, pass_=pass_, **ends)


def small_fields(stride: Any, padding: Any, dilation: Any, groups: int) -> dict[str, Any]:
    """The fields of a small layer with an odd number of everything."""
    return {
        "input": (2, 4, 7, 9),
        "weight": (8 if groups == 4 else 6, 4 // groups, 3, 2),
        "stride": stride,
        "padding": padding,
        "dilation": dilation,
        "groups": groups,
    }


def small(pass_: Pass) -> list[Conv2d]:
    """Strides, paddings, dilations and groups in all combinations."""
    options = itertools.product((1, 2), (0, 1), (1, 2), (1, 2, 4))
    return [layer(pass_, number, **small_fields(*each)) for number, each in enumerate(options)]
