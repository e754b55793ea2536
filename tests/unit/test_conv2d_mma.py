"""`conv2d_mma`: tiles, stages, their shared memory, and its defaults by GPU."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from typing import Any

import pytest

import exhaustive
from unit.test_conv2d_warpgroup import LAYERS
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.products.mma.mma_family import Conv2dMma
from warpsmith.generator.conv2d.products.mma.mma_image import LEAST_IMAGE, MmaImageGeometry, image_ns
from warpsmith.generator.conv2d.products.mma.mma_tiles import MmaWarps
from warpsmith.generator.conv2d.products.mma.mma_weight import LEAST_WEIGHT, MmaWeightGeometry, weight_ns
from warpsmith.generator.conv2d.products.split16.split16_arithmetic import Arithmetic
from warpsmith.generator.conv2d.products.wgmma.wgmma_family import Conv2dWarpgroup
from warpsmith.generator.device import Device
from warpsmith.generator.presets import A100, H200, RTX_4090
from warpsmith.generator.ranking import default_answer
from warpsmith.generator.space import Config, Value

FAMILY = Conv2dMma()
every_layer = pytest.mark.parametrize("layer", LAYERS)
every_device = pytest.mark.parametrize("device", [A100, RTX_4090, H200], ids=lambda each: each.name)


def drawn(problem: Conv2d, count: int, device: Device = H200) -> list[Config]:
    space, rng = FAMILY.space(problem, device), random.Random(problem.key())
    found = [space.drawn(rng) for _ in range(count)]
    return [FAMILY.default(problem, device), *(each for each in found if each is not None)]


def least(problem: Conv2d, **wanted: Value) -> Config:
    return Config.of({**(LEAST_WEIGHT if problem.pass_ is Pass.WGRAD else LEAST_IMAGE), **wanted})


def expected_ns(problem: Conv2d, config: Config, device: Device) -> float:
    if problem.pass_ is Pass.WGRAD:
        return weight_ns(MmaWeightGeometry.of(problem, config), device)
    return image_ns(MmaImageGeometry.of(problem, config), device)


class TestImageTiles:
    @every_layer
    def test_cover_each_position_and_channel_once(self, layer: dict[str, Any]) -> None:
        for pass_ in (Pass.FPROP, Pass.DGRAD):
            problem = Conv2d(**layer, pass_=pass_)
            for config in drawn(problem, 3):
                geometry = MmaImageGeometry.of(problem, config)
                assert geometry.tile_m == geometry.warps.down * geometry.warps.rows
                assert 0 <= geometry.tiles_down * geometry.tile_m - geometry.lattice.positions < geometry.tile_m
                assert geometry.tiles_across * geometry.columns >= geometry.results
                per_place = geometry.tiles_down * geometry.tiles_across
                assert geometry.blocks == len(geometry.lattice.phases) * problem.groups * per_place

    @every_layer
    def test_read_what_is_written(self, layer: dict[str, Any]) -> None:
        for pass_ in (Pass.FPROP, Pass.DGRAD):
            problem = Conv2d(**layer, pass_=pass_)
            for config in drawn(problem, 3):
                geometry = MmaImageGeometry.of(problem, config)
                last = (geometry.tiles_down - 1) * geometry.tile_m
                for step in geometry.steps:
                    assert last + step.first % geometry.images.length + geometry.run <= geometry.images.length
                    assert step.shift + geometry.tile_m <= geometry.run

    @pytest.mark.parametrize("layer", LAYERS[:5])
    @pytest.mark.parametrize("reach", ["row", "filter"])
    @pytest.mark.parametrize("stages", [2, 3, 4])
    def test_no_run_of_pixels_is_overwritten_that_a_tap_still_reads(
        self, layer: dict[str, Any], reach: str, stages: int
    ) -> None:
        """Replays the kernel step by step: while it multiplies one tap, `stages` - 1 more taps have been copied."""
        problem = Conv2d(**layer, pass_=Pass.DGRAD)
        geometry = MmaImageGeometry.of(problem, least(problem, reach=reach, stages=stages))
        for first, last in zip(geometry.first_taps[:-1], geometry.first_taps[1:], strict=True):
            taps = geometry.steps[first:last] * 2  # of two blocks of channels
            runs = [sum(step.begins for step in taps[: number + 1]) - 1 for number in range(len(taps))]
            for number, run in enumerate(runs):
                copied = runs[min(number + stages - 1, len(runs) - 1)]
                assert copied - run < geometry.pixel_stages

    def test_a_filter_of_one_tap_has_as_many_stages_of_pixels_as_of_weights(self) -> None:
        problem = Conv2d(**LAYERS[5])
        assert MmaImageGeometry.of(problem, least(problem, stages=3)).pixel_stages == 3

    def test_results_of_channels_side_by_side_are_not_staged(self) -> None:
        problem = Conv2d(**LAYERS[0])
        config = least(problem)
        assert MmaImageGeometry.of(problem, config).staged_bytes == 4 * 16 * (32 + 4)
        assert MmaImageGeometry.of(dataclasses.replace(problem, layout="nhwc"), config).staged_bytes == 0


class TestWeightTiles:
    @every_layer
    def test_have_each_weight_and_each_position_once(self, layer: dict[str, Any]) -> None:
        problem = Conv2d(**layer, pass_=Pass.WGRAD)
        for config in drawn(problem, 3):
            geometry = MmaWeightGeometry.of(problem, config)
            found = Counter(weight for each in geometry.tap_sets for weight in each.weights if weight >= 0)
            assert found == Counter(range(geometry.tap_count))
            assert geometry.steps * geometry.tile_k == geometry.dy.length >= geometry.lattice.positions
            assert geometry.has_steps
            assert geometry.splits * geometry.split_steps >= geometry.steps
            assert geometry.threads == 32 * geometry.taps * geometry.warps.count <= 256
            for each in geometry.tap_sets:
                end = geometry.dy.length - geometry.tile_k + each.first % geometry.x.length + geometry.run
                assert end <= geometry.x.length
                assert max(each.shifts) + geometry.tile_k <= geometry.run


class TestWarps:
    def test_sums_of_float32_take_their_registers_twice(self) -> None:
        """ptxas takes 201 to 216 registers for `ieee`, and 116 to 128 for `tf32` (sm_80 and sm_90)."""
        warps, exact = MmaWarps(2, 4, 64, 32), Arithmetic.of(Conv2d(**LAYERS[0]))
        rounded = Arithmetic.of(Conv2d(**LAYERS[0], precision="tf32"))
        assert (warps.registers(exact), warps.registers(rounded)) == (210, 130)


class TestChoice:
    @exhaustive.meeting()
    @every_device
    @every_layer
    def test_the_default_is_legal_and_no_worse_than_drawn_ones(self, layer: dict[str, Any], device: Device) -> None:
        for pass_ in Pass:
            problem = Conv2d(**layer, pass_=pass_)
            default, *others = drawn(problem, 12, device)
            assert FAMILY.space(problem, device).contains(default)
            least_ns = min(expected_ns(problem, each, device) for each in others)
            assert expected_ns(problem, default, device) <= 1.15 * least_ns

    @pytest.mark.parametrize("pass_", Pass)
    def test_answers_large_layers_where_warpgroups_do_not_multiply(self, pass_: Pass) -> None:
        """Gradients of weights of one tap are left out: `conv2d_pointwise` is expected to take as long."""
        layers = [Conv2d((32, 128, 56, 56), (128, 128, 3, 3), stride=(2, 2), padding=((1, 1), (1, 1)), pass_=pass_)]
        if not pass_.sums_images:
            layers.append(Conv2d((32, 1024, 14, 14), (1024, 1024, 1, 1), pass_=pass_))
        for layer in layers:
            for device in (A100, RTX_4090):
                assert default_answer(layer, device)[0].name == FAMILY.name

    def test_leaves_small_layers_to_others(self) -> None:
        for device in (A100, RTX_4090):
            for channels in (8, 16, 32):  # few of them, or little to do in all
                problem = Conv2d((1, channels, 14, 14), (channels, channels, 3, 3), padding=1)  # type: ignore[arg-type]
                assert default_answer(problem, device)[0].name != FAMILY.name

    @pytest.mark.parametrize("pass_", Pass)
    def test_answers_for_the_gradient_of_a_stem_where_warpgroups_multiply_too(self, pass_: Pass) -> None:
        stem = Conv2d((32, 3, 224, 224), (64, 3, 7, 7), stride=2, padding=3, pass_=pass_)  # type: ignore[arg-type]
        larger = Conv2d((128, 3, 224, 224), (64, 3, 11, 11), stride=4, padding=2, pass_=pass_)  # type: ignore[arg-type]
        assert (default_answer(stem, H200)[0].name == FAMILY.name) == (pass_ is Pass.WGRAD)
        assert default_answer(larger, H200)[0].name == Conv2dWarpgroup.name

    @pytest.mark.parametrize("pass_", Pass)
    @pytest.mark.parametrize("layer", LAYERS[:1])
    def test_is_expected_to_take_longer_than_warpgroups(self, layer: dict[str, Any], pass_: Pass) -> None:
        problem = Conv2d(**layer, pass_=pass_)
        assert not FAMILY.is_likely(problem, H200)
        ratio = FAMILY.expected_ns(problem, H200) / Conv2dWarpgroup().expected_ns(problem, H200)
        assert 1.1 < ratio < 2


class TestRefusals:
    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            ({"accuracy": "elementwise"}, "relative to the largest"),
            ({"padding_mode": "reflect"}, "zeros between its images"),
            ({"workspace": 1000}, "do not fit into 1000 bytes"),
        ],
    )
    def test_tell_the_reason_in_a_line(self, change: dict[str, Any], reason: str) -> None:
        told = FAMILY.why_not(Conv2d(**LAYERS[0], **change), A100)
        assert told is not None
        assert reason in told

    def test_older_gpus_lack_its_instructions(self) -> None:
        volta = dataclasses.replace(A100, compute_capability=(7, 5))
        assert "8.0" in (FAMILY.why_not(Conv2d(**LAYERS[0]), volta) or "")
        assert FAMILY.why_not(Conv2d(**LAYERS[0]), RTX_4090) is None
