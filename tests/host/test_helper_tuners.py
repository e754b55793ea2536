"""Several devices of one machine, each with its own tuner. Here the host stands for both devices."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import functools
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from warpsmith.devices.select import DeviceRef
from warpsmith.errors import BadArgument
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.filter2d import Filter2d
from warpsmith.store.contents import check_store
from warpsmith.store.record import Trial
from warpsmith.store.store import Store
from warpsmith.tuner.faults import Faults
from warpsmith.tuner.options import TuneOptions
from warpsmith.tuner.progress import Progress, SilentProgress, Snapshot
from warpsmith.tuner.report import TuneReport
from warpsmith.tuner.run import search_loop, session, sharing
from warpsmith.tuner.run.session import tune
from warpsmith.tuner.run.sharing import HelperTuners, new_tuner
from warpsmith.workers.job import Job

HOST = DeviceRef(DeviceKind.HOST)
PROBLEM = Filter2d(image=(24, 32), filter=(3, 3))


@pytest.fixture
def tuned(
    script: ModuleType, python_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[TuneReport, Store]]:
    """Tunes plain kernels with `numbers` different numbers on two devices."""
    monkeypatch.setenv("PYTHONPATH", python_path)

    def call(numbers: int, *, family: Any = None, progress: Progress | None = None, **options: Any) -> TuneReport:
        families = (family or script.Numbered(range(numbers), {3: "sums[f] += 1.0f;"}),)
        with Store.open(str(tmp_path / "store.db"), write=True) as store:
            given = TuneOptions(**{"trials": numbers, **options})
            return tune(PROBLEM, (HOST, HOST), store, given, progress or SilentProgress(), families)

    return call


def stored(tmp_path: Path) -> list[int]:
    with Store.open(str(tmp_path / "store.db"), write=False) as store:
        assert store.tuners.beats() == {}
        assert check_store(store) == ()
        return sorted(trial.config.integer("n") for trial in store.trials(PROBLEM, HOST.device()))


def wait_for_others(tmp_path: Path, own: list[Trial]) -> None:
    """Returns once the store has another tuner's trial, or after a minute."""
    mine, deadline = {trial.config for trial in own}, time.monotonic() + 60
    while time.monotonic() < deadline:
        with Store.open(str(tmp_path / "store.db"), write=False) as store:
            if any(trial.config not in mine for trial in store.trials(PROBLEM, HOST.device())):
                return
        time.sleep(0.05)


def test_share_the_work(tuned: Callable[..., TuneReport], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own: list[Trial] = []
    keep = search_loop.Journal.keep

    def keep_own(journal: search_loop.Journal, trial: Trial) -> None:
        own.append(trial)
        keep(journal, trial)
        if len(own) == 1:  # on a busy machine the other process would otherwise start after all work is done
            wait_for_others(tmp_path, own)

    monkeypatch.setattr(search_loop.Journal, "keep", keep_own)
    report = tuned(10)
    assert stored(tmp_path) == list(range(10))
    assert (report.tried, report.reused, report.costs.devices) == (10, 0, 2)
    assert report.others == 10 - len(own) > 0
    assert {str(kind): count for kind, count in report.failures.items()} == {"wrong": 1}
    assert report.record is not None
    assert report.record.trial.config.integer("n") != 3


def test_end_with_the_trials_that_were_wanted(tuned: Callable[..., TuneReport], tmp_path: Path) -> None:
    report = tuned(500, trials=4)
    assert 4 <= report.tried < 100
    assert len(stored(tmp_path)) >= report.tried
    again = tuned(500, trials=4)
    assert (again.tried, again.others) == (0, 0)
    assert again.record is not None


def with_work_left(devices: tuple[DeviceRef, ...], store: Store, job: functools.partial[Job[None]]) -> HelperTuners:
    """Helper tuners with 40 trials, so that they do not end by themselves once the leader has its trials."""
    *given, options = job.args
    return HelperTuners(devices, store, functools.partial(job.func, *given, dataclasses.replace(options, trials=40)))


def test_what_runs_at_the_end_is_not_suspected(
    tuned: Callable[..., TuneReport], script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids: list[str] = []
    monkeypatch.setattr(sharing, "new_tuner", lambda store: ids.append(new_tuner(store)) or ids[-1])
    monkeypatch.setattr(session, "HelperTuners", with_work_left)
    running = "SELECT count(*) FROM warpsmith_poisoned JOIN warpsmith_claims USING (fingerprint) WHERE tuner = ?"

    def count(query: str, *values: str) -> int:
        with contextlib.closing(sqlite3.connect(tmp_path / "store.db", timeout=30)) as connection:
            return int(connection.execute(query, values).fetchone()[0])

    class UntilTheOtherRuns(SilentProgress):
        def update(self, snapshot: Snapshot) -> None:
            give_up = time.monotonic() + 60
            while snapshot.done >= 3 and not count(running, *ids):
                assert time.monotonic() < give_up
                time.sleep(0.02)

    once = "blockIdx.x == 0 && threadIdx.x == 0 && threadIdx.y == 0"
    slow = f"if ({once}) usleep(40000);"
    family = script.Numbered(range(40), dict.fromkeys(range(40), slow))
    tuned(40, trials=3, family=family, progress=UntilTheOtherRuns())
    assert count("SELECT count(*) FROM warpsmith_poisoned") == 0
    assert count("SELECT count(*) FROM warpsmith_claims") == 0


def test_one_that_fails_leaves_the_work_to_the_others(
    tuned: Callable[..., TuneReport], script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @dataclasses.dataclass
    class Local(script.Numbered):  # type: ignore[misc, name-defined]  # no other process can import it
        def __reduce__(self) -> tuple[Any, ...]:
            return (_raise, ())

        def __init__(self) -> None:
            super().__init__(range(6), {})

    entered: list[HelperTuners] = []
    enter, keep = HelperTuners.__enter__, search_loop.Journal.keep

    def keep_once_it_has_failed(*arguments: Any) -> None:
        """Waits until the helper tuner has failed, so that work is left to go on with."""
        concurrent.futures.wait(entered[0]._running, 60)
        keep(*arguments)

    monkeypatch.setattr(HelperTuners, "__enter__", lambda these: entered.append(these) or enter(these))
    monkeypatch.setattr(search_loop.Journal, "keep", keep_once_it_has_failed)
    with pytest.warns(UserWarning, match="tuning continues without host: the worker process ended with exit code 1"):
        report = tuned(6, family=Local())
    assert (report.tried, report.others) == (6, 0)
    assert [(str(each.part), each.name) for each in report.part_failures] == [("worker", "of host")]
    assert "exit code 1" in report.part_failures[0].failure.message
    assert stored(tmp_path) == list(range(6))


def _raise() -> None:
    raise RuntimeError("it cannot be made here")


def test_need_a_store_that_processes_can_share(script: ModuleType) -> None:
    with Store.open(":memory:", write=True) as store, pytest.raises(BadArgument, match="not in memory"):
        tune(PROBLEM, (HOST, HOST), store, TuneOptions(), SilentProgress(), (script.Numbered(range(3), {}),))


def test_nobody_is_no_trouble() -> None:
    def none(*_: object) -> Job[None]:
        raise AssertionError("there is nobody to give it to")

    with Store.open(":memory:", write=True) as store:
        with HelperTuners((), store, none) as nobody:
            nobody.check(Faults())
        assert store.tuners.beats() == {}
