"""What a worker process can be asked to do. Every job and every answer is a frozen value that pickles."""

from __future__ import annotations

import abc
import dataclasses
import time
from typing import Generic, TypeVar

from warpsmith.devices.base import Binary, Compiler, Runtime
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import CompileError
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.store.record import Baseline, Failure, FailureKind, Measurement, Timing
from warpsmith.tuner.testbed import Contender, Testbed
from warpsmith.tuner.timing import TimingPolicy

Answer = TypeVar("Answer", covariant=True)


class WorkerState:
    """What a worker process keeps between jobs: an open device with a problem laid out on it."""

    def __init__(self) -> None:
        self._runtime: Runtime | None = None
        self._testbed: Testbed | None = None

    def open(self, job: Open) -> Runtime:
        """Opens the device, or keeps the one open, and lays out the problem."""
        if self._testbed is not None:
            self._testbed.close()
            self._testbed = None
        runtime = self._runtime or job.device.open()
        self._runtime = runtime
        # On the host a result has no way to go, and the compiler takes a second.
        compiler = job.compiler if job.device.kind is DeviceKind.CUDA else None
        self._testbed = Testbed(runtime, job.problem, job.seed, job.policy, guarded=job.guarded, compiler=compiler)
        return runtime

    @property
    def testbed(self) -> Testbed:
        if self._testbed is None:
            raise RuntimeError("the worker was asked to evaluate before it was given a problem")
        return self._testbed

    def close(self) -> None:
        """Gives the device back."""
        if self._runtime is not None:
            self._runtime.close()


class Job(abc.ABC, Generic[Answer]):
    """One request to a worker process."""

    @abc.abstractmethod
    def run(self, state: WorkerState) -> Answer:
        """Does the work, in the worker process."""


@dataclasses.dataclass(frozen=True, slots=True)
class Compiled:
    """A binary and how long its compilation took; 0 ms is a binary that was in the cache."""

    binary: Binary
    compile_ms: float


@dataclasses.dataclass(frozen=True, slots=True)
class Compile(Job[Compiled | Failure]):
    """Compile one program."""

    compiler: Compiler
    program: Program

    def run(self, state: WorkerState) -> Compiled | Failure:  # noqa: ARG002 - compiling needs no device
        start = time.monotonic()
        try:
            binary = self.compiler.compile(self.program)
        except CompileError as error:
            return Failure(FailureKind.COMPILE, str(error))
        return Compiled(binary, (time.monotonic() - start) * 1e3)


@dataclasses.dataclass(frozen=True, slots=True)
class Open(Job[dict[str, str]]):
    """Open the device and lay out a problem, with inputs drawn from `seed`; answers with `Runtime.environment`."""

    device: DeviceRef
    problem: Problem
    seed: int
    policy: TimingPolicy
    guarded: bool
    """False under a sanitizer: it watches the ends of the buffers itself, and guards would hide them from it."""
    compiler: Compiler
    """The candidates' own, for the kernels that verify them on the device."""

    def run(self, state: WorkerState) -> dict[str, str]:
        return state.open(self).environment()


@dataclasses.dataclass(frozen=True, slots=True)
class TimeCopy(Job[Timing]):
    """Time the device's own copy of as many bytes as the open problem must move."""

    policy: TimingPolicy

    def run(self, state: WorkerState) -> Timing:
        return state.testbed.copy_timing(self.policy)


@dataclasses.dataclass(frozen=True, slots=True)
class Evaluate(Job[Measurement | Failure]):
    """Verify and time one candidate of the problem that is open."""

    program: Program
    binary: Binary
    policy: TimingPolicy
    best_ns: float | None

    def run(self, state: WorkerState) -> Measurement | Failure:
        return state.testbed.evaluate(self.program, self.binary, self.policy, self.best_ns)


@dataclasses.dataclass(frozen=True, slots=True)
class Renew(Job[None]):
    """Draw fresh inputs for the problem that is open."""

    seed: int

    def run(self, state: WorkerState) -> None:
        state.testbed.renew(self.seed)


@dataclasses.dataclass(frozen=True, slots=True)
class SideBySide(Job[tuple[Timing, tuple[Baseline, ...]]]):
    """Time a verified candidate beside others, the device's copy and the other libraries installed here."""

    program: Program
    binary: Binary
    policy: TimingPolicy
    others: tuple[Contender, ...]

    def run(self, state: WorkerState) -> tuple[Timing, tuple[Baseline, ...]]:
        return state.testbed.side_by_side(self.program, self.binary, self.policy, self.others)
