"""What `forking` gives is what `subprocess` gives: streams, environment, folder, session, exit codes and parents."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import forking

SAYS = """
import json, os, signal, sys
print(json.dumps([sys.argv, os.environ["WORD"], os.getcwd(), os.getppid(), os.getsid(0) == os.getpid()]))
print(sys.stdin.read(), [signal.getsignal(each).__class__.__name__ for each in (signal.SIGINT, signal.SIGTERM)])
print("an error", file=sys.stderr)
sys.exit(7)
"""


@pytest.mark.parametrize("own_session", [False, True])
def test_a_process_finds_what_one_that_is_started_finds(tmp_path: Path, own_session: bool) -> None:
    def outcome(start: object) -> tuple[str, str, int]:
        process = start(  # type: ignore[operator]
            [sys.executable, "-c", SAYS, "an argument"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "WORD": "größer"},
            cwd=tmp_path,
            start_new_session=own_session,
            text=True,
        )
        return (*process.communicate("given", timeout=60), process.returncode)

    assert outcome(forking.popen) == outcome(subprocess.Popen)


@pytest.mark.parametrize(
    ("text", "code", "last"),
    [
        ("import os; os._exit(3)", 3, ""),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, ""),
        ("raise KeyboardInterrupt", -signal.SIGINT, "KeyboardInterrupt"),
        ("raise ValueError(5)", 1, "ValueError: 5"),
        ("raise SystemExit('a reason')", 1, "a reason"),
        ("import atexit; atexit.register(print, 'bye', file=__import__('sys').stderr)", 0, "bye"),
    ],
)
def test_it_ends_as_python_does(text: str, code: int, last: str) -> None:
    for start in (forking.popen, subprocess.Popen):
        process = start([sys.executable, "-c", text], stderr=subprocess.PIPE, text=True)
        _, errors = process.communicate(timeout=60)
        assert (process.returncode, errors.splitlines()[-1:]) == (code, [last] * bool(last))


def test_modules_that_tests_add_are_found(tmp_path: Path) -> None:
    (tmp_path / "a_module.py").write_text("print('imported', __name__)")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    for words in (["-m", "a_module"], [str(tmp_path / "a_module.py")]):
        done = forking.run([sys.executable, *words], check=True, env=environment, text=True)
        assert done.stdout == "imported __main__\n"


def test_one_that_reads_a_line_of_a_test_at_its_start_is_started(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('customised')")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    assert forking.run([sys.executable, "-c", ""], check=True, env=environment, text=True).stdout == "customised\n"
