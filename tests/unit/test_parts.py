"""Stages of pipelines: stages tuned before the whole, their share of the budget, and what they pass on."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from builders import NVRTC, failure, measurement, timing, trial
from warpsmith.generator.conv2d import Conv2d
from warpsmith.generator.family import Family
from warpsmith.generator.fft import Fft
from warpsmith.generator.fft.block.block_family import FftBlock
from warpsmith.generator.fft.two_pass_family import FftTwoPass
from warpsmith.generator.pipeline import Pipeline
from warpsmith.generator.presets import H200
from warpsmith.generator.ranking import default_answer
from warpsmith.generator.registry import families_for
from warpsmith.generator.space import Config
from warpsmith.store.record import Failure, FailureKind, Measurement, Trial
from warpsmith.store.store import Store
from warpsmith.tuner.options import TuneOptions
from warpsmith.tuner.run.parts import FIRSTS, LEAST_TRIALS, KnownStages, budget_of_parts, known_stages

PROBLEM = Fft((512, 384), layout="transposed")
PIPELINE, BLOCK = FftTwoPass(), FftBlock()
STAGES = {stage.name: stage.problem for stage in PIPELINE.stages(PROBLEM)}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(str(tmp_path / "store.db"), write=True)


def trials_of(problem: Fft, count: int, first_ns: float = 1000.0) -> tuple[Trial, ...]:
    """Trials of distinct configs, each slower than the one before, with a failure at the end."""
    configs: dict[Config, None] = dict.fromkeys((BLOCK.default(problem, H200), *BLOCK.starts(problem, H200)))
    for config in tuple(configs):
        configs |= dict.fromkeys(BLOCK.space(problem, H200).neighbours(config))
    outcomes: list[Measurement | Failure] = [
        measurement(timing(first_ns * 1.1**number, first_ns, 2 * first_ns, policy="usual"), registers=32)
        for number in range(count)
    ]
    outcomes.append(failure(FailureKind.LAUNCH))
    return tuple(
        trial(number, outcome, family=BLOCK.name, config=config, compiler=NVRTC, compile_ms=1.0)
        for number, (config, outcome) in enumerate(zip(configs, outcomes, strict=False))
    )


class TestBudget:
    OPTIONS = TuneOptions(trials=100, time_limit_s=60.0)

    def shared(
        self, store: Store, options: TuneOptions = OPTIONS, families: tuple[Family, ...] = (PIPELINE,)
    ) -> tuple[dict[str, TuneOptions], TuneOptions]:
        parts, left = budget_of_parts(PROBLEM, H200, families, store, options)
        return {part.key(): each for part, each in parts}, left

    def test_two_fifths_go_to_the_stages(self, store: Store) -> None:
        parts, left = self.shared(store)
        assert parts.keys() == {problem.key() for problem in STAGES.values()}
        assert all((each.trials, each.time_limit_s) == (20, pytest.approx(12.0)) for each in parts.values())
        assert (left.trials, left.time_limit_s) == (60, pytest.approx(36.0))

    def test_a_stage_that_is_known_takes_no_time(self, store: Store) -> None:
        store.add_trials(STAGES["rows"], H200, trials_of(STAGES["rows"], 19))
        parts, left = self.shared(store)
        assert parts.keys() == {STAGES["columns"].key()}
        assert (left.trials, left.time_limit_s) == (60, pytest.approx(48.0))

    def test_a_small_budget_is_not_shared(self, store: Store) -> None:
        small = TuneOptions(trials=int(2 * LEAST_TRIALS / 0.4) - 1)
        assert self.shared(store, small) == ({}, small)

    def test_nothing_goes_to_a_pipeline_that_others_are_likely_to_beat(self, store: Store) -> None:
        assert self.shared(store, families=(BLOCK, PIPELINE)) == ({}, self.OPTIONS)

    def test_of_several_that_are_likely_the_first_is_tuned(self, store: Store) -> None:
        layer = Conv2d((128, 384, 13, 13), (384, 384, 3, 3))
        able = families_for(layer, H200)
        likely = [each for each in able if isinstance(each, Pipeline) and each.is_likely(layer, H200)]
        assert [each.name for each in likely][:2] == ["conv2d_fft_halves", "conv2d_fft_warpgroup"]
        parts, left = budget_of_parts(layer, H200, able, store, self.OPTIONS)
        assert [part for part, _ in parts] == [stage.problem for stage in likely[0].stages(layer)]
        assert left.time_limit_s == pytest.approx(36.0)

    def test_that_is_the_one_expected_to_take_the_least_time(self, store: Store) -> None:
        one = Conv2d((1, 96, 72, 72), (64, 96, 9, 9))
        able = families_for(one, H200)
        first = next(each for each in able if isinstance(each, Pipeline) and each.is_likely(one, H200))
        tuned = default_answer(one, H200)[0]
        assert isinstance(tuned, Pipeline)
        assert first is not tuned
        parts, _ = budget_of_parts(one, H200, able, store, self.OPTIONS)
        assert [part for part, _ in parts] == [stage.problem for stage in tuned.stages(one)]

    def test_runs_under_sanitizers_have_no_times_to_learn_from(self, store: Store) -> None:
        options = TuneOptions(trials=100, sanitize=True)
        assert self.shared(store, options) == ({}, options)


class TestKnown:
    def test_another_family_has_no_stages(self, store: Store) -> None:
        assert known_stages(BLOCK, STAGES["rows"], H200, store) == KnownStages()

    def test_nothing_is_known_without_trials_of_every_stage(self, store: Store) -> None:
        store.add_trials(STAGES["rows"], H200, trials_of(STAGES["rows"], 12))
        assert known_stages(PIPELINE, PROBLEM, H200, store) == KnownStages()

    def test_a_few_trials_tell_where_to_begin(self, store: Store) -> None:
        rows, columns = (trials_of(STAGES[name], 3) for name in ("rows", "columns"))
        store.add_trials(STAGES["rows"], H200, rows)
        store.add_trials(STAGES["columns"], H200, columns)
        known = known_stages(PIPELINE, PROBLEM, H200, store)
        assert known.expected is None
        assert known.best_ns == 2000.0
        assert known.firsts == tuple(
            Config.joined({"rows": one.config, "columns": other.config})
            for one, other in zip(rows[:3], columns[:3], strict=True)
        )

    def test_more_tell_what_a_config_takes(self, store: Store) -> None:
        for name, first_ns in (("rows", 1000.0), ("columns", 3000.0)):
            store.add_trials(STAGES[name], H200, trials_of(STAGES[name], 14, first_ns))
        known = known_stages(PIPELINE, PROBLEM, H200, store)
        assert len(known.firsts) == FIRSTS
        assert known.expected is not None
        assert known.expected(known.firsts[0]) == pytest.approx(math.log(4000), abs=0.2)
        assert known.expected(known.firsts[0]) < known.expected(known.firsts[-1])
