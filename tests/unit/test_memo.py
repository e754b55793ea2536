"""Remembered plans: for how long, for which stores, and how many."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import warpsmith as ws
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.problem import Problem
from warpsmith.plans.make import LOOK_EVERY_S, MOST_PLANS, Before, PlanCache
from warpsmith.store.changes import OWN_WRITES, state_of
from warpsmith.store.store import Store

PROBLEM = Filter2d(image=(9, 9), filter=(3, 3))
HOST = DeviceRef(DeviceKind.HOST)


class Clock:
    """A clock that stands still until it is set."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def memo(clock: Clock) -> PlanCache:
    return PlanCache(clock)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "a.db"
    Store.open(str(made), write=True).close()
    return made


def kept(memo: PlanCache, store: str | None, problem: Problem = PROBLEM) -> Any:
    """An object in place of a plan, put into the memo."""
    plan: Any = SimpleNamespace(problem=problem)
    memo.put((problem, "host", store, "auto", None), plan, HOST, Before.of(store))
    return plan


def write(path: Path) -> None:
    """Writes like another process: one transaction that keeps the file's size and perhaps its modification time."""
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version")
        connection.execute("CREATE TABLE IF NOT EXISTS other (n)")
        connection.execute("INSERT INTO other VALUES (1)")
        connection.execute("DELETE FROM other")
    connection.close()


def test_the_same_question_has_the_same_plan(memo: PlanCache, path: Path) -> None:
    plan = kept(memo, str(path))
    assert memo.get((Filter2d(image=(9, 9), filter=(3, 3)), "host", str(path), "auto", None)) is plan
    assert memo.get((Filter2d(image=(9, 8), filter=(3, 3)), "host", str(path), "auto", None)) is None
    assert memo.get((PROBLEM, "auto", str(path), "auto", None)) is None
    assert memo.get((PROBLEM, "host", None, "auto", None)) is None
    assert memo.get((PROBLEM, "host", str(path), "filter2d_plain", None)) is None


def test_a_change_by_another_process_is_seen_at_the_next_look(memo: PlanCache, clock: Clock, path: Path) -> None:
    plan, key = kept(memo, str(path)), (PROBLEM, "host", str(path), "auto", None)
    clock.now += 2 * LOOK_EVERY_S
    assert memo.get(key) is plan
    write(path)
    assert memo.get(key) is plan
    clock.now += 1.01 * LOOK_EVERY_S
    assert memo.get(key) is None
    assert memo.earlier(key, HOST) is plan
    assert memo.earlier(key, DeviceRef(DeviceKind.CUDA)) is None
    assert memo.get(key) is None  # until it is made anew


def test_a_change_by_this_process_is_seen_at_once(memo: PlanCache, path: Path) -> None:
    plan, key = kept(memo, str(path)), (PROBLEM, "host", str(path), "auto", None)
    before = OWN_WRITES.count
    with Store.open(str(path), write=True) as store:
        store.tuners.register("of this process")
    assert OWN_WRITES.count > before
    assert memo.get(key) is None
    plan = kept(memo, str(path))
    with Store.open(str(path.with_name("other.db")), write=True) as store:
        store.tuners.register("in another store")
    assert memo.get(key) is plan


@pytest.mark.parametrize("change", ["made", "removed", "replaced"])
def test_files_that_come_and_go(memo: PlanCache, clock: Clock, path: Path, own_folders: Path, change: str) -> None:
    own = own_folders / "data" / "warpsmith" / "store.db"
    own.parent.mkdir(parents=True, exist_ok=True)
    if change != "made":
        own.write_bytes(path.read_bytes())
    kept(memo, None)
    if change == "removed":
        own.unlink()
    else:
        other = own.with_name("other.db")
        other.write_bytes(path.read_bytes())
        other.rename(own)
    clock.now += 2 * LOOK_EVERY_S
    assert memo.get((PROBLEM, "host", None, "auto", None)) is None


def test_two_changes_within_one_tick_of_the_file_system_are_two(path: Path) -> None:
    states = []
    for _ in range(5):
        states.append(state_of(str(path)))
        write(path)
    assert len(set(states)) == 5
    assert state_of(str(path)) == state_of(str(path))


def test_a_log_that_is_written_ahead_counts_too(path: Path) -> None:
    before = state_of(str(path))
    Path(f"{path}-wal").write_bytes(b"frames")
    assert state_of(str(path)) != before


@pytest.mark.parametrize("store", ["postgresql+psycopg://user@localhost/store", "sqlite:///x.db", "~nobody-here/x.db"])
def test_of_what_is_no_file_nothing_is_kept(memo: PlanCache, store: str) -> None:
    kept(memo, store)
    assert len(memo) == 0


def test_auto_may_come_to_mean_another_device(
    memo: PlanCache, clock: Clock, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = (PROBLEM, "auto", str(path), "auto", None)
    plan: Any = SimpleNamespace()
    monkeypatch.setattr(DeviceRef, "parse", lambda _: HOST)
    memo.put(key, plan, HOST, Before.of(str(path)))
    clock.now += 2 * LOOK_EVERY_S
    assert memo.get(key) is plan
    monkeypatch.setattr(DeviceRef, "parse", lambda _: DeviceRef(DeviceKind.CUDA))
    clock.now += 2 * LOOK_EVERY_S
    assert memo.get(key) is None


def test_the_one_that_was_not_asked_for_longest_goes(memo: PlanCache, clock: Clock, path: Path) -> None:
    problems = [Filter2d(image=(9, 9 + n), filter=(3, 3)) for n in range(MOST_PLANS + 1)]
    for problem in problems[:-1]:
        clock.now += 1
        kept(memo, str(path), problem)
    clock.now += 1
    assert memo.get((problems[0], "host", str(path), "auto", None)) is not None
    kept(memo, str(path), problems[-1])
    assert len(memo) == MOST_PLANS
    assert memo.get((problems[1], "host", str(path), "auto", None)) is None
    assert memo.get((problems[0], "host", str(path), "auto", None)) is not None


def test_threads_put_and_get(memo: PlanCache, path: Path) -> None:
    failed: list[BaseException] = []

    def work(index: int) -> None:
        try:
            for n in range(60):
                problem = Filter2d(image=(9 + index, 9 + n), filter=(3, 3))
                plan = kept(memo, str(path), problem)
                assert memo.get((problem, "host", str(path), "auto", None)) in (plan, None)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed[0]
    assert len(memo) <= MOST_PLANS + len(threads)


def test_forgetting(memo: PlanCache, path: Path) -> None:
    kept(memo, str(path))
    memo.forget()
    assert len(memo) == 0


def test_the_api_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from warpsmith.plans import make

    plan: Any = SimpleNamespace()
    monkeypatch.setattr(make, "_made", lambda key: (plan, key))
    assert ws.plan(PROBLEM, "host", store="a.db") == (plan, (PROBLEM, "host", "a.db", "auto", None, None))
    monkeypatch.setenv("WARPSMITH_STORE", "b.db")
    assert ws.plan(PROBLEM, "host") == (plan, (PROBLEM, "host", "b.db", "auto", None, None))
