"""Families of banded Toeplitz matrices: outputs that are covered once, products of split numbers, what they refuse."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

from warpsmith.generator.family import Family
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter1d.operation import FILTER1D
from warpsmith.generator.filter1d.text import pitches
from warpsmith.generator.filter1d.toeplitz_channels_family import Filter1dToeplitzChannels
from warpsmith.generator.filter1d.toeplitz_channels_geometry import (
    COLUMNS,
    STRIP_OUTPUTS,
    Filter1dToeplitzChannelsGeometry,
)
from warpsmith.generator.filter1d.toeplitz_family import Filter1dToeplitz
from warpsmith.generator.filter1d.toeplitz_geometry import (
    PADDING,
    SEGMENTS,
    STEP,
    STRIP,
    Filter1dToeplitzGeometry,
    Split,
    products_of,
    steps_of,
)
from warpsmith.generator.presets import H200
from warpsmith.generator.space import Config

ROWS, CHANNELS = Filter1dToeplitz(), Filter1dToeplitzChannels()
PROBLEMS = (
    Filter1d(1, 1),
    Filter1d(5000, 129),
    Filter1d(100_003, 65, mode="same"),
    Filter1d(300, 31, batch=3, channels=77, filters=11, mode="same"),
    Filter1d(700, 128, channels=32, filters=2, mode="causal", dtype="bfloat16", taps_dtype="bfloat16"),
    Filter1d(999, 257, channels=3, dtype="float16", pitch=2 * 1001, lags=(-3, 900)),
    Filter1d(4099, 20, accuracy="elementwise", convolve=True),
    Filter1d(9, 300),
)
GROUPS = (
    Filter1d(700, 128, 2, channels=32, filters=2, layout="btc", mode="causal", dtype="bfloat16", taps_dtype="bfloat16"),
    Filter1d(333, 7, channels=24, layout="btc", mode="same", dtype="float16", pitch=2 * 32, result_pitch=2 * 28),
    Filter1d(50, 100, channels=64, filters=4, layout="btc", dtype="bfloat16", bias=True, activation="silu"),
    Filter1d(17, 1, channels=8, layout="btc", dtype="float16", taps_dtype="float16"),
)


def configs_of(family: Family[Filter1d], problem: Filter1d, count: int = 12) -> list[Config]:
    space, rng = family.space(problem, H200), random.Random(problem.key())
    drawn = (space.drawn(rng) for _ in range(count))
    return [family.default(problem, H200), *(each for each in drawn if each is not None)]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.key())
def test_blocks_share_the_outputs_of_a_channel(problem: Filter1d) -> None:
    for config in configs_of(ROWS, problem):
        geometry = Filter1dToeplitzGeometry.of(problem, config)
        (launch,) = ROWS.program(problem, config).launches
        assert launch.grid[0] == geometry.blocks == geometry.row_blocks * problem.rows
        assert launch.block == (32 * geometry.warps, 1, 1)
        firsts = [block * geometry.row_tiles // geometry.row_blocks for block in range(geometry.row_blocks + 1)]
        assert firsts[0] == 0
        assert firsts[-1] == geometry.row_tiles
        shares = np.diff(firsts)
        assert shares.min() >= 1
        assert shares.max() - shares.min() <= 1
        assert geometry.is_looped == (shares.max() > 1)
        assert (geometry.row_tiles - 1) * geometry.tile_outputs < problem.result_length
        assert problem.result_length <= geometry.row_tiles * geometry.tile_outputs


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.key())
def test_a_warp_stores_each_output_once(problem: Filter1d) -> None:
    """Two stores of two outputs for each strip, at the offsets that the template has."""
    for config in configs_of(ROWS, problem):
        geometry = Filter1dToeplitzGeometry.of(problem, config)
        segment = STRIP * geometry.strips
        stored: Counter[int] = Counter()
        for warp in range(geometry.warps):
            for lane in range(32):
                own = SEGMENTS * segment * warp + lane % 4 * 2 * segment + lane // 8 * 2 + lane // 4 % 2 * 8
                for strip in range(geometry.strips):
                    for half in range(2):
                        stored.update(own + STRIP * strip + segment * half + i for i in range(2))
        assert sorted(stored) == list(range(geometry.tile_outputs))
        assert set(stored.values()) == {1}


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.key())
def test_a_tile_has_the_windows_of_its_outputs_and_loads_are_aligned(problem: Filter1d) -> None:
    pitch = pitches(problem)[0]
    for config in configs_of(ROWS, problem):
        geometry = Filter1dToeplitzGeometry.of(problem, config)
        vector = geometry.load_vector
        assert geometry.tile >= geometry.lead + geometry.tile_outputs + problem.taps - 1
        assert STEP * geometry.steps >= geometry.lead + problem.taps + STRIP - 1
        assert geometry.loads * vector * 32 * geometry.warps >= geometry.tile
        assert geometry.tile % vector == (problem.first_lag - geometry.lead) % vector == 0
        assert geometry.tile_outputs % vector == 0
        assert problem.rows == 1 or pitch % vector == 0


@pytest.mark.parametrize("strips", [1, 2, 4, 8, 16])
def test_rows_of_an_ldmatrix_lie_in_different_banks_and_inside(strips: int) -> None:
    segment = STRIP * strips

    def place(sample: int) -> int:
        return sample + sample // segment * PADDING

    problem = Filter1d(1 << 20, 100)
    space = ROWS.space(problem, H200).narrowed({"strips": [strips]})
    config = space.drawn(random.Random(1))
    assert config is not None
    geometry = Filter1dToeplitzGeometry.of(problem, config)
    read = set()
    for warp in range(geometry.warps):
        for first in range(0, strips + geometry.steps - 1, 2):
            for eight in range(4):
                rows = [
                    (SEGMENTS * warp + row) * (segment + PADDING) + place(8 * eight) + place(STEP * first)
                    for row in range(SEGMENTS)
                ]
                assert len({2 * each % 128 for each in rows}) == SEGMENTS  # eight times 16 bytes of 128
                expected = [(SEGMENTS * warp + row) * segment + STEP * first + 8 * eight for row in range(SEGMENTS)]
                assert rows == [place(each) for each in expected]
                read.update(rows)
    assert max(read) + 8 <= geometry.places
    assert place(geometry.tile - 1) < geometry.places


@pytest.mark.parametrize(
    ("fields", "split", "count"),
    [
        ({}, Split.HALVES, 3),
        ({}, Split.BFLOATS, 6),
        ({"dtype": "float16"}, Split.HALVES, 2),
        ({"dtype": "bfloat16"}, Split.BFLOATS, 3),
        ({"dtype": "bfloat16", "taps_dtype": "bfloat16"}, Split.BFLOATS, 1),
    ],
)
def test_products_leave_out_the_smallest(fields: dict[str, Any], split: Split, count: int) -> None:
    products = products_of(Filter1d(100, 9, **fields), split)
    assert len(products) == len(set(products)) == count
    assert [each for each in products if each.accumulator == 0] == [(0, 0, 0)]
    most = max(each.samples + each.taps for each in products)
    assert all((i, k) in {each[:2] for each in products} for i, k, _ in products for i in range(i + 1))
    assert most < split.parts


def test_what_accuracy_allows() -> None:
    problem = Filter1d(10_000, 65)
    assert Split(ROWS.default(problem, H200).text("split")) is Split.HALVES
    elementwise = Filter1d(10_000, 65, accuracy="elementwise")
    assert Split(ROWS.default(elementwise, H200).text("split")) is Split.BFLOATS
    refused = Filter1d(10_000, 65, accuracy="elementwise", dtype="float16")
    assert "elementwise" in (ROWS.why_not(refused, H200) or "")


@pytest.mark.parametrize(
    ("family", "problem", "why"),
    [
        (ROWS, Filter1d(100, 9, channels=16, layout="btc"), "bct"),
        (ROWS, Filter1d(100, 9, dtype="complex64"), "complex64"),
        (ROWS, Filter1d(100, 9, down=2), "2-th"),
        (ROWS, Filter1d(10_000, 513), "512"),
        (CHANNELS, Filter1d(100, 9), "btc"),
        (CHANNELS, Filter1d(100, 9, channels=16, layout="btc"), "float32"),
        (CHANNELS, Filter1d(100, 9, channels=16, filters=2, layout="btc", dtype="float16"), "groups of 8"),
        (CHANNELS, Filter1d(100, 9, channels=12, layout="btc", dtype="float16"), "12"),
        (CHANNELS, Filter1d(100, 9, channels=16, layout="btc", dtype="float16", pitch=2 * 17), "17 elements"),
    ],
)
def test_what_they_refuse(family: Family[Filter1d], problem: Filter1d, why: str) -> None:
    reason = family.why_not(problem, H200)
    assert reason is not None
    assert why in reason
    assert "\n" not in reason


@pytest.mark.parametrize("problem", GROUPS, ids=lambda problem: problem.key())
def test_blocks_cover_each_channel_and_output_once(problem: Filter1d) -> None:
    for config in configs_of(CHANNELS, problem):
        geometry = Filter1dToeplitzChannelsGeometry.of(problem, config)
        (launch,) = CHANNELS.program(problem, config).launches
        assert launch.grid[0] == geometry.blocks
        assert geometry.blocks == geometry.channel_blocks * geometry.time_blocks * problem.batch
        width, length = COLUMNS * geometry.warps, STRIP_OUTPUTS * geometry.strips
        assert (geometry.channel_blocks - 1) * width < problem.channels <= geometry.channel_blocks * width
        assert (geometry.time_blocks - 1) * length < problem.result_length <= geometry.time_blocks * length
        assert geometry.ring % geometry.chunk == 0
        assert geometry.steps <= geometry.ring < geometry.steps + geometry.chunk
        group = problem.channels // problem.filters
        assert problem.filters == 1 or group % COLUMNS == 0  # a warp has channels of one filter


def test_they_answer_where_they_are_faster() -> None:
    """Families of float32 multiply-adds answer as long as they were measured to be faster (H200)."""

    def fastest(problem: Filter1d) -> str:
        likely = [each for each in FILTER1D.families if each.is_likely(problem, H200)]
        return min(likely, key=lambda each: each.expected_ns(problem, H200) or np.inf).name

    assert fastest(Filter1d(1 << 24, 17)) == "filter1d_registers"
    assert fastest(Filter1d(1 << 24, 65)) == "filter1d_toeplitz"
    assert fastest(Filter1d(1 << 24, 129)) == "filter1d_toeplitz"
    halves: dict[str, Any] = {"channels": 8192, "filters": 512, "mode": "causal", "dtype": "bfloat16"}
    assert fastest(Filter1d(8192, 128, **halves, taps_dtype="bfloat16")) == "filter1d_toeplitz"
    assert fastest(Filter1d(8192, 7, **halves, taps_dtype="bfloat16", layout="btc")) == "filter1d_channels"
    assert fastest(Filter1d(8192, 128, **halves, taps_dtype="bfloat16", layout="btc")) == "filter1d_toeplitz_channels"


def test_steps_cover_windows_with_their_lead() -> None:
    assert [steps_of(Filter1d(1000, taps), 1) for taps in (1, 2, 17, 18, 129)] == [1, 2, 2, 3, 9]


@pytest.mark.parametrize(
    ("samples", "taps", "rows", "shape"),
    [
        (3000, 4, 15_000, (8, 1, 0)),
        (900, 7, 65_536, (8, 1, 0)),
        (1200, 64, 32_768, (16, 1, 0)),
        (9000, 128, 8192, (16, 1, 0)),
        (2600, 90, 9900, (8, 1, 0)),
        (8192, 250, 8192, (8, 2, 1)),
        (100_000, 400, 512, (8, 2, 1)),
    ],
)
def test_defaults_of_16_bits_are_the_configs_that_were_fastest(
    samples: int, taps: int, rows: int, shape: tuple[int, int, int]
) -> None:
    """Strips of a warp, warps of a block and blocks of a channel: docs/lab/tuning-notes.md, blocks of one warp."""
    types = {"dtype": "bfloat16", "taps_dtype": "bfloat16", "mode": "causal"}
    default = ROWS.default(Filter1d(samples, taps, channels=rows, filters=rows, **types), H200)
    assert tuple(default.integer(name) for name in ("strips", "warps", "row_blocks")) == shape


def test_outputs_behind_the_last_one_take_time() -> None:
    types = {"dtype": "bfloat16", "taps_dtype": "bfloat16", "mode": "causal", "channels": 4096, "filters": 4096}
    full, ragged = (ROWS.expected_ns(Filter1d(samples, 4, **types), H200) for samples in (2048, 1500))
    assert full is not None
    assert ragged is not None
    assert ragged / 1500 > 1.1 * full / 2048
