"""The tuner's side of a worker process: call, wait until a deadline, kill, start again."""

from __future__ import annotations

import contextlib
import functools
import os
import pickle
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Set
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import IO, TypeVar

from warpsmith.errors import DeviceError
from warpsmith.workers.job import LENGTH, Job, Raised

T = TypeVar("T")

_STDERR_TAIL = 4000
"""Characters kept of a dead worker's error output."""
_AT_ONCE_S = 1.0
"""Seconds of the longest single wait. However long this process was stopped, that counts as one such wait at most."""
_REST_S = 10.0
"""Least seconds for the rest of an answer that has begun: a pipe holds only 64 KiB, whatever the answer's length."""


_popen = subprocess.Popen
"""Starts a worker process. Tests fork theirs instead."""


class WorkerDied(Exception):
    """The process ended before it answered. `status` is its exit code, negative for a signal."""

    def __init__(self, status: int, last_words: str) -> None:
        if status < 0:
            super().__init__(f"the worker process was killed by {signal.Signals(-status).name}")
        else:
            super().__init__(f"the worker process ended with exit code {status}")
        self.status = status
        self.last_words = last_words


class DeadlinePassed(Exception):
    """There was no answer in time; the process was killed."""

    def __init__(self, deadline_s: float) -> None:
        super().__init__(f"no answer within {deadline_s:.3g} s")


class Worker:
    """One worker process, started on its first job and again after each death."""

    def __init__(
        self, environment: Mapping[str, str] | None = None, memory_bytes: int | None = None, niceness: int = 0
    ) -> None:
        """Describes the process, which starts with the first call.

        Args:
            environment: variables added to this process's environment.
            memory_bytes: limit of the process's memory; None for none. A job that exceeds it raises OutOfMemory.
            niceness: niceness of the process, higher for lower priority.
        """
        self._environment = {**os.environ, **(environment or {})}
        self.memory_bytes = memory_bytes
        self._niceness = niceness
        self._process: subprocess.Popen[bytes] | None = None
        self._interrupted: subprocess.Popen[bytes] | None = None
        """The process that is about to end and takes no more jobs."""
        self._stderr: IO[bytes] | None = None

    @property
    def alive(self) -> bool:
        """True if a process is running, with whatever its jobs left open in it."""
        process = self._process
        return process is not None and process is not self._interrupted and process.poll() is None

    def call(self, job: Job[T], deadline_s: float) -> T:
        """Runs `job` in the process.

        Raises:
            WorkerDied: the process ended first.
            DeadlinePassed: it did not answer in time and was killed.
            DeviceError: it could not be started or reached: the system has too little memory or disk, or too many
                processes.
            WarpsmithError: the job raised it.
        """
        process = self._process if self.alive and self._process is not None else self._start()
        patience = _Patience(deadline_s)
        body = pickle.dumps(job)
        try:
            self._write(process, LENGTH.pack(len(body)) + body, patience)
            (length,) = LENGTH.unpack(self._read(process, LENGTH.size, patience))
            patience.left_s = max(patience.left_s, _REST_S)
            answer = pickle.loads(self._read(process, length, patience))
        except (EOFError, BrokenPipeError):
            raise self._death(process) from None
        except TimeoutError:
            self.kill()
            raise DeadlinePassed(deadline_s) from None
        except OSError as error:
            self.kill()
            raise DeviceError(f"a worker process cannot be reached: {error.strerror}; try again") from None
        if isinstance(answer, Raised):
            raise answer.error
        result: T = answer
        return result

    def kill(self) -> None:
        """Ends the process at once, with everything it started."""
        if self._process is None:
            return
        if self._process is not self._interrupted:  # otherwise it was ended with its session
            _end_sessions({self._process.pid})
        _reap(self._process)
        for stream in (self._process.stdin, self._process.stdout, self._stderr):
            if stream is not None:
                stream.close()
        self._process, self._stderr = None, None

    def interrupt(self) -> None:
        """Ends the process from another thread than the one that waits in `call`, which then raises WorkerDied."""
        interrupt_all([self])

    def ask_to_end(self) -> None:
        """Sends SIGINT from another thread than the one that waits in `call`, so that the job may end in order."""
        process = self._process
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGINT)

    def close(self, patience_s: float = 5.0) -> None:
        """Lets the process close its device and end; kills it if it does not."""
        if self._process is not None and self._process.stdin is not None and self._process.poll() is None:
            self._process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(patience_s)
        self.kill()

    def _start(self) -> subprocess.Popen[bytes]:
        self.kill()
        limits = os.getpid(), self.memory_bytes or 0, self._niceness
        try:
            self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process, closed by kill()
            self._process = _spawned(
                # -P: a user's folder with a module named like one of ours must not come first.
                [sys.executable, "-P", "-m", "warpsmith.workers.main", *map(str, limits)],
                self._stderr,
                self._environment,
            )
        except (OSError, RuntimeError) as error:  # RuntimeError: the system refuses a new thread
            reason = error.strerror if isinstance(error, OSError) else error
            raise DeviceError(f"no worker process can be started: {reason}; free memory, disk or processes") from None
        assert self._process.stdin is not None
        os.set_blocking(self._process.stdin.fileno(), False)
        return self._process

    def _write(self, process: subprocess.Popen[bytes], message: bytes, patience: _Patience) -> None:
        """Sends a message that may be larger than the pipe holds to a process that may never read it."""
        assert process.stdin is not None
        descriptor = process.stdin.fileno()
        left = memoryview(message)
        while left:
            patience.wait(descriptor, select.POLLOUT)
            left = left[os.write(descriptor, left) :]

    def _read(self, process: subprocess.Popen[bytes], size: int, patience: _Patience) -> bytes:
        assert process.stdout is not None
        descriptor = process.stdout.fileno()
        received = bytearray()
        while len(received) < size:
            patience.wait(descriptor, select.POLLIN)
            chunk = os.read(descriptor, min(size - len(received), 1 << 20))
            if not chunk:
                raise EOFError
            received += chunk
        return bytes(received)

    def _death(self, process: subprocess.Popen[bytes]) -> WorkerDied:
        status = _reap(process)
        last_words = ""
        if self._stderr is not None:
            self._stderr.seek(0, os.SEEK_END)
            self._stderr.seek(max(0, self._stderr.tell() - _STDERR_TAIL))
            last_words = self._stderr.read().decode(errors="replace").strip()
        self.kill()
        return WorkerDied(status, last_words)


def _spawned(command: list[str], stderr: IO[bytes], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:

    def start() -> subprocess.Popen[bytes]:
        return _popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            bufsize=0,
            env=environment,
            start_new_session=True,  # Ctrl-C is for the tuner, which then ends its workers itself
        )

    starting = _spawner(os.getpid()).submit(start)
    try:
        return starting.result()
    except BaseException:  # Ctrl-C must leave no process behind
        starting.add_done_callback(_kill_unwanted)
        raise


def _kill_unwanted(started: Future[subprocess.Popen[bytes]]) -> None:
    if not started.cancelled() and started.exception() is None:
        started.result().kill()


@functools.cache
def _spawner(_process: int) -> ThreadPoolExecutor:
    """The one thread of a process that starts its workers. Linux ends a worker that dies with its parent when the
    thread that started it ends, and the threads that use workers come and go. A forked child needs its own.
    """
    return ThreadPoolExecutor(1, thread_name_prefix="warpsmith-spawner")


def _reap(process: subprocess.Popen[bytes]) -> int:
    """Waits until the process has ended; returns its exit code, or minus the signal's number.

    It does not use the process's wait(): a KeyboardInterrupt inside its poll() would leave that waiting for a lock for
    ever.
    """
    if process.returncode is None:
        try:
            process.returncode = os.waitstatus_to_exitcode(os.waitpid(process.pid, 0)[1])
        except ChildProcessError:  # it was reaped, and the interrupt struck before that was noted
            process.returncode = -signal.SIGKILL
    return process.returncode


class _Patience:
    """Rest of a deadline, in seconds in which this process ran."""

    def __init__(self, seconds: float) -> None:
        self.left_s = seconds

    def wait(self, descriptor: int, event: int) -> None:
        """Returns when the pipe is ready or its other end closed. Raises TimeoutError at the deadline."""
        poll = select.poll()  # unlike select(), poll() also takes descriptors above 1024 in a large program
        poll.register(descriptor, event)
        while True:
            start, most = time.monotonic(), min(max(self.left_s, 0.0), _AT_ONCE_S)
            is_ready = poll.poll(most * 1e3)
            self.left_s -= min(time.monotonic() - start, most)
            if is_ready:
                return
            if self.left_s <= 0:
                raise TimeoutError


def interrupt_all(workers: Iterable[Worker]) -> None:
    """Interrupts all workers. Finding the processes that 64 workers have started takes as long as for one."""
    processes = []
    for worker in workers:
        if (process := worker._process) is not None and process is not worker._interrupted:
            worker._interrupted = process
            processes.append(process)
    _end_sessions({process.pid for process in processes})


def _end_sessions(leaders: Set[int]) -> None:
    """Kills processes and their sessions. A compiler that one of them started has its own process group and may outlive
    it, even if it died by itself.
    """
    for leader in leaders:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(leader, signal.SIGKILL)
    for entry in Path("/proc").iterdir() if leaders else ():
        with contextlib.suppress(OSError, ValueError):  # it has ended, or the entry is no process
            if os.getsid(process := int(entry.name)) in leaders:
                os.kill(process, signal.SIGKILL)
