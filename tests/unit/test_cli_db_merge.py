"""Merging and importing: all or nothing, whatever happens meanwhile, and twice is the same as once."""

from __future__ import annotations

import dataclasses
import json
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import forking
from builders import SMALL, failure, record, trial
from warpsmith.cli.app import run
from warpsmith.errors import StoreError
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.presets import H200, HOST
from warpsmith.generator.space import Config
from warpsmith.store import sqlite
from warpsmith.store.contents import check_store, contents_of, count_rows
from warpsmith.store.interchange import export_lines, import_lines
from warpsmith.store.merging import MergeReport, absorb, merge_stores
from warpsmith.store.poison import Started
from warpsmith.store.prune import compact_store
from warpsmith.store.record import Failure, FailureKind, Record, Trial
from warpsmith.store.rows import MAX_STARTS
from warpsmith.store.store import Store

PROBLEM, OTHER = SMALL, Filter2d(image=(9, 9), filter=(2, 2))
TRIALS = 300


def tried(number: int, kind: FailureKind = FailureKind.COMPILE) -> Trial:
    return trial(number, failure(kind, "no" * 100), family="filter2d_plain")


def winner(problem: Filter2d, median_ns: float) -> Record:
    return record(problem, trial(0, median_ns, family="filter2d_plain"))


def state(location: str) -> tuple[Any, ...]:
    """Everything in a store that a merge may change."""
    with Store.open(location, write=False) as store:
        assert check_store(store) == ()
        poison = [store.poisoned(device) for device in (H200, HOST)]
        return contents_of(store), poison, [store.runs.of(each, H200) for each in (PROBLEM, OTHER)], count_rows(store)


@pytest.fixture(scope="module")
def made_source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "source.db"
    with Store.open(str(path), write=True) as store:
        store.add_trials(PROBLEM, H200, [tried(number) for number in range(TRIALS)])
        store.add_trials(PROBLEM, H200, [tried(-1, FailureKind.CRASH)])
        store.put_winner(winner(PROBLEM, 5.0))
        store.put_winner(winner(OTHER, 6.0))
        store.runs.add(PROBLEM, H200, {"seed": 1})
    return path


@pytest.fixture
def source(made_source: Path, tmp_path: Path) -> str:
    """A store of many trials, a crash, two winners and a run."""
    return str(shutil.copy(made_source, tmp_path / "source.db"))


@pytest.fixture
def target(location: str) -> str:
    """A store, a file or on a server, that holds a winner, a trial and a run already."""
    with Store.open(location, write=True) as store:
        store.add_trials(PROBLEM, H200, [tried(3)])
        store.put_winner(winner(PROBLEM, 9.0))
        store.runs.add(PROBLEM, H200, {"seed": 2})
    return location


def merge(source: str, target: str) -> MergeReport:
    with Store.open(source, write=False) as other, Store.open(target, write=True) as own:
        return merge_stores(own, other)


class TestWhatIsCarried:
    def test_twice_is_the_same_as_once(self, source: str, target: str) -> None:
        assert merge(source, target) == MergeReport(TRIALS, 1, 1, 0, runs_added=1, poisoned_added=1)
        once = state(target)
        assert merge(source, target) == MergeReport(0, 0, 0, 2)
        assert state(target) == once

    def test_runs_come_after_those_that_are_there(self, source: str, target: str) -> None:
        merge(source, target)
        with Store.open(target, write=False) as store:
            assert [run.spec for run in store.runs.of(PROBLEM, H200)] == [{"seed": 2}, {"seed": 1}]

    def test_a_run_comes_once_over_two_ways(self, source: str, target: str, tmp_path: Path) -> None:
        between = str(tmp_path / "between.db")
        merge(source, between)
        merge(source, target)
        assert merge(between, target).runs_added == 0

    def test_what_crashed_there_is_not_run_here(self, source: str, target: str) -> None:
        merge(source, target)
        with Store.open(target, write=False) as store:
            assert {name: failure.kind for name, failure in store.poisoned(H200).items()} == {"f-1": FailureKind.CRASH}

    def test_what_took_tuners_down_is_not_run_here_and_what_runs_there_is_no_matter(
        self, source: str, target: str
    ) -> None:
        with Store.open(source, write=True) as store:
            store.poison.mark_started(HOST, [Started("filter2d_plain", Config.of({"n": 1}), "deadly")] * MAX_STARTS)
            store.poison.mark_started(HOST, [Started("filter2d_plain", Config.of({"n": 2}), "runs now")])
        assert merge(source, target).poisoned_added == 2
        with Store.open(target, write=True) as store:
            assert list(store.poisoned(HOST)) == ["deadly"]
            store.poison.mark_started(
                HOST, [Started("filter2d_plain", Config.of({"n": 2}), "runs now")] * (MAX_STARTS - 1)
            )
            assert list(store.poisoned(HOST)) == ["deadly"]

    def test_what_is_known_here_of_a_program_stays(self, source: str, target: str) -> None:
        known = dataclasses.replace(tried(-1), outcome=Failure(FailureKind.TIMEOUT, "mine"), compiler="clang")
        with Store.open(target, write=True) as store:
            store.add_trials(PROBLEM, H200, [known])
        assert merge(source, target).poisoned_added == 0
        with Store.open(target, write=False) as store:
            assert store.poisoned(H200) == {"f-1": Failure(FailureKind.TIMEOUT, "mine")}

    def test_a_start_here_becomes_what_is_known_there(self, source: str, target: str) -> None:
        with Store.open(target, write=True) as store:
            store.poison.mark_started(H200, [Started("filter2d_plain", Config.of({"n": -1}), "f-1")])
        assert merge(source, target).poisoned_added == 1
        with Store.open(target, write=False) as store:
            assert store.poisoned(H200)["f-1"].kind is FailureKind.CRASH

    def test_with_itself_changes_nothing(self, source: str) -> None:
        before = state(source)
        with Store.open(source, write=True) as store:
            assert merge_stores(store, store) == MergeReport(0, 0, 0, 2)
        assert state(source) == before

    def test_a_store_of_the_first_schema_has_neither(
        self, source: str, target: str, execute: Callable[..., None]
    ) -> None:
        tables = ("poisoned", "runs", "claims", "tuners")
        execute(
            Path(source),
            *(f"DROP TABLE warpsmith_{table}" for table in tables),
            "UPDATE warpsmith_version SET version_num = '0001'",
            "PRAGMA user_version = 1",
        )
        assert merge(source, target) == MergeReport(TRIALS, 1, 1, 0)
        with Store.open(target, write=False) as store:
            assert [each.spec for each in store.runs.of(PROBLEM, H200)] == [{"seed": 2}]
            assert store.poisoned(H200) == {}


KILL = """
import os, signal, sys
from warpsmith.cli.app import run
from warpsmith.store import merging, sqlite

sqlite.WRITER_PRAGMAS += ("cache_size=1",)  # the file is written to before the end
compete, absorbed = merging._compete, []

def die(connection, row, report):
    absorbed.append(row)
    # An import goes into memory first, with both winners.
    if len(absorbed) > (2 if "import" in sys.argv else 0):
        os.kill(os.getpid(), signal.SIGKILL)
    return compete(connection, row, report)

merging._compete = die
run(sys.argv[1:])
"""

FULL = """
import resource, signal, sys
from pathlib import Path
from warpsmith.cli.app import run

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (Path(sys.argv[-1]).stat().st_size + 16384, -1))
sys.exit(run(sys.argv[1:]))
"""


class TestNothingOrAll:
    @pytest.fixture(params=["merge", "import"])
    def given(self, request: pytest.FixtureRequest, source: str, tmp_path: Path) -> list[str]:
        """A command that merges `source`, without its target."""
        if request.param == "merge":
            return ["db", "merge", source]
        lines = tmp_path / "lines.jsonl"
        assert run(["db", "export", str(lines), "--store", source]) == 0
        return ["db", "import", str(lines)]

    def test_where_the_process_is_killed(self, given: list[str], target: str) -> None:
        before = state(target)
        command = [sys.executable, "-c", KILL, *given, "--store", target]
        done = forking.run(command, check=False, timeout=60)
        assert done.returncode == -signal.SIGKILL
        if "://" not in target:
            assert Path(f"{target}-journal").stat().st_size > 0
        assert state(target) == before

    def test_where_the_disk_is_full(self, given: list[str], tmp_path: Path) -> None:
        path = str(tmp_path / "target.db")
        with Store.open(path, write=True) as store:
            store.put_winner(winner(PROBLEM, 9.0))
            compact_store(store)  # a rollback restores no free pages, which the migrations leave
        before, content = state(path), Path(path).read_bytes()
        command = [sys.executable, "-c", FULL, *given, "--store", path]
        done = forking.run(command, check=False, timeout=60, text=True)
        assert done.returncode == 1
        (line,) = done.stderr.splitlines()
        assert line.startswith(f"warpsmith: error: the disk of {path} ")
        assert "what it held before is kept" in line
        assert Path(path).read_bytes() == content
        assert state(path) == before
        assert run([*given, "--store", path]) == 0

    def test_where_the_database_takes_no_more(
        self, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "target.db"
        with Store.open(str(path), write=True) as store:
            store.put_winner(winner(PROBLEM, 9.0))
        before, pages = state(str(path)), path.stat().st_size // 4096
        monkeypatch.setattr(sqlite, "WRITER_PRAGMAS", (*sqlite.WRITER_PRAGMAS, f"max_page_count={pages}"))
        with pytest.raises(StoreError, match="is full"):
            merge(source, str(path))
        assert state(str(path)) == before

    @pytest.mark.parametrize("number", [1, TRIALS // 2, TRIALS + 2])
    def test_where_a_line_is_bad(self, source: str, target: str, number: int) -> None:
        with Store.open(source, write=False) as store:
            lines = list(export_lines(store))
        entry = json.loads(lines[number])
        entry["device_key"] = "nobody"
        lines[number] = json.dumps(entry)
        before = state(target)
        with Store.open(target, write=True) as store, pytest.raises(StoreError, match=f"line {number + 1}: .*nobody"):
            import_lines(store, lines)
        assert state(target) == before

    @pytest.mark.parametrize("table", ["trials", "winners"])
    def test_where_a_row_is_bad(self, source: str, target: str, table: str) -> None:
        with Store.open(source, write=False) as store:
            contents = contents_of(store)
        rows = list(getattr(contents, table))
        middle = len(rows) // 2
        rows[middle] = {**rows[middle], "device_key": "nobody"}
        before = state(target)
        with Store.open(target, write=True) as store, pytest.raises(StoreError):
            absorb(store, dataclasses.replace(contents, **{table: tuple(rows)}))
        assert state(target) == before
