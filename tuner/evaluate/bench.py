"""Bench that verifies and times candidates in a worker process, which a candidate may kill, and that process's jobs."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from warpsmith.devices.compiler import Binaries, Compiler
from warpsmith.devices.host.compiler import SANITIZER_EXIT_CODES, HostCompiler
from warpsmith.devices.host.machine import memory_bytes
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import DeviceError, OutOfMemory, WarpsmithError
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.store.record import Failure, FailureKind, Measurement, Timing
from warpsmith.tuner.evaluate.device_lock import DeviceLock
from warpsmith.tuner.evaluate.outcomes import Contender, Evaluated, InTurns
from warpsmith.tuner.evaluate.testbed import Testbed
from warpsmith.tuner.evaluate.timing import Sustained, conditions_of
from warpsmith.tuner.evaluate.timing_policy import TimingPolicy
from warpsmith.tuner.faults import PartFailure
from warpsmith.tuner.operations.judge import Judge
from warpsmith.tuner.operations.registry import import_ahead
from warpsmith.tuner.workers.compile_pool import Compiled
from warpsmith.tuner.workers.deadlines import Deadlines
from warpsmith.workers.job import Job, WorkerState
from warpsmith.workers.worker import DeadlinePassed, Worker, WorkerDied


@dataclasses.dataclass(frozen=True, slots=True)
class Opened:
    """Facts about a device after a problem was laid out on it."""

    environment: dict[str, str]
    """Result of `Runtime.environment`."""
    conditions: str
    """`Timing.conditions` of an undisturbed timing there."""
    faults: tuple[PartFailure, ...] = ()
    """Ways of computing the reference, and data sets, that failed; others took their place."""


@dataclasses.dataclass(frozen=True, slots=True)
class Open(Job[Opened]):
    """Opens the device and lays out a problem, with inputs drawn from `seed`."""

    device: DeviceRef
    problem: Problem
    seed: int
    policy: TimingPolicy
    guarded: bool
    """False under a sanitizer, which checks the ends of the buffers itself; guards would hide an overrun from it."""
    compiler: Compiler
    """Compiler of the candidates, used for the kernels that verify on the device."""
    lock_file: Path | None = None
    """Lock file of the device if another process uses it too; see `DeviceLock`."""
    finals: bool = False
    """True to verify all candidates on stress data, however large the problem. The other libraries that they are timed
    beside are imported meanwhile.
    """
    judge: Judge[Any] | None = None
    """Supplies inputs, checks and libraries; None for the operation's own judge. Its class is imported in the worker
    process.
    """

    def run(self, state: WorkerState) -> Opened:
        state.clear()
        runtime = state.runtime = state.runtime or self.device.open()
        if self.finals and self.device.kind is DeviceKind.CUDA:
            needed = self.problem, self.device.kind, self.judge
            threading.Thread(target=import_ahead, args=needed, daemon=True).start()
        testbed = Testbed(
            runtime,
            self.problem,
            self.seed,
            self.policy,
            guarded=self.guarded,
            compiler=self.compiler,
            lock=DeviceLock(self.lock_file),
            finals=self.finals,
            judge=self.judge,
            # The host has no copy to save, and its compiler takes a second.
            verifies_there=self.device.kind is DeviceKind.CUDA,
        )
        state.laid_out = testbed
        conditions = conditions_of(self.policy, runtime, self.problem.bytes)
        return Opened(runtime.environment(), conditions, testbed.faults)


@dataclasses.dataclass(frozen=True, slots=True)
class TimeCopy(Job[Timing]):
    """Times the device's own copy of as many bytes as the open problem must move."""

    policy: TimingPolicy

    def run(self, state: WorkerState) -> Timing:
        return _testbed(state).copy_timing(self.policy)


@dataclasses.dataclass(frozen=True, slots=True)
class Evaluate(Job[Evaluated]):
    """Verifies and times one candidate of the open problem."""

    program: Program
    binaries: Binaries
    policy: TimingPolicy
    best_ns: float | None

    def run(self, state: WorkerState) -> Evaluated:
        return _testbed(state).evaluate(self.program, self.binaries, self.policy, self.best_ns)


@dataclasses.dataclass(frozen=True, slots=True)
class Renew(Job[None]):
    """Draws fresh inputs for the finals of the open problem."""

    seed: int

    def run(self, state: WorkerState) -> None:
        _testbed(state).renew(self.seed)


@dataclasses.dataclass(frozen=True, slots=True)
class PreparePeers(Job[None]):
    """Loads the other installed libraries ahead of `SideBySide`, which takes seconds."""

    def run(self, state: WorkerState) -> None:
        _testbed(state).prepare_peers()


@dataclasses.dataclass(frozen=True, slots=True)
class SideBySide(Job[InTurns]):
    """Times verified candidates in turns with the device's copy and the other installed libraries."""

    contenders: tuple[Contender, ...]
    policy: TimingPolicy
    peers: bool = True
    """False leaves out the other libraries."""

    def run(self, state: WorkerState) -> InTurns:
        return _testbed(state).side_by_side(self.contenders, self.policy, peers=self.peers)


@dataclasses.dataclass(frozen=True, slots=True)
class Sustain(Job[Sustained]):
    """Runs a verified candidate for `seconds` and times it at their end."""

    contender: Contender
    seconds: float

    def run(self, state: WorkerState) -> Sustained:
        return _testbed(state).sustained(self.contender, self.seconds)


def _testbed(state: WorkerState) -> Testbed:
    """The testbed of the problem that was laid out last."""
    if not isinstance(state.laid_out, Testbed):
        raise RuntimeError("the worker was asked to evaluate before it was given a problem")
    return state.laid_out


_SHARE_OF_MEMORY = 2
"""Divisor of the machine's memory that bounds a worker's memory: a shared machine has other users."""
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
"""Environment that limits NumPy's matrix products to one OpenBLAS thread. References are computed by one thread per
core, and each calls its own products, but OpenBLAS has one thread pool for all callers, who then wait for it. On two
cores the fprop reference of layer L4 took 3.5 s with the pool and takes 0.4 s without; its weight gradient took 14.4 s
and takes 1.2 s.
"""

T = TypeVar("T")


class Bench:
    """Evaluates candidates of one problem on one device, in a worker process.

    The worker is opened by its first job, and again after a candidate kills it. Only one thread may use a bench, except
    that any thread may call `interrupt`.

    Args:
        device: device that candidates run on.
        compiler: compiler of the kernels that verify results on the device.
        problem: problem that candidates solve.
        seed: seed of the inputs.
        policy: timing policy.
        deadlines: time limits of the jobs.
        sanitize: run under the sanitizers, without guards of our own.
        lock_file: lock file of the device, if another bench uses it too; see `DeviceLock`.
        finals: verify all candidates on stress data, however large the problem.
        judge: supplies inputs, checks and peer libraries; None for the operation's own judge.
        worker: process owned and ended by the caller; None to start one. Its device and imported libraries stay
            loaded: starting a process takes 2 s, and importing PyTorch in it 6 s.
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
        self._is_prepared = False

    @property
    def is_open(self) -> bool:
        """True once `opened` is known, and from then on. Any thread may read it."""
        return self._opened is not None

    @property
    def faults(self) -> tuple[PartFailure, ...]:
        """Parts that failed while the device was opened and were replaced by another way."""
        return () if self._opened is None else self._opened.faults

    @property
    def opened(self) -> Opened:
        """Facts about the device once it is open. Opens it if needed; raises DeviceError if that fails."""
        if self._opened is None:
            self._ensure_open()
        assert self._opened is not None
        return self._opened

    def open_ahead(self, *, peers: bool = False) -> None:
        """Starts opening the device in a background thread, which then prepares the other libraries if `peers` is set.

        A later caller that needs the device waits for this thread. If the thread fails, that caller tries again and
        gets the error.
        """
        self._ahead = threading.Thread(target=self._prepare, args=(peers,), daemon=True)
        self._ahead.start()

    def is_open_ahead(self) -> bool:
        """Waits for `open_ahead`. False if it failed."""
        assert self._ahead is not None
        self._ahead.join()
        return self._is_prepared

    def _prepare(self, peers: bool) -> None:
        with contextlib.suppress(WarpsmithError):
            self._ensure_open()
            if peers:
                self.prepare_peers()
            self._is_prepared = True

    def _ensure_open(self) -> None:
        with self._opening:
            if self._opened is None or not self._worker.alive:
                self._reopen()

    def _reopen(self) -> None:
        try:
            self._opened = self._worker.call(self._open, self._deadlines.setup_s)
        except (DeadlinePassed, WorkerDied) as error:
            words = error.last_words.splitlines() if isinstance(error, WorkerDied) else []
            reason = f": {words[-1]}" if words else ""
            raise DeviceError(
                f"the device could not be prepared for {self._open.problem.key()}: {error}{reason}"
            ) from None

    def evaluate(self, program: Program, compiled: Compiled, best_ns: float | None = None) -> Evaluated:
        """Verifies and times one candidate. If it kills or hangs the worker, the result is a Failure."""
        self._ensure_open()  # opening does not count against the candidate
        start = time.monotonic()
        job = Evaluate(program, compiled.binaries, self._open.policy, best_ns)
        answer = self._call(job, self._deadlines.of_run(self._fastest_s))
        took = time.monotonic() - start
        evaluated = Evaluated(answer, 0.0, took * 1e3, 0.0) if isinstance(answer, Failure) else answer
        if isinstance(evaluated.outcome, Measurement):
            self._fastest_s = min(took, self._fastest_s or took)
        elif evaluated.outcome.kind is FailureKind.OUT_OF_BOUNDS:
            self._worker.kill()  # it wrote out of bounds, perhaps elsewhere too
        return evaluated

    def renew(self, seed: int) -> None:
        """Draws fresh inputs for the finals, in this worker and in any that replaces it."""
        self._open = dataclasses.replace(self._open, seed=seed, finals=True)
        if self._worker.alive:
            # If renewing kills the worker, the next job opens it again with the new seed.
            with contextlib.suppress(WorkerDied, DeadlinePassed):
                self._worker.call(Renew(seed), self._deadlines.setup_s)

    def copy_timing(self) -> Timing | Failure:
        """Time of the device's own copy of as many bytes as the problem must move."""
        return self._call(TimeCopy(self._open.policy), self._deadlines.setup_s)

    def prepare_peers(self) -> None:
        """Loads the other libraries ahead of `side_by_side`. A library that kills the worker here fails again there."""
        self._call(PreparePeers(), self._deadlines.setup_s)

    def side_by_side(self, contenders: tuple[Contender, ...], *, peers: bool = True) -> InTurns | Failure:
        """Times verified candidates in turns beside the device's copy and, if `peers` is set, the other libraries."""
        return self._call(SideBySide(contenders, self._open.policy.for_finalists(), peers), self._deadlines.setup_s)

    def sustained(self, contender: Contender, seconds: float) -> Sustained | Failure:
        """Time of a verified candidate after it has run for `seconds`."""
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
            self._worker.kill()  # after a fault that process can no longer use the device
            return Failure(FailureKind.CRASH, str(error))

    def interrupt(self) -> None:
        """Aborts the running job. Any thread may call it; the next candidate gets a fresh worker."""
        self._worker.interrupt()

    def close(self) -> None:
        while self._ahead is not None and self._ahead.is_alive():
            self.interrupt()  # again, in case the process had not started yet
            self._ahead.join(0.1)
        if not self._is_lent:
            self._worker.close()


def device_worker(environment: Mapping[str, str] | None = None) -> Worker:
    """Creates a worker process for a device, limited to its share of the machine's memory. `environment` is added to
    this process's environment variables.
    """
    return Worker({**_ONE_THREAD, **(environment or {})}, memory_bytes() // _SHARE_OF_MEMORY)


def _own_worker(*, sanitize: bool) -> Worker:
    # The sanitizers map terabytes of address space that they never touch, so no memory limit applies.
    return Worker(HostCompiler(sanitize=True).sanitizer_environment()) if sanitize else device_worker()


def _cause_of(death: WorkerDied) -> Failure:
    sanitizer = SANITIZER_EXIT_CODES.get(death.status)
    if sanitizer is None:
        return Failure(FailureKind.CRASH, str(death))
    report = next((line for line in death.last_words.splitlines() if "Sanitizer" in line or "error:" in line), "")
    address, _undefined = SANITIZER_EXIT_CODES
    kind = FailureKind.OUT_OF_BOUNDS if death.status == address else FailureKind.UNDEFINED
    return Failure(kind, f"{sanitizer}: {report}")
