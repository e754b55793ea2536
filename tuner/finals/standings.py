"""Several programs of one problem, verified, then timed in turns with each other and with the other libraries."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from warpsmith.devices.select import CompilerChoice, DeviceRef
from warpsmith.errors import WarpsmithError
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.store.record import Baseline, Failure, LeftOut, Measurement, Timing
from warpsmith.tuner.evaluate.bench import Bench
from warpsmith.tuner.evaluate.device_lock import shared_device
from warpsmith.tuner.evaluate.evaluator import Evaluator
from warpsmith.tuner.evaluate.outcomes import Contender
from warpsmith.tuner.evaluate.timing_policy import TimingPolicy
from warpsmith.tuner.operations.judge import Judge
from warpsmith.tuner.workers.deadlines import Deadlines


@dataclasses.dataclass(frozen=True, slots=True)
class Standing:
    """A program that was found right."""

    measurement: Measurement
    """Result of the verification, with the program timed alone."""
    timing: Timing
    """Time in turns with all others."""


@dataclasses.dataclass(frozen=True, slots=True)
class Standings:
    """All programs that were verified in one run, and what was timed beside them."""

    programs: Mapping[str, Standing | Failure]
    """Each program by its name, in the order in which they were given."""
    baselines: tuple[Baseline, ...]
    """The device's copy and the other libraries."""
    environment: Mapping[str, str]
    left_out: tuple[LeftOut, ...]
    """Other libraries that were not timed, with reasons."""


def standings(
    problem: Problem, programs: Mapping[str, Program], device: DeviceRef, seed: int, judge: Judge[Any] | None = None
) -> Standings:
    """Verifies programs on data drawn from `seed`, and on data that are hard on rounding errors, and times the right
    ones in turns.

    Args:
        problem: problem that all programs solve.
        programs: programs by name.
        device: device to run on.
        seed: seed of the data.
        judge: says what is right and names the other libraries; None for the operation's own judge.

    Raises:
        CompileError: there is no compiler.
        DeviceError: the device is not there, or failed.
        WarpsmithError: a program that was right failed while it was timed.
    """
    model, compiler, deadlines = device.device(), device.compiler(CompilerChoice.AUTO), Deadlines()
    policy = TimingPolicy.for_kind(model.kind)
    with shared_device(device) as lock_file:
        subject = device, compiler, problem, seed, policy, deadlines
        bench = Bench(*subject, sanitize=False, lock_file=lock_file, finals=True, judge=judge)
        with Evaluator.furnished(problem, model, (), compiler, deadlines, bench, None) as evaluator:
            found = {name: evaluator.verified(program, bench) for name, program in programs.items()}
            right = {name: each for name, each in found.items() if isinstance(each, Contender)}
            beside = bench.side_by_side(tuple(right.values()))
            if isinstance(beside, Failure):
                raise WarpsmithError(f"a program failed while it was timed: {beside.kind}: {beside.message}")
            timed = {
                name: Standing(each.measurement, timing)
                for (name, each), timing in zip(right.items(), beside.ours, strict=True)
            }
            failed = {name: each for name, each in found.items() if isinstance(each, Failure)}
            placed = {name: timed[name] if name in timed else failed[name] for name in programs}
            return Standings(placed, beside.baselines, bench.opened.environment, beside.left_out)
