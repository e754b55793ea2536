"""Processes that a run and the runs of its stages share: lent, not ended, and the same for all."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from warpsmith.devices.select import DeviceRef
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.fft import Fft
from warpsmith.store.store import Store
from warpsmith.tuner.evaluate.bench import Bench, device_worker
from warpsmith.tuner.evaluate.timing_policy import TimingPolicy
from warpsmith.tuner.options import TuneOptions
from warpsmith.tuner.progress import SilentProgress
from warpsmith.tuner.run import session
from warpsmith.tuner.workers.deadlines import Deadlines
from warpsmith.workers.worker import Worker

HOST = DeviceRef(DeviceKind.HOST)
TWO_STAGES = Fft((512, 384), layout="transposed")


def bench(problem: Fft, worker: Worker | None) -> Bench:
    policy = dataclasses.replace(TimingPolicy.for_kind(DeviceKind.HOST), min_samples=1, max_samples=1)
    return Bench(HOST, HOST.compiler(), problem, 0, policy, Deadlines(), sanitize=False, worker=worker)


def test_a_lent_process_works_for_one_problem_after_the_other() -> None:
    worker = device_worker()
    try:
        processes = set()
        for size in ((4,), (6,)):
            lent = bench(Fft(size), worker)
            assert lent.opened.conditions
            assert isinstance(lent.copy_timing().median_ns, float)  # type: ignore[union-attr]
            lent.close()
            assert worker.alive
            processes.add(worker._process.pid)  # type: ignore[union-attr]
        assert len(processes) == 1
    finally:
        worker.close()
    assert not worker.alive


def test_products_of_references_have_no_threads_beside_ours() -> None:
    worker = device_worker({"PYTHONPATH": "/elsewhere"})
    assert worker._environment["OPENBLAS_NUM_THREADS"] == "1"
    assert worker._environment["PYTHONPATH"] == "/elsewhere"


def test_a_process_of_its_own_ends_with_the_bench() -> None:
    own = bench(Fft((4,)), None)
    assert own.opened.conditions
    worker = own._worker
    own.close()
    assert not worker.alive


def test_stages_and_the_whole_work_in_the_same_processes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    runs: list[tuple[str, Any]] = []

    def search(problem: Fft, *given: Any) -> None:
        runs.append((problem.key(), given[-2]))  # behind the workshop is what takes in failures

    monkeypatch.setattr(session, "_search", search)
    with Store.open(str(tmp_path / "store.db"), write=True) as store:
        session.tune(TWO_STAGES, (HOST,), store, TuneOptions(trials=100), SilentProgress())
        *stages, (whole, workshop) = runs
        assert len(stages) == 2
        assert whole == TWO_STAGES.key()
        assert workshop is not None
        assert all(each is workshop for _, each in stages)
        assert not any(each.alive for each in (workshop.search, workshop.finals))
        runs.clear()
        session.tune(Fft((8,)), (HOST,), store, TuneOptions(trials=100), SilentProgress())
        assert runs == [(Fft((8,)).key(), None)]
