"""What the process of a device can be asked to do."""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path
from typing import Any

from warpsmith.devices.base import Compiler
from warpsmith.devices.binary import Binaries
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.store.record import Timing
from warpsmith.tuner.evaluate.device_lock import DeviceLock
from warpsmith.tuner.evaluate.outcomes import Contender, Evaluated, InTurns
from warpsmith.tuner.evaluate.sustained import Sustained
from warpsmith.tuner.evaluate.testbed import Testbed
from warpsmith.tuner.evaluate.timing import conditions_of
from warpsmith.tuner.evaluate.timing_policy import TimingPolicy
from warpsmith.tuner.faults import PartFailure
from warpsmith.tuner.operations.judge import Judge
from warpsmith.tuner.operations.peers import import_ahead
from warpsmith.tuner.workers.job import Job, WorkerState


@dataclasses.dataclass(frozen=True, slots=True)
class Opened:
    """What is known of a device once a problem is laid out on it."""

    environment: dict[str, str]
    """`Runtime.environment`."""
    conditions: str
    """`Timing.conditions` of what is timed there undisturbed."""
    faults: tuple[PartFailure, ...] = ()
    """Ways of making the reference, and sets of data, that failed; others took their place."""


@dataclasses.dataclass(frozen=True, slots=True)
class Open(Job[Opened]):
    """Open the device and lay out a problem, with inputs drawn from `seed`."""

    device: DeviceRef
    problem: Problem
    seed: int
    policy: TimingPolicy
    guarded: bool
    """False under a sanitizer: it watches the ends of the buffers itself, and guards would hide them from it."""
    compiler: Compiler
    """The candidates' own, for the kernels that verify them on the device."""
    lock_file: Path | None = None
    """What stands for the device where another process uses it too; see `DeviceLock`."""
    finals: bool = False
    """Whether all of its candidates are verified on stress data, however large the problem, and timed beside other
    libraries in the end, which are imported meanwhile."""
    judge: Judge[Any] | None = None
    """Of inputs, results and libraries; None for the operation's. Its class is imported in the worker's process."""

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
            # A result on the host has no way to go, and the compiler takes a second.
            verifies_there=self.device.kind is DeviceKind.CUDA,
        )
        state.laid_out = testbed
        conditions = conditions_of(self.policy, runtime, self.problem.bytes)
        return Opened(runtime.environment(), conditions, testbed.faults)


@dataclasses.dataclass(frozen=True, slots=True)
class TimeCopy(Job[Timing]):
    """Time the device's own copy of as many bytes as the open problem must move."""

    policy: TimingPolicy

    def run(self, state: WorkerState) -> Timing:
        return _testbed(state).copy_timing(self.policy)


@dataclasses.dataclass(frozen=True, slots=True)
class Evaluate(Job[Evaluated]):
    """Verify and time one candidate of the problem that is open."""

    program: Program
    binaries: Binaries
    policy: TimingPolicy
    best_ns: float | None

    def run(self, state: WorkerState) -> Evaluated:
        return _testbed(state).evaluate(self.program, self.binaries, self.policy, self.best_ns)


@dataclasses.dataclass(frozen=True, slots=True)
class Renew(Job[None]):
    """Draw fresh inputs for the problem that is open, for its finals."""

    seed: int

    def run(self, state: WorkerState) -> None:
        _testbed(state).renew(self.seed)


@dataclasses.dataclass(frozen=True, slots=True)
class PreparePeers(Job[None]):
    """Load the other libraries installed here, which takes seconds, ahead of `SideBySide`."""

    def run(self, state: WorkerState) -> None:
        _testbed(state).prepare_peers()


@dataclasses.dataclass(frozen=True, slots=True)
class SideBySide(Job[InTurns]):
    """Time verified candidates beside each other, the device's copy and the other libraries installed here."""

    contenders: tuple[Contender, ...]
    policy: TimingPolicy
    peers: bool = True
    """False leaves the other libraries out."""

    def run(self, state: WorkerState) -> InTurns:
        return _testbed(state).side_by_side(self.contenders, self.policy, peers=self.peers)


@dataclasses.dataclass(frozen=True, slots=True)
class Sustain(Job[Sustained]):
    """Run a verified candidate for so many seconds, and time it at the end of them."""

    contender: Contender
    seconds: float

    def run(self, state: WorkerState) -> Sustained:
        return _testbed(state).sustained(self.contender, self.seconds)


def _testbed(state: WorkerState) -> Testbed:
    """The problem that was laid out last."""
    if not isinstance(state.laid_out, Testbed):
        raise RuntimeError("the worker was asked to evaluate before it was given a problem")
    return state.laid_out
