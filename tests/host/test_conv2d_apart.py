"""Images of a batch do not affect each other: whatever one contains, the results of the others are as accurate as
alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import exhaustive
from joined import plans_of
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.runtime import Runtime
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.operation import CONV2D
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.family import Family
from warpsmith.tuner.operations.conv2d.oracle import reference
from warpsmith.tuner.operations.registry import random_operands

FAMILIES = CONV2D.families

DEVICE = DeviceRef(DeviceKind.HOST).device()
BOUND = 1e-6
TRANSFORMING = ("conv2d_fft", "conv2d_circular")
"""Prefixes of the names of families that use transforms."""
ODD: dict[str, Any] = {"input": (3, 3, 11, 9), "weight": (5, 3, 3, 2), "padding": 1}
ODD_TILES: dict[str, Any] = {"input": (3, 1, 20, 23), "weight": (3, 1, 4, 3)}
EVEN: dict[str, Any] = {"input": (3, 32, 5, 6), "weight": (32, 32, 3, 3), "padding": 1}
DEPTHWISE: dict[str, Any] = {"input": (3, 3, 15, 14), "weight": (3, 1, 7, 7), "padding": 3, "groups": 3}
FUSED: dict[str, Any] = {"input": (3, 3, 11, 9), "weight": (4, 3, 3, 2)}
FUSED_GRADIENT: dict[str, Any] = {"input": (3, 4, 11, 9), "weight": (3, 4, 3, 2)}
LAYERS = [
    *(Conv2d(**fields, pass_=pass_) for fields in (ODD, ODD_TILES, EVEN, DEPTHWISE) for pass_ in ("fprop", "dgrad")),
    Conv2d(**FUSED),
    Conv2d(**FUSED_GRADIENT, pass_="dgrad"),
]


OF_MANY_TILES = ("conv2d_fft", "conv2d_fft_tiled", "conv2d_fft_tiled_thin", "conv2d_circular")
"""Families that are tested with ODD_TILES."""
SPOILS: tuple[tuple[float, ...], ...] = ((np.nan, 1.0, 1e6), (1.0, 1e12, -np.inf), (1e38, 1.0, 1e-12))
"""One entry per image in each run: a factor of the image, or a value of SPOILING for one of its pixels."""
SPOILING = (np.nan, -np.inf, 1e38)


def spoilt(images: NDArray[np.float32], spoils: tuple[float, ...]) -> NDArray[np.float32]:
    """Copy of `images` with the first ones changed as `spoils` says."""
    images = images.copy()
    for image, spoil in zip(images, spoils, strict=False):
        if spoil in SPOILING or np.isnan(spoil):
            image[0, 3, 4] = spoil
        else:
            image *= np.float32(spoil)
    return images


def is_case(family: Family, layer: Conv2d) -> bool:
    """True if a layer exercises the family's special code and no earlier layer does."""
    if not family.name.startswith(TRANSFORMING) or family.why_not(layer, DEVICE) is not None:
        return False
    if layer in LAYERS[-2:]:
        return "fused" in family.name
    if layer.input[1] == EVEN["input"][1]:
        return "warpgroup" in family.name or "halves" in family.name
    # Other families have layers of many tiles too, with the same products; products of warps take 8 s here.
    return layer.input[1] == ODD["input"][1] or family.name in OF_MANY_TILES


CASES = [(family, layer) for layer in LAYERS for family in FAMILIES if is_case(family, layer)]


def features(case: tuple[Family, Conv2d]) -> exhaustive.Features:
    """Features of a case: the family with the layer, and each pass with each kind of product."""
    family, layer = case
    return frozenset([family.name, layer, (layer.pass_, family.name in OF_MANY_TILES)])


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.key())
def test_an_image_is_not_felt_by_the_others(host: Runtime, quickest: HostCompiler, layer: Conv2d) -> None:
    """Families that transform a layer in the same way share the kernels that do."""
    families = [family for family, each in exhaustive.chosen(CASES, features) if each == layer]
    cases = [(layer, each.program(layer, each.default(layer, DEVICE))) for each in families]
    plans = plans_of(host, quickest, cases)
    name, drawn = layer.inputs[0].name, random_operands(layer, 3)
    for spoils in SPOILS:
        given = {**drawn, name: spoilt(drawn[name], spoils)}
        expected, scale = reference(layer, given)
        whole = [n for n in range(layer.input[0]) if n >= len(spoils) or 1e-12 <= spoils[n] <= 1e12]
        for family, plan in zip(families, plans, strict=True):
            error = np.abs(np.asarray(plan(*given.values()))[whole] - expected[whole]) / scale[whole]
            assert error.max(axis=(1, 2, 3)).tolist() == pytest.approx([0] * len(whole), abs=BOUND), (spoils, family)


def test_every_family_by_transforms_is_among_them() -> None:
    solving = {family.name for family, layer in CASES}
    named = {each.name for each in FAMILIES if each.name.startswith(TRANSFORMING)}
    assert solving == named - {"conv2d_fft_cublas"}  # its products run only on GPUs


def test_both_gradients_and_layers_have_odd_numbers() -> None:
    assert {layer.pass_ for _, layer in CASES} == {Pass.FPROP, Pass.DGRAD}
