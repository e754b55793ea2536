"""Whole tuning runs on the CPU: winners, resume after a kill, interruption, and kernels with planted faults."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import optuna
import pytest

import exhaustive
import forking
import warpsmith as ws
from paths import TESTS, python_path
from policies import COMMAND_LINE
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.filter2d.operation import FILTER2D
from warpsmith.generator.filter2d.plain_family import Filter2dPlain
from warpsmith.generator.filter2d.window_family import Filter2dWindow
from warpsmith.generator.space import Config
from warpsmith.store.contents import check_store
from warpsmith.store.record import Failure, FailureKind, Measurement, Trial
from warpsmith.store.store import Store
from warpsmith.tuner.evaluate import evaluator
from warpsmith.tuner.evaluate.bench import Bench
from warpsmith.tuner.finals.choose import TuningFailed
from warpsmith.tuner.options import TuneOptions
from warpsmith.tuner.progress import SilentProgress, Snapshot
from warpsmith.tuner.report import TuneReport
from warpsmith.tuner.run import search_loop, session
from warpsmith.tuner.run.session import tune
from warpsmith.tuner.search import competition
from warpsmith.tuner.search.competition import Competition
from warpsmith.tuner.workers.deadlines import Deadlines

FAMILIES = FILTER2D.families

HOST = DeviceRef(DeviceKind.HOST)
PROBLEM = Filter2d(image=(48, 64), filter=(3, 3))
QUICK = Deadlines(compile_s=30, first_run_s=20, least_run_s=3, run_factor=5)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


def run(
    store: Path, options: TuneOptions, families: tuple[Family, ...] = FAMILIES, progress: object = None
) -> tuple[TuneReport, tuple[Trial, ...]]:
    with Store.open(str(store), write=True) as opened:
        report = tune(PROBLEM, (HOST,), opened, options, progress or SilentProgress(), families)  # type: ignore[arg-type]
        return report, opened.trials(PROBLEM, HOST.device())


def test_a_run_stores_a_verified_winner_and_every_trial(store: Path) -> None:
    report, trials = run(store, TuneOptions(trials=6))
    assert report.tried == len(trials) == 6
    assert {trial.family for trial in trials} == {
        family.name for family in FAMILIES if family.why_not(PROBLEM, HOST.device()) is None
    }
    record = report.record
    assert record is not None
    assert isinstance(record.trial.outcome, Measurement)
    assert 0 < record.trial.outcome.max_error <= 1e-6
    assert "copy" in {baseline.name for baseline in record.baselines}
    match = ws.query(PROBLEM, "host", store=str(store))
    assert match.kind == "exact"
    assert match.record == record


def test_the_same_command_again_reuses_every_trial(store: Path) -> None:
    run(store, TuneOptions(trials=4))
    report, trials = run(store, TuneOptions(trials=4))
    assert (report.tried, report.reused, len(trials)) == (0, 4, 4)
    report, trials = run(store, TuneOptions(trials=6))
    assert (report.tried, report.reused, len(trials)) == (2, 4, 6)
    assert len({(trial.family, trial.config) for trial in trials}) == 6


def test_a_dropped_trial_counts_in_the_next_search(store: Path) -> None:
    plain, device = Filter2dPlain(), HOST.device()
    _, trials = run(store, TuneOptions(trials=4), (plain,))
    tried = {trial.config for trial in trials}
    config = next(each for each in plain.space(PROBLEM, device).configs() if each not in tried)
    fingerprint = plain.program(PROBLEM, config).fingerprint
    dropped = Failure(FailureKind.DROPPED, "its work takes 9 us at the least")
    with Store.open(str(store), write=True) as opened:
        trial = dataclasses.replace(trials[0], config=config, fingerprint=fingerprint, outcome=dropped)
        opened.add_trials(PROBLEM, device, (trial,))
    report, trials = run(store, TuneOptions(trials=5), (plain,))
    assert (report.tried, report.reused, len(trials)) == (0, 5, 5)


def test_what_is_known_is_tried_first_however_short_the_time(store: Path) -> None:
    """The winner of another size and the default of a family get a time before any limit ends the search."""
    plain = Filter2dPlain()
    other = ws.Filter2d(image=(48, 80), filter=(3, 3))
    config = Config.of(plain.default(other, HOST.device()).values() | {"block_columns": 64, "rows": 2})
    with Store.open(str(store), write=True) as opened:
        tune(other, (HOST,), opened, TuneOptions(trials=1), SilentProgress(), (plain,))
        (record,) = opened.records()
        fingerprint = plain.program(other, config).fingerprint
        trial = dataclasses.replace(record.trial, config=config, fingerprint=fingerprint)
        opened.put_winner(dataclasses.replace(record, trial=trial))
    before = ws.query(PROBLEM, "host", store=str(store))
    assert (before.kind, before.program.config) == ("near", config)
    report, trials = run(store, TuneOptions(trials=100, time_limit_s=1e-6))
    assert 2 <= len(trials) < 20
    assert {config, Filter2dWindow().default(PROBLEM, HOST.device())} <= {trial.config for trial in trials}
    assert report.record is not None
    assert report.before is not None
    assert report.before.config == config
    assert report.record.trial.median_ns <= report.before.median_ns  # type: ignore[operator]


def test_with_one_trial_the_present_answer_is_tried(store: Path) -> None:
    answer = ws.query(PROBLEM, "host")
    report, (trial,) = run(store, TuneOptions(trials=1))
    assert (trial.family, trial.config) == (answer.program.family, answer.program.config)
    assert report.record is not None
    assert report.before == report.record.trial


def test_a_stored_winner_without_a_trial_competes(store: Path, tmp_path: Path) -> None:
    """`db import` brings such a winner from a machine of the same kind."""
    run(store, TuneOptions(trials=4))
    copy = tmp_path / "copy.db"
    with Store.open(str(store), write=False) as opened, Store.open(str(copy), write=True) as other:
        (winner,) = opened.records()
        other.put_winner(winner)
    report, trials = run(copy, TuneOptions(trials=1))
    assert [trial.config for trial in trials] == [winner.trial.config]
    assert report.record is not None
    assert report.record.trial.config == winner.trial.config


@exhaustive.one_in(3)
@pytest.mark.parametrize("seed", range(3))
def test_the_winner_is_never_slower_than_the_answer_before(store: Path, seed: int) -> None:
    """Repeats runs with few trials and little time. The winner must not lose to the answer before it in the finals."""
    for trials in (2, 5):
        report, _ = run(store, TuneOptions(trials=trials, time_limit_s=0.5, seed=seed))
        assert report.record is not None
        assert report.before is not None
        assert report.record.trial.median_ns <= report.before.median_ns  # type: ignore[operator]
        stored = ws.query(PROBLEM, "host", store=str(store)).record
        assert stored == report.record


def test_a_run_is_a_study_that_optuna_reads(store: Path, planted: Any) -> None:
    """Each family has one study with every trial, which `optuna-dashboard` on the store shows."""
    faulty = planted("none", "wrong", "does-not-compile")
    _, trials = run(store, TuneOptions(trials=6, deadlines=QUICK), (faulty, Filter2dPlain()))
    found = {}
    for study in optuna.get_all_study_summaries(storage=f"sqlite:///{store}"):
        family = study.study_name.partition(" by ")[2].partition("/")[0]
        loaded = optuna.load_study(study_name=study.study_name, storage=f"sqlite:///{store}")
        found |= {(family, Config.of(trial.params)): (trial.state.name, trial.value) for trial in loaded.trials}
    assert found == {
        (trial.family, trial.config): ("FAIL" if trial.median_ns is None else "COMPLETE", trial.median_ns)
        for trial in trials
    }
    with Store.open(str(store), write=True) as opened:
        assert check_store(opened) == ()
    # Later trials are added.
    _, more = run(store, TuneOptions(trials=8, deadlines=QUICK), (faulty, Filter2dPlain()))
    summaries = optuna.get_all_study_summaries(storage=f"sqlite:///{store}")
    assert sum(study.n_trials for study in summaries) == len(more) == 8


def test_each_planted_fault_is_recorded_as_what_it_is(
    store: Path, planted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless = "for (volatile int i = 0; i >= 0; i = 0) { usleep(10000); }"  # other tests have the cores meanwhile
    monkeypatch.setitem(planted.program.__globals__["FAULTS"], "never-ends", endless)
    faulty = planted(*planted.faults)
    # The family runs alone first. Beside another one, it leaves before all of its faults have run.
    run(store, TuneOptions(trials=len(planted.faults), deadlines=QUICK), (faulty,))
    report, trials = run(store, TuneOptions(trials=16, deadlines=QUICK), (faulty, Filter2dPlain()))
    outcomes = {trial.config.text("fault"): trial.outcome for trial in trials if trial.family == "planted"}
    kinds = {fault: outcome.kind for fault, outcome in outcomes.items() if isinstance(outcome, Failure)}
    assert kinds == {
        "out-of-bounds": FailureKind.OUT_OF_BOUNDS,
        "never-ends": FailureKind.TIMEOUT,
        "wrong": FailureKind.WRONG,
        "does-not-compile": FailureKind.COMPILE,
        "reads-outside": FailureKind.WRONG,  # the canary that it reads is NaN
        "crashes": FailureKind.CRASH,
    }
    assert isinstance(outcomes["none"], Measurement)
    plain = [trial for trial in trials if trial.family == "filter2d_plain"]
    assert len(plain) == 16 - len(planted.faults)  # the search went on after each of them
    assert all(isinstance(trial.outcome, Measurement) for trial in plain)
    assert report.record is not None
    assert report.failures == collections.Counter(kinds.values())


def test_sanitizers_name_a_read_outside(store: Path, planted: Any) -> None:
    _, trials = run(store, TuneOptions(trials=2, sanitize=True), (planted("none", "reads-outside"),))
    clean, caught = sorted(trials, key=lambda trial: trial.config.text("fault"))
    assert isinstance(clean.outcome, Measurement)
    assert isinstance(caught.outcome, Failure)
    assert caught.outcome.kind is FailureKind.OUT_OF_BOUNDS
    assert "heap-buffer-overflow" in caught.outcome.message


def test_a_run_under_sanitizers_stores_no_winner(store: Path, planted: Any) -> None:
    report, _ = run(store, TuneOptions(trials=1, sanitize=True), (planted("none"),))
    assert report.record is None
    with Store.open(str(store), write=False) as opened:
        assert opened.records() == ()


def test_no_right_candidate_is_a_failure_that_says_why(store: Path, planted: Any) -> None:
    with pytest.raises(TuningFailed, match=r"planted: (1 wrong, 1 compile|1 compile, 1 wrong); the first: "):
        run(store, TuneOptions(trials=2, deadlines=QUICK), (planted("wrong", "does-not-compile"),))
    with Store.open(str(store), write=False) as opened:
        assert len(opened.trials(PROBLEM, HOST.device())) == 2


def test_time_limit_ends_the_search(store: Path) -> None:
    start = time.monotonic()
    report, trials = run(store, TuneOptions(trials=100_000, time_limit_s=1))
    assert time.monotonic() - start < 40
    assert 0 < len(trials) < 100_000
    assert report.record is not None


@pytest.mark.parametrize(("share", "polished"), [(1.0, True), (-1.0, False)])
def test_the_last_part_of_a_time_limit_goes_to_single_changes(
    store: Path, share: float, polished: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The share is the whole time or none, so this machine's speed does not matter. The share of trials is none."""
    monkeypatch.setattr(search_loop, "POLISH_SHARE", share)
    monkeypatch.setattr(competition, "POLISH_SHARE", -1.0)
    monkeypatch.setattr(competition, "POLISH_AFTER", 1)
    asked: list[Competition] = []
    ask_beside = Competition._ask_beside
    monkeypatch.setattr(Competition, "_ask_beside", lambda search: asked.append(search) or ask_beside(search))
    run(store, TuneOptions(trials=6, time_limit_s=1000))
    assert bool(asked) == polished


def test_finalists_meet_in_a_process_of_their_own_where_a_device_has_turns(
    store: Path, tmp_path: Path, planted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The finals work as on a GPU: another process, other data, and a lock that gives the device to one at a time."""
    lock_file = tmp_path / "lock"
    lock_file.touch()
    monkeypatch.setattr(evaluator, "shared_device", lambda _: contextlib.nullcontext(lock_file))
    seen: list[Bench] = []
    choose = session.choose
    monkeypatch.setattr(session, "choose", lambda *given, **options: seen.append(given[1]) or choose(*given, **options))
    report, trials = run(store, TuneOptions(trials=2, seed=5), (planted("none", "wrong"),))
    assert len(trials) == 2
    assert report.record is not None
    assert report.record.trial.config.text("fault") == "none"
    assert isinstance(report.record.trial.outcome, Measurement)
    (finals,) = seen
    assert finals._open.seed == 6
    assert finals._open.lock_file == lock_file
    assert not finals._worker.alive  # closed


class InterruptedAfter(SilentProgress):
    """Presses Ctrl-C after some trials."""

    def __init__(self, trials: int) -> None:
        self._trials = trials

    def update(self, snapshot: Snapshot) -> None:
        if snapshot.done >= self._trials:
            raise KeyboardInterrupt


def test_ctrl_c_keeps_what_was_found(store: Path) -> None:
    report, trials = run(store, TuneOptions(trials=100_000), progress=InterruptedAfter(3))
    assert report.interrupted
    assert len(trials) == 3
    assert report.record is not None
    assert ws.query(PROBLEM, "host", store=str(store)).kind == "exact"


def start_command(store: Path, trials: int) -> subprocess.Popen[bytes]:
    shape = ["--image", "48x64", "--filter", "3x3", "--device", "host"]
    command = [sys.executable, "-c", COMMAND_LINE, "tune", "filter2d", *shape, "--store", str(store)]
    return forking.popen(
        [*command, "--trials", str(trials), "--json"],
        env=os.environ | {"PYTHONPATH": python_path(TESTS)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def trials_in(store: Path) -> tuple[Trial, ...]:
    if not store.exists() or store.stat().st_size == 0:
        return ()
    with Store.open(str(store), write=False) as opened:
        return opened.trials(PROBLEM, HOST.device())


def wait_for_trials(process: subprocess.Popen[bytes], store: Path, count: int) -> None:
    deadline = time.monotonic() + 120
    while len(trials_in(store)) < count:
        assert process.poll() is None, process.communicate()[1].decode()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def descendants(pid: int) -> set[int]:
    """Processes that `pid` started and their descendants, while `pid` lives."""
    found: set[int] = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            child = int(status.parent.name)
            found |= {child} | descendants(child)
    return found


def test_killed_in_mid_search_it_goes_on_and_loses_nothing(store: Path) -> None:
    process = start_command(store, trials=100_000)
    wait_for_trials(process, store, 4)
    workers = descendants(process.pid)
    assert workers
    process.kill()
    process.communicate()
    before = trials_in(store)
    assert len(before) >= 4

    deadline = time.monotonic() + 20
    while alive := [pid for pid in workers if Path(f"/proc/{pid}").exists()]:
        assert time.monotonic() < deadline, f"workers outlived their tuner: {alive}"
        time.sleep(0.1)

    again = start_command(store, trials=len(before) + 2)
    output, errors = again.communicate(timeout=120)
    assert again.returncode == 0, errors.decode()
    told = json.loads(output)
    assert (told["trials"], told["reused"]) == (2, len(before))
    after = trials_in(store)
    kept = {(trial.family, trial.config, trial.fingerprint) for trial in after}
    assert {(trial.family, trial.config, trial.fingerprint) for trial in before} <= kept
    assert len(after) == len(before) + 2


def test_ctrl_c_on_the_command_line_ends_with_a_winner(store: Path) -> None:
    process = start_command(store, trials=100_000)
    wait_for_trials(process, store, 3)
    os.kill(process.pid, signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors.decode()
    told = json.loads(output)
    assert told["interrupted"]
    assert told["record"]["trial"]["measurement"]["max_error"] <= 1e-6
