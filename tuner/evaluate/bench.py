"""Verified and timed: candidates in a worker process that may die."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from warpsmith.devices.base import Compiler
from warpsmith.devices.host.compiler import SANITIZER_EXIT_CODES, HostCompiler
from warpsmith.devices.host.machine import memory_bytes
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import DeviceError, OutOfMemory, WarpsmithError
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.store.record import Failure, FailureKind, Measurement, Timing
from warpsmith.tuner.evaluate.jobs import Evaluate, Open, Opened, PreparePeers, Renew, SideBySide, Sustain, TimeCopy
from warpsmith.tuner.evaluate.outcomes import Contender, Evaluated, InTurns
from warpsmith.tuner.evaluate.sustained import Sustained
from warpsmith.tuner.evaluate.timing_policy import TimingPolicy
from warpsmith.tuner.faults import PartFailure
from warpsmith.tuner.operations.judge import Judge
from warpsmith.tuner.workers.compile_job import Compiled
from warpsmith.tuner.workers.deadlines import Deadlines
from warpsmith.tuner.workers.job import Job
from warpsmith.tuner.workers.worker import DeadlinePassed, Worker, WorkerDied

_SHARE_OF_MEMORY = 2
"""A worker takes one part in so many of the machine's memory at most: a shared machine has other users."""
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
"""Of NumPy's products: references are made by a thread a core, each with products of its own, and OpenBLAS has one set
of threads for all callers, who wait for it. On two cores the reference of layer L4 took 3.5 s so, forward, and takes
0.4; the gradient of its weights 14.4 and 1.2."""

T = TypeVar("T")


class Bench:
    """One problem on one device, in a worker process that is opened on its first job, and again whenever a candidate
    kills it. For one thread, but for `interrupt`.

    Args:
        device: where candidates run.
        compiler: of the kernels that verify them there.
        problem: what they compute.
        seed: of the inputs.
        policy: of the timings.
        deadlines: how long anything may take.
        sanitize: run under the sanitizers, without guards of our own.
        lock_file: what stands for the device where another bench uses it too; see `DeviceLock`.
        finals: verify all candidates on stress data, however large the problem.
        judge: of inputs, results and libraries; None for the operation's.
        worker: a process of somebody else's, who ends it; None for one of its own. Whatever device and libraries it
            has loaded stay loaded: to start one takes 2 s, and to import PyTorch there 6.
    """

    def __init__(
        self,
        device: DeviceRef,
        compiler: Compiler,
        problem: Problem,
        seed: int,
        policy: TimingPolicy,
        deadlines: Deadlines,
        *,
        sanitize: bool,
        lock_file: Path | None = None,
        finals: bool = False,
        judge: Judge[Any] | None = None,
        worker: Worker | None = None,
    ) -> None:
        self.device = device
        self._open = Open(device, problem, seed, policy, not sanitize, compiler, lock_file, finals, judge)
        self._deadlines = deadlines
        self._is_lent = worker is not None
        self._worker = worker or _own_worker(sanitize=sanitize)
        self._fastest_s: float | None = None
        self._opened: Opened | None = None
        self._opening = threading.Lock()
        self._ahead: threading.Thread | None = None

    @property
    def is_open(self) -> bool:
        """Whether `opened` is known; it stays so. From any thread."""
        return self._opened is not None

    @property
    def faults(self) -> tuple[PartFailure, ...]:
        """What went wrong when the device was opened, and was made good in another way."""
        return () if self._opened is None else self._opened.faults

    @property
    def opened(self) -> Opened:
        """What is known of the device once it is open; opens it. Raises DeviceError where that fails."""
        if self._opened is None:
            self._ensure_open()
        assert self._opened is not None
        return self._opened

    def open_ahead(self) -> None:
        """Begins to open the device, in a thread, so that the caller can do something else meanwhile.

        Who needs it then waits; what goes wrong is met by that one, who tries again.
        """
        self._ahead = threading.Thread(target=self._open_quietly, daemon=True)
        self._ahead.start()

    def _open_quietly(self) -> None:
        with contextlib.suppress(WarpsmithError):
            self._ensure_open()

    def _ensure_open(self) -> None:
        with self._opening:
            if self._opened is None or not self._worker.alive:
                self._reopen()

    def _reopen(self) -> None:
        try:
            self._opened = self._worker.call(self._open, self._deadlines.setup_s)
        except (DeadlinePassed, WorkerDied) as error:
            words = error.last_words.splitlines() if isinstance(error, WorkerDied) else []
            told = f": {words[-1]}" if words else ""
            raise DeviceError(
                f"the device could not be prepared for {self._open.problem.key()}: {error}{told}"
            ) from None

    def evaluate(self, program: Program, compiled: Compiled, best_ns: float | None = None) -> Evaluated:
        """Verifies and times one candidate; a candidate that kills or hangs the worker is a failure of its own."""
        self._ensure_open()  # ahead of the clock
        start = time.monotonic()
        job = Evaluate(program, compiled.binaries, self._open.policy, best_ns)
        answer = self._call(job, self._deadlines.of_run(self._fastest_s))
        took = time.monotonic() - start
        evaluated = Evaluated(answer, 0.0, took * 1e3, 0.0) if isinstance(answer, Failure) else answer
        if isinstance(evaluated.outcome, Measurement):
            self._fastest_s = min(took, self._fastest_s or took)
        elif evaluated.outcome.kind is FailureKind.OUT_OF_BOUNDS:
            self._worker.kill()  # it wrote where it should not, and nobody knows where else
        return evaluated

    def renew(self, seed: int) -> None:
        """Draws fresh inputs for the finals, for this worker and for any that follows it."""
        self._open = dataclasses.replace(self._open, seed=seed, finals=True)
        if self._worker.alive:
            # One that dies of it is opened again by the next job, with the new seed.
            with contextlib.suppress(WorkerDied, DeadlinePassed):
                self._worker.call(Renew(seed), self._deadlines.setup_s)

    def copy_timing(self) -> Timing | Failure:
        """How long the device takes to copy as many bytes as the problem must move."""
        return self._call(TimeCopy(self._open.policy), self._deadlines.setup_s)

    def prepare_peers(self) -> None:
        """Loads the other libraries ahead of `side_by_side`; one that brings the worker down is met there again."""
        self._call(PreparePeers(), self._deadlines.setup_s)

    def side_by_side(self, contenders: tuple[Contender, ...], *, peers: bool = True) -> InTurns | Failure:
        """Times verified candidates in turns beside the device's copy and, as `peers` says, the other libraries."""
        return self._call(SideBySide(contenders, self._open.policy.for_finalists(), peers), self._deadlines.setup_s)

    def sustained(self, contender: Contender, seconds: float) -> Sustained | Failure:
        """How long a verified candidate takes once it has run for so many seconds."""
        return self._call(Sustain(contender, seconds), self._deadlines.setup_s + seconds)

    def _call(self, job: Job[T], deadline_s: float) -> T | Failure:
        self._ensure_open()
        try:
            return self._worker.call(job, deadline_s)
        except DeadlinePassed as passed:
            return Failure(FailureKind.TIMEOUT, str(passed))
        except WorkerDied as death:
            return _cause_of(death)
        except OutOfMemory as error:
            self._worker.kill()
            return Failure(FailureKind.OUT_OF_MEMORY, str(error))
        except DeviceError as error:
            self._worker.kill()  # after a fault the device is of no more use to that process
            return Failure(FailureKind.CRASH, str(error))

    def interrupt(self) -> None:
        """Ends whatever runs now, from any thread; the next candidate finds a fresh worker."""
        self._worker.interrupt()

    def close(self) -> None:
        while self._ahead is not None and self._ahead.is_alive():
            self.interrupt()  # again where it struck before the process was there
            self._ahead.join(0.1)
        if not self._is_lent:
            self._worker.close()


def device_worker(environment: Mapping[str, str] | None = None) -> Worker:
    """A process for a device, that may take its share of the machine's memory, with these variables beside this
    process's own.
    """
    return Worker({**_ONE_THREAD, **(environment or {})}, memory_bytes() // _SHARE_OF_MEMORY)


def _own_worker(*, sanitize: bool) -> Worker:
    # The sanitizers map terabytes that they never touch.
    return Worker(HostCompiler(sanitize=True).sanitizer_environment()) if sanitize else device_worker()


def _cause_of(death: WorkerDied) -> Failure:
    sanitizer = SANITIZER_EXIT_CODES.get(death.status)
    if sanitizer is None:
        return Failure(FailureKind.CRASH, str(death))
    report = next((line for line in death.last_words.splitlines() if "Sanitizer" in line or "error:" in line), "")
    address, _undefined = SANITIZER_EXIT_CODES
    kind = FailureKind.OUT_OF_BOUNDS if death.status == address else FailureKind.UNDEFINED
    return Failure(kind, f"{sanitizer}: {report}")
