"""benchmarks/learned_ranking.py: what counts as a time, what an order may learn from, and when it is better."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from builders import generated, record, timing, trial
from scripts import benchmark
from warpsmith.generator.conv2d import Conv2d
from warpsmith.generator.device import Device
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.gate import Gate
from warpsmith.generator.presets import H200
from warpsmith.generator.problem import Problem
from warpsmith.generator.ranking import default_answer, likely
from warpsmith.generator.registry import able_families
from warpsmith.store.store import Store
from warpsmith.store.trials import Sample

script = benchmark("learned_ranking")
cases, check, corrections, configs = (
    benchmark(f"ranking_bench.{name}") for name in ("cases", "check", "corrections", "configs")
)

OTHER_GPU = dataclasses.replace(H200, name="Another GPU")
LAYER = Conv2d(input=(8, 64, 28, 28), weight=(64, 64, 3, 3), padding=1)  # type: ignore[arg-type]
SLOWER = 2.0
"""Factor of the family "flattered" over its model in `skewed`."""


def layer(channels: int, **fields: Any) -> Conv2d:
    return dataclasses.replace(LAYER, input=(8, channels, 28, 28), weight=(64, channels, 3, 3), **fields)


def case(problem: Problem, device: Device = H200, **families: tuple[float, float | None]) -> Any:
    """A case of families with time and expected time in ns, in the order of the latter."""
    ordered = sorted(families.items(), key=lambda each: each[1][1] or 0.0)
    timed = tuple(cases.Timed(name, *times) for name, times in ordered)
    return cases.Case(problem, device, timed, timed[0].family)


def skewed(channels: int, device: Device = H200) -> Any:
    """A layer whose models name the wrong family: "flattered" takes twice what is expected."""
    expected = 10.0 * channels
    return case(
        layer(channels), device, flattered=(SLOWER * expected, expected), honest=(1.3 * expected, 1.3 * expected)
    )


SKEWED = [skewed(8 * number, device) for number in range(1, 17) for device in (H200, OTHER_GPU)]


def checked(listed: Sequence[Any]) -> dict[Any, Any]:
    return {how: check.outcomes(listed, how, corrections.LEARNED) for how in check.ways_of(listed)}


class TestOrders:
    @pytest.mark.parametrize("name", corrections.LEARNED)
    def test_a_model_that_is_always_wrong_by_a_factor_is_corrected(self, name: str) -> None:
        assert corrections.as_modelled(SKEWED[2:], SKEWED[0]) == "flattered"
        assert corrections.LEARNED[name](SKEWED[2:], SKEWED[0]) == "honest"

    @pytest.mark.parametrize("name", corrections.CORRECTIONS)
    def test_a_correction_is_pulled_to_nothing_where_rows_are_few(self, name: str) -> None:
        rows = corrections.rows_of("flattered", SKEWED[2:])
        correction = corrections.CORRECTIONS[name]
        assert correction([], SKEWED[0]) == 0.0
        assert 0.0 < correction(rows[:1], SKEWED[0]) < correction(rows, SKEWED[0]) < math.log(SLOWER)

    def test_a_family_without_rows_keeps_its_expected_time(self) -> None:
        new = case(layer(64), flattered=(1280.0, 640.0), honest=(832.0, 832.0), new=(900.0, 700.0))
        assert corrections.LEARNED["mean"](SKEWED, new) == "new"
        assert corrections.LEARNED["times alone"](SKEWED, new) == "flattered"  # the models' word

    def test_a_family_without_a_model_stays_first(self) -> None:
        unknown = case(layer(64), flattered=(1280.0, 640.0), honest=(832.0, 832.0), unknown=(900.0, None))
        assert corrections.LEARNED["mean"](SKEWED, unknown) == "unknown"

    def test_other_kinds_say_nothing(self) -> None:
        gradient = dataclasses.replace(SKEWED[0], problem=layer(8, pass_="wgrad"))
        assert corrections.LEARNED["mean"](SKEWED, gradient) == "flattered"
        assert corrections.LEARNED["mean of all kinds"](SKEWED, gradient) == "honest"


class TestLeavingOut:
    def test_a_layer_goes_with_its_other_passes_batches_and_types(self) -> None:
        same = (
            LAYER,
            dataclasses.replace(LAYER, pass_="dgrad"),  # type: ignore[arg-type]
            dataclasses.replace(LAYER, input=(1, 64, 28, 28)),
            dataclasses.replace(LAYER, precision="tf32"),  # type: ignore[arg-type]
        )
        others = (layer(32), dataclasses.replace(LAYER, stride=(2, 2)))
        numbers = check.layers_of((*same, *others))
        assert len({numbers[each] for each in same}) == 1
        assert len({numbers[each] for each in (LAYER, *others)}) == 3

    def test_sizes_of_other_problems_are_of_one_layer(self) -> None:
        one, resized, wider = (
            Filter2d(image=(size, 64), filter=(taps, 3)) for size, taps in ((64, 3), (99, 3), (64, 5))
        )
        numbers = check.layers_of((LAYER, one, resized, wider))
        assert numbers[one] == numbers[resized]
        assert len(set(numbers.values())) == 3

    @pytest.mark.parametrize("how", check.LeftOut)
    def test_nothing_is_learned_from_what_is_left_out(self, how: Any) -> None:
        seen: list[tuple[Any, Any]] = []

        def note(learned: Sequence[Any], asked: Any) -> str:
            seen.extend((other, asked) for other in learned)
            return str(asked.timed[0].family)

        check.outcomes(SKEWED, how, {"note": note})
        assert {asked.problem for _, asked in seen} == {each.problem for each in SKEWED}
        if how is not check.LeftOut.DEVICES:
            assert all(other.problem != asked.problem for other, asked in seen)
        if how is not check.LeftOut.LAYERS:
            assert all(other.device != asked.device for other, asked in seen)
        same_layer = any(other.problem == asked.problem for other, asked in seen)
        assert same_layer == (how is check.LeftOut.DEVICES)

    def test_a_single_device_is_not_left_out(self) -> None:
        assert check.ways_of(SKEWED) == tuple(check.LeftOut)
        assert check.ways_of([each for each in SKEWED if each.device == H200]) == (check.LeftOut.LAYERS,)


class TestVerdict:
    def test_a_better_order_is_named(self) -> None:
        kind = corrections.kind_of(LAYER)
        found = check.better(checked(SKEWED), corrections.CORRECTIONS)
        assert set(found) == {(part, name) for part in ("all", kind) for name in corrections.CORRECTIONS}
        beside = check.compared(checked(SKEWED)[check.LeftOut.BOTH], "mean")
        assert beside.most < 0.0
        assert (beside.learned.right, beside.learned.mean) == (1.0, 0.0)

    def test_none_is_where_the_models_are_right(self) -> None:
        right = [case(each.problem, each.device, a=(10.0, 10.0), b=(20.0, 15.0)) for each in SKEWED]
        assert check.better(checked(right), corrections.LEARNED) == []

    def test_none_is_for_few_layers(self) -> None:
        few = SKEWED[: 2 * (check.LEAST_LAYERS - 1)]
        assert check.better(checked(few), corrections.LEARNED) == []
        assert check.better({}, corrections.LEARNED) == []

    def test_losses_are_those_of_the_chosen_family(self) -> None:
        (outcome, *_), *_ = checked(SKEWED).values()
        assert math.exp(outcome.modelled) == pytest.approx(SLOWER / 1.3)
        loss = check.Loss.of([0.0, 0.0, math.log(4.0)])
        assert loss.right == pytest.approx(2 / 3)
        assert loss.mean == pytest.approx(4 ** (1 / 3) - 1)

    def test_errors_of_a_model_are_smaller_with_a_correction(self) -> None:
        assert check.errors_of(SKEWED, "flattered") == pytest.approx([math.log(SLOWER)] * len(SKEWED))
        rest = check.errors_of(SKEWED, "flattered", corrections.mean)
        assert all(0.0 < each < 0.5 * math.log(SLOWER) for each in rest)


def families(problem: Problem) -> list[Any]:
    gate = Gate(problem, H200)
    found = likely((each for each in able_families(gate) if each.may_answer), problem, H200)
    assert len(found) > 1
    return found


class TestStores:
    def filled(self, path: Path) -> str:
        """A winner of the second likely family, a runner-up of the first of another text, and trials of the first."""
        first, second, *_ = families(LAYER)
        with Store.open(str(path), write=True) as store:
            store.put_winner(record(LAYER, generated(LAYER, timing(5e4), family=second)))
            config = first.default(LAYER, H200)
            stale = trial(family=first.name, config=config, outcome=timing(1e4), fingerprint="0" * 16)
            store.put_runners_up([record(LAYER, stale)])
            store.add_trials(LAYER, H200, [generated(LAYER, timing(6e4), family=first)])
        return str(path)

    def test_times_of_other_texts_do_not_count(self, tmp_path: Path) -> None:
        first, second, *_ = families(LAYER)
        (found,) = cases.stored_cases(self.filled(tmp_path / "store.db"))
        assert [(each.family, each.time_ns) for each in found.timed] == [(first.name, 6e4), (second.name, 5e4)]
        assert found.first == first.name
        assert found.timed[0].expected_ns == first.expected_ns(LAYER, H200)

    def test_a_family_with_times_of_other_texts_alone_is_counted(self) -> None:
        first, *_ = families(LAYER)
        other = cases.Candidate(first.name, first.default(LAYER, H200), "0" * 16, 1e4)
        found = cases.case_of(LAYER, H200, [other])
        assert (found.timed, found.uncounted, found.first) == ((), 1, first.name)

    def test_only_defaults_count_where_they_are_asked_for(self) -> None:
        family = families(LAYER)[0]
        gate = Gate(LAYER, H200)
        start = next(each for each in gate.starts(family) if each != gate.default(family))
        tried = [
            cases.Candidate(family.name, config, gate.program(family, config).fingerprint, time_ns)
            for config, time_ns in ((start, 1e4), (gate.default(family), 2e4))
        ]
        assert cases.case_of(LAYER, H200, tried).timed[0].time_ns == 1e4
        assert cases.case_of(LAYER, H200, tried, defaults=True).timed[0].time_ns == 2e4

    def test_the_script_says_where_an_order_is_better(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert script.main([self.filled(tmp_path / "store.db")]) == 0
        told = capsys.readouterr().out
        assert "1 problems; 1 have times of two likely families or more, 2 in all" in told
        assert "a learned order is better for: no kind of problems" in told
        assert "0%, 20.0%, 20%" in told  # the models' first family takes 60 us, the other one 50

    def test_an_empty_store_has_nothing_to_learn_from(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        Store.open(str(tmp_path / "empty.db"), write=True).close()
        assert script.main([str(tmp_path / "empty.db")]) == 0
        assert "a learned order is better for: no kind of problems" in capsys.readouterr().out

    def test_a_store_that_is_missing_is_one_line(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert script.main([str(tmp_path / "none.db")]) == 1
        assert len(capsys.readouterr().err.splitlines()) == 1


class TestNetworks:
    def written(self, path: Path, *, digits: int = 4) -> Path:
        """Rows as `networks.py measure` writes them, with `digits` entries for each candidate."""
        tried = []
        for number, family in enumerate(families(LAYER)):
            config = family.default(LAYER, H200)
            fingerprint = family.program(LAYER, config).fingerprint if number else "0" * 16
            tried.append([family.name, config.key(), 50.0 + number, fingerprint][:digits])
        row = {"set": "networks", "key": LAYER.key(), "problem": LAYER.spec(), "tried_us": tried}
        failed = {"set": "networks", "key": "another", "failed": "no"}
        rows = ({"run": {"device_facts": H200.spec()}}, row, failed)
        path.write_text("".join(json.dumps(each) + "\n" for each in rows))
        return path

    def test_defaults_of_unchanged_texts_count(self, tmp_path: Path) -> None:
        first, *others = families(LAYER)
        (found,) = cases.measured_cases(self.written(tmp_path / "rows.jsonl"))
        assert found.device.key() == H200.key()
        assert (found.first, found.uncounted) == (first.name, 1)
        assert {each.family: each.time_ns for each in found.timed} == {
            each.name: 1e3 * (51.0 + number) for number, each in enumerate(others)
        }

    def test_rows_without_fingerprints_are_refused(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        old, store = self.written(tmp_path / "rows.jsonl", digits=3), tmp_path / "empty.db"
        Store.open(str(store), write=True).close()
        assert script.main([str(store), "--networks", str(old)]) == 1
        assert "does not say which programs it timed" in capsys.readouterr().err


class TestConfigs:
    def samples(self, *, is_alike: bool) -> list[Sample]:
        """Trials of six filters whose config number 7 is twice as fast as the default, or in which times are random."""
        found, rng = [], random.Random(5)
        for rows in (3, 5, 7, 9, 11, 13):
            problem = Filter2d(image=(512, 512), filter=(rows, 3))
            family, default = default_answer(problem, H200)
            others = list(itertools.islice(family.space(problem, H200).neighbours(default), 24))
            times = {default: 100.0} | {each: 150.0 if is_alike else rng.uniform(50.0, 300.0) for each in others}
            if is_alike:
                times[others[7]] = 50.0
            found += [Sample(problem, H200, family.name, config, time_ns) for config, time_ns in times.items()]
        return found

    def test_a_config_that_is_fast_everywhere_is_found(self) -> None:
        found = list(configs.first_configs(self.samples(is_alike=True)))
        assert len(found) == 6
        assert all(each.is_believed for each in found)
        assert [each.default for each in found] == pytest.approx([math.log(2.0)] * 6)
        assert sum(each.by_prior == 0.0 for each in found) >= 4

    def test_a_prior_that_fails_its_check_leaves_the_default_first(self) -> None:
        found = list(configs.first_configs(self.samples(is_alike=False)))
        doubted = [each for each in found if not each.is_believed]
        assert doubted
        assert all(each.by_prior == each.default > 0.0 for each in doubted)

    def test_a_problem_without_its_default_is_left_out(self) -> None:
        samples = self.samples(is_alike=True)
        assert len(list(configs.first_configs(samples[1:]))) == 5

    def test_the_script_prints_both_losses(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(script, "shipped_samples", lambda: self.samples(is_alike=True))
        assert script.main(["--configs"]) == 0
        assert "| filter2d | 6 | 0%, 100.0%, 100% |" in capsys.readouterr().out
