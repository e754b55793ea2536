"""The prior: what trials of other problems predict, on made-up times whose answer is known."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable, Iterator

import pytest

from warpsmith.generator.device import Device
from warpsmith.generator.fft import Fft
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.presets import H200, HOST
from warpsmith.generator.problem import Problem
from warpsmith.generator.registry import FAMILIES, families_for, family_named
from warpsmith.generator.space import Config
from warpsmith.store.trials import Sample
from warpsmith.tuner.search.prior import FIRST, LEAST_CHECKED, Effects, Prior, PriorCheck

GPU = dataclasses.replace(H200, name="Test GPU")
PLAIN = family_named("filter2d_plain")
WINDOW = family_named("filter2d_window")
assert PLAIN is not None
assert WINDOW is not None
PROBLEM = Filter2d(image=(1000, 1000), filter=(5, 5))


def sized(rows: int) -> Filter2d:
    return dataclasses.replace(PROBLEM, image=(rows, 1000))


def wide_is_fast(config: Config) -> float:
    """Wide blocks and several columns are fast, together more than each."""
    columns, width = config.integer("columns"), config.integer("block_columns")
    return 1000.0 * (
        1 + 0.3 * abs(columns - 4) + 0.2 * abs(math.log2(width / 128)) + 0.3 * (config.integer("rows") > 1)
    )


def trials(
    problem: Problem, seed: int, time_ns: Callable[[Config], float | None] = wide_is_fast, count: int = 60
) -> Iterator[Sample]:
    """Random configs of the plain family, with these times."""
    assert PLAIN is not None
    rng, space = random.Random(seed), PLAIN.space(problem, GPU)
    drawn = (space.drawn(rng) for _ in range(count))
    for config in dict.fromkeys(drawn):
        assert config is not None
        yield Sample(problem, GPU, PLAIN.name, config, time_ns(config))


def several(time_ns: Callable[[Config], float | None] = wide_is_fast) -> list[Sample]:
    sizes = (500, 700, 900, 1200)
    return [sample for seed, rows in enumerate(sizes) for sample in trials(sized(rows), seed, time_ns)]


def noise(config: Config) -> float:
    """Times that say nothing about anything."""
    return 1000.0 + random.Random(config.key() + "noise").random() * 1000


class TestEffects:
    def test_tell_what_each_value_costs(self) -> None:
        configs = [Config.of({"a": a, "b": b}) for a in (1, 2) for b in ("x", "y")] * 20
        outcomes = [0.5 * (config.integer("a") == 2) + 0.2 * (config.text("b") == "y") for config in configs]
        effects = Effects.fit(configs, outcomes, [1.0] * len(configs))
        for config, outcome in zip(configs, outcomes, strict=True):
            assert effects.predicted(config) == pytest.approx(outcome, abs=0.03)

    def test_tell_what_two_values_cost_together(self) -> None:
        """Neither value alone shows it."""
        configs = [Config.of({"a": a, "b": b}) for a in (1, 8) for b in ("x", "y")] * 100
        outcomes = [float((config.integer("a") == 8) == (config.text("b") == "y")) for config in configs]
        effects = Effects.fit(configs, outcomes, [1.0] * len(configs))
        same, different = Config.of({"a": 8, "b": "y"}), Config.of({"a": 1, "b": "y"})
        assert effects.predicted(same) > effects.predicted(different) + 0.6

    def test_shrink_where_little_is_known(self) -> None:
        configs = [Config.of({"a": 1})] * 50 + [Config.of({"a": 2})]
        effects = Effects.fit(configs, [0.0] * 50 + [1.0], [1.0] * 51)
        assert 0 < effects.predicted(Config.of({"a": 2})) < 0.8

    def test_a_number_never_seen_is_like_those_of_its_octave(self) -> None:
        configs = [Config.of({"rows": rows}) for rows in (4, 64)] * 30
        effects = Effects.fit(configs, [0.0, 1.0] * 30, [1.0] * 60)
        assert effects.predicted(Config.of({"rows": 61})) > effects.predicted(Config.of({"rows": 5})) + 0.3

    def test_of_nothing_there_are_none(self) -> None:
        with pytest.raises(ValueError, match="need a config"):
            Effects.fit([], [], [])


class TestCrossCheck:
    def test_is_passed_where_problems_are_alike(self) -> None:
        prior = Prior.fit(several())
        assert prior is not None
        check = prior.check()
        assert check.is_passed
        assert check.problems == 4
        assert check.excess < check.by_luck / 2
        assert str(check).startswith("used: of 4 problems left out")

    def test_is_not_passed_where_others_mislead(self) -> None:
        """Half of the problems have reciprocal times, so they mislead about the others."""
        turned = [
            dataclasses.replace(
                sample, time_ns=3e6 / sample.time_ns if number % 2 and sample.time_ns else sample.time_ns
            )
            for number, rows in enumerate((500, 700, 900, 1100))
            for sample in trials(sized(rows), number)
        ]
        prior = Prior.fit(turned)
        assert prior is not None
        check = prior.check()
        assert not check.is_passed
        assert str(check).startswith("not used")
        configs = [sample.config for sample in trials(PROBLEM, 99)]
        assert prior.order(PROBLEM, GPU, "filter2d_plain", configs) == configs

    def test_needs_several_problems(self) -> None:
        prior = Prior.fit(trials(PROBLEM, 0))
        assert prior is not None
        assert prior.check() == PriorCheck(0, 0.0, 0.0)
        assert not prior.check().is_passed
        assert str(prior.check()) == f"0 problems have trials enough to check the prior; {LEAST_CHECKED} are needed"


class TestOrder:
    def test_puts_what_was_fast_elsewhere_first(self) -> None:
        prior = Prior.fit(several())
        assert prior is not None
        unseen = list(trials(PROBLEM, 77))
        ordered = prior.order(PROBLEM, GPU, "filter2d_plain", [sample.config for sample in unseen])
        assert sorted(ordered, key=Config.key) == sorted((sample.config for sample in unseen), key=Config.key)
        best = min(wide_is_fast(config) for config in ordered)
        assert min(map(wide_is_fast, ordered[:FIRST])) <= 1.05 * best
        half = len(ordered) // 2
        assert sum(map(wide_is_fast, ordered[:half])) < 0.8 * sum(map(wide_is_fast, ordered[half:]))

    def test_puts_what_failed_elsewhere_last(self) -> None:
        prior = Prior.fit(several(lambda config: None if config.integer("rows") == 4 else wide_is_fast(config)))
        assert prior is not None
        configs = [sample.config for sample in trials(PROBLEM, 77)]
        ordered = prior.order(PROBLEM, GPU, "filter2d_plain", configs)
        assert all(config.integer("rows") != 4 for config in ordered[:FIRST])

    def test_is_the_same_each_time(self) -> None:
        first, second = Prior.fit(several()), Prior.fit(list(reversed(several())))
        assert first is not None
        assert second is not None
        configs = [sample.config for sample in trials(PROBLEM, 77)]
        assert first.order(PROBLEM, GPU, "filter2d_plain", configs) == first.order(
            PROBLEM, GPU, "filter2d_plain", configs
        )
        assert first.check().excess == pytest.approx(second.check().excess)


class TestFirst:
    def test_finds_configs_that_nobody_tried(self) -> None:
        prior = Prior.fit(several())
        assert prior is not None
        assert PLAIN is not None
        firsts = prior.first(PROBLEM, GPU, (PLAIN,), 10)
        assert len(set(firsts)) == 10
        space = PLAIN.space(PROBLEM, GPU)
        assert all(name == PLAIN.name and space.contains(config) for name, config in firsts)
        assert min(wide_is_fast(config) for _, config in firsts) == 1000.0  # the best there is

    def test_tells_families_apart(self) -> None:
        """A winner nearby comes before a family that is three times slower there."""
        assert WINDOW is not None
        window = WINDOW.default(PROBLEM, GPU)
        winners = [Sample(sized(rows), GPU, WINDOW.name, window, 300.0) for rows in (500, 700, 900, 1200)]
        prior = Prior.fit([*several(), *winners])
        assert prior is not None
        name, config = prior.first(PROBLEM, GPU, families_for(PROBLEM, GPU), 10)[0]
        assert (name, config) == (WINDOW.name, window)

    def test_is_nearby_winners_where_there_are_no_trials(self) -> None:
        assert WINDOW is not None
        small, large = sized(500), sized(4000)
        winners = [
            Sample(large, GPU, WINDOW.name, Config.of(WINDOW.default(large, GPU).values() | {"block_strips": 4}), 9e4),
            Sample(small, GPU, WINDOW.name, Config.of(WINDOW.default(small, GPU).values() | {"block_strips": 1}), 9e3),
        ]
        prior = Prior.fit(winners)
        assert prior is not None
        firsts = prior.first(PROBLEM, GPU, FAMILIES, 10)
        assert [config.integer("block_strips") for _, config in firsts] == [1, 4]

    @pytest.mark.parametrize(
        ("problem", "device"), [(PROBLEM, HOST), (Fft(16, 100), GPU), (Filter2d(image=(99, 99), filter=(31, 31)), GPU)]
    )
    def test_is_nothing_where_nothing_is_near(self, problem: Problem, device: Device) -> None:
        prior = Prior.fit(several())
        assert prior is not None
        families = families_for(problem, device)
        if prior.check().is_passed:
            assert prior.order(problem, device, families[0].name, []) == []
        assert prior.first(problem, device, families, 5) == ()

    def test_of_no_times_there_is_no_prior(self) -> None:
        assert Prior.fit([]) is None
        assert Prior.fit(trials(PROBLEM, 0, lambda _: None)) is None
