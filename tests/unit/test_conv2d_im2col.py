"""`conv2d_warpgroup_im2col`: refusals, tensor maps, and fit of its blocks."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest

from warpsmith.devices.host.compiler import cluster_blocks
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.products.wgmma.im2col_family import Conv2dWarpgroupIm2col
from warpsmith.generator.conv2d.products.wgmma.im2col_image import Im2colImageGeometry
from warpsmith.generator.conv2d.products.wgmma.im2col_weight import CLUSTER_BLOCKS, Im2colWeightGeometry
from warpsmith.generator.family import Subject
from warpsmith.generator.presets import H200
from warpsmith.generator.problem import DType
from warpsmith.generator.program import TensorMap
from warpsmith.generator.ranking import default_answer
from warpsmith.generator.space import Config

FAMILY = Conv2dWarpgroupIm2col()
LAST: dict[str, Any] = {"dtype": "float16", "layout": "nhwc"}
DEEP: dict[str, Any] = {"input": (128, 192, 13, 13), "weight": (384, 192, 3, 3), "padding": 1, **LAST}
every_pass = pytest.mark.parametrize("pass_", Pass)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"dtype": "float32"}, "16-bit numbers with channels last"),
        ({"layout": "nchw"}, "16-bit numbers with channels last"),
        ({"input": (128, 196, 13, 13), "weight": (384, 196, 3, 3)}, "reads 8 channels at once"),
        ({"input": (128, 3, 13, 13), "weight": (384, 3, 3, 3)}, "few channels"),
        ({"weight": (384, 24, 3, 3), "groups": 8}, "16 channels at once, of which a group has 24"),
        ({"padding_mode": "reflect"}, "zeros"),
        ({"input": (1, 192, 13, 13), "padding": 129}, "more than 127 pixels from the images' edges"),
        (
            {"input": (1, 192, 130, 130), "padding": ((3, 130), (3, 130)), "dilation": 128},
            "taps lie more than 255 pixels apart",
        ),
        ({"padding": 5, "stride": 9}, "pixels lie more than 8 apart"),
    ],
)
def test_refuses(changed: dict[str, Any], says: str) -> None:
    why_not = FAMILY.why_not(Conv2d(**{**DEEP, **changed}), H200)
    assert why_not is not None
    assert says in why_not


def test_needs_whole_chunks_of_what_it_reads_alone() -> None:
    odd = {**DEEP, "weight": (33, 192, 3, 3)}
    assert FAMILY.why_not(Conv2d(**odd), H200) is None
    assert FAMILY.why_not(Conv2d(**odd, pass_=Pass.DGRAD), H200) is not None
    assert FAMILY.why_not(Conv2d(**odd, pass_=Pass.WGRAD), H200) is not None


@pytest.mark.parametrize(("channels", "filters"), [(1, 1), (4, 8), (8, 4), (12, 24)])
def test_a_gradient_of_weights_needs_groups_that_begin_at_whole_chunks(channels: int, filters: int) -> None:
    """A copy that starts at another channel ends in an illegal instruction (H200)."""
    grouped = {**DEEP, "input": (8, 96, 28, 28), "weight": (96, channels, 3, 3), "padding": 1}
    groups = 96 // channels
    layer = Conv2d(**{**grouped, "weight": (filters * groups, channels, 3, 3), "groups": groups}, pass_=Pass.WGRAD)
    why_not = FAMILY.why_not(layer, H200)
    assert why_not == f"copies begin at multiples of 8 channels, unlike groups of {channels} and {filters}"
    whole = Conv2d(**{**grouped, "weight": (96, 8, 3, 3), "groups": 12}, pass_=Pass.WGRAD)
    assert FAMILY.why_not(whole, H200) is None


@every_pass
@pytest.mark.parametrize("precision", ["f16", "ieee"])
def test_answers_layers_of_many_channels(pass_: Pass, precision: str) -> None:
    """Times on an H200 decide the default: the family was the fastest of 27 passes of layers there."""
    few: dict[str, Any] = {**LAST, "input": (32, 64, 56, 56), "weight": (64, 64, 3, 3), "padding": 1}
    for shape in (DEEP, few):
        assert default_answer(Conv2d(**shape, precision=precision, pass_=pass_), H200)[0].name == FAMILY.name


def test_a_window_is_what_all_taps_read() -> None:
    problem = Conv2d((2, 64, 11, 9), (64, 64, 3, 5), stride=(2, 3), padding=(1, 2), **LAST)
    geometry = Im2colImageGeometry.of(problem, FAMILY.default(problem, H200))
    told, _ = geometry.tensor_maps
    assert (told.shape, told.first, told.step) == ((2, 11, 9, 64), (-1, -2), (2, 3))
    assert told.extent == (geometry.lattice.rows.pitch, geometry.lattice.columns.pitch)
    rows, columns = told.extent
    # cuTensorMapEncodeIm2col counts the window's end from the image's last pixel on.
    assert told.corners == ((-1, -2), (-1 + 2 * (rows - 1) - 10, -2 + 3 * (columns - 1) - 8))


def test_weights_are_images_of_filters() -> None:
    """Filters' channels are summed in fprop and are channels of the result in dgrad."""
    shape = {**DEEP, "input": (128, 200, 13, 13), "weight": (384, 200, 3, 2)}
    for pass_, pixels in ((Pass.FPROP, "columns"), (Pass.DGRAD, "channels")):
        problem = Conv2d(**shape, pass_=pass_)
        config = FAMILY.default(problem, H200)
        _, weights = Im2colImageGeometry.of(problem, config).tensor_maps
        assert (weights.shape, weights.extent, weights.corners) == ((384, 3, 2, 200), (1, 1), ((0, 0), (-2, -1)))
        assert weights.pixels == config.integer(pixels)


def test_a_gradient_of_weights_reads_results_where_they_are() -> None:
    problem = Conv2d(**DEEP, pass_=Pass.WGRAD)
    geometry = Im2colWeightGeometry.of(problem, FAMILY.default(problem, H200))
    x, dy = geometry.tensor_maps
    assert (x.first, dy.first) == ((-1, -1), (0, 0))
    assert x.extent == dy.extent
    assert dy.shape == (128, 13, 13, 384)
    assert dy.pixels == geometry.tile_k <= x.pixels


@every_pass
def test_blocks_fit_a_multiprocessor(pass_: Pass) -> None:
    problem, rng = Conv2d(**DEEP, pass_=pass_), random.Random(3)
    space = FAMILY.space(problem, H200)
    for config in (FAMILY.default(problem, H200), *(space.drawn(rng) for _ in range(30))):
        assert config is not None
        assert space.contains(config)
        program = FAMILY.program(problem, config)
        (multiplying,) = (each for each in program.launches if each.entry == FAMILY.name)
        assert multiplying.shared_bytes <= H200.shared_per_block_bytes
        assert sum(each.nbytes for each in program.workspaces) <= problem.workspace_limit
        has_parts = pass_ is Pass.WGRAD and config.integer("splits") > CLUSTER_BLOCKS
        assert [each.name for each in program.workspaces] == (["parts"] if has_parts else [])
        for told in (each for each in multiplying.arguments if isinstance(each, TensorMap)):
            assert told.dtype is DType.FLOAT16
            assert told.pixels % 8 == 0
            assert told.pixels <= 1024


def test_carries_the_default_to_other_sizes_and_any_config_to_other_devices() -> None:
    """Tiles fit a number of channels: those of 192 to 384 channels are not those of 256 to 256."""
    home = Conv2d(**DEEP, precision="f16")
    config = FAMILY.default(home, H200)
    problem = dataclasses.replace(home, input=(128, 256, 13, 13), weight=(256, 256, 3, 3))
    default = FAMILY.default(problem, H200)
    assert FAMILY.space(problem, H200).contains(config)
    assert FAMILY.carried(config, Subject(home, H200), problem, H200) == default != config
    other = FAMILY.space(home, H200).like({**config.values(), "columns": 64})
    assert other is not None
    assert FAMILY.carried(other, Subject(home, dataclasses.replace(H200, name="Another")), home, H200) == other


@pytest.mark.parametrize(
    ("splits", "launches", "nbytes"), [(1, 1, 0), (2, 1, 0), (8, 1, 0), (10, 2, 4 * 10 * 1024 * 256)]
)
def test_parts_of_a_sum_meet_in_a_cluster_or_in_memory(splits: int, launches: int, nbytes: int) -> None:
    layer = {"input": (24, 256, 14, 14), "weight": (1024, 256, 1, 1), "dtype": "bfloat16", "layout": "nhwc"}
    problem = Conv2d(**layer, pass_=Pass.WGRAD, precision="bf16")  # type: ignore[arg-type]
    config = FAMILY.space(problem, H200).like({**FAMILY.default(problem, H200).values(), "splits": splits})
    assert config is not None
    program = FAMILY.program(problem, config)
    assert len(program.launches) == launches
    assert sum(each.nbytes for each in program.workspaces) == nbytes
    grid = program.launches[0].grid[0]
    assert grid % splits == 0
    clusters = cluster_blocks(program.units[0].source)
    assert clusters == (splits if splits <= CLUSTER_BLOCKS else 1)


@pytest.mark.parametrize("blocks", [0, 2, 3, 8])
@pytest.mark.parametrize("pass_", [Pass.FPROP, Pass.DGRAD])
def test_parts_of_the_channels_meet_in_a_cluster(pass_: Pass, blocks: int) -> None:
    problem = Conv2d((1, 512, 7, 7), (512, 512, 3, 3), padding=1, dtype="bfloat16", layout="nhwc", pass_=pass_)  # type: ignore[arg-type]
    config = FAMILY.space(problem, H200).like({**FAMILY.default(problem, H200).values(), "blocks": blocks})
    assert config is not None
    program = FAMILY.program(problem, config)
    (launch,) = program.launches
    clusters = cluster_blocks(program.units[0].source)
    assert clusters == max(blocks, 1)
    assert launch.grid[0] % clusters == 0
    assert launch.shared_bytes <= H200.shared_per_block_bytes


def test_a_cluster_needs_channels_for_each_block_and_results_in_vectors() -> None:
    for channels, filters, blocks, fits in ((192, 60, 3, True), (192, 64, 4, False), (192, 58, 3, False)):
        problem = Conv2d((2, channels, 7, 7), (filters, channels, 1, 1), dtype="bfloat16", layout="nhwc")  # type: ignore[arg-type]
        config = FAMILY.default(problem, H200)
        clustered = Config.of({**config.values(), "blocks": blocks})
        assert FAMILY.space(problem, H200).contains(clustered) == fits
        assert (FAMILY.space(problem, H200).why_not(clustered) is None) == fits


def test_few_pixels_of_many_channels_are_summed_by_clusters() -> None:
    """One image of 7x7 pixels fills eight blocks without them."""
    problem = Conv2d((1, 512, 7, 7), (512, 512, 3, 3), padding=1, dtype="bfloat16", layout="nhwc", precision="bf16")  # type: ignore[arg-type]
    assert FAMILY.default(problem, H200).integer("blocks") == 8
    many = dataclasses.replace(problem, input=(24, 512, 28, 28))
    assert FAMILY.default(many, H200).integer("blocks") == H200.multiprocessors
