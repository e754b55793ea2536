"""`conv2d_slices` (Ozaki scheme): layers it solves, number of terms it may sum, and error of its int8 slices."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest

from unit.test_conv2d_warpgroup import LAYERS
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.products.mma.mma_tiles import MmaWarps
from warpsmith.generator.conv2d.products.ozaki.ozaki_family import Conv2dSlices, OzakiGeometry, registers
from warpsmith.generator.conv2d.products.ozaki.ozaki_slices import LARGEST, MOST_TERMS, OzakiArithmetic
from warpsmith.generator.device import Device
from warpsmith.generator.presets import A100, H200, RTX_4090
from warpsmith.generator.ranking import default_answer

FAMILY = Conv2dSlices()
LAYER = Conv2d(**LAYERS[0])


class TestRefusals:
    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            ({"accuracy": "elementwise"}, "relative to the largest"),
            ({"padding_mode": "reflect"}, "zeros between its images"),
            ({"workspace": 1000}, "do not fit into 1000 bytes"),
            ({"precision": "tf32"}, "float32 at ieee precision"),
            ({"dtype": "float16"}, "float32 at ieee precision"),
            ({"pass_": "wgrad"}, "fprop and dgrad only"),
        ],
    )
    def test_tell_the_reason_in_a_line(self, change: dict[str, str], reason: str) -> None:
        told = FAMILY.why_not(dataclasses.replace(LAYER, **change), A100)  # type: ignore[arg-type]
        assert told is not None
        assert reason in told

    def test_sums_that_may_leave_32_bits_are_refused(self) -> None:
        """The largest sum has three products of one level, each of two digits of -128."""
        assert 3 * 128 * 128 * MOST_TERMS < 2**31 <= 3 * 128 * 128 * (MOST_TERMS + 1)
        most = Conv2d((1, MOST_TERMS, 4, 4), (8, MOST_TERMS, 1, 1))
        assert most.terms == MOST_TERMS
        assert FAMILY.why_not(most, H200) is None
        more = Conv2d((1, MOST_TERMS + 1, 4, 4), (8, MOST_TERMS + 1, 1, 1))
        assert f"up to {MOST_TERMS} terms" in (FAMILY.why_not(more, H200) or "")

    def test_older_gpus_lack_its_instructions(self) -> None:
        assert "8.0" in (FAMILY.why_not(LAYER, dataclasses.replace(A100, compute_capability=(7, 5))) or "")

    def test_it_answers_nothing_unasked(self) -> None:
        assert not FAMILY.may_answer
        assert default_answer(LAYER, A100)[0].name != FAMILY.name


class TestDigits:
    def test_three_of_them_make_the_largest_number(self) -> None:
        assert LARGEST == 127 * (256**2 + 256 + 1)

    def test_eight_products_lose_little_more_than_rounding_does(self) -> None:
        """Six products would lose three times as much: figures of the module's docstring, for normal numbers."""
        rng = np.random.default_rng(2)
        x, w = (rng.standard_normal(200_000) for _ in range(2))
        scaled = [each * LARGEST / np.abs(each).max() for each in (x, w)]
        whole = [np.rint(each).astype(np.int64) for each in scaled]
        digits = []
        for each in whole:
            low = (each + 128) % 256 - 128
            middle = ((each - low) // 256 + 128) % 256 - 128
            digits.append(((each - low - 256 * middle) // 65536, middle, low))
            assert all(-128 <= digit.min() <= digit.max() <= 127 for digit in digits[-1])
        exact = scaled[0] * scaled[1]

        def lost(most_level: int) -> float:
            found = sum(
                digits[0][i].astype(float) * digits[1][j] * 256.0 ** (4 - i - j)
                for i in range(3)
                for j in range(3)
                if i + j <= most_level
            )
            return float(np.sqrt(np.mean((found - exact) ** 2) / np.mean(exact**2)))

        rounding, eight, six = lost(4), lost(3), lost(2)
        assert eight < 1.01 * rounding < 5e-7
        assert 2 < six / rounding < 4
        assert OzakiArithmetic.of(LAYER).products == 8


class TestTiles:
    @pytest.mark.parametrize("device", [A100, RTX_4090, H200], ids=lambda each: each.name)
    def test_the_default_and_drawn_ones_are_legal(self, device: Device) -> None:
        for layer in LAYERS:
            for pass_ in (Pass.FPROP, Pass.DGRAD):
                problem = Conv2d(**layer, pass_=pass_)
                space, rng = FAMILY.space(problem, device), random.Random(problem.key())
                for config in (FAMILY.default(problem, device), space.drawn(rng)):
                    assert config is not None
                    assert space.contains(config)
                    geometry = OzakiGeometry.of(problem, config)
                    assert geometry.filters.blocks * geometry.chunks * 16 >= geometry.filters.summed
                    assert geometry.shared_bytes <= device.shared_per_block_bytes

    def test_sums_of_four_levels_take_the_registers(self) -> None:
        """ptxas takes 220 to 232 registers (sm_80, sm_89 and sm_90)."""
        assert registers(MmaWarps(2, 4, 32, 32)) == 210
