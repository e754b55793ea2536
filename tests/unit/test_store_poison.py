"""Programs that are not run again, and the runs that are remembered."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from builders import SMALL as PROBLEM
from builders import measurement
from builders import trial as made_trial
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.presets import H200, HOST
from warpsmith.generator.space import Config
from warpsmith.store.contents import check_store
from warpsmith.store.poison import NEVER_RAN, Started
from warpsmith.store.record import POISONOUS, Failure, FailureKind, Measurement, Trial
from warpsmith.store.rows import MAX_STARTS
from warpsmith.store.store import Store
from warpsmith.store.tuners import Run

OTHER = Filter2d(image=(64, 48), filter=(1, 3))
STARTED = Started("plain", Config.of({"n": 1}), "f1")
MEASURED = measurement()


def trial(outcome: Measurement | Failure, fingerprint: str = "f1") -> Trial:
    return made_trial(1, outcome, fingerprint=fingerprint)


def failure(kind: FailureKind) -> Failure:
    return Failure(kind, f"it is {kind}")


CRASH = failure(FailureKind.CRASH)


class TestOutcomes:
    def test_only_what_ran_and_did_harm_is_not_run_again(self, store: Store) -> None:
        for kind in FailureKind:
            store.add_trials(PROBLEM, H200, [trial(failure(kind), f"text that is {kind}")])
        harmful = {FailureKind.CRASH, FailureKind.TIMEOUT, FailureKind.OUT_OF_BOUNDS}
        assert store.poisoned(H200) == {f"text that is {kind}": failure(kind) for kind in harmful}

    def test_what_was_wrong_when_it_was_first_used_stays_so_until_it_is_right(self, store: Store) -> None:
        wrong = failure(FailureKind.WRONG)
        store.poison.add(H200, STARTED, wrong)
        assert store.poisoned(H200) == {"f1": wrong}
        assert store.poisoned(HOST) == {}
        store.add_trials(PROBLEM, H200, [trial(wrong)])
        assert store.poisoned(H200) == {"f1": wrong}
        store.add_trials(PROBLEM, H200, [trial(MEASURED)])
        assert store.poisoned(H200) == {}

    def test_every_trial_of_several_counts(self, store: Store) -> None:
        trials = [trial(CRASH, "f1"), trial(MEASURED, "f2"), trial(failure(FailureKind.TIMEOUT), "f3")]
        store.add_trials(PROBLEM, H200, iter(trials))
        assert store.trials(PROBLEM, H200) == tuple(trials)
        assert store.poisoned(H200) == {"f1": CRASH, "f3": failure(FailureKind.TIMEOUT)}

    def test_devices_are_kept_apart_and_problems_and_compilers_are_not(self, store: Store) -> None:
        store.add_trials(PROBLEM, HOST, [trial(CRASH)])
        assert store.poisoned(H200) == {}
        store.add_trials(OTHER, HOST, [dataclasses.replace(trial(MEASURED), compiler="g++ 13")])
        assert store.poisoned(HOST) == {}

    @pytest.mark.parametrize("outcome", [MEASURED, failure(FailureKind.WRONG), failure(FailureKind.UNDEFINED)])
    def test_a_program_that_ended_since_may_run(self, store: Store, outcome: Measurement | Failure) -> None:
        store.add_trials(PROBLEM, H200, [trial(CRASH)])
        store.add_trials(PROBLEM, H200, [trial(outcome)])
        assert store.poisoned(H200) == {}

    def test_kinds_are_told_apart(self) -> None:
        ended = {FailureKind.WRONG, FailureKind.UNDEFINED}
        assert set(FailureKind) == POISONOUS | NEVER_RAN | ended
        assert len(FailureKind) == len(POISONOUS) + len(NEVER_RAN) + len(ended)

    def test_a_program_that_was_not_run_since_may_not(self, store: Store) -> None:
        for kind in NEVER_RAN:
            store.add_trials(PROBLEM, H200, [trial(CRASH, kind)])
            store.add_trials(PROBLEM, H200, [dataclasses.replace(trial(failure(kind), kind), compiler="another")])
        assert store.poisoned(H200) == dict.fromkeys(NEVER_RAN, CRASH)

    def test_the_last_failure_is_told(self, store: Store) -> None:
        for kind in sorted(POISONOUS):
            store.add_trials(PROBLEM, H200, [trial(failure(kind))])
        assert store.poisoned(H200) == {"f1": failure(sorted(POISONOUS)[-1])}

    def test_a_message_may_hold_anything(self, store: Store) -> None:
        store.add_trials(PROBLEM, H200, [trial(Failure(FailureKind.CRASH, "a\0b\udcffµ\n'\""))])
        assert store.poisoned(H200) == {"f1": Failure(FailureKind.CRASH, "a\N{REPLACEMENT CHARACTER}b?µ\n'\"")}
        assert store.trials(PROBLEM, H200)[0].outcome == Failure(FailureKind.CRASH, "a\0b\udcffµ\n'\"")
        assert check_store(store) == ()


class TestStarts:
    def test_a_program_that_never_ends_is_not_run_again(self, store: Store) -> None:
        for _ in range(MAX_STARTS - 1):
            store.poison.mark_started(H200, [STARTED])
        assert store.poisoned(H200) == {}
        store.poison.mark_started(H200, iter([STARTED]))
        assert store.poisoned(H200) == {"f1": Failure(FailureKind.CRASH, "the tuner died 3 times while it ran")}
        assert store.poisoned(HOST) == {}

    def test_an_end_takes_every_start_back(self, store: Store) -> None:
        ends = [MEASURED, *map(failure, sorted(set(FailureKind) - POISONOUS))]
        started = [dataclasses.replace(STARTED, fingerprint=f"f{number}") for number in range(len(ends) + 1)]
        for _ in range(MAX_STARTS - 1):
            store.poison.mark_started(H200, started)
        for number, end in enumerate(ends):
            store.add_trials(PROBLEM, H200, [trial(end, f"f{number}")])
        store.poison.mark_started(H200, started)
        assert store.poisoned(H200).keys() == {started[-1].fingerprint}

    def test_an_end_in_good_order_takes_them_back_and_no_failure(self, store: Store) -> None:
        store.add_trials(PROBLEM, H200, [trial(CRASH, "f2")])
        for _ in range(MAX_STARTS):
            store.poison.mark_started(H200, [STARTED, dataclasses.replace(STARTED, fingerprint="f3")])
        store.poison.mark_ended(H200, iter(["f1", "f2", "f4"]))
        assert set(store.poisoned(H200)) == {"f2", "f3"}

    def test_a_failure_is_told_rather_than_the_starts(self, store: Store) -> None:
        store.poison.mark_started(H200, [STARTED] * MAX_STARTS)
        store.add_trials(PROBLEM, H200, [trial(CRASH)])
        store.poison.mark_started(H200, [STARTED])
        assert store.poisoned(H200) == {"f1": CRASH}

    def test_nothing_started_changes_nothing(self, store: Store) -> None:
        store.poison.mark_started(H200, [])
        store.add_trials(PROBLEM, H200, [])
        assert store.poisoned(H200) == {}
        assert store.trials(PROBLEM, H200) == ()


def test_a_failure_of_a_newer_kind_is_heeded(tmp_path: Path, execute: Callable[..., None]) -> None:
    path = tmp_path / "a.db"
    with Store.open(str(path), write=True) as store:
        store.add_trials(PROBLEM, H200, [trial(CRASH)])
        execute(path, "UPDATE warpsmith_poisoned SET failure_kind = 'meltdown'")
        assert store.poisoned(H200) == {"f1": Failure(FailureKind.CRASH, "meltdown: it is crash")}


class TestTrialsSince:
    def test_tells_each_trial_once(self, store: Store) -> None:
        assert store.trials_since(PROBLEM, H200, 0) == (0, ())
        first, second = trial(MEASURED, "f1"), trial(CRASH, "f2")
        store.add_trials(PROBLEM, H200, [first])
        seen, told = store.trials_since(PROBLEM, H200, 0)
        assert told == (first,)
        store.add_trials(OTHER, H200, [trial(MEASURED, "f3")])
        assert store.trials_since(PROBLEM, H200, seen) == (seen, ())
        store.add_trials(PROBLEM, H200, [first, second])
        later, told = store.trials_since(PROBLEM, H200, seen)
        assert told == (second,)
        assert store.trials_since(PROBLEM, H200, later) == (later, ())

    def test_passes_over_what_it_cannot_read(self, tmp_path: Path, execute: Callable[..., None]) -> None:
        path = tmp_path / "a.db"
        with Store.open(str(path), write=True) as store:
            store.add_trials(PROBLEM, H200, [trial(MEASURED, "f1"), trial(MEASURED, "f2")])
            execute(path, "UPDATE warpsmith_trials SET spec = '{' WHERE id = 2")
            assert store.trials_since(PROBLEM, H200, 0) == (2, (trial(MEASURED, "f1"),))


class TestRuns:
    def test_come_back_newest_last(self, store: Store) -> None:
        specs = [{"seed": 2, "trials": None}, {"seed": 1, "words": ["µ\0"]}, {"seed": 1, "words": ["µ\0"]}]
        for spec in specs:
            store.runs.add(PROBLEM, H200, spec)
        store.runs.add(OTHER, H200, {})
        assert [run.spec for run in store.runs.of(PROBLEM, H200)] == specs
        assert [run.spec for run in store.runs.of(OTHER, H200)] == [{}]
        assert store.runs.of(PROBLEM, HOST) == ()

    def test_know_when_they_began(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        # A clock that was put back changes no order.
        for time in ("2026-02-01T00:00:00.000+00:00", "2026-01-01T00:00:00.000+00:00"):
            monkeypatch.setattr("warpsmith.store.rows.now", lambda time=time: time)
            store.runs.add(PROBLEM, H200, {"at": time})
        assert store.runs.of(PROBLEM, H200) == (
            Run("2026-02-01T00:00:00.000+00:00", {"at": "2026-02-01T00:00:00.000+00:00"}),
            Run("2026-01-01T00:00:00.000+00:00", {"at": "2026-01-01T00:00:00.000+00:00"}),
        )

    @pytest.mark.parametrize("spec", ["{", "[]"])
    def test_damaged_ones_are_named_and_passed_over(
        self, tmp_path: Path, execute: Callable[..., None], spec: str
    ) -> None:
        path = tmp_path / "a.db"
        with Store.open(str(path), write=True) as store:
            store.runs.add(PROBLEM, H200, {"seed": 1})
            store.runs.add(PROBLEM, H200, {"seed": 2})
            execute(path, f"UPDATE warpsmith_runs SET spec = '{spec}' WHERE id = 1")
            assert [run.spec for run in store.runs.of(PROBLEM, H200)] == [{"seed": 2}]
            (line,) = check_store(store)
            assert line.startswith(f"{path}: run 1 of {PROBLEM.key()!r} on ")
