"""One system call of a search, an export or a look-up fails, or all calls from one on, and no stored data is lost.

The user sees at most one line of an error and its exit code, never an uncaught Python error, and never a hang. The
calls of the process itself fail, not those of its workers and compilers, whose deaths tests/host/test_faults.py tests.
The loop compiles `failing_calls.c` when it begins. With seed 0 and enough cases every call of every command fails once
with each error.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import errno
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from builders import winner
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import WarpsmithError
from warpsmith.generator.filter2d import Filter2d
from warpsmith.plans.bundle import load_bundle
from warpsmith.store.contents import check_store
from warpsmith.store.store import Store

LONGEST_S = 60.0
STORED, WANTED = Filter2d(image=(64, 64), filter=(3, 3)), Filter2d(image=(32, 32), filter=(3, 3))
_SHAPE = ("filter2d", "--image", "64x64", "--filter", "3x3")
_NEW = ("filter2d", "--image", "32x32", "--filter", "3x3", "--device", "host", "--trials", "1")
COMMANDS: dict[str, tuple[str, ...]] = {
    "query": ("query", *_SHAPE, "--device", "host", "--json"),
    "export": ("export", *_SHAPE, "--out", "bundle", "--json"),
    "export-again": ("export", *_SHAPE, "--out", "earlier", "--json"),
    "merge": ("db", "merge", "other.db", "--json"),
    "lines": ("db", "export", "lines.jsonl", "--json"),
    "prune": ("db", "prune", "--keep-trials", "1", "--yes", "--json"),
    "tune": ("tune", *_NEW, "--json"),
}
TURNS = tuple(COMMANDS)


class Fault(enum.Enum):
    """An error, the kinds of calls that it strikes (failing_calls.c), and whether it lasts."""

    BAD_DISK = errno.EIO, 23, False
    FULL_DISK = errno.ENOSPC, 6, True
    FULL_FOR_A_MOMENT = errno.ENOSPC, 6, False
    SIGNAL = errno.EINTR, 7, False
    NO_MEMORY = errno.ENOMEM, 12, False
    NO_DESCRIPTOR = errno.EMFILE, 5, False
    READ_ONLY = errno.EROFS, 20, True


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """A command, the fault of its calls, and the number of the failing call; numbers past the last call wrap around."""

    command: str
    fault: Fault
    number: int

    def __str__(self) -> str:
        return f"{self.command} {self.fault.name} {self.number}"


def cases(seed: int, count: int) -> Iterator[Case]:
    """`count` cases that cycle through the commands, then through faults, and then through calls."""
    faults = tuple(Fault)
    for number in range(count):
        turn, command = divmod(number, len(TURNS))
        place, fault = divmod(turn, len(faults))
        yield Case(TURNS[command], faults[(fault + command) % len(faults)], place + seed * 7919)


def parse(text: str) -> Case:
    """The case that `str` wrote."""
    command, fault, number = text.split()
    return Case(command, Fault[fault], int(number))


def prepare(folder: Path) -> None:
    """Restores all files that a command may change."""
    for name in ("data", "bundle", "earlier"):
        shutil.rmtree(folder / name, ignore_errors=True)
    (folder / "lines.jsonl").write_text("earlier\n")
    own = folder / "data" / "warpsmith"
    own.mkdir(parents=True)
    shutil.copy(folder / "sound.db", own / "store.db")
    if (folder / "made").exists():
        shutil.copytree(folder / "made", folder / "earlier")


class Server:
    """The process that forks, and the number of calls of each command by kinds of calls."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        host = DeviceRef.parse("host").device()
        for name, problem in (("sound.db", STORED), ("other.db", Filter2d(image=(16, 16), filter=(3, 3)))):
            with Store.open(str(folder / name), write=True) as store:
                record = winner(problem, 900.0, host)
                store.add_trials(problem, host, [record.trial])
                store.put_winner(record)
        library = folder / "failing_calls.so"
        source = Path(__file__).with_name("failing_calls.c")
        compiler = shutil.which("cc") or "gcc"
        subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
        paths = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
        environment = {
            **os.environ,
            "LD_PRELOAD": str(library),
            "PYTHONPATH": os.pathsep.join(paths),
            "XDG_DATA_HOME": str(folder / "data"),
            "WARPSMITH_CACHE_DIR": os.environ.get("WARPSMITH_CACHE_DIR", str(folder / "cache")),
        }
        environment.pop("WARPSMITH_STORE", None)
        self._errors = (folder / "server").open("w+")
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("calls_server.py")), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=environment,
            cwd=folder,
        )
        self._counts: dict[tuple[str, int], int] = {}

    def ran(self, command: str, first: int, last: int, fault: Fault) -> dict[str, Any]:
        """The end of a command whose calls from `first` to `last` fail."""
        number, kinds, _ = fault.value
        request = {"command": command, "first": first, "last": last, "errno": number, "kinds": kinds}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        except (ValueError, BrokenPipeError):
            self._errors.seek(0)
            raise RuntimeError(f"the server ended: {self._errors.read()[-1000:]}") from None
        return answer

    def calls(self, command: str, fault: Fault) -> int:
        """Number of calls of the fault's kinds that a command makes."""
        kinds = fault.value[1]
        if (command, kinds) not in self._counts:
            self._counts[command, kinds] = int(self.ran(command, 0, 0, fault)["count of calls"])
        return self._counts[command, kinds]

    def keep_bundle(self) -> None:
        """Makes the bundle that `export-again` replaces."""
        self.ran("export", 0, 0, Fault.BAD_DISK)
        shutil.copytree(self.folder / "bundle", self.folder / "made")

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._errors.close()


_SERVERS: list[Server] = []


@contextlib.contextmanager
def opened() -> Iterator[None]:
    """Compiles the library and starts the server."""
    with tempfile.TemporaryDirectory() as name:
        server = Server(Path(name))
        try:
            server.keep_bundle()
            _SERVERS.append(server)
            yield
        finally:
            _SERVERS.clear()
            server.close()


def check(case: Case) -> str | None:
    """The fault, in one line; None if there is none."""
    (server,) = _SERVERS
    calls = server.calls(case.command, case.fault)
    if calls == 0:
        return None
    first = 1 + case.number % calls
    told = server.ran(case.command, first, 10**9 if case.fault.value[2] else first, case.fault)
    if told["code"] == 3 and case.command == "query" and "; going on without this store" in told["errors"]:
        return None  # the next stores were asked, and have nothing
    wrong = _told(told, case.fault) or _kept(server.folder) or _done(case.command, told, server.folder)
    return None if wrong is None else f"{wrong} (call {first} of {calls})"


def _told(told: dict[str, Any], fault: Fault) -> str | None:
    """The fault of the process's end or of its output."""
    code, errors = told["code"], told["errors"]
    if code is None:
        return f"a hang: {errors[-1500:]!r}"
    if code not in (0, 1):
        return f"exit code {code}: {errors[-300:]!r}"
    for word in ("Traceback", "Exception ignored", "Exception in thread"):
        if word in errors:
            return f"{word}: {errors[errors.index(word) :][-300:]!r}"
    lines = re.findall("^warpsmith: error: .*", errors, re.MULTILINE)
    if not lines and fault is Fault.FULL_DISK:  # standard error lies on it too
        return None
    return None if len(lines) == code else f"exit code {code} with {len(lines)} lines of errors: {errors[-300:]!r}"


def _kept(folder: Path) -> str | None:
    """The fault of the store."""
    path = folder / "data" / "warpsmith" / "store.db"
    try:
        with Store.open(str(path), write=False) as store:
            if problems := check_store(store):
                return f"the store is damaged: {problems[0]}"
            records = {record.problem: record.timing.median_ns for record in store.records()}
    except WarpsmithError as error:
        return f"the store cannot be read: {error}"
    return None if records.get(STORED) == 900.0 else "the stored winner is lost"


def _done(command: str, told: dict[str, Any], folder: Path) -> str | None:
    """The fault of the command's result."""
    if (folder / "lines.jsonl").read_text()[:2] not in ("ea", '{"'):
        return "a file was half written"
    for name in ("bundle", "earlier"):
        # Without a manifest there are files of an export that could not remove them.
        if (folder / name / "manifest.json").exists():
            try:
                load_bundle(folder / name)
            except WarpsmithError as error:
                return f"half a bundle: {error}"
    if not (folder / "earlier" / "manifest.json").exists():
        return "the earlier bundle is lost"
    if told["code"] != 0:
        return None
    try:
        answer = json.loads(told["output"])
    except ValueError:
        return f"exit code 0 and no answer: {told['output'][:100]!r}"
    if command == "query" and answer["time_ns"] != 900.0 and "warning: " not in told["errors"]:
        return "another answer than the stored one, without a warning"
    if command == "export" and not (folder / "bundle" / "manifest.json").exists():
        return "exit code 0 and no bundle"
    return None
