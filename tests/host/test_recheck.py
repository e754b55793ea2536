"""Stored winners timed again on the CPU: times that tie or moved, results that are wrong now, and unclear cases."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from builders import timing, winner
from warpsmith.cli.app import run
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import OutOfMemory
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.registry import family_named
from warpsmith.store import location
from warpsmith.store.contents import check_store
from warpsmith.store.record import COPY, Baseline, Failure, FailureKind, Record, Verdict, checked_of
from warpsmith.store.store import Store
from warpsmith.tuner.evaluate.bench import Bench
from warpsmith.tuner.evaluate.evaluator import Evaluator
from warpsmith.tuner.evaluate.timing_policy import Launching, TimingPolicy
from warpsmith.tuner.finals import recheck as module
from warpsmith.tuner.finals.recheck import (
    CannotMeasure,
    Rechecked,
    measured_again,
    must_be_measured,
    ready_again,
    recheck,
)

HOST = DeviceRef(DeviceKind.HOST)
PROBLEM = Filter2d(image=(24, 64), filter=(3, 3))
IN_TURNS = "median, 7 runs a sample, eager, in turns, warm caches"
ALONE = "median, 7 runs a sample, eager, warm caches"
SHORT, LONG = 1.0, 1e10
"""Nanoseconds that no kernel takes."""


def stored(median_ns: float, policy: str = IN_TURNS, spread_ns: float = 0.0) -> Record:
    """A winner of this machine with the given time."""
    device = HOST.device()
    family = family_named("filter2d_plain")
    assert family is not None
    then = timing(median_ns, p80_ns=median_ns + spread_ns, samples=15, policy=policy)
    copy = Baseline(COPY, dataclasses.replace(then, median_ns=123.0))
    return winner(PROBLEM, then, device, family=family, baselines=[copy])


def look(record: Record) -> Rechecked:
    rechecked = recheck(record, HOST, seed=1)
    assert rechecked.record == record
    return rechecked


class TestVerdict:
    def test_a_time_that_grew(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "tied", lambda _: [0])  # busy machines spread times
        found = look(stored(SHORT))
        assert found.checked.verdict is Verdict.SLOWER
        assert found.timing is not None
        assert found.timing.conditions == "eager, in turns, warm caches"
        assert found.checked.median_ns == found.timing.median_ns
        assert 1e2 < found.timing.median_ns < LONG
        assert found.reason is None

    def test_a_time_that_shrank_and_the_copy_beside(self) -> None:
        found = look(stored(LONG))
        assert found.checked.verdict is Verdict.FASTER
        assert found.copies is not None
        assert found.copies[0] == 123.0
        assert 1 < found.copies[1] < LONG

    def test_a_time_within_the_spread_of_the_stored_one(self) -> None:
        assert look(stored(SHORT, spread_ns=100 * LONG)).checked.verdict is Verdict.SAME

    def test_a_time_that_was_taken_alone_is_set_beside_one_taken_alone(self) -> None:
        found = look(stored(SHORT, ALONE))
        assert found.timing is not None
        assert found.timing.conditions == "eager, warm caches"

    @pytest.mark.parametrize(
        ("then", "now", "spread", "verdict"),
        [
            (100.0, 100.0, 0.0, Verdict.SAME),
            (100.0, 100.4, 0.0, Verdict.SAME),
            (100.4, 100.0, 0.0, Verdict.SAME),
            (100.0, 100.6, 0.0, Verdict.SLOWER),
            (100.6, 100.0, 0.0, Verdict.FASTER),
            (100.0, 105.0, 40.0, Verdict.SAME),
            (105.0, 100.0, 40.0, Verdict.SAME),
            (100.0, 105.0, 1.0, Verdict.SLOWER),
        ],
    )
    def test_ties_are_those_of_two_runs(self, then: float, now: float, spread: float, verdict: Verdict) -> None:
        times = [timing(ns, ns - spread, ns + spread, policy=IN_TURNS) for ns in (then, now)]
        assert module._verdict(*times) is verdict


class TestNotRight:
    @pytest.mark.parametrize("fault", ["wrong", "does-not-compile", "crashes", "out-of-bounds"])
    def test_is_wrong_and_says_why(self, planted: Any, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
        family = planted(fault)
        program = family.program(PROBLEM, family.default(PROBLEM, HOST.device()))
        monkeypatch.setattr(module, "regenerate", lambda _: program)
        found = look(stored(SHORT))
        kinds = {"does-not-compile": "compile", "crashes": "crash"}
        assert found.checked.verdict is Verdict.WRONG
        assert found.reason is not None
        assert found.reason.startswith(f"{kinds.get(fault, fault)}: ")
        assert (found.timing, found.checked.median_ns) == (None, None)

    def test_memory_that_others_use_is_not_its_fault(self, monkeypatch: pytest.MonkeyPatch) -> None:
        evaluated = Bench.evaluate

        def full(*arguments: Any) -> Any:
            failure = Failure(FailureKind.OUT_OF_MEMORY, "12 GB wanted")
            return dataclasses.replace(evaluated(*arguments), outcome=failure)

        monkeypatch.setattr(Bench, "evaluate", full)
        found = look(stored(SHORT))
        assert found.checked.verdict is Verdict.UNCHECKED
        assert found.reason == "out-of-memory: 12 GB wanted"


class TestTellsNothing:
    def test_one_whose_reference_finds_no_memory(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: Any) -> Any:
            raise OutOfMemory("the float64 reference takes 8.6 GiB")

        monkeypatch.setattr(Bench, "_reopen", refuse)
        found = look(stored(SHORT))
        assert found.checked.verdict is Verdict.UNCHECKED
        assert found.reason == "out-of-memory: the float64 reference takes 8.6 GiB"

    def test_a_text_of_another_version(self) -> None:
        record = stored(SHORT)
        older = dataclasses.replace(record, trial=dataclasses.replace(record.trial, fingerprint="older"))
        found = look(older)
        assert found.checked.verdict is Verdict.UNCHECKED
        assert found.reason is not None
        assert "another text" in found.reason

    def test_a_time_of_other_conditions(self) -> None:
        found = look(stored(SHORT, "median, 7 runs a sample, queued first, in turns, cold L2"))
        assert found.checked.verdict is Verdict.UNCHECKED
        assert found.reason is not None
        assert "'queued first, in turns, cold L2'" in found.reason
        assert "'eager, in turns, warm caches'" in found.reason


@pytest.mark.parametrize(
    ("conditions", "cold", "launching"),
    [
        ("queued first, in turns, cold L2", True, Launching.EAGER),
        ("queued first, in turns, warm caches", False, Launching.EAGER),
        ("CUDA graph, in turns, cold L2, throttled", True, Launching.GRAPH),
        ("CUDA graph, warm caches", False, Launching.GRAPH),
    ],
)
def test_a_gpu_times_as_it_did(conditions: str, cold: bool, launching: Launching) -> None:
    then = timing(policy=f"median, 5 runs a sample, {conditions}")
    expected = TimingPolicy.for_kind(DeviceKind.CUDA, cold=cold, launching=launching)
    assert module._policy(DeviceKind.CUDA, then) == expected


@pytest.mark.parametrize(
    ("then", "now", "comparable"),
    [
        ("cold L2", "cold L2", True),
        ("cold L2, throttled", "cold L2", True),
        ("cold L2", "cold L2, throttled", False),
        ("cold L2, throttled", "cold L2, throttled", False),
        ("cold L2", "warm caches", False),
    ],
)
def test_times_under_throttling_say_nothing_of_today(then: str, now: str, comparable: bool) -> None:
    times = [timing(policy=f"median, {n} runs a sample, eager, {told}") for n, told in ((5, then), (6, now))]
    assert module._comparable(*times) is comparable


def test_the_command_notes_what_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(location, "shipped_store", lambda: Path("/none/cache.db"))
    file, record = str(tmp_path / "a.db"), stored(LONG)
    with Store.open(file, write=True) as store:
        store.put_winner(record)
    assert run(["db", "check", "--times", "--device", "host", "--store", file, "--json"]) == 1
    shown = capsys.readouterr()
    (looked,) = json.loads(shown.out)["times"]["looked_at"]
    assert (looked["verdict"], looked["noted"]) == ("faster", True)
    with Store.open(file, write=False) as store:
        (noted,) = store.records()
        assert check_store(store) == ()
    checked = checked_of(noted)
    assert checked is not None
    assert (checked.verdict, checked.median_ns) == (Verdict.FASTER, looked["time_ns"])
    assert noted.trial == record.trial


class TestMeasuredAgain:
    SCIPY = Baseline("scipy 1.0", timing(policy="median, 7 runs a sample, queued first, in turns, cold L2"))

    def unfair(self) -> Record:
        record = stored(SHORT)
        return dataclasses.replace(record, baselines=(*record.baselines, self.SCIPY))

    def test_is_asked_for_where_a_library_had_other_conditions_and_no_reason_for_it(self) -> None:
        assert must_be_measured(self.unfair())
        assert not must_be_measured(stored(SHORT))
        told = dataclasses.replace(self.SCIPY, note="it could not be captured")
        assert not must_be_measured(dataclasses.replace(self.unfair(), baselines=(told,)))

    def test_has_todays_times_under_the_conditions_of_the_stored_one(self) -> None:
        pytest.importorskip("scipy")
        before = self.unfair()
        after = measured_again(before, HOST, seed=1)
        assert not must_be_measured(after)
        assert (after.problem, after.device, after.conditions) == (before.problem, before.device, before.conditions)
        assert dataclasses.replace(after.trial, outcome=before.trial.outcome) == before.trial
        assert after.timing.median_ns > SHORT
        assert [each.is_fair for each in after.verdicts] == [True] * len(after.verdicts)
        library, copy = after.baselines
        assert library.name.startswith("scipy ")
        assert copy.name == COPY
        assert after.provenance.created > before.provenance.created
        assert after.provenance.environment

    def test_has_the_simplest_kernel_beside_it_where_it_is_another(self) -> None:
        record = self.unfair()
        window = family_named("filter2d_window")
        assert window is not None
        config = window.default(PROBLEM, record.device)
        fingerprint = window.program(PROBLEM, config).fingerprint
        trial = dataclasses.replace(record.trial, family=window.name, config=config, fingerprint=fingerprint)
        after = measured_again(dataclasses.replace(record, trial=trial), HOST, seed=1)
        assert after.baselines[-1].name == "filter2d_plain (simplest kernel)"
        assert after.verdicts[-1].is_fair

    def test_is_refused_where_the_text_is_another(self) -> None:
        record = self.unfair()
        older = dataclasses.replace(record, trial=dataclasses.replace(record.trial, fingerprint="older"))
        with pytest.raises(CannotMeasure, match="this version generates another text; tune it again"):
            measured_again(older, HOST, seed=1)

    def test_is_refused_where_it_is_not_right(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Evaluator, "verified", lambda *_: Failure(FailureKind.WRONG, "7 of 9 differ"))
        with pytest.raises(CannotMeasure, match="wrong: 7 of 9 differ"):
            measured_again(self.unfair(), HOST, seed=1)

    def test_of_several_each_can_be_made_ready_before_any_is_measured(self) -> None:
        records = (self.unfair(), dataclasses.replace(self.unfair(), baselines=()))
        with contextlib.ExitStack() as opened:
            ready = [opened.enter_context(ready_again(record, HOST, seed=1)) for record in records]
            after = [measure() for measure in ready]
        assert [each.problem for each in after] == [each.problem for each in records]
        assert not any(must_be_measured(each) for each in after)
