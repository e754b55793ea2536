"""SIGTERM and SIGHUP end a search as Ctrl-C does: the best winner so far is stored, and no process is left."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from warpsmith.store.contents import count_rows
from warpsmith.store.store import Store

SHAPE = ("--image", "48x64", "--filter", "3x3", "--device", "host")
LONGEST_S = 120.0

FROM_PYTHON = """
import sys
import warpsmith as ws
report = ws.tune(ws.Filter2d(image=(48, 64), filter=(3, 3)), "host", trials=100_000, store=sys.argv[1])
print(report.interrupted, report.record is not None)
"""


def started(store: Path, *arguments: str, before: str = "") -> subprocess.Popen[str]:
    """Starts a search in its own session, so that its children can be found."""
    words = [sys.executable, *(arguments or ("-m", "warpsmith", "tune", "filter2d", *SHAPE, "--trials", "100000"))]
    words += [str(store)] if arguments else ["--store", str(store), "--json"]
    environment = {**os.environ, "WARPSMITH_CACHE_DIR": str(store.parent / "cache")}  # so that something is compiled
    return subprocess.Popen(
        ["sh", "-c", f'{before} exec "$@"', "sh", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def descendants(pid: int) -> set[int]:
    """Processes that `pid` started and their descendants, compilers among them."""
    children: dict[int, set[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            children.setdefault(int(status.read_text().rpartition(")")[2].split()[1]), set()).add(
                int(status.parent.name)
            )
    found, left = set[int](), [pid]
    while left:
        new = children.get(left.pop(), set()) - found
        found |= new
        left += new
    return found


def wait_until(process: subprocess.Popen[str], done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LONGEST_S
    while not done():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def trials_in(store: Path) -> int:
    if not store.exists() or store.stat().st_size == 0:
        return 0
    with Store.open(str(store), write=False) as opened:
        return count_rows(opened).trials


def is_running(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def ended(process: subprocess.Popen[str], *signals: signal.Signals) -> tuple[int, str, str]:
    """Ends the search in mid-compilation and returns its exit code and output. Fails if a process that it started still
    runs.
    """
    children = descendants(process.pid)
    for each in signals:
        process.send_signal(each)
    output, errors = process.communicate(timeout=LONGEST_S)
    assert [pid for pid in children if is_running(pid)] == []
    return process.returncode, output, errors


def test_sigterm_keeps_the_winner_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """SIGHUP is ignored beforehand, as under `nohup`, and stays ignored."""
    store = tmp_path / "a.db"
    process = started(store, before='trap "" HUP;')
    wait_until(process, lambda: trials_in(store) >= 1)
    process.send_signal(signal.SIGHUP)
    known = trials_in(store)
    wait_until(process, lambda: trials_in(store) > known + 1)
    code, output, errors = ended(process, signal.SIGTERM)
    assert code == 0, errors
    assert json.loads(output)["interrupted"] is True
    with Store.open(str(store), write=False) as opened:
        assert len(opened.records()) == 1


def test_a_program_that_calls_tune_gets_its_report_and_others_that_follow_are_no_second_ctrl_c(tmp_path: Path) -> None:
    """A closing terminal sends SIGHUP, and a session manager may send SIGTERM after it."""
    store = tmp_path / "a.db"
    process = started(store, "-c", FROM_PYTHON)
    wait_until(process, lambda: trials_in(store) >= 3)
    assert ended(process, signal.SIGHUP, signal.SIGTERM, signal.SIGHUP) == (0, "True True\n", "")


def test_before_the_first_trial_compilers_are_ended_too(tmp_path: Path) -> None:
    process = started(tmp_path / "a.db")
    compilers = [f"{name}\n" for name in ("g++", "cc1plus", "clang++", "c++")]

    def compiles() -> bool:
        names = (Path(f"/proc/{pid}/comm") for pid in descendants(process.pid))
        with contextlib.suppress(OSError):
            return any(name.read_text() in compilers for name in names)
        return False

    wait_until(process, compiles)
    code, _, errors = ended(process, signal.SIGTERM)
    assert code in (0, 1)
    assert "Traceback" not in errors
