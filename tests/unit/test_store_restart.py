"""A server that restarts mid-run: added trials stay, once, and nobody must start anew."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from builders import SMALL as PROBLEM
from builders import record, trial
from warpsmith.errors import StoreError
from warpsmith.generator.presets import H200
from warpsmith.generator.space import Config
from warpsmith.store import database as databases
from warpsmith.store.contents import check_store, contents_of
from warpsmith.store.database import Database, ServerLost
from warpsmith.store.merging import absorb
from warpsmith.store.poison import Started
from warpsmith.store.record import FailureKind, Trial
from warpsmith.store.store import Store
from warpsmith.store.tuners import Claim

CLAIM = Claim("plain", Config.of({"n": 1}), "f1", "g++ 12.2.0")


class Writer:
    """A thread that adds trials, one after the other, each read back at once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._ending = threading.Event()
        self.added = 0
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        last_id = 0
        try:
            while not self._ending.is_set():
                self._store.add_trials(PROBLEM, H200, [trial(self.added)])
                last_id, seen = self._store.trials_since(PROBLEM, H200, last_id)
                assert seen == (trial(self.added),)
                self.added += 1
        except BaseException as error:
            self.error = error

    def wait_for(self, count: int) -> None:
        """Waits until `count` more trials were added."""
        goal, deadline = self.added + count, time.monotonic() + 60
        while self.added < goal and self.error is None and time.monotonic() < deadline:
            time.sleep(0.01)
        assert self.error is None
        assert self.added >= goal

    def end(self) -> None:
        self._ending.set()
        self._thread.join(60)
        assert not self._thread.is_alive()


class TestServer:
    @pytest.mark.parametrize("mode", ["immediate", "fast"])
    def test_may_stop_and_start_in_mid_run(self, database: str, postgresql: Any, mode: str) -> None:
        with Store.open(database, write=True) as store:
            writer = Writer(store)
            try:
                for _ in range(3):
                    writer.wait_for(15)
                    postgresql.stop(mode)
                    time.sleep(0.3)
                    postgresql.start()
                writer.wait_for(15)
            finally:
                writer.end()
            assert writer.error is None
            assert store.trials(PROBLEM, H200) == tuple(trial(number) for number in range(writer.added))
            assert check_store(store) == ()

    def test_may_stop_in_the_middle_of_a_transaction(self, database: str, postgresql: Any) -> None:
        with Store.open(database, write=True) as store:
            store.add_trials(PROBLEM, H200, [trial(0)])
            calls = []

            def batch() -> Iterator[Trial]:
                yield from (trial(0), trial(1))

            real = Store.add_trials.__globals__["keep"]

            def restart_after(connection: Any, *rest: Any) -> None:
                real(connection, *rest)
                calls.append(rest)
                if len(calls) == 1:
                    postgresql.stop()
                    postgresql.start()

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("warpsmith.store.store.keep", restart_after)
                store.add_trials(PROBLEM, H200, batch())
            assert len(calls) == 2  # both rows at once, twice
            assert store.trials(PROBLEM, H200) == (trial(0), trial(1))

    def test_is_waited_for_so_long_and_no_longer(
        self, database: str, postgresql: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(databases, "RECONNECT_S", 1.0)
        with Store.open(database, write=True) as store:
            store.add_trials(PROBLEM, H200, [trial(0)])
            postgresql.stop()
            start = time.monotonic()
            with pytest.raises(StoreError) as caught:
                store.add_trials(PROBLEM, H200, [trial(1)])
            assert 1.0 <= time.monotonic() - start < 20
            assert str(caught.value).startswith(f"{database}: no server answers (")
            assert str(caught.value).endswith("; waited 1 s for it; what was stored is kept")
            assert "\n" not in str(caught.value)
            postgresql.start()
            store.add_trials(PROBLEM, H200, [trial(2)])
            assert store.trials(PROBLEM, H200) == (trial(0), trial(2))

    def test_is_not_waited_for_when_opening(self, database: str, postgresql: Any) -> None:
        Store.open(database, write=True).close()
        postgresql.stop()
        for write in (False, True):
            start = time.monotonic()
            with pytest.raises(StoreError, match="no server answers"):
                Store.open(database, write=write)
            assert time.monotonic() - start < databases.RECONNECT_S / 4

    def test_is_not_waited_for_where_it_refuses(self, database: str, postgresql: Any) -> None:
        with Store.open(database, write=True) as store:
            postgresql.execute("DROP TABLE warpsmith_claims", database.rpartition("/")[2])
            start = time.monotonic()
            with pytest.raises(StoreError, match='relation "warpsmith_claims" does not exist'):
                store.add_trials(PROBLEM, H200, [trial(0)])
            assert time.monotonic() - start < databases.RECONNECT_S / 4


def test_pauses_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    now, pauses = [0.0], []

    def sleep(pause: float) -> None:
        pauses.append(pause)
        now[0] += pause

    monkeypatch.setattr("warpsmith.store.database.time.monotonic", lambda: now[0])
    monkeypatch.setattr("warpsmith.store.database.time.sleep", sleep)

    @contextlib.contextmanager
    def lost(_: Database) -> Iterator[Any]:
        raise ServerLost("x: gone")
        yield

    with Store.open(":memory:", write=True) as store:
        monkeypatch.setattr(Database, "reading", lost)
        with pytest.raises(StoreError, match="x: gone; waited 120 s for it"):
            contents_of(store)
    assert pauses[:7] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0]
    assert set(pauses[7:]) == {5.0}
    assert 120 <= sum(pauses) <= 125


@pytest.fixture
def unsure(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], Any]:
    """Calls a function; the connection breaks after its first commit but before the reply."""
    real = Database.writing

    def call(change: Callable[[], Any]) -> Any:
        commits = []

        @contextlib.contextmanager
        def broken(database: Database) -> Iterator[Any]:
            with real(database) as connection:
                yield connection
            commits.append(None)
            if len(commits) == 1:
                raise ServerLost("the connection broke")

        with monkeypatch.context() as patch:
            patch.setattr(Database, "writing", broken)
            result = change()
        assert len(commits) == 2
        return result

    return call


class TestRepeatedCommits:
    def test_of_trials(self, store: Store, unsure: Callable[..., Any]) -> None:
        given = (trial(0), trial(1, FailureKind.CRASH))
        unsure(lambda: store.add_trials(PROBLEM, H200, iter(given)))
        assert store.trials_since(PROBLEM, H200, 0)[1] == given
        assert list(store.poisoned(H200)) == ["f1"]

    def test_of_winners(self, store: Store, unsure: Callable[..., Any]) -> None:
        unsure(lambda: store.put_winner(record()))
        assert store.records() == (record(),)

    def test_of_merges(self, store: Store, unsure: Callable[..., Any]) -> None:
        with Store.open(":memory:", write=True) as other:
            other.add_trials(PROBLEM, H200, [trial(0)])
            other.put_winner(record())
            contents = contents_of(other)
        unsure(lambda: absorb(store, contents))
        assert contents_of(store) == contents

    def test_of_runs(self, store: Store, unsure: Callable[..., Any]) -> None:
        unsure(lambda: store.runs.add(PROBLEM, H200, {"seed": 1}))
        assert [run.spec for run in store.runs.of(PROBLEM, H200)] == [{"seed": 1}]

    def test_of_tuners_and_claims(self, store: Store, unsure: Callable[..., Any]) -> None:
        tuner = unsure(lambda: store.tuners.register("host 17"))
        assert store.tuners.beats() == {tuner: 0}
        assert unsure(lambda: store.tuners.claim(PROBLEM, H200, tuner, iter([CLAIM]))).mine == {CLAIM}
        unsure(lambda: store.tuners.beat(tuner))
        assert store.tuners.beats()[tuner] > 0
        other = store.tuners.register("host 18")
        assert store.tuners.claim(PROBLEM, H200, other, [CLAIM]).mine == set()
        unsure(lambda: store.tuners.strike(tuner))
        assert list(store.tuners.beats()) == [other]
        assert store.tuners.claim(PROBLEM, H200, other, [CLAIM]).mine == {CLAIM}

    def test_of_marks_may_count_twice(self, store: Store, unsure: Callable[..., Any]) -> None:
        started = Started("plain", Config.of({"n": 1}), "f1")
        unsure(lambda: store.poison.mark_started(H200, iter([started])))
        assert store.poisoned(H200) == {}
        unsure(lambda: store.poison.mark_ended(H200, iter(["f1"])))
        store.poison.mark_started(H200, [started] * 2)
        assert store.poisoned(H200) == {}
