"""The evaluating process opens beside other work, opens once, and closes early if it must."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

import pytest

from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import DeviceError
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.filter2d import Filter2d
from warpsmith.tuner.evaluate.bench import Bench
from warpsmith.tuner.evaluate.timing_policy import TimingPolicy
from warpsmith.tuner.workers.deadlines import Deadlines
from warpsmith.workers.worker import Worker, WorkerDied

PROBLEM = Filter2d(image=(24, 32), filter=(3, 3))
PATIENCE_S = 60.0


@pytest.fixture
def bench() -> Iterator[Bench]:
    policy = TimingPolicy.for_kind(DeviceKind.HOST)
    made = Bench(DeviceRef(DeviceKind.HOST), HostCompiler(), PROBLEM, 0, policy, Deadlines(), sanitize=False)
    with contextlib.closing(made):
        yield made


def test_is_opened_meanwhile_and_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = []
    call = Worker.call

    def counted(self: Worker, job: object, deadline_s: float) -> object:
        jobs.append(threading.current_thread())
        return call(self, job, deadline_s)  # type: ignore[arg-type,type-var]

    monkeypatch.setattr(Worker, "call", counted)
    bench.open_ahead()
    end = time.monotonic() + PATIENCE_S
    while not bench.is_open and time.monotonic() < end:
        time.sleep(0.01)
    assert bench.opened.conditions
    assert [each is threading.main_thread() for each in jobs] == [False]


def test_who_needs_it_waits(bench: Bench) -> None:
    bench.open_ahead()
    assert bench.copy_timing() is not None
    assert bench.is_open


def test_what_goes_wrong_is_met_by_who_needs_it(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(*_: object) -> object:
        raise WorkerDied(1, "no such device")

    monkeypatch.setattr(Worker, "call", dies)
    bench.open_ahead()
    with pytest.raises(DeviceError, match="no such device"):
        _ = bench.opened


def test_closing_does_not_wait_until_it_is_open(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = []
    call = Worker.call

    def noted(self: Worker, job: object, deadline_s: float) -> object:
        jobs.append(self)
        return call(self, job, deadline_s)  # type: ignore[arg-type,type-var]

    monkeypatch.setattr(Worker, "call", noted)
    before = set(threading.enumerate())
    bench.open_ahead()
    bench.close()
    assert set(threading.enumerate()) <= before
    assert not any(each.alive for each in jobs)
