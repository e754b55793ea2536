"""From program to trial: compiled ahead in a pool, then verified and timed in a worker that may die."""

from __future__ import annotations

import dataclasses
import queue
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from warpsmith.devices.base import Compiler
from warpsmith.devices.host.compiler import SANITIZER_EXIT_CODES, HostCompiler
from warpsmith.devices.host.machine import cores
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import DeviceError
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.store.record import Baseline, Failure, FailureKind, Measurement, Timing
from warpsmith.tuner.jobs import Compile, Compiled, Evaluate, Job, Open, Renew, SideBySide, TimeCopy
from warpsmith.tuner.process import DeadlinePassed, Worker, WorkerDied
from warpsmith.tuner.testbed import Contender
from warpsmith.tuner.timing import TimingPolicy

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class Deadlines:
    """How long a worker may take, in seconds. A candidate's own deadline follows the best one's duration."""

    compile_s: float = 60.0
    first_run_s: float = 120.0
    """For a candidate while none has succeeded yet."""
    least_run_s: float = 10.0
    """For a candidate once one has succeeded in no time: room for a loaded machine."""
    run_factor: float = 20.0
    """A candidate may take this many times as long as the fastest evaluation so far, beside `least_run_s`."""
    setup_s: float = 900.0
    """For laying out a problem: the float64 reference of a large image takes minutes on few cores."""


class CompilePool:
    """Processes that compile ahead while the device works. A compiler that hangs or crashes costs one program."""

    def __init__(self, compiler: Compiler, processes: int, deadline_s: float) -> None:
        self._compiler = compiler
        self._deadline_s = deadline_s
        self._idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        self._workers = [Worker() for _ in range(processes)]
        for worker in self._workers:
            self._idle.put(worker)
        self._threads = ThreadPoolExecutor(processes)

    def submit(self, program: Program) -> Future[Compiled | Failure]:
        """Compiles `program` as soon as a process is free."""
        return self._threads.submit(self._compile, program)

    def _compile(self, program: Program) -> Compiled | Failure:
        worker = self._idle.get()
        try:
            return worker.call(Compile(self._compiler, program), self._deadline_s)
        except DeadlinePassed as passed:
            return Failure(FailureKind.COMPILE, f"the compiler gave {passed}")
        except WorkerDied as death:
            return Failure(FailureKind.COMPILE, f"compiling: {death}")
        finally:
            self._idle.put(worker)

    def close(self) -> None:
        """Drops what has not begun and ends the processes."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._kill()
        self._threads.shutdown(wait=True)
        self._kill()  # a thread may have started another one in between

    def _kill(self) -> None:
        for worker in self._workers:
            worker.kill()


class Bench:
    """One problem on one device, in a worker process that is opened again whenever a candidate kills it.

    Raises DeviceError where the device cannot be opened.
    """

    def __init__(
        self,
        device: DeviceRef,
        compiler: Compiler,
        problem: Problem,
        seed: int,
        deadlines: Deadlines,
        *,
        sanitize: bool,
    ) -> None:
        self._open = Open(device, problem, seed, TimingPolicy.for_kind(device.kind), not sanitize, compiler)
        self._deadlines = deadlines
        self._worker = Worker(HostCompiler(sanitize=True).sanitizer_environment() if sanitize else None)
        self._fastest_s: float | None = None
        self.environment = self._reopen()
        """Soft facts about the machine, for a record's provenance."""

    def _reopen(self) -> dict[str, str]:
        try:
            return self._worker.call(self._open, self._deadlines.setup_s)
        except (DeadlinePassed, WorkerDied) as error:
            words = error.last_words.splitlines() if isinstance(error, WorkerDied) else []
            told = f": {words[-1]}" if words else ""
            raise DeviceError(
                f"the device could not be prepared for {self._open.problem.key()}: {error}{told}"
            ) from None

    def evaluate(
        self, program: Program, compiled: Compiled, best_ns: float | None = None, *, finalist: bool = False
    ) -> Measurement | Failure:
        """Verifies and times one candidate; a candidate that kills or hangs the worker is a failure of its own."""
        policy = self._open.policy.for_finalists() if finalist else self._open.policy
        job = Evaluate(program, compiled.binary, policy, best_ns)
        start = time.monotonic()
        outcome = self._call(job, self._run_deadline())
        if isinstance(outcome, Measurement):
            took = time.monotonic() - start
            self._fastest_s = min(took, self._fastest_s or took)
        elif outcome.kind is FailureKind.OUT_OF_BOUNDS:
            self._worker.kill()  # it wrote where it should not, and nobody knows where else
        return outcome

    def renew(self, seed: int) -> None:
        """Draws fresh inputs, for this worker and for any that follows it."""
        self._open = dataclasses.replace(self._open, seed=seed)
        if self._worker.alive:
            self._worker.call(Renew(seed), self._deadlines.setup_s)

    def copy_timing(self) -> Timing | Failure:
        """How long the device takes to copy as many bytes as the problem must move."""
        return self._call(TimeCopy(self._open.policy), self._deadlines.setup_s)

    def side_by_side(
        self, program: Program, compiled: Compiled, others: tuple[Contender, ...] = ()
    ) -> tuple[Timing, tuple[Baseline, ...]] | Failure:
        """Times a verified candidate beside others, the device's copy and the other libraries installed here."""
        policy = self._open.policy.for_finalists()
        return self._call(SideBySide(program, compiled.binary, policy, others), self._deadlines.setup_s)

    def _call(self, job: Job[T], deadline_s: float) -> T | Failure:
        if not self._worker.alive:
            self._reopen()
        try:
            return self._worker.call(job, deadline_s)
        except DeadlinePassed as passed:
            return Failure(FailureKind.TIMEOUT, str(passed))
        except WorkerDied as death:
            return _cause_of(death)
        except DeviceError as error:
            self._worker.kill()  # after a fault the device is of no more use to that process
            return Failure(FailureKind.CRASH, str(error))

    def _run_deadline(self) -> float:
        if self._fastest_s is None:
            return self._deadlines.first_run_s
        return self._deadlines.least_run_s + self._deadlines.run_factor * self._fastest_s

    def abandon(self) -> None:
        """Ends whatever runs now; the next candidate finds a fresh worker."""
        self._worker.kill()

    def close(self) -> None:
        self._worker.close()


def _cause_of(death: WorkerDied) -> Failure:
    sanitizer = SANITIZER_EXIT_CODES.get(death.status)
    if sanitizer is None:
        return Failure(FailureKind.CRASH, str(death))
    report = next((line for line in death.last_words.splitlines() if "Sanitizer" in line or "error:" in line), "")
    address, _undefined = SANITIZER_EXIT_CODES
    kind = FailureKind.OUT_OF_BOUNDS if death.status == address else FailureKind.UNDEFINED
    return Failure(kind, f"{sanitizer}: {report}")


def compile_processes(kind: DeviceKind) -> int:
    """How many compilers to run at once: on a GPU one core is left to the device's worker."""
    return cores() if kind is DeviceKind.HOST else max(1, cores() - 1)
