"""Jobs that the worker process of a device runs."""

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
from warpsmith.tuner.operations.registry import import_ahead
from warpsmith.tuner.workers.job import Job, WorkerState


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
