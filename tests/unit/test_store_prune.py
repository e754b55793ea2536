"""Pruning: what leaves a store, and what stays whatever happens meanwhile."""

from __future__ import annotations

import dataclasses
import signal
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import forking
from builders import LARGE, SMALL, failure, record
from builders import trial as made_trial
from warpsmith.errors import StoreError
from warpsmith.generator.device import Device
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.presets import H200, HOST
from warpsmith.generator.problem import Problem
from warpsmith.generator.space import Config
from warpsmith.store import prune, sqlite
from warpsmith.store.contents import Counts, Scope, check_store, contents_of, count_rows, subjects_of
from warpsmith.store.poison import Started
from warpsmith.store.prune import Pruned, Unwanted, compact_store, programs_of, prune_store, stale_programs
from warpsmith.store.record import FailureKind, Trial
from warpsmith.store.store import Store


def trial(outcome: float | FailureKind, fingerprint: str = "today", number: int = 0, compiler: str = "g++") -> Trial:
    """A trial with a time in ns or a failure; `number` sets its config."""
    result = failure(outcome, "why") if isinstance(outcome, FailureKind) else outcome
    return made_trial(number, result, family="filter2d_plain", fingerprint=fingerprint, compiler=compiler)


FAST, SECOND, THIRD, WINNER = (trial(10.0 + n, f"f{n}", n) for n in range(4))
OLD = trial(1.0, "old", 4)
REFUSED, CRASHED = trial(FailureKind.COMPILE, "f5", 5), trial(FailureKind.CRASH, "f6", 6)
TRIED = (SECOND, WINNER, REFUSED, FAST, CRASHED, THIRD, OLD)


def fill(store: Store) -> None:
    """SMALL on two devices, with a winner, a run and poison on the first; LARGE on the first without a winner."""
    store.add_trials(SMALL, H200, TRIED)
    store.add_trials(SMALL, HOST, TRIED)
    store.add_trials(LARGE, H200, (REFUSED, FAST))
    store.put_winner(record(SMALL, WINNER))
    store.runs.add(SMALL, H200, {"seed": 1})


@pytest.fixture
def filled(store: Store) -> Store:
    fill(store)
    return store


def still_holds(problem: Problem, device: Device, family: str, config: Config, fingerprint: str) -> bool:
    assert isinstance(problem, Filter2d)
    assert device in (H200, HOST)
    assert family == "filter2d_plain"
    assert isinstance(config.integer("n"), int)
    return fingerprint != "old"


class TestKeepTrials:
    def test_the_fastest_stay_and_the_winners_own(self, filled: Store) -> None:
        # A time of the winner's program under another compiler is the winner's too.
        filled.add_trials(SMALL, H200, [dataclasses.replace(WINNER, compiler="clang")])
        pruned = prune_store(filled, Unwanted(keep_trials=2))
        assert pruned == Pruned({(SMALL.key(), H200.key()): 4}, (), 0, 0)
        kept = filled.trials(SMALL, H200)
        assert kept == (WINNER, FAST, OLD, dataclasses.replace(WINNER, compiler="clang"))

    def test_none_is_kept_beside_the_winners_own(self, filled: Store) -> None:
        prune_store(filled, Unwanted(keep_trials=0))
        assert filled.trials(SMALL, H200) == (WINNER,)
        assert filled.records() == (record(SMALL, WINNER),)

    def test_where_there_is_no_winner_all_stay(self, filled: Store) -> None:
        prune_store(filled, Unwanted(keep_trials=0))
        assert filled.trials(LARGE, H200) == (REFUSED, FAST)
        assert filled.trials(SMALL, HOST) == TRIED

    def test_equal_times_are_told_apart_the_same_way_each_time(self, filled: Store) -> None:
        twins = [trial(5.0, f"twin {n}", n) for n in (9, 8)]
        filled.add_trials(SMALL, H200, twins)
        prune_store(filled, Unwanted(keep_trials=2))  # OLD takes 1 ns
        assert [each.config.integer("n") for each in filled.trials(SMALL, H200)] == [3, 4, 8]

    def test_a_crash_that_goes_is_still_not_run_again(self, filled: Store) -> None:
        prune_store(filled, Unwanted(keep_trials=0))
        assert list(filled.poisoned(H200)) == [CRASHED.fingerprint]


class TestStale:
    def test_programs_of_another_text_go_with_their_winners(self, filled: Store) -> None:
        filled.put_winner(record(LARGE, OLD))
        gone = stale_programs(programs_of(filled), still_holds)
        pruned = prune_store(filled, Unwanted(stale=gone))
        assert pruned.trials == {(SMALL.key(), H200.key()): 1, (SMALL.key(), HOST.key()): 1}
        assert pruned.winners == ((LARGE.key(), H200.key()),)
        assert filled.trials(SMALL, H200) == TRIED[:-1]
        assert filled.records() == (record(SMALL, WINNER),)

    def test_each_program_is_looked_at_once_and_told_of(self, filled: Store) -> None:
        filled.add_trials(SMALL, H200, [dataclasses.replace(OLD, compiler="clang")])
        told: list[int] = []
        stale_programs(programs_of(filled, Scope(device_key=H200.key())), still_holds, told.append)
        assert told == list(range(1, len(TRIED) + 2 + 1))

    def test_trials_stay_for_a_winner_that_is_stale(self, filled: Store) -> None:
        """The next winner is chosen from them."""
        filled.put_winner(record(SMALL, OLD))
        prune_store(filled, Unwanted(stale=stale_programs(programs_of(filled), still_holds), keep_trials=1))
        assert filled.trials(SMALL, H200) == TRIED[:-1]

    def test_what_cannot_be_read_is_not_stale(self, tmp_path: Path, execute: Callable[..., None]) -> None:
        path = tmp_path / "a.db"
        with Store.open(str(path), write=True) as store:
            fill(store)
        execute(
            path,
            f"UPDATE warpsmith_problems SET operation = 'fft' WHERE key = '{SMALL.key()}'",
            "UPDATE warpsmith_trials SET config = '[' WHERE fingerprint = 'f0'",
        )
        with Store.open(str(path), write=False) as store:
            gone = stale_programs(programs_of(store), lambda *_: False)
        assert gone == {(LARGE.key(), H200.key(), "filter2d_plain", '{"n":5}', "f5")}


class TestPoisoned:
    def test_the_list_goes_and_the_trials_that_filled_it(self, filled: Store) -> None:
        filled.poison.mark_started(H200, [Started("filter2d_plain", Config.of({"n": 7}), "begun")] * 3)
        assert set(filled.poisoned(H200)) == {"f6", "begun"}
        pruned = prune_store(filled, Unwanted(Scope(device_key=H200.key()), poisoned=True))
        assert pruned == Pruned({(SMALL.key(), H200.key()): 1}, (), 0, 2)
        assert filled.poisoned(H200) == {}
        assert filled.trials(SMALL, H200) == tuple(each for each in TRIED if each != CRASHED)
        assert list(filled.poisoned(HOST)) == ["f6"]
        assert CRASHED in filled.trials(SMALL, HOST)

    def test_the_list_of_an_operation(self, filled: Store) -> None:
        filled.poison.mark_started(H200, [Started("fft_plain", Config.of({"n": 7}), "other")] * 3)
        prune_store(filled, Unwanted(Scope(operation="filter2d"), poisoned=True))
        assert set(filled.poisoned(H200)) == {"other"}


class TestEverything:
    def test_of_a_device(self, filled: Store) -> None:
        before = filled.trials(SMALL, HOST)
        pruned = prune_store(filled, Unwanted(Scope(device_key=H200.key()), everything=True))
        expected = {(LARGE.key(), H200.key()): 2, (SMALL.key(), H200.key()): 7}
        assert pruned == Pruned(expected, ((SMALL.key(), H200.key()),), 1, 1)
        contents = contents_of(filled)
        assert [row["key"] for row in contents.devices] == [HOST.key()]
        assert [row["key"] for row in contents.problems] == [SMALL.key()]
        assert filled.trials(SMALL, HOST) == before
        assert filled.runs.of(SMALL, H200) == ()
        assert check_store(filled) == ()

    def test_a_device_stays_that_has_poison_alone(self, filled: Store) -> None:
        other = dataclasses.replace(HOST, name="other")
        filled.poison.mark_started(other, [Started("filter2d_plain", Config.of({"n": 7}), "begun")] * 3)
        prune_store(filled, Unwanted(Scope(device_key=H200.key()), everything=True))
        assert {row["key"] for row in contents_of(filled).devices} == {HOST.key(), other.key()}
        assert list(filled.poisoned(other)) == ["begun"]

    def test_of_an_operation_that_is_not_there(self, filled: Store) -> None:
        before = contents_of(filled)
        assert prune_store(filled, Unwanted(Scope(operation="fft"), everything=True)) == Pruned({}, (), 0, 0)
        assert contents_of(filled) == before

    def test_of_the_only_operation(self, filled: Store) -> None:
        prune_store(filled, Unwanted(Scope(operation="filter2d"), everything=True))
        contents = contents_of(filled)
        assert (contents.problems, contents.devices, contents.trials, contents.winners) == ((), (), (), ())
        assert count_rows(filled) == Counts(0, 0, {}, 0, 0)


WAYS = {
    "keep": lambda _: Unwanted(keep_trials=1),
    "stale": lambda store: Unwanted(stale=stale_programs(programs_of(store), still_holds)),
    "poisoned": lambda _: Unwanted(poisoned=True),
    "everything": lambda _: Unwanted(Scope(device_key=H200.key()), everything=True),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_dry_run_tells_what_goes_and_removes_nothing(filled: Store, way: str) -> None:
    before, unwanted = (contents_of(filled), count_rows(filled)), WAYS[way](filled)
    told = prune_store(filled, unwanted, dry_run=True)
    assert (contents_of(filled), count_rows(filled)) == before
    assert sum(told.trials.values()) > 0
    assert prune_store(filled, unwanted) == told
    assert count_rows(filled).trials == before[1].trials - sum(told.trials.values())


def test_a_failure_on_the_way_removes_nothing(filled: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    before = contents_of(filled), count_rows(filled)

    def fail(*_: object) -> None:
        raise StoreError("late")

    monkeypatch.setattr(prune, "_remove_unused", fail)
    with pytest.raises(StoreError, match="late"):
        prune_store(filled, Unwanted(Scope(device_key=H200.key()), everything=True))
    assert (contents_of(filled), count_rows(filled)) == before


def test_a_kill_on_the_way_removes_nothing(location: str) -> None:
    with Store.open(location, write=True) as store:
        fill(store)
        before = contents_of(store)
    script = f"""
import os, signal
from warpsmith.store import prune, sqlite
from warpsmith.store.prune import Unwanted, prune_store
from warpsmith.store.contents import Scope
from warpsmith.store.store import Store

sqlite.WRITER_PRAGMAS += ("cache_size=1",)  # the file is written to before the end
prune._remove_unused = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
with Store.open({location!r}, write=True) as store:
    prune_store(store, Unwanted(Scope(operation="filter2d"), everything=True))
"""
    done = forking.run([sys.executable, "-c", script], check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    if "://" not in location:
        assert Path(f"{location}-journal").stat().st_size > 0
    with Store.open(location, write=False) as store:
        assert contents_of(store) == before
        assert check_store(store) == ()


class TestCompact:
    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        """A store that pruning almost empties."""
        path = tmp_path / "a.db"
        with Store.open(str(path), write=True) as store:
            fill(store)
            long = [dataclasses.replace(trial(5.0, f"g{n}", 100 + n), compiler="x" * 5000) for n in range(200)]
            store.add_trials(SMALL, H200, long)
        return path

    def test_gives_space_back(self, file: Path) -> None:
        before = file.stat().st_size
        with Store.open(str(file), write=True) as store:
            prune_store(store, Unwanted(keep_trials=0))
            assert file.stat().st_size == before
            freed = compact_store(store)
            assert freed == before - file.stat().st_size > 1_000_000
            assert store.trials(SMALL, H200) == (WINNER,)
        with Store.open(str(file), write=False) as store:  # still ours, and sound
            assert check_store(store) == ()
        assert [each.name for each in file.parent.iterdir()] == [file.name]

    def test_waits_for_a_reader_and_then_says_so(self, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_S", 0.1)
        reader = sqlite3.connect(file, isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM warpsmith_trials").fetchone()
        with Store.open(str(file), write=True) as store:
            before = contents_of(store)
            with pytest.raises(StoreError, match=rf"another process is writing {file}"):
                compact_store(store)
            reader.close()
            assert contents_of(store) == before
            assert compact_store(store) >= 0

    def test_of_any_store(self, filled: Store) -> None:
        before = contents_of(filled)
        assert compact_store(filled) >= 0
        assert contents_of(filled) == before


class TestRenew:
    def test_replaces_soft_facts_alone(self, filled: Store) -> None:
        noted = record(SMALL, WINNER)
        noted = dataclasses.replace(
            noted, provenance=dataclasses.replace(noted.provenance, environment={"driver": "590.1"})
        )
        assert filled.renew(noted)
        assert filled.renew(noted)
        assert filled.records() == (noted,)
        assert check_store(filled) == ()

    @pytest.mark.parametrize("other", [FAST, dataclasses.replace(WINNER, compiler="clang")])
    def test_leaves_another_winner_alone(self, filled: Store, other: Trial) -> None:
        filled.put_winner(record(SMALL, other))
        assert not filled.renew(record(SMALL, WINNER))
        assert filled.records() == (record(SMALL, other),)


class TestScope:
    def test_census(self, filled: Store) -> None:
        assert count_rows(filled) == Counts(1, 16, {"compile": 3, "crash": 2}, 2, 1)
        assert count_rows(filled, Scope(device_key=HOST.key())) == Counts(0, 7, {"compile": 1, "crash": 1}, 1, 0)
        assert count_rows(filled, Scope(operation="fft")) == Counts(0, 0, {}, 0, 0)
        assert count_rows(filled, Scope("filter2d", H200.key())) == Counts(1, 9, {"compile": 2, "crash": 1}, 1, 1)

    def test_subjects(self, filled: Store) -> None:
        third = Filter2d(image=(9, 9), filter=(2, 2))
        filled.put_winner(record(third, FAST))
        fourth = Filter2d(image=(10, 9), filter=(2, 2))
        filled.runs.add(fourth, HOST, {})
        expected = {(SMALL, H200), (SMALL, HOST), (LARGE, H200), (third, H200), (fourth, HOST)}
        assert set(subjects_of(filled)) == expected
        keys = [(problem.key(), device.key()) for problem, device in subjects_of(filled)]
        assert keys == sorted(keys)
        assert set(subjects_of(filled, Scope(device_key=HOST.key()))) == {(SMALL, HOST), (fourth, HOST)}
