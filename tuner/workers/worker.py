"""The tuner's side of a worker process: ask, wait until a deadline, kill, start again."""

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
from warpsmith.tuner.workers.job import Job
from warpsmith.tuner.workers.wire import LENGTH, Raised

T = TypeVar("T")

_STDERR_TAIL = 4000
"""Characters of a dead worker's last words that are kept."""
_AT_ONCE_S = 1.0
"""Longest single wait. Time in which this process was stopped or frozen counts as one of them, whatever it lasted."""
_REST_S = 10.0
"""At the least, for the rest of an answer that has begun: a pipe holds 64 KiB of it, whatever its length."""


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
    """No answer in time; the process was killed."""

    def __init__(self, deadline_s: float) -> None:
        super().__init__(f"no answer within {deadline_s:.3g} s")


class Worker:
    """One worker process, started on its first job and again after each death."""

    def __init__(
        self, environment: Mapping[str, str] | None = None, memory_bytes: int | None = None, niceness: int = 0
    ) -> None:
        """One process.

        Args:
            environment: variables that the process gets beside this one's.
            memory_bytes: what it may take of the machine's memory; None for no bound. More is an OutOfMemory.
            niceness: by how much it gives way to processes that are in more of a hurry.
        """
        self._environment = {**os.environ, **(environment or {})}
        self._limits = (str(memory_bytes or 0), str(niceness))
        self._process: subprocess.Popen[bytes] | None = None
        self._interrupted: subprocess.Popen[bytes] | None = None
        """One that is about to end, and takes no more jobs."""
        self._stderr: IO[bytes] | None = None

    @property
    def alive(self) -> bool:
        """Whether a process is running, with whatever its jobs left open in it."""
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
        if self._process is not self._interrupted:  # that one was ended with its session
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
        """Lets the process give its device back and end; kills it where it does not."""
        if self._process is not None and self._process.stdin is not None and self._process.poll() is None:
            self._process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(patience_s)
        self.kill()

    def _start(self) -> subprocess.Popen[bytes]:
        self.kill()
        try:
            self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process, closed by kill()
            self._process = _spawned(
                # -P: a folder of the user's with a module named like one of ours must not come first.
                [sys.executable, "-P", "-m", "warpsmith.tuner.workers.main", str(os.getpid()), *self._limits],
                self._stderr,
                self._environment,
            )
        except (OSError, RuntimeError) as error:  # RuntimeError: of a thread that the system refuses
            reason = error.strerror if isinstance(error, OSError) else error
            raise DeviceError(f"no worker process can be started: {reason}; free memory, disk or processes") from None
        assert self._process.stdin is not None
        os.set_blocking(self._process.stdin.fileno(), False)
        return self._process

    def _write(self, process: subprocess.Popen[bytes], message: bytes, patience: _Patience) -> None:
        """Sends a message that may be larger than the pipe holds, to a process that may never read it."""
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
        return subprocess.Popen(
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
    except BaseException:  # Ctrl-C, which must leave no process behind
        starting.add_done_callback(_kill_unwanted)
        raise


def _kill_unwanted(started: Future[subprocess.Popen[bytes]]) -> None:
    if not started.cancelled() and started.exception() is None:
        started.result().kill()


@functools.cache
def _spawner(_process: int) -> ThreadPoolExecutor:
    """The one thread of a process that starts processes: Linux ends those that die with their parent when the thread
    that started them ends, and the threads that use them come and go. A forked child needs one of its own.
    """
    return ThreadPoolExecutor(1, thread_name_prefix="warpsmith-spawner")


def _reap(process: subprocess.Popen[bytes]) -> int:
    """Waits until the process has ended; its exit code, or minus the signal's number.

    Not by its wait(): a KeyboardInterrupt that struck inside its poll() leaves that waiting for a lock for ever.
    """
    if process.returncode is None:
        try:
            process.returncode = os.waitstatus_to_exitcode(os.waitpid(process.pid, 0)[1])
        except ChildProcessError:  # it was waited for, and the interrupt struck before that was noted
            process.returncode = -signal.SIGKILL
    return process.returncode


class _Patience:
    """What is left of a deadline, in seconds in which this process ran."""

    def __init__(self, seconds: float) -> None:
        self.left_s = seconds

    def wait(self, descriptor: int, event: int) -> None:
        """Returns when the pipe is ready or its other end closed. Raises TimeoutError at the deadline."""
        poll = select.poll()  # unlike select(), also for the descriptors above 1024 of a large program
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
    """Interrupts each; to look for what 64 of them have started takes as long as for one."""
    processes = []
    for worker in workers:
        if (process := worker._process) is not None and process is not worker._interrupted:
            worker._interrupted = process
            processes.append(process)
    _end_sessions({process.pid for process in processes})


def _end_sessions(leaders: Set[int]) -> None:
    """Kills processes with all of their sessions: a compiler that one started has a group of its own there, and may
    outlive it, also where it died by itself.
    """
    for leader in leaders:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(leader, signal.SIGKILL)
    for entry in Path("/proc").iterdir() if leaders else ():
        with contextlib.suppress(OSError, ValueError):  # it has ended, or is no process
            if os.getsid(process := int(entry.name)) in leaders:
                os.kill(process, signal.SIGKILL)
