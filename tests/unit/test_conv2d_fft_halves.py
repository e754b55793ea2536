"""Layers with split fp16 spectra: where each part lies, what copies load, and which layers default to this family."""

from __future__ import annotations

from math import prod
from typing import Any

import pytest

from warpsmith.generator.cgemm import Cgemm, Op
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.fourier.sharing import spectra_of
from warpsmith.generator.conv2d.fourier.split16.split16_product import (
    Split16Product,
    Split16ProductGeometry,
    expected_ns,
)
from warpsmith.generator.conv2d.fourier.split16.split16_transform import (
    MOST_POINTS,
    TOGETHER,
    Split16Transform,
    TransformApart,
    TransformInTurns,
)
from warpsmith.generator.conv2d.fourier.variants import FOURIER
from warpsmith.generator.fft.block.block_places import RUN, Split16Order, Split16Spectra
from warpsmith.generator.fft.problem import Fft, Layout
from warpsmith.generator.prepacking import split_program
from warpsmith.generator.presets import H200
from warpsmith.generator.ranking import default_answer

FAMILY, PRODUCT = FOURIER["conv2d_fft_halves"], Split16Product()
L5: dict[str, Any] = {"input": (128, 384, 13, 13), "weight": (384, 384, 3, 3)}
PAIRS = {Pass.FPROP: (Op.N, Op.C), Pass.DGRAD: (Op.N, Op.N), Pass.WGRAD: (Op.C, Op.N)}
every_pass = pytest.mark.parametrize("pass_", Pass)


def planes(batch: int = 64, points: int = 13) -> Fft:
    return Fft((points, points), batch, layout=Layout.FREQUENCY)


def place_of(spectra: Split16Spectra, number: int) -> int:
    """Element at which a kernel finds spectrum `number`, computed with the kernel's own expression."""
    return int(eval(spectra.place.replace("ll", ""), {"number": number}))


class TestSpectra:
    @pytest.mark.parametrize("order", Split16Order)
    def test_every_half_has_a_place_of_its_own_and_none_is_left(self, order: Split16Order) -> None:
        spectra = Split16Spectra.of(planes(), order, 1, is_sampled=False)
        high = [place_of(spectra, number) for number in range(spectra.numbers)]
        found = {place + low + part for place in high for low in (0, spectra.low) for part in (0, spectra.imaginary)}
        assert found == set(range(4 * spectra.numbers))

    def test_two_numbers_side_by_side_stay_so(self) -> None:
        for order in Split16Order:
            spectra = Split16Spectra.of(planes(), order, 1, is_sampled=False)
            for number in range(0, spectra.numbers, 2):
                first, second = (place_of(spectra, number + i) for i in (0, 1))
                assert second == first + 1
                assert first % 2 == 0

    def test_a_frequency_is_no_larger_than_all_points_together(self) -> None:
        for points in (13, 16, 30):
            spectra = Split16Spectra.of(planes(points=points), Split16Order.APART, 1, is_sampled=False)
            assert 2**spectra.growth >= points**2 > 2 ** (spectra.growth - 1)


class TestTransforms:
    @pytest.mark.parametrize("family", [TransformInTurns(), TransformApart()], ids=lambda family: family.name)
    @pytest.mark.parametrize("size", [(8, 8), (13, 13), (16, 16), (24, 24), (30, 30), (32, 32), (40, 40), (44, 45)])
    def test_by_default_fill_sectors(self, family: Split16Transform, size: tuple[int, int]) -> None:
        problem = Fft(size, 4096, layout=Layout.FREQUENCY)
        for config in (family.default(problem, H200), *family.starts(problem, H200)):
            assert family.space(problem, H200).contains(config)
            assert config.integer("transforms") >= TOGETHER

    def test_of_more_points_are_refused(self) -> None:
        problem = Fft((64, 64), 4096, layout=Layout.FREQUENCY)
        assert prod(problem.size) > MOST_POINTS
        assert "2048 points at the most; these have 4096" in (TransformApart().why_not(problem, H200) or "")


class TestProducts:
    @every_pass
    @pytest.mark.parametrize("size", [(128, 384, 384), (70, 96, 64), (64, 32, 32), (200, 136, 96)])
    def test_tiles_and_copies_cover_operands_and_results(self, size: tuple[int, int, int], pass_: Pass) -> None:
        problem = Cgemm(91, *size, *PAIRS[pass_], accuracy="normwise")  # type: ignore[arg-type]
        for config in PRODUCT.space(problem, H200).configs():
            geometry = Split16ProductGeometry.of(problem, config)
            for side, rows in ((geometry.a, problem.m), (geometry.b, problem.n)):
                assert (side.tiles - 1) * side.block < rows <= side.tiles * side.block
                assert side.copies * side.box_bytes == side.stage_bytes
                assert side.stage_bytes >= 8 * 32 * side.block  # complex numbers of four fp16 parts
                told = side.map
                assert prod(told.shape) * 2 == 8 * problem.batch * rows * problem.k
                assert all(-128 <= each <= 127 for corner in told.corners for each in corner)
                assert told.pixels * told.channels * 2 == side.box_bytes
            assert geometry.shared_bytes <= H200.shared_per_block_bytes

    def test_of_ragged_operands_are_refused(self) -> None:
        assert "multiple of 8 numbers" in (PRODUCT.why_not(Cgemm(9, 64, 36, 32, accuracy="normwise"), H200) or "")  # type: ignore[arg-type]
        assert "by 32; there are 48" in (PRODUCT.why_not(Cgemm(9, 64, 40, 48, accuracy="normwise"), H200) or "")  # type: ignore[arg-type]
        assert "accuracy" in (PRODUCT.why_not(Cgemm(9, 64, 40, 64), H200) or "")

    def test_default_is_the_tile_that_is_expected_to_take_least(self) -> None:
        problem = Cgemm(91, 128, 384, 384, Op.N, Op.C, accuracy="normwise")  # type: ignore[arg-type]
        default = PRODUCT.default(problem, H200)
        assert default.integer("columns") == 96  # 2.8 rounds of tiles, where 128 columns are 2.1, and so 3
        others = PRODUCT.starts(problem, H200)
        assert all(expected_ns(problem, default, H200) <= expected_ns(problem, each, H200) for each in others)


class TestLayers:
    @every_pass
    def test_answer_where_their_products_are_most_of_the_work(self, pass_: Pass) -> None:
        assert default_answer(Conv2d(**L5, pass_=pass_), H200)[0].name == FAMILY.name
        large = Conv2d((128, 64, 27, 27), (192, 64, 5, 5), padding=2, pass_=pass_)  # type: ignore[arg-type]
        assert default_answer(large, H200)[0].name == "conv2d_fft_warpgroup"

    def test_tiles_are_solved_alike(self) -> None:
        problem = Conv2d((16, 64, 57, 57), (64, 64, 3, 3))  # type: ignore[arg-type]
        assert FAMILY.why_not(problem, H200) is not None
        assert FOURIER["conv2d_fft_tiled_halves"].why_not(problem, H200) is None

    def test_no_step_shares_their_spectra_between_passes(self) -> None:
        assert isinstance(spectra_of(FAMILY, Conv2d(**L5), H200), str)

    def test_halves_of_weights_are_made_once_where_a_plan_holds_them(self) -> None:
        problem = Conv2d(**L5)
        parts = split_program(FAMILY.program(problem, FAMILY.default(problem, H200)), ("w",))
        assert parts is not None
        assert [step.unit for step in parts.first.launches] == ["second_largest", "second"]
        assert {each.name for each in parts.workspaces} == {"spectra_b", "second_power"}

    def test_a_large_image_is_scaled_by_a_sample(self) -> None:
        """A gradient of weights takes scales from samples; images with a scale each are read in full."""
        counts = {}
        for pass_ in Pass:
            problem = Conv2d(**L5, pass_=pass_)
            units = [step.unit for step in FAMILY.program(problem, FAMILY.default(problem, H200)).launches]
            counts[pass_] = tuple(units.count(name) for name in ("first", "first_largest", "second", "second_largest"))
        assert counts == {Pass.FPROP: (1, 2, 1, 1), Pass.DGRAD: (1, 2, 1, 1), Pass.WGRAD: (2, 1, 2, 1)}
        assert RUN == 32
