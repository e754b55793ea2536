"""The process in whose forks one system call fails: `python calls_server.py FOLDER`, under failing_calls.c.

It runs each command of loop_syscalls once, so that all modules are imported and all kernels compiled. Then it reads
requests from standard input, one JSON line each. It forks for each request, and reports on standard output how the fork
ended.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from loop_syscalls import COMMANDS, LONGEST_S, prepare
from warpsmith.cli.app import run

COUNT = "count of calls"


def main() -> None:
    folder = Path(sys.argv[1])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    os.chdir(folder)
    for name, command in COMMANDS.items():
        prepare(folder)
        if (code := run(list(command))) != 0:
            raise SystemExit(f"{name} ends with {code} where no call fails")
    for line in sys.stdin:
        answers.write(json.dumps(forked(folder, json.loads(line))) + "\n")
        answers.flush()


def forked(folder: Path, request: dict[str, Any]) -> dict[str, Any]:
    """Runs the command of a request in a fork. Returns its exit code (None for a hang), its output, and its calls."""
    prepare(folder)
    child = os.fork()
    if child == 0:
        _run(folder, request)
    end = time.monotonic() + LONGEST_S
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            break
        time.sleep(0.005)
    read = {name: (folder / name).read_text(errors="replace") for name in ("output", "errors", COUNT)}
    return {"code": os.waitstatus_to_exitcode(ended[1]) if ended[0] else None, **read}


def _run(folder: Path, request: dict[str, Any]) -> None:
    faulthandler.dump_traceback_later(LONGEST_S - 5, exit=False)
    code = 99
    try:
        for name, descriptor in (("output", 1), ("errors", 2)):
            made = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(made, descriptor)
            os.close(made)
        count = os.open(folder / COUNT, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        calls = ctypes.CDLL(None)
        arm, counted = calls.calls_arm, calls.calls_count
        arm.argtypes, counted.restype = [ctypes.c_long, ctypes.c_long, ctypes.c_int, ctypes.c_int], ctypes.c_long
        arm(request["first"], request["last"], request["errno"], request["kinds"])
        try:
            code = run(list(COMMANDS[request["command"]]))
        finally:
            made = counted()
            arm(0, -1, 0, 0)
            os.write(count, str(made).encode())
            sys.stdout.flush()
            sys.stderr.flush()
    except BaseException:
        import traceback

        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(code & 0xFF)


if __name__ == "__main__":
    main()
