"""`conv2d_gather`: which layers it solves, tiles that cover them, and where it answers."""

from __future__ import annotations

import random
from typing import Any

import pytest

from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.products.pointwise.gather_family import MOST_COLUMNS, Conv2dGather
from warpsmith.generator.conv2d.products.pointwise.pointwise_weight_geometry import PointwiseWeightGeometry
from warpsmith.generator.device import Device
from warpsmith.generator.presets import A100, B200, H200, RTX_4090, T4
from warpsmith.generator.ranking import default_answer
from warpsmith.generator.space import Config

FAMILY = Conv2dGather()
LAYERS: dict[str, dict[str, Any]] = {
    "stem": {"input": (24, 3, 224, 224), "weight": (64, 3, 7, 7), "stride": 2, "padding": 3},
    "padded": {"input": (24, 3, 224, 224), "weight": (64, 3, 3, 3), "padding": 1},
    "strided": {"input": (24, 3, 224, 224), "weight": (64, 3, 3, 3), "stride": 2},
    "patches": {"input": (24, 3, 224, 224), "weight": (96, 3, 4, 4), "stride": 4},
}
every_layer = pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
every_device = pytest.mark.parametrize("device", [A100, RTX_4090, H200, B200], ids=lambda each: each.name)


def drawn(problem: Conv2d, device: Device, count: int = 8) -> list[Config]:
    """The default and some random configs."""
    space, rng = FAMILY.space(problem, device), random.Random(problem.key())
    found = (space.drawn(rng) for _ in range(count))
    return [FAMILY.default(problem, device), *(each for each in found if each is not None)]


@every_layer
def test_tiles_have_every_tap_of_every_channel(layer: dict[str, Any]) -> None:
    problem = Conv2d(**layer, pass_=Pass.WGRAD)
    for config in drawn(problem, H200):
        geometry = PointwiseWeightGeometry.of(problem, config)
        assert geometry.has_steps
        assert 0 <= geometry.row_tiles * geometry.tile_rows - geometry.filters < geometry.tile_rows
        columns = problem.weight[1] * problem.weight[2] * problem.weight[3]
        assert 0 <= geometry.column_tiles * geometry.tile_columns - columns < geometry.tile_columns


@every_device
@every_layer
def test_defaults_are_legal_and_fit(layer: dict[str, Any], device: Device) -> None:
    problem = Conv2d(**layer, pass_=Pass.WGRAD)
    config = FAMILY.default(problem, device)
    assert FAMILY.space(problem, device).contains(config)
    (launch, *_) = FAMILY.program(problem, config).launches
    assert launch.shared_bytes <= device.shared_per_block_bytes


@every_device
@pytest.mark.parametrize("layer", ["padded", "strided", "patches"])
def test_answers_unsearched_for_images_of_three_channels(layer: str, device: Device) -> None:
    family, _ = default_answer(Conv2d(**LAYERS[layer], pass_=Pass.WGRAD), device)
    assert family.name == FAMILY.name


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"pass_": "fprop"}, "gradients of weights only"),
        ({"weight": (64, 3, 1, 1), "padding": 0}, "several taps"),
        ({"input": (2, 6, 16, 16), "groups": 2}, "without groups"),
        ({"input": (2, 64, 16, 16), "weight": (64, 64, 3, 3)}, f"at most {MOST_COLUMNS} of all channels, unlike 576"),
        ({"padding_mode": "reflect"}, "zeros"),
        ({"input": (1, 3, 8192, 8)}, "rows"),
        ({"input": (1, 3, 8, 20000), "dilation": (1, 4096)}, "columns apart"),
        ({"layout": "nhwc"}, "nchw"),
        ({"dtype": "float16"}, "float32"),
    ],
)
def test_says_which_layers_it_does_not_solve(change: dict[str, Any], why: str) -> None:
    usual = {"input": (2, 3, 16, 16), "weight": (64, 3, 3, 3), "padding": 1, "pass_": "wgrad"}
    reason = FAMILY.why_not(Conv2d(**{**usual, **change}), H200)
    assert reason is not None
    assert why in reason


def test_needs_asynchronous_copies() -> None:
    reason = FAMILY.why_not(Conv2d(**LAYERS["stem"], pass_=Pass.WGRAD), T4)
    assert reason is not None
    assert "8.0" in reason
