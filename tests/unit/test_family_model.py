"""The model that chooses between families: its predictions, and when it is trusted."""

from __future__ import annotations

import dataclasses
import math
import random

import pytest

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.fft import Fft
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.problem import Problem
from warpsmith.plans.family_choice import (
    LEAST_CHECKED,
    LEAST_ROWS,
    MOST_CHECKED,
    SLOWEST,
    Measured,
    cross_check,
    how_far,
    left_out,
    numbers_of,
    predicted,
    words_of,
)

SIZES = (256, 512, 1024, 2048)
TAPS = (3, 7, 11, 15)


def filtered(size: int, taps: int, **options: object) -> Filter2d:
    return Filter2d(image=(size, size), filter=(taps, taps), border="wrap", **options)  # type: ignore[arg-type]


def direct_ns(problem: Filter2d) -> float:
    """Nanoseconds of a family whose time is proportional to its operations."""
    return problem.flops * 1e-3


def spectral_ns(problem: Filter2d) -> float:
    """Nanoseconds of a family whose time depends on the image alone; equal to `direct_ns` at 10x10 taps."""
    return problem.output.size * 0.2


def measured(problems: list[Filter2d], noise: float = 0.0) -> list[Measured]:
    rng = random.Random(3)

    def off(time_ns: float) -> float:
        return time_ns * math.exp(noise * rng.gauss(0.0, 1.0))

    return [
        Measured(each, (("direct", off(direct_ns(each))), ("spectral", off(spectral_ns(each))))) for each in problems
    ]


GRID = [filtered(size, taps) for size in SIZES for taps in TAPS]


class TestPredictions:
    def test_powers_of_the_features_are_found(self) -> None:
        """No family here is slow enough for its time to be capped."""
        asked = filtered(777, 9)
        near = measured([filtered(size, taps) for size in SIZES for taps in (7, 8, 11, 12)])
        likely = predicted(asked, near, ("direct", "spectral"))
        assert likely["direct"] == pytest.approx(direct_ns(asked), rel=0.05)
        assert likely["spectral"] == pytest.approx(spectral_ns(asked), rel=0.05)

    @pytest.mark.parametrize(("taps", "faster"), [(3, "direct"), (5, "direct"), (13, "spectral"), (31, "spectral")])
    def test_the_faster_family_is_chosen_between_and_beyond_what_was_measured(self, taps: int, faster: str) -> None:
        for size in (100, 700, 9216):
            likely = predicted(filtered(size, taps), measured(GRID, noise=0.05), ("direct", "spectral"))
            assert min(likely, key=likely.__getitem__) == faster

    def test_a_family_of_few_times_is_left_out(self) -> None:
        rows = measured(GRID)
        few = [
            *rows[: LEAST_ROWS - 1],
            *(dataclasses.replace(each, times=each.times[1:]) for each in rows[LEAST_ROWS:]),
        ]
        assert predicted(filtered(600, 9), few, ("direct", "spectral", "other")).keys() == {"spectral"}
        enough = [*rows[:LEAST_ROWS], *few[LEAST_ROWS:]]
        assert predicted(filtered(600, 9), enough, ("direct", "spectral")).keys() == {"direct", "spectral"}
        assert predicted(filtered(600, 9), [], ("direct",)) == {}

    def test_problems_of_other_words_say_nothing(self) -> None:
        assert predicted(filtered(600, 9, dtype="float16"), measured(GRID), ("direct", "spectral")) == {}

    def test_equal_problems_give_their_mean(self) -> None:
        one = GRID[5]
        rows = [Measured(one, (("direct", 100.0 * factor),)) for factor in (0.5, 1.0, 2.0) * 3]
        assert predicted(one, rows, ("direct",))["direct"] == pytest.approx(100.0)

    def test_a_slow_family_counts_as_slow_and_no_slower(self) -> None:
        each = Measured(GRID[0], (("direct", 10.0), ("spectral", 1e6)))
        assert each.log_ns("direct") == pytest.approx(math.log(10.0))
        assert each.log_ns("spectral") == pytest.approx(math.log(10.0) + SLOWEST)
        assert each.log_ns("other") is None

    def test_the_same_whatever_the_order(self) -> None:
        rows = measured(GRID, noise=0.1)
        expected = predicted(filtered(600, 9), rows, ("direct", "spectral"))
        for seed in range(3):
            random.Random(seed).shuffle(rows)
            assert predicted(filtered(600, 9), rows, ("direct", "spectral")) == pytest.approx(expected)


class TestCrossCheck:
    def ordinary(self, family: str) -> dict[Problem, str]:
        return dict.fromkeys(GRID, family)

    def test_a_model_that_chooses_better_passes(self) -> None:
        check = cross_check(measured(GRID, noise=0.05), self.ordinary("direct"))
        assert check.problems == len(GRID)
        assert check.right == len(GRID)
        assert check.right_without == len(GRID) / 2
        assert check.lost == pytest.approx(0.0)
        assert check.lost_without > 0.3
        assert check.is_passed

    def test_its_reach_is_the_farthest_that_one_left_out_lies_from_the_others(self) -> None:
        alone = filtered(9000, 7)
        rows = measured([*GRID, alone])
        within = cross_check(rows, self.ordinary("direct")).reach
        assert within == max(how_far(each, [row for row in rows if row.problem != each]) for each in GRID)
        assert how_far(alone, measured(GRID)) > within
        assert cross_check(rows, {alone: "direct"}).reach == how_far(alone, measured(GRID))
        assert how_far(alone, []) == math.inf

    def test_one_that_does_not_fails(self) -> None:
        rows = measured(GRID, noise=0.05)
        best = {each.problem: min(each.times, key=lambda pair: pair[1])[0] for each in rows}
        assert not cross_check(rows, best).is_passed

    def test_times_by_chance_fail(self) -> None:
        rng = random.Random(1)
        rows = [Measured(each, (("direct", rng.uniform(1, 2)), ("spectral", rng.uniform(1, 2)))) for each in GRID]
        best = {each.problem: min(each.times, key=lambda pair: pair[1])[0] for each in rows}
        assert not cross_check(rows, best).is_passed

    def test_few_problems_decide_nothing(self) -> None:
        some = dict.fromkeys(GRID[: LEAST_CHECKED - 1], "direct")
        assert not cross_check(measured(GRID), some).is_passed
        assert cross_check(measured(GRID), {}).problems == 0

    def test_what_the_ordinary_choice_took_must_be_known(self) -> None:
        assert cross_check(measured(GRID), self.ordinary("other")).problems == 0

    def test_those_left_out_are_spread_over_all(self) -> None:
        many = [filtered(size, 3) for size in range(20, 20 + 3 * MOST_CHECKED)]
        chosen = left_out(measured(many))
        assert len(chosen) == MOST_CHECKED
        assert chosen[0].problem == many[0]
        assert chosen[-1].problem == many[-3]
        assert left_out([Measured(GRID[0], (("direct", 1.0),))]) == ()


@pytest.mark.parametrize(
    "problem",
    [
        Filter2d(image=(1, 1), filter=(1, 1)),
        Filter2d(image=(64, 48), filter=(3, 5), channels=3, filters=2, weights=(1.0,) * 30),
        Fft(size=(2,)),
        Fft(size=(8, 6), batch=4, kind="r2c"),
        Conv2d(input=(2, 4, 9, 9), weight=(6, 2, 3, 3), groups=2, pass_="wgrad"),
        Conv2d(input=(1, 1, 1, 1), weight=(1, 1, 1, 1)),
    ],
)
def test_features_of_every_operation_have_logarithms(problem: Problem) -> None:
    assert all(math.isfinite(number) for number in numbers_of(problem))
    names = {name for name, _ in words_of(problem)}
    assert len(numbers_of(problem)) + len(names) == len(problem.features())


def test_the_words_of_a_layer_tell_its_passes_and_groups_apart() -> None:
    layer = Conv2d(input=(2, 4, 9, 9), weight=(8, 4, 3, 3))
    others = (
        dataclasses.replace(layer, pass_="dgrad"),  # type: ignore[arg-type]
        dataclasses.replace(layer, weight=(8, 1, 3, 3), groups=4),
        dataclasses.replace(layer, weight=(8, 2, 3, 3), groups=2),
        dataclasses.replace(layer, stride=(2, 2)),
    )
    assert len({words_of(each) for each in (layer, *others)}) == 5
    assert words_of(dataclasses.replace(layer, input=(9, 4, 30, 30))) == words_of(layer)
