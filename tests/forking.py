"""Forks Python processes from one that has imported what they need, which takes a worker 0.3 s and a tuner 0.8 s.

The forking process starts by itself before any test, so that it has one thread and nothing that a test replaced. What
it forks is a child of the process that requests it, with the environment, folder, streams and session that
`subprocess.Popen` gives. Processes that end with their parent's thread (`PR_SET_PDEATHSIG`) end with the thread that
made the first request. Tests of how a process starts use `subprocess.Popen` itself.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import dataclasses
import gc
import importlib
import inspect
import json
import os
import platform
import runpy
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from warpsmith.workers import worker

IMPORTED = (
    "alembic.config",
    "alembic.command",
    "alembic.script",
    "optuna",
    "optuna.storages._rdb.models",
    "psycopg",
    "sqlalchemy.orm",
    "warpsmith.cli.app",
    "warpsmith.cli.tune",
    "warpsmith.generator.filter2d.fft.fft_family",
    "warpsmith.generator.filter2d.matrix_family",
    "warpsmith.generator.filter2d.overlap_family",
    "warpsmith.generator.filter2d.plain_family",
    "warpsmith.generator.filter2d.warpgroup_family",
    "warpsmith.generator.filter2d.window_family",
    "warpsmith.store.migrations",
    "warpsmith.store.store",
    "warpsmith.templates",
    "warpsmith.tuner.evaluate.bench",
    "warpsmith.tuner.run.session",
    "warpsmith.tuner.search.studies.samplers",
    "warpsmith.tuner.search.studies.study_store",
    "warpsmith.tuner.workers.compile_pool",
)
"""Modules of tuners and of their workers."""
READ_AT_START = (
    "ASAN_OPTIONS",
    "LD_PRELOAD",
    "OPENBLAS_NUM_THREADS",
    "PYTHONHASHSEED",
    "PYTHONOPTIMIZE",
    "PYTHONWARNINGS",
    "UBSAN_OPTIONS",
)
"""Variables that a process reads before its first line runs, or when it imports NumPy."""
CLONE_PARENT = 0x8000  # linux/sched.h
CLONE = {"x86_64": 56, "aarch64": 220}.get(platform.machine()) if sys.platform == "linux" else None
"""Number of the system call; None where tests start their processes."""
LENGTH_BYTES = 8
WORKER = "warpsmith.workers.main"


@dataclasses.dataclass(frozen=True)
class Request:
    """The process to fork: a Python command line, and what it finds."""

    command: Sequence[str]
    environment: Mapping[str, str]
    folder: str
    own_session: bool


class Forker:
    """The side of the process that requests forks. The forking process starts with the first request.

    Args:
        environment: environment of the forking process.
        channel: way to a forking process that runs already.
    """

    def __init__(self, environment: Mapping[str, str], channel: socket.socket | None = None) -> None:
        self._environment = dict(environment)
        self._channel = channel
        self._lock = threading.Lock()

    def start(self, request: Request, streams: Sequence[int]) -> int:
        """Forks a process with the given standard streams and returns its id."""
        body = json.dumps(dataclasses.asdict(request)).encode()
        with self._lock:
            channel = self._channel = self._channel or self._started()
            socket.send_fds(channel, [len(body).to_bytes(LENGTH_BYTES, "little")], streams)
            channel.sendall(body)
            return int.from_bytes(_received(channel, LENGTH_BYTES), "little")

    def _started(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-P", __file__, str(theirs.fileno())]
            process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=self._environment)
        atexit.register(_end, ours, process)
        return ours


def _end(channel: socket.socket, process: subprocess.Popen[Any]) -> None:
    channel.close()
    process.wait()


_FORKERS: dict[Hashable, Forker] = {}
"""Forkers of this process, by its number and what they found at their start."""
_AT_IMPORT = dict(os.environ)


def _read_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: environment[name] for name in READ_AT_START if name in environment}


def _has_sitecustomize(environment: Mapping[str, str]) -> bool:
    """Whether a process that starts would first run a line of a test."""
    folders = environment.get("PYTHONPATH", "").split(os.pathsep)
    return any(Path(each, "sitecustomize.py").exists() for each in folders if each)


def _forker(environment: Mapping[str, str]) -> Forker:
    read = _read_at_start(environment)
    usual = {name: value for name, value in _AT_IMPORT.items() if name not in READ_AT_START}
    return _FORKERS.setdefault((os.getpid(), *read.items()), Forker({**usual, **read}))


def popen(command: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
    """A process like that of `subprocess.Popen(command, **options)`, forked where a Python process is started."""
    environment = options.get("env") or os.environ
    if CLONE is None or command[0] != sys.executable or _has_sitecustomize(environment):
        return subprocess.Popen(command, **options)
    return _Forked(_forker(environment), command, **options)


def run(
    command: Sequence[str], *, check: bool, timeout: float | None = None, **options: Any
) -> subprocess.CompletedProcess[Any]:
    """The result of such a process, with what it printed."""
    with popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options) as process:
        try:
            output, errors = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(command, process.returncode, output, errors)
    if check:
        done.check_returncode()
    return done


def fork_workers() -> None:
    """Forks the workers of searches in this process from now on."""
    worker._popen = popen  # type: ignore[assignment]


class _Forked(subprocess.Popen[Any]):
    def __init__(self, forker: Forker, command: Sequence[str], **options: Any) -> None:
        self._forker = forker
        super().__init__(command, **options)

    def _execute_child(self, *given: Any) -> None:
        called = inspect.signature(subprocess.Popen._execute_child).bind(self, *given).arguments  # type: ignore[attr-defined]
        environment = called["env"]
        request = Request(
            [os.fspath(word) for word in called["args"]],
            dict(os.environ if environment is None else environment),
            str(called["cwd"] or Path.cwd()),
            called["start_new_session"],
        )
        theirs = [called[name] for name in ("p2cread", "c2pwrite", "errwrite")]
        self.pid = self._forker.start(request, [own if own != -1 else n for n, own in enumerate(theirs)])
        self._child_created = True
        self._close_pipe_fds(*(called[name] for name in PIPES))  # type: ignore[attr-defined]


PIPES = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")


def _received(channel: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = channel.recv(size - len(parts))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)


def serve(channel: socket.socket) -> Request:
    """Forks processes on request. Returns in each of them; the forking process ends with the one that requests."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the processes that it forked
    libc = ctypes.PyDLL(None)  # keeps the interpreter's lock
    while True:
        try:
            header, streams, _, _ = socket.recv_fds(channel, LENGTH_BYTES, 3)
            header += _received(channel, LENGTH_BYTES - len(header))
            request = Request(**json.loads(_received(channel, int.from_bytes(header, "little"))))
        except (EOFError, ConnectionResetError):
            os._exit(0)
        ctypes.pythonapi.PyOS_BeforeFork()
        process = libc.syscall(CLONE, CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)
        if process == 0:
            ctypes.pythonapi.PyOS_AfterFork_Child()
            channel.close()
            _become(request, streams)
            return request
        ctypes.pythonapi.PyOS_AfterFork_Parent()
        for stream in streams:
            os.close(stream)
        channel.sendall(process.to_bytes(LENGTH_BYTES, "little"))


def _become(request: Request, streams: Sequence[int]) -> None:
    if request.own_session:
        os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    # Python's own streams remember what kind of files they were opened on.
    sys.stdin = sys.__stdin__ = os.fdopen(0, closefd=False)  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = os.fdopen(1, "w", closefd=False)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # type: ignore[misc]
    os.environ.clear()
    os.environ.update(request.environment)
    os.chdir(request.folder)
    known = request.environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [each for each in known if each and each not in sys.path]
    signal.signal(signal.SIGINT, signal.default_int_handler)


def leave_copy(request: Request) -> Request:
    """Leaves a copy of this process, still without threads, which forks its workers. Returns `request`."""
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        ours.close()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(nowhere, number)
        os.close(nowhere)
        return serve(theirs)
    theirs.close()
    _FORKERS[(os.getpid(), *_read_at_start(os.environ).items())] = Forker(os.environ, ours)
    fork_workers()
    return request


def execute(command: Sequence[str]) -> int:
    """Runs what the words after Python's own name say, `-c TEXT`, `-m MODULE` or a file; returns the exit code."""
    words = [word for word in command[1:] if word not in ("-P", "-u")]
    kind, *rest = words
    try:
        if kind == "-c":
            text, *arguments = rest
            sys.argv = ["-c", *arguments]
            sys.path.insert(0, "")
            main = sys.modules["__main__"] = ModuleType("__main__")
            exec(compile(text, "<string>", "exec"), main.__dict__)
        elif kind == "-m":
            sys.argv = rest
            runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        else:
            sys.argv = words
            sys.path.insert(0, str(Path(kind).parent))
            runpy.run_path(kind, run_name="__main__")
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        print(ended.code, file=sys.stderr)
        return 1
    return 0


def leave(code: int) -> None:
    """Ends the process as Python does, but frees no objects, which would copy the memory that processes share."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main() -> None:
    for name in IMPORTED:
        with contextlib.suppress(ModuleNotFoundError):  # an extra that is not installed
            importlib.import_module(name)
    assert len(list(Path("/proc/self/task").iterdir())) == 1, "an import has started a thread, which no fork would have"
    gc.freeze()
    request = serve(socket.socket(fileno=int(sys.argv[1])))
    if WORKER not in request.command:
        request = leave_copy(request)
    leave(execute(request.command))


if __name__ == "__main__":
    main()
