"""Trials on their way to the store: none is lost, errors are reported, and nothing waits for ever."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

import forking
from builders import SMALL as PROBLEM
from builders import failure, measurement, trial
from warpsmith.errors import StoreError
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.presets import H200
from warpsmith.generator.space import Config
from warpsmith.store.poison import Started
from warpsmith.store.record import Failure, FailureKind, Trial
from warpsmith.store.rows import MAX_STARTS
from warpsmith.store.store import Store
from warpsmith.tuner.run.journal import Journal

PATIENCE_S = 20.0
MEASURED = measurement()
WRONG = failure(FailureKind.WRONG, "off by one")


def started(number: int) -> Started:
    return Started("plain", Config.of({"n": number}), f"f{number}")


def promptly(action: Callable[[], Any]) -> Any:
    """Result or error of `action`; fails if it takes for ever."""
    told: list[Any] = []

    def run() -> None:
        try:
            told.append((True, action()))
        except BaseException as error:
            told.append((False, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert told, "it hangs"
    if not told[0][0]:
        raise told[0][1]
    return told[0][1]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def store(file: Path) -> Iterable[Store]:
    with Store.open(str(file), write=True) as opened:
        yield opened


def journal_of(store: Any) -> Journal:
    return Journal(store, PROBLEM, H200)


class SlowStore:
    """A store that notes requests and completes none while it is closed."""

    def __init__(self) -> None:
        self.poison = self
        self.log: list[tuple[str, list[int]]] = []
        self.is_open, self.is_busy = threading.Event(), threading.Event()
        self.error: Exception | None = None

    def _note(self, word: str, numbers: Iterable[int]) -> None:
        self.is_busy.set()
        assert self.is_open.wait(PATIENCE_S)
        if self.error:
            raise self.error
        self.log.append((word, list(numbers)))

    def add_trials(self, problem: Filter2d, device: Any, added: Iterable[Trial]) -> None:
        assert (problem, device) == (PROBLEM, H200)
        self._note("trials", (each.config.integer("n") for each in added))

    def mark_started(self, device: Any, started: Iterable[Started]) -> None:
        assert device == H200
        self._note("started", (each.config.integer("n") for each in started))

    def mark_ended(self, device: Any, fingerprints: Iterable[str]) -> None:
        assert device == H200
        self._note("ended", sorted(int(each[1:]) for each in fingerprints))


class TestKeeping:
    def test_all_is_in_the_store_after_close_in_order(self, store: Store) -> None:
        journal = journal_of(store)
        kept = [trial(number, WRONG if number % 3 else MEASURED) for number in range(200)]
        for each in kept:
            journal.started(Started(each.family, each.config, each.fingerprint))
            journal.keep(each)
        promptly(journal.close)
        assert store.trials(PROBLEM, H200) == tuple(kept)
        assert journal.seconds > 0

    def test_flush_returns_once_it_is_on_disk(self, store: Store, file: Path) -> None:
        journal = journal_of(store)
        for number in range(5):
            journal.keep(trial(number, MEASURED))
            promptly(journal.flush)
            with Store.open(str(file), write=False) as other:
                assert len(other.trials(PROBLEM, H200)) == number + 1
        promptly(journal.close)

    def test_nobody_waits_for_the_disk_and_what_came_meanwhile_is_one_commit(self) -> None:
        slow = SlowStore()
        journal = journal_of(slow)
        start = time.monotonic()
        journal.keep(trial(0, MEASURED))
        assert slow.is_busy.wait(PATIENCE_S)
        for number in range(1, 50):
            journal.keep(trial(number, MEASURED))
        assert time.monotonic() - start < PATIENCE_S / 2
        assert slow.log == []
        slow.is_open.set()
        promptly(journal.close)
        assert slow.log == [("trials", [0]), ("trials", list(range(1, 50)))]

    def test_an_empty_one_closes(self) -> None:
        slow = SlowStore()
        promptly(journal_of(slow).close)
        assert slow.log == []


class TestErrors:
    @pytest.fixture(params=[StoreError("the disk is full"), RuntimeError("a mistake of ours")], ids=["store", "ours"])
    def failed(self, request: pytest.FixtureRequest) -> Journal:
        """A journal whose store refuses the first trial."""
        broken = SlowStore()
        broken.is_open.set()
        broken.error = request.param
        journal = journal_of(broken)
        journal.keep(trial(0, MEASURED))
        with pytest.raises(type(request.param)):
            promptly(journal.flush)
        return journal

    @pytest.mark.parametrize(
        "call",
        [
            lambda journal: journal.keep(trial(1, MEASURED)),
            lambda journal: journal.flush(),
            lambda journal: journal.close(),
        ],
    )
    def test_surface_in_whatever_is_called_next(self, failed: Journal, call: Callable[[Journal], None]) -> None:
        for _ in range(2):
            with pytest.raises((StoreError, RuntimeError), match=r"the disk is full|a mistake of ours"):
                promptly(lambda: call(failed))

    def test_do_not_stop_those_that_run(self, failed: Journal) -> None:
        failed.started(started(3))  # from an evaluating thread: the caller gets the error
        with pytest.raises((StoreError, RuntimeError)):
            promptly(failed.close)

    def test_of_a_close_are_raised_by_it(self) -> None:
        broken = SlowStore()
        broken.error = StoreError("the disk is full")
        journal = journal_of(broken)
        journal.keep(trial(0, MEASURED))
        broken.is_open.set()
        with pytest.raises(StoreError, match="the disk is full"):
            promptly(journal.close)

    def test_keep_what_was_stored_before(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        journal = journal_of(store)
        journal.keep(trial(0, MEASURED))
        promptly(journal.flush)

        def refuse(*_: Any) -> None:
            raise StoreError("locked")

        with monkeypatch.context() as patch:
            patch.setattr(store, "add_trials", refuse)
            journal.keep(trial(1, MEASURED))
            with pytest.raises(StoreError, match="locked"):
                promptly(journal.close)
        assert store.trials(PROBLEM, H200) == (trial(0, MEASURED),)


class TestStarts:
    def test_are_noted_before_the_end_is_known(self) -> None:
        slow = SlowStore()
        slow.is_open.set()
        journal = journal_of(slow)
        journal.started(started(0))
        promptly(journal.flush)
        journal.keep(trial(0, MEASURED))
        promptly(journal.close)
        assert slow.log == [("started", [0]), ("trials", [0])]

    def test_of_what_ended_meanwhile_are_not_noted(self) -> None:
        slow = SlowStore()
        journal = journal_of(slow)
        journal.keep(trial(9, MEASURED))
        assert slow.is_busy.wait(PATIENCE_S)
        for number in range(3):
            journal.started(started(number))
        journal.keep(trial(0, MEASURED))
        journal.keep(trial(2, MEASURED))
        slow.is_open.set()
        promptly(journal.close)
        assert slow.log == [("trials", [9]), ("trials", [0, 2]), ("started", [1]), ("ended", [1])]

    def test_are_taken_back_by_a_close_in_good_order(self, store: Store) -> None:
        for _ in range(MAX_STARTS + 1):
            journal = journal_of(store)
            for number in range(2):
                journal.started(started(number))
                promptly(journal.flush)
            journal.keep(trial(1, MEASURED))
            promptly(journal.close)
            assert store.poisoned(H200) == {}

    def test_what_failed_badly_stays_known(self, store: Store) -> None:
        journal = journal_of(store)
        journal.started(started(0))
        promptly(journal.flush)
        crash = Failure(FailureKind.CRASH, "illegal address")
        journal.keep(trial(0, crash))
        promptly(journal.close)
        assert store.poisoned(H200) == {"f0": crash}


DIE = """
import os, signal, sys
from warpsmith.generator.presets import H200
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.space import Config
from warpsmith.store.poison import Started
from warpsmith.store.record import Failure, FailureKind, Trial
from warpsmith.store.store import Store
from warpsmith.tuner.run.journal import Journal

store = Store.open(sys.argv[1], write=True)
journal = Journal(store, Filter2d(image=(64, 64), filter=(3, 3)), H200)
for number in (1, 2):
    config = Config.of({"n": number})
    journal.started(Started("plain", config, f"f{number}"))
    journal.flush()
    if number == 1:
        journal.keep(Trial("plain", config, "f1", Failure(FailureKind.WRONG, "off by one"), "g++ 12.2.0"))
        journal.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_ran_at_several_deaths_is_not_run_again(file: Path) -> None:
    for deaths in range(1, MAX_STARTS + 1):
        died = forking.run([sys.executable, "-c", DIE, str(file)], timeout=60, check=False)
        assert died.returncode == -9, died.stderr.decode()
        with Store.open(str(file), write=False) as store:
            assert [each.fingerprint for each in store.trials(PROBLEM, H200)] == ["f1"]
            poisoned = store.poisoned(H200)
        if deaths < MAX_STARTS:
            assert poisoned == {}
    assert poisoned == {"f2": Failure(FailureKind.CRASH, f"the tuner died {MAX_STARTS} times while it ran")}
