"""`filter1d_lags` and `filter1d_parts`: tiles and shares, counts of kernels, refusals, and which of them answers."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from typing import Any

import pytest

from warpsmith.generator.family import Family
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter1d.divisions import PartCounts
from warpsmith.generator.filter1d.lags_family import Filter1dLags
from warpsmith.generator.filter1d.lags_geometry import Filter1dLagsGeometry
from warpsmith.generator.filter1d.operation import FILTER1D
from warpsmith.generator.filter1d.parts_family import Filter1dParts
from warpsmith.generator.filter1d.parts_geometry import Filter1dPartsGeometry, Way
from warpsmith.generator.presets import H200
from warpsmith.generator.ranking import default_answer, likely
from warpsmith.generator.space import Config, Value

LAGS, PARTS = Filter1dLags(), Filter1dParts()
ANY = {"nonfinite": "any"}
PROBLEMS = (
    Filter1d(1 << 24, 1 << 24, lags=(-128, 128)),
    Filter1d(5000, 4900, lags=(-4899, -4890)),
    Filter1d(5000, 4900, lags=(4990, 4999)),
    Filter1d(5000, 700, channels=3),
    Filter1d(700, 9000, lags=(-3000, 400), down=3),
    Filter1d(4000, 4000, dtype="complex64", mode="same"),
)


def config_of(family: Family[Filter1d], problem: Filter1d, **wanted: Value) -> Config:
    config = Config.of({**family.default(problem, H200).values(), **wanted})
    why = family.space(problem, H200).why_not(config)
    assert why is None, why
    return config


def parts_of(problem: Filter1d, way: Way, block: int, radices: str, **wanted: Value) -> Filter1dPartsGeometry:
    accumulation = "registers" if way is Way.BLOCKS else "buffers"
    values = {"way": way.value, "accumulation": accumulation, "signal_block": block, "taps_block": block}
    return Filter1dPartsGeometry.of(problem, config_of(PARTS, problem, **{**values, "radices": radices, **wanted}))


class TestLags:
    @pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.key())
    def test_shares_have_each_line_that_meets_the_signal_once(self, problem: Filter1d) -> None:
        space, rng = LAGS.space(problem, H200), random.Random(1)
        drawn = [config for _ in range(8) if (config := space.drawn(rng)) is not None]
        for config in (LAGS.default(problem, H200), *drawn):
            at = Filter1dLagsGeometry.of(problem, config)
            for group in {0, at.groups // 2, at.groups - 1}:
                first = at.first + group * at.lags
                starts = [first + line * at.line_taps for line in range(at.line_count)]
                met = [line for line, start in enumerate(starts) if start < at.signal and start + at.reach > 0]
                assert [line for share in range(at.shares) for line in at.share(group, share)] == met

    @pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.key())
    def test_no_lag_has_a_wrapped_sample_and_no_tap_is_left_out(self, problem: Filter1d) -> None:
        for radices in ("8x8x8", "16x8x16"):
            if LAGS.space(problem, H200).why_not(config := config_of(LAGS, problem, shares=1, radices=radices)) is None:
                at = Filter1dLagsGeometry.of(problem, config)
                assert at.lags + at.tile - 1 <= at.points
                assert (at.groups - 1) * at.lags < at.span <= at.groups * at.lags
                assert at.line_count * at.line_taps >= problem.taps > (at.line_count - 1) * at.line_taps

    def test_an_inverse_is_made_once_for_many_products(self) -> None:
        """257 lags of two signals of 2^24 samples: 4682 lines of two tiles, and 396 inverses."""
        problem = PROBLEMS[0]
        at = Filter1dLagsGeometry.of(problem, LAGS.default(problem, H200))
        assert (at.points, at.tile, at.groups, at.line_count, at.blocks) == (2048, 1792, 1, 4682, 396)

    @pytest.mark.parametrize(
        ("fields", "reason"),
        [
            ({"accuracy": "elementwise"}, "has errors relative to the whole signal: accuracy signalwise"),
            ({"channels": 2, "layout": "btc"}, "loads samples of a channel that lie side by side: layout bct"),
            ({"taps": 16}, "a filter of fewer than 17 taps costs less tap by tap"),
            ({"pass_": "wgrad"}, "computes no gradients (pass wgrad)"),
        ],
    )
    def test_what_it_cannot_solve_is_refused_with_a_reason(self, fields: dict[str, Any], reason: str) -> None:
        assert LAGS.why_not(Filter1d(**{"signal": 1000, "taps": 900, **fields}), H200) == reason


class TestParts:
    def test_counts_of_two_signals_of_a_million_samples(self) -> None:
        """The document's 2^20 pairs. Two of them are one product of lines; an interval has one inverse."""
        problem = Filter1d(1 << 20, 1 << 20, **ANY)
        pairs, divisions = (parts_of(problem, way, 1024, "16x8x16").counts for way in (Way.PAIRS, Way.DIVISIONS))
        assert pairs.pairs == divisions.pairs == 1 << 20
        assert (pairs.inverses, divisions.inverses) == (524_800, 2047)
        assert divisions.transforms == 512 + 1025

    def test_counts_beside_those_of_overlap_discard_and_overlap_add(self) -> None:
        """`blocks` reads a halo of each tile and writes once; other ways write each interval."""
        problem, block = Filter1d(1 << 14, 1 << 14, **ANY), 1024
        assert parts_of(problem, Way.BLOCKS, block, "none").counts == PartCounts(
            groups=32,
            pairs=272,
            transforms=0,
            inverses=0,
            global_reads=272 * (block + 2 * block - 1),
            global_writes=(1 << 15) - 1,
            local_elements=block + 2 * block - 1,
            launches=1,
        )
        assert parts_of(problem, Way.SPACE, block, "none").counts == PartCounts(
            groups=31,
            pairs=256,
            transforms=0,
            inverses=0,
            global_reads=256 * 2 * block,
            global_writes=31 * (2 * block - 1),
            local_elements=2048 + block - 1 + block,
            launches=2,
        )
        counts = parts_of(problem, Way.DIVISIONS, block, "16x8x16").counts
        assert (counts.transforms, counts.inverses, counts.launches) == (8 + 17, 31, 3)
        assert counts.global_writes == 25 * 2048 + 31 * 2047

    def test_a_few_lags_need_few_pairs(self) -> None:
        problem = Filter1d((1 << 14) + 256, 1 << 14, mode="valid", **ANY)
        assert problem.result_length == 257
        counts = parts_of(problem, Way.DIVISIONS, 1024, "16x8x16").counts
        assert (counts.pairs, counts.inverses) == (32, 2)

    def test_only_lines_that_some_pair_needs_are_transformed(self) -> None:
        """Products name lines as the kernel does, for random slices of both kinds of samples."""
        rng = random.Random(5)
        for _ in range(40):
            signal, taps = rng.randint(300, 3000), rng.randint(300, 3000)
            lags = tuple(sorted(rng.randint(1 - taps, signal - 1) for _ in range(2)))
            problem = Filter1d(signal, taps, lags=lags, dtype=rng.choice(("float32", "complex64")), **ANY)
            ratio = rng.choice((1, 2, 4))
            config = Config.of(
                {
                    "way": "divisions",
                    "accumulation": "buffers",
                    "signal_block": 64,
                    "taps_block": 64 * ratio,
                    "radices": "8x8x8",
                }
            )
            at = Filter1dPartsGeometry.of(problem, config)
            assert Counter(at.products_at(unit) for unit in units(at)) == Counter(
                len(products(at, u)) for u in units(at)
            )
            made = [each for unit in units(at) for each in products(at, unit)]
            assert all(line in at.needed_signal_lines and j in at.needed_taps_lines for line, j in made)

    def test_blocks_that_do_not_divide_each_other_are_refused(self) -> None:
        problem = Filter1d(10_000, 9000, **ANY)
        config = Config.of({**PARTS.default(problem, H200).values(), "signal_block": 96, "taps_block": 128})
        assert PARTS.space(problem, H200).why_not(config) == (
            "blocks of the signal divide those of the taps, so that a pair reaches one interval of one division"
        )

    def test_a_nan_must_be_allowed_to_spread(self) -> None:
        assert PARTS.why_not(Filter1d(1000, 900), H200) == "spreads a NaN over an interval of the result: nonfinite any"
        assert PARTS.why_not(Filter1d(1000, 900, dtype="int16"), H200) is None


def units(at: Filter1dPartsGeometry) -> list[int]:
    return [at.needed.start(each.division, r) // at.signal_block for each in at.parts for r in each.numbers]


def products(at: Filter1dPartsGeometry, unit: int) -> list[tuple[int, int]]:
    """Lines of the signal and of the taps that the kernel multiplies for an interval."""
    pairs = at.needed.pairs(unit * at.signal_block)
    if at.packed == 1 or not pairs:
        return list(pairs)
    highest, lowest = pairs[0].second, pairs[-1].second
    found = []
    for j in range(highest + (highest + unit // at.ratio) % 2, lowest - 1, -2):
        i = unit - j * at.ratio
        found.append((i // (2 * at.ratio) * at.ratio + i % at.ratio, j))
    return found


class TestAnswers:
    @pytest.mark.parametrize("size", [18, 20, 22, 24])
    def test_few_lags_of_two_long_signals_are_answered_by_lags(self, size: int) -> None:
        for lags in ((-16, 16), (-128, 128), (0, 1000)):
            assert default_answer(Filter1d(1 << size, 1 << size, lags=lags), H200)[0].name == LAGS.name

    def test_a_long_signal_with_a_template_is_answered_by_one_transform_of_blocks(self) -> None:
        """A day at 100 Hz."""
        assert default_answer(Filter1d(8_640_000, 4000, mode="valid"), H200)[0].name == "filter1d_fft"

    def test_parts_do_not_answer_where_filters_are_short(self) -> None:
        for signal, taps in itertools.product((10_000, 1 << 22), (17, 257, 4000)):
            problem = Filter1d(signal, taps, **ANY)
            name = likely(FILTER1D.families, problem, H200)[0].name
            assert name != PARTS.name
            assert name != LAGS.name or signal < 1 << 22
