"""Several processes, killed processes, full disks: added rows stay."""

from __future__ import annotations

import dataclasses
import re
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

import forking
from builders import SMALL as PROBLEM
from builders import trial
from warpsmith.errors import StoreError
from warpsmith.generator.presets import H200
from warpsmith.store import sqlite
from warpsmith.store.contents import check_store
from warpsmith.store.record import Failure, FailureKind
from warpsmith.store.store import Store


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A store of ten trials."""
    path = tmp_path / "a.db"
    with Store.open(str(path), write=True) as store:
        for number in range(10):
            store.add_trials(PROBLEM, H200, [trial(number)])
    return path


def names(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir()]


class TestWriting:
    def test_waits_for_another_process_and_then_says_so(self, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_S", 0.1)
        with Store.open(str(file), write=True) as store:
            writer = sqlite3.connect(file, isolation_level=None)
            writer.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreError, match=rf"another process is writing {file}"):
                store.add_trials(PROBLEM, H200, [trial(99)])
            writer.close()
            store.add_trials(PROBLEM, H200, [trial(99)])
            assert len(store.trials(PROBLEM, H200)) == 11

    def test_a_full_disk_loses_only_the_new(self, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        pages = file.stat().st_size // 4096
        monkeypatch.setattr(sqlite, "WRITER_PRAGMAS", (*sqlite.WRITER_PRAGMAS, f"max_page_count={pages}"))
        huge = dataclasses.replace(trial(99), outcome=Failure(FailureKind.COMPILE, "x" * 100_000))
        with Store.open(str(file), write=True) as store:
            with pytest.raises(StoreError, match=rf"the disk of {file} is full"):
                store.add_trials(PROBLEM, H200, [huge])
            assert len(store.trials(PROBLEM, H200)) == 10
            assert check_store(store) == ()

    def test_a_file_that_may_not_grow_loses_only_the_new(self, file: Path) -> None:
        """The kernel refuses to write, which is nearest to a full disk without needing one."""
        script = f"""
import resource, signal
from warpsmith.errors import StoreError
from warpsmith.generator.presets import H200
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.space import Config
from warpsmith.store.record import Failure, FailureKind, Trial
from warpsmith.store.store import Store

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with Store.open({str(file)!r}, write=True) as store:
    resource.setrlimit(resource.RLIMIT_FSIZE, ({file.stat().st_size} + 8192, -1))
    for n in range(100, 10_000):
        trial = Trial("late", Config.of({{"n": n}}), "f", Failure(FailureKind.COMPILE, "x" * 500), "g++ 12.2.0")
        try:
            store.add_trials(Filter2d(image=(64, 64), filter=(3, 3)), H200, [trial])
        except StoreError as error:
            print(n - 100, error)
            break
"""
        done = forking.run([sys.executable, "-c", script], text=True, check=True, timeout=60)
        kept, _, line = done.stdout.strip().partition(" ")
        assert re.fullmatch(rf"the disk of {file} (is|failed or is) full.*: .*what it held before is kept", line)
        with Store.open(str(file), write=True) as store:
            assert check_store(store) == ()
            found = store.trials(PROBLEM, H200)
            assert found[:10] == tuple(trial(n) for n in range(10))
            assert [each.config.integer("n") for each in found[10:]] == list(range(100, 100 + int(kept)))
            assert int(kept) > 0
            store.add_trials(PROBLEM, H200, [trial(99)])
        assert names(file.parent) == [file.name]


ADD_TRIALS = """
import sys
from warpsmith.generator.presets import H200
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.space import Config
from warpsmith.store.record import Failure, FailureKind, Trial
from warpsmith.store.store import Store

path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
with Store.open(path, write=True) as store:
    for n in range(count):
        trial = Trial(name, Config.of({"n": n}), "f", Failure(FailureKind.COMPILE, "no"), "g++ 12.2.0")
        store.add_trials(Filter2d(image=(64, 64), filter=(3, 3)), H200, [trial])
        print(n, flush=True)
"""


class TestProcesses:
    def start(self, path: Path, name: str, count: int) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", ADD_TRIALS, str(path), name, str(count)]
        return forking.popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def test_two_make_and_fill_one_file_at_the_same_time(self, tmp_path: Path) -> None:
        path = tmp_path / "a.db"
        writers = [self.start(path, name, 40) for name in ("one", "two")]
        for writer in writers:
            _, errors = writer.communicate(timeout=60)
            assert writer.returncode == 0, errors
        with Store.open(str(path), write=False) as store:
            found = {(each.family, each.config.integer("n")) for each in store.trials(PROBLEM, H200)}
        assert found == {(name, n) for name in ("one", "two") for n in range(40)}

    def test_a_kill_loses_no_trial_that_was_added(self, tmp_path: Path) -> None:
        path = tmp_path / "a.db"
        for attempt in range(3):
            writer = self.start(path, f"attempt {attempt}", 100_000)
            assert writer.stdout is not None
            printed = [int(writer.stdout.readline()) for _ in range(20 + attempt)]
            writer.send_signal(signal.SIGKILL)
            rest, _ = writer.communicate(timeout=60)
            printed += [int(line) for line in rest.splitlines(keepends=True) if line.endswith("\n")]
            with Store.open(str(path), write=False) as store:
                mine = [each for each in store.trials(PROBLEM, H200) if each.family == f"attempt {attempt}"]
                assert check_store(store) == ()
            assert [each.config.integer("n") for each in mine][: len(printed)] == printed
            assert len(mine) - len(printed) <= 1  # added, and killed before it was printed

    def test_a_reader_rolls_back_what_a_killed_writer_left(self, file: Path) -> None:
        # SQLite flushes half of a transaction to the file where its cache is too small, then the kill comes.
        script = f"""
import os, signal, sqlite3
connection = sqlite3.connect({str(file)!r}, isolation_level=None)
connection.execute("PRAGMA cache_size = 1")
connection.execute("BEGIN IMMEDIATE")
connection.execute("UPDATE warpsmith_trials SET spec = hex(zeroblob(20000))")
os.kill(os.getpid(), signal.SIGKILL)
"""
        subprocess.run([sys.executable, "-c", script], check=False, timeout=60)
        assert file.with_name("a.db-journal").stat().st_size > 0
        with Store.open(str(file), write=False) as store:
            assert store.trials(PROBLEM, H200) == tuple(trial(n) for n in range(10))
            assert check_store(store) == ()
        assert names(file.parent) == [file.name]
