"""Families that spread a NaN beyond its window solve no layer that forbids it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.operation import CONV2D
from warpsmith.generator.presets import H200
from warpsmith.generator.problem import NonFinite

FAMILIES = CONV2D.families

SPREADING = ("conv2d_fft", "conv2d_winograd", "conv2d_circular", "conv2d_cufft")
"""Prefixes of the families that spread a NaN beyond its window in every pass."""
PRODUCTS = ("conv2d_warpgroup", "conv2d_mma")
"""Families that multiply the zeros between images when they sum over positions (M)."""
DEEP = {"input": (4, 256, 14, 14), "weight": (256, 256, 3, 3), "padding": 1}
DEPTHWISE = {"input": (4, 256, 14, 14), "weight": (256, 1, 7, 7), "padding": 3, "groups": 256}
STEM = {"input": (4, 3, 56, 56), "weight": (64, 3, 7, 7), "padding": 3, "stride": 2}


def solving(layer: Conv2d) -> set[str]:
    """Names of the families that solve a layer."""
    return {each.name for each in FAMILIES if each.why_not(layer, H200) is None}


@pytest.mark.parametrize("pass_", Pass)
@pytest.mark.parametrize("fields", [DEEP, DEPTHWISE, STEM])
def test_families_that_spread_a_nan_solve_layers_that_admit_it_alone(pass_: Pass, fields: dict[str, Any]) -> None:
    loose = Conv2d(**fields, pass_=pass_)
    strict = dataclasses.replace(loose, nonfinite=NonFinite.WINDOW)
    lost = {name for name in solving(loose) if name.startswith(SPREADING)}
    if pass_ is Pass.WGRAD or fields is STEM:  # few channels: their taps are filled up with zeros
        lost |= solving(loose) & set(PRODUCTS)
    assert lost
    assert solving(strict) == solving(loose) - lost
    for family in FAMILIES:
        if family.name in lost:
            why = family.why_not(strict, H200)
            assert why is not None
            assert why.endswith("needs nonfinite any")
