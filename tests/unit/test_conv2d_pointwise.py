"""`conv2d_pointwise`: which layers it solves, tiles that cover them, and its choice on several GPUs."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest

from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.products.pointwise.pointwise_family import Conv2dPointwise
from warpsmith.generator.conv2d.products.pointwise.pointwise_image_geometry import PointwiseImageGeometry
from warpsmith.generator.conv2d.products.pointwise.pointwise_weight_geometry import PointwiseWeightGeometry
from warpsmith.generator.device import Device
from warpsmith.generator.presets import A100, B200, H200, RTX_4090, T4
from warpsmith.generator.ranking import default_answer
from warpsmith.generator.space import Config

FAMILY = Conv2dPointwise()
LAYERS: dict[str, dict[str, Any]] = {
    "expanding": {"input": (24, 64, 56, 56), "weight": (256, 64, 1, 1)},
    "reducing": {"input": (24, 256, 56, 56), "weight": (64, 256, 1, 1)},
    "strided": {"input": (24, 256, 56, 56), "weight": (512, 256, 1, 1), "stride": 2},
    "odd": {"input": (5, 33, 7, 7), "weight": (21, 33, 1, 1)},
    "few": {"input": (2, 3, 64, 64), "weight": (8, 3, 1, 1)},
}
every_layer = pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
every_device = pytest.mark.parametrize("device", [A100, RTX_4090, H200, B200], ids=lambda each: each.name)
images = pytest.mark.parametrize("pass_", [Pass.FPROP, Pass.DGRAD])


def drawn(problem: Conv2d, device: Device, count: int = 8) -> list[Config]:
    """The default and some random configs."""
    space, rng = FAMILY.space(problem, device), random.Random(problem.key())
    found = (space.drawn(rng) for _ in range(count))
    return [FAMILY.default(problem, device), *(each for each in found if each is not None)]


@images
@every_layer
def test_blocks_compute_every_pixel_of_every_channel_once(layer: dict[str, Any], pass_: Pass) -> None:
    problem = Conv2d(**layer, pass_=pass_)
    for config in drawn(problem, H200):
        geometry = PointwiseImageGeometry.of(problem, config)
        tiles = [
            tile
            for first in range(geometry.column_blocks)
            for tile in range(first, geometry.column_tiles, geometry.column_blocks)
        ]
        assert sorted(tiles) == list(range(geometry.column_tiles))
        assert 0 <= geometry.column_tiles * geometry.tile.all_columns - geometry.columns < geometry.tile.all_columns
        assert 0 <= geometry.row_tiles * geometry.tile.all_rows - geometry.results < geometry.tile.all_rows
        assert 0 <= geometry.steps * geometry.channels - geometry.terms < geometry.channels
        assert geometry.blocks == geometry.row_tiles * geometry.column_blocks


@images
@every_layer
def test_vectors_of_pixels_lie_within_an_image(layer: dict[str, Any], pass_: Pass) -> None:
    problem = Conv2d(**layer, pass_=pass_)
    geometry = PointwiseImageGeometry.of(problem, FAMILY.default(problem, H200))
    assert geometry.plane % geometry.vector == 0
    assert geometry.vector == 1 or problem.stride == (1, 1)


@every_layer
def test_parts_of_a_sum_have_every_stage_once(layer: dict[str, Any]) -> None:
    problem = Conv2d(**layer, pass_=Pass.WGRAD)
    for config in drawn(problem, H200):
        geometry = PointwiseWeightGeometry.of(problem, config)
        assert geometry.has_steps
        assert geometry.split_steps * geometry.splits >= geometry.steps
        assert geometry.row_tiles * geometry.tile_rows >= geometry.filters
        assert geometry.column_tiles * geometry.tile_columns >= geometry.channels


@pytest.mark.parametrize("pass_", Pass)
@every_device
@every_layer
def test_defaults_are_legal_and_fit(layer: dict[str, Any], device: Device, pass_: Pass) -> None:
    problem = Conv2d(**layer, pass_=pass_)
    config = FAMILY.default(problem, device)
    assert FAMILY.space(problem, device).contains(config)
    (launch, *_) = FAMILY.program(problem, config).launches
    assert launch.shared_bytes <= device.shared_per_block_bytes


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"weight": (64, 64, 3, 3), "padding": 1}, "layers of one tap"),
        ({"weight": (64, 32, 1, 1), "groups": 2}, "layers of one tap"),
        ({"padding": 1}, "layers of one tap"),
        ({"accuracy": "elementwise"}, "normwise"),
        ({"layout": "nhwc"}, "nchw"),
        ({"dtype": "float16"}, "float32"),
    ],
)
def test_says_which_layers_it_does_not_solve(change: dict[str, Any], why: str) -> None:
    layer = Conv2d(**{"input": (2, 64, 8, 8), "weight": (64, 64, 1, 1), **change})
    reason = FAMILY.why_not(layer, H200)
    assert reason is not None
    assert why in reason


def test_needs_asynchronous_copies() -> None:
    reason = FAMILY.why_not(Conv2d(**LAYERS["expanding"]), T4)
    assert reason is not None
    assert "8.0" in reason


def test_gradients_of_weights_keep_an_elementwise_bound() -> None:
    """Two TF32 numbers have 22 bits whatever the largest number is."""
    problem = Conv2d(**LAYERS["expanding"], pass_=Pass.WGRAD, accuracy="elementwise")
    assert FAMILY.why_not(problem, H200) is None


@images
@pytest.mark.parametrize("layer", ["expanding", "reducing"])
@every_device
def test_answers_unsearched_where_pixels_have_few_channels(layer: str, device: Device, pass_: Pass) -> None:
    family, _ = default_answer(Conv2d(**LAYERS[layer], pass_=pass_), device)
    assert family.name == FAMILY.name


def test_answers_strided_gradients_of_images_on_hopper() -> None:
    """Other tensor-core families take twice their models' time where most results have no tap."""
    family, config = default_answer(Conv2d(**LAYERS["strided"], pass_=Pass.DGRAD), H200)
    assert (family.name, config.integer("warps")) == (FAMILY.name, 4)


def test_a_warpgroup_multiplies_where_there_is_wgmma_alone() -> None:
    problem = Conv2d(**LAYERS["expanding"])
    warps = {device.name: FAMILY.default(problem, device).integer("warps") for device in (A100, H200, B200)}
    assert warps == {A100.name: 1, H200.name: 4, B200.name: 1}


def test_a_wide_stage_is_split_by_all_warps() -> None:
    problem = Conv2d(**LAYERS["expanding"])
    config = FAMILY.space(problem, A100).like(
        {**FAMILY.default(problem, A100).values(), "down": 8, "across": 1, "columns": 32, "rows": 16, "channels": 32}
    )
    assert config is not None
    geometry = PointwiseImageGeometry.of(problem, config)
    wide = dataclasses.replace(geometry, channels=64)
    assert (geometry.split_columns, wide.split_columns) == (8, 8 if wide.tile.all_warps > 4 else 16)


def test_a_sum_that_stays_in_the_tensor_cores_has_parts() -> None:
    """They truncate it with every eight pixels: 24 images of 256x256 have 48 parts of 32,768 pixels each at least."""
    layer: dict[str, Any] = {"input": (24, 512, 256, 256), "weight": (512, 512, 1, 1), "pass_": Pass.WGRAD}
    rounded = Conv2d(**layer, precision="tf32", layout="nhwc")
    space = FAMILY.space(rounded, H200)
    assert min(config.integer("splits") for config in drawn(rounded, H200)) >= 48
    few = Config.of({**FAMILY.default(rounded, H200).values(), "splits": 47})
    assert "at most 32768 pixels: at least 48 parts" in str(space.why_not(few))
    exact = Conv2d(**layer)
    one = Config.of({**FAMILY.default(exact, H200).values(), "splits": 1})
    assert FAMILY.space(exact, H200).contains(one)


def test_refuses_sums_of_more_parts_than_it_has() -> None:
    layer = Conv2d((300, 8, 256, 256), (8, 8, 1, 1), precision="tf32", pass_=Pass.WGRAD, workspace=1 << 33)
    assert "at most 528 parts of 32768 pixels" in str(FAMILY.why_not(layer, H200))
