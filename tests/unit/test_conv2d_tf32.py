"""`conv2d_warpgroup_tf32`: refusals, the order of its tiles, and fit of its blocks."""

from __future__ import annotations

import random
from typing import Any

import pytest

from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.products.wgmma.tf32_family import Conv2dWarpgroupTf32
from warpsmith.generator.conv2d.products.wgmma.tf32_image import Tf32ImageGeometry
from warpsmith.generator.conv2d.products.wgmma.tf32_weight_geometry import Tf32WeightGeometry
from warpsmith.generator.presets import A100, H200
from warpsmith.generator.ranking import default_answer
from warpsmith.generator.space import Config

FAMILY = Conv2dWarpgroupTf32()
TF32: dict[str, Any] = {"layout": "nhwc", "precision": "tf32"}
POINTWISE: dict[str, Any] = {"input": (24, 256, 56, 56), "weight": (64, 256, 1, 1), **TF32}
STRIDED: dict[str, Any] = {"input": (24, 256, 56, 56), "weight": (512, 256, 1, 1), "stride": 2, **TF32}


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"weight": (62, 256, 1, 1), "pass_": Pass.WGRAD}, "reads 4 channels at once"),
        ({"weight": (64, 256, 1, 300), "padding": (0, 150), "pass_": Pass.WGRAD}, "pixels from the images' edges"),
        ({"precision": "ieee"}, "rounds float32 numbers to TF32"),
        ({"dtype": "bfloat16", "precision": "bf16"}, "rounds float32 numbers to TF32"),
        ({"layout": "nchw"}, "channels last, in one group"),
        ({"weight": (64, 128, 1, 1), "groups": 2}, "channels last, in one group"),
        ({"input": (24, 3, 56, 56), "weight": (64, 3, 3, 3)}, "few channels"),
        ({"input": (24, 254, 56, 56), "weight": (64, 254, 1, 1)}, "reads 4 channels at once"),
        (
            {"input": (2, 1024, 64, 64), "weight": (64, 1024, 15, 15)},
            "more than 131072 terms too often, such as 230400",
        ),
        ({"accuracy": "elementwise"}, 'needs accuracy="normwise"'),
        ({"workspace": 1 << 10}, "do not fit into 1024 bytes of workspace"),
    ],
)
def test_refuses(changed: dict[str, Any], says: str) -> None:
    why_not = FAMILY.why_not(Conv2d(**{**POINTWISE, **changed}), H200)
    assert why_not is not None
    assert says in why_not


def test_refuses_other_gpus_than_hopper() -> None:
    assert FAMILY.why_not(Conv2d(**POINTWISE), A100) is not None


@pytest.mark.parametrize("pass_", list(Pass))
def test_answers_layers_of_one_tap(pass_: Pass) -> None:
    assert default_answer(Conv2d(**POINTWISE, pass_=pass_), H200)[0].name == FAMILY.name


def test_blocks_take_the_phase_with_most_taps_first() -> None:
    """3x3 taps at stride 2 have four phases: one of four taps, two of two, and one of one."""
    layer = Conv2d((24, 64, 28, 28), (64, 64, 3, 3), stride=2, padding=1, pass_=Pass.DGRAD, **TF32)
    geometry = Tf32ImageGeometry.of(layer, FAMILY.default(layer, H200))
    taps = [geometry.phase_taps[phase] for phase in geometry.phase_order]
    assert taps == [4, 2, 2, 1]


def test_a_block_is_expected_to_have_its_share_of_the_tiles_with_taps() -> None:
    """Three of four phases have no tap: a round of tiles in four has steps, and a single round has all of them."""
    layer = Conv2d(**STRIDED, pass_=Pass.DGRAD)
    geometry = Tf32ImageGeometry.of(layer, FAMILY.default(layer, H200))
    assert geometry.phase_taps == (1, 0, 0, 0)
    assert geometry.rounds(H200) > 1
    assert 0.25 <= geometry.tile_steps(H200) <= 0.5
    few = Conv2d(**{**STRIDED, "input": (1, 256, 14, 14)}, pass_=Pass.DGRAD)
    geometry = Tf32ImageGeometry.of(few, FAMILY.default(few, H200))
    assert geometry.rounds(H200) == 1
    assert geometry.tile_steps(H200) == 1


@pytest.mark.parametrize("pass_", list(Pass))
def test_blocks_fit_a_multiprocessor(pass_: Pass) -> None:
    problem, rng = Conv2d(**STRIDED, pass_=pass_), random.Random(3)
    space = FAMILY.space(problem, H200)
    for config in (FAMILY.default(problem, H200), *(space.drawn(rng) for _ in range(20))):
        assert config is not None
        assert space.contains(config)
        program = FAMILY.program(problem, config)
        (multiplying,) = (each for each in program.launches if each.entry == FAMILY.name)
        assert multiplying.shared_bytes <= H200.shared_per_block_bytes
        assert sum(each.nbytes for each in program.workspaces) <= problem.workspace_limit


def test_weights_that_stay_are_rounded_once() -> None:
    program = FAMILY.program(Conv2d(**POINTWISE), FAMILY.default(Conv2d(**POINTWISE), H200))
    assert [each.holds for each in program.workspaces] == [("w",)]


def test_parts_of_sums_are_added_by_a_launch_that_begins_early() -> None:
    layer = Conv2d(**POINTWISE, pass_=Pass.WGRAD)
    multiply, add = FAMILY.program(layer, FAMILY.default(layer, H200)).launches
    assert (multiply.entry, add.entry) == (FAMILY.name, f"{FAMILY.name}_sum")
    assert multiply.begins_early
    assert add.begins_early


def test_each_tap_is_a_tile_of_its_own() -> None:
    layer = Conv2d((24, 96, 28, 28), (64, 96, 3, 2), dilation=(2, 3), pass_=Pass.WGRAD, **TF32)
    tile = {"down": 1, "across": 2, "rows": 64, "columns": 32, "stages": 4, "min_blocks": 1, "splits": 1}
    geometry = Tf32WeightGeometry.of(layer, Config.of(tile))
    assert geometry.offsets == ((0, 0), (0, 3), (2, 0), (2, 3), (4, 0), (4, 3))
    assert (geometry.row_tiles, geometry.tap_tiles, geometry.column_tiles) == (1, 2, 12)


@pytest.mark.parametrize(("min_blocks", "fits"), [(1, True), (2, False)])
def test_warps_that_copy_need_registers_too(min_blocks: int, fits: bool) -> None:
    """Four warps of 64 x 64 and one that copies are two in a quarter of a multiprocessor, with 255 registers each."""
    layer = Conv2d(**POINTWISE, pass_=Pass.WGRAD)
    tile = {"down": 1, "across": 4, "rows": 64, "columns": 64, "stages": 2, "splits": 4, "min_blocks": min_blocks}
    assert FAMILY.space(layer, H200).contains(Config.of(tile)) is fits
