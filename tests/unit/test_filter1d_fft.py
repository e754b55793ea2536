"""Blocks of `filter1d_fft`: each output once, none from wrapped samples; the sizes, packings and problems it takes."""

from __future__ import annotations

import random

import numpy as np
import pytest

from warpsmith.generator.fft.text import Packing
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter1d.fft_family import Filter1dFft
from warpsmith.generator.filter1d.fft_geometry import Coverage, Filter1dFftGeometry, LoadRun, packings, span_of, step_of
from warpsmith.generator.filter1d.fft_model import PAIRS, SIZES, ways_of
from warpsmith.generator.filter1d.operation import FILTER1D
from warpsmith.generator.presets import H200, HOST
from warpsmith.generator.ranking import default_answer, likely
from warpsmith.generator.space import Config
from warpsmith.generator.tiles.lines import axis_of, spread, turns

FAMILY = Filter1dFft()
PROBLEMS = (
    Filter1d(5000, 33),
    Filter1d(1001, 257, 3, channels=4, filters=2, mode="same"),
    Filter1d(1024, 1024, 2, channels=6, filters=6, mode="causal", dtype="bfloat16"),
    Filter1d(700, 5000, lags=(-2000, 300), down=7),
    Filter1d(3000, 129, dtype="complex64", down=8),
    Filter1d(2000, 64, 2, channels=10, filters=10, layout="btc", mode="valid"),
    Filter1d(64, 40, channels=3, convolve=True, down=1000),
)
every_problem = pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.key())


def sample(problem: Filter1d) -> list[Config]:
    """The default, the starts and some random configs."""
    space, rng = FAMILY.space(problem, H200), random.Random(problem.key())
    drawn = [config for _ in range(20) if (config := space.drawn(rng)) is not None]
    return [FAMILY.default(problem, H200), *FAMILY.starts(problem, H200), *drawn]


@every_problem
def test_every_output_is_stored_once(problem: Filter1d) -> None:
    """An output is kept if its lag is a multiple of `down` from the first one, in every block alike."""
    for config in sample(problem):
        at = Filter1dFftGeometry.of(problem, config)
        counts = np.zeros(at.span, int)
        for line in range(at.row_lines):
            for block in range(2 if at.is_pair else 1):
                start = line * at.line_step + block * at.step
                assert start % problem.down == 0
                counts[start : start + at.step] += 1
        assert (counts == 1).all(), config
        assert len(range(0, at.span, problem.down)) == problem.result_length


@every_problem
def test_no_output_has_a_wrapped_sample(problem: Filter1d) -> None:
    for config in sample(problem):
        at = Filter1dFftGeometry.of(problem, config)
        assert 0 < at.step <= at.samples - at.ahead - problem.taps + 1, config


@every_problem
def test_the_lines_of_all_blocks_are_those_of_all_channels(problem: Filter1d) -> None:
    for config in sample(problem):
        at = Filter1dFftGeometry.of(problem, config)
        lines, needed = at.blocks * at.lines.count, problem.rows * at.row_lines
        assert lines >= needed
        if at.is_btc:
            assert lines - needed < at.lines.count * at.row_lines * problem.batch
        else:
            assert lines - needed < at.lines.count
        assert at.are_all_lines == (lines == needed)


def test_distances_of_blocks_are_aligned_where_that_costs_little() -> None:
    def step(points: int, taps: int, down: int = 1) -> int:
        return step_of(Filter1d(1 << 24, taps, down=down), points, Packing.PAIR)

    assert step(2048, 257) == 1792
    assert step(4096, 1000) == 3072  # of 3097
    assert step(64, 60) == 5
    assert step(64, 60, down=4) == 4
    assert step(64, 60, down=6) == 0
    assert step(64, 65) == 0


def test_a_sample_ahead_aligns_pairs_of_samples() -> None:
    """The window of lag -1023 begins at an odd place; the block begins at -1024 and still has 1024 outputs."""
    problem = Filter1d(1024, 1024, channels=8, filters=8, mode="causal")
    config = {**FAMILY.default(problem, H200).values(), "packing": "half", "radices": "8x16x8", "threads": 64}
    at = Filter1dFftGeometry.of(problem, Config.of({**config, "lines": 1, "min_blocks": 0}))
    assert (at.ahead, at.first, at.step, at.row_lines) == (1, -1024, 1024, 1)
    assert at.loads_pairs
    assert at.runs(128, 8) == (LoadRun(0, 4, Coverage.OUTSIDE), LoadRun(4, 8, Coverage.INSIDE))


def test_real_samples_are_packed_in_two_ways_and_complex_ones_in_one() -> None:
    assert packings(Filter1d(100, 20)) == (Packing.PAIR, Packing.HALF)
    assert packings(Filter1d(100, 20, dtype="complex64")) == (Packing.COMPLEX,)


def test_pairs_of_samples_are_loaded_together_where_they_are_aligned() -> None:
    def geometry(problem: Filter1d) -> Filter1dFftGeometry:
        config = {**FAMILY.default(problem, H200).values(), "packing": "half", "radices": "16x8x8", "threads": 64}
        return Filter1dFftGeometry.of(problem, Config.of({**config, "lines": 1, "min_blocks": 0}))

    even = geometry(Filter1d(2000, 65, mode="causal"))
    assert even.loads_pairs
    assert even.guards_pairs
    assert even.stores_pairs
    odd_length = geometry(Filter1d(2001, 65, mode="causal"))
    assert odd_length.loads_pairs
    assert not odd_length.guards_pairs
    odd_rows = geometry(Filter1d(2001, 65, channels=2, mode="causal"))
    assert not odd_rows.loads_pairs
    assert not odd_rows.stores_pairs
    assert geometry(Filter1d(2000, 66, mode="causal")).loads_pairs


def test_it_says_which_problems_it_does_not_take() -> None:
    assert "signalwise" in str(FAMILY.why_not(Filter1d(1 << 20, 257, accuracy="elementwise"), H200))
    assert "tap by tap" in str(FAMILY.why_not(Filter1d(1 << 20, 5), H200))
    assert "shared memory" in str(FAMILY.why_not(Filter1d(1 << 20, 60_000), H200))
    assert FAMILY.why_not(Filter1d(1 << 20, 40_000), H200) is None


@pytest.mark.parametrize("points", SIZES)
def test_every_size_has_its_splits(points: int) -> None:
    ways = ways_of(points)
    assert ways
    assert all(np.prod(way) == points for way in ways)
    assert len(set(ways)) == len(ways)
    assert {shape.radices for shape in PAIRS if shape.points == points} <= set(ways)


@pytest.mark.parametrize(
    ("problem", "family"),
    [
        (Filter1d(1 << 24, 17), "filter1d_registers"),
        (Filter1d(1 << 24, 129), "filter1d_toeplitz"),
        (Filter1d(1 << 24, 257), "filter1d_fft"),
        (Filter1d(1 << 24, 4097), "filter1d_fft"),
        (Filter1d(1 << 24, 16385), "filter1d_fft"),
        (Filter1d(1_000_003, 9000), "filter1d_fft"),
        (Filter1d(1024, 1024, 64, channels=768, filters=768, mode="causal"), "filter1d_fft"),
        (Filter1d(1 << 24, 257, accuracy="elementwise"), "filter1d_registers"),
    ],
    ids=str,
)
def test_it_answers_where_it_is_faster(problem: Filter1d, family: str) -> None:
    assert likely(FILTER1D.families, problem, H200)[0].name == family
    assert default_answer(problem, H200)[0].name == family


def test_it_is_not_likely_on_a_host() -> None:
    assert not FAMILY.is_likely(Filter1d(1 << 24, 257), HOST)


def test_spectra_depend_on_the_weights_alone() -> None:
    problem = Filter1d(1 << 20, 257, channels=4, filters=4)
    program = FAMILY.program(problem, FAMILY.default(problem, H200))
    spectra, taps = program.workspaces
    assert spectra.holds == taps.holds == ("weights",)
    assert taps.nbytes == problem.operands[1].nbytes
    assert spectra.nbytes == 4 * 8 * Filter1dFftGeometry.of(problem, program.config).spectrum_points


def test_the_span_ends_with_the_last_kept_output() -> None:
    assert span_of(Filter1d(100, 20, down=8)) == 14 * 8 + 1


@pytest.mark.parametrize("later", [2, 4, 8])
def test_spread_is_an_order_of_all_items(later: int) -> None:
    assert sorted(spread(number, later) for number in range(48)) == list(range(48))


@pytest.mark.parametrize("radices", [(16, 8, 8), (16, 16, 8), (32, 32, 8), (16, 16, 4), (12, 16, 16, 8)])
def test_spread_items_take_conflicts_away(radices: tuple[int, ...]) -> None:
    """Half a warp's items have consecutive earlier digits in one pass, and later digits of two of them in another."""
    assert turns(axis_of(radices, 1), 1) > 1
    assert turns(axis_of(radices, 1, True), 1, True) == 1
