"""One program beside the other libraries: verified on fresh data, then timed in turns."""

from __future__ import annotations

import dataclasses

from warpsmith.devices.select import CompilerChoice, DeviceRef
from warpsmith.errors import WarpsmithError
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.generator.registry import FAMILIES
from warpsmith.store.record import Baseline, Failure, Measurement, Timing
from warpsmith.tuner.evaluate import Deadlines
from warpsmith.tuner.workshop import Workshop


class WrongAnswer(WarpsmithError):
    """A program that is not right today, or does not run."""


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """A program's time and everything that ran beside it."""

    measurement: Measurement
    """The verification, with the program timed alone."""
    ours: Timing
    """The program, taking turns with the baselines."""
    baselines: tuple[Baseline, ...]
    environment: dict[str, str]


def check(problem: Problem, program: Program, device: DeviceRef, seed: int, *, sanitize: bool = False) -> Measurement:
    """Verifies `program` on data drawn from `seed`. Raises WrongAnswer where it is not right."""
    with Workshop.open(
        problem, device, FAMILIES, CompilerChoice.AUTO, seed, Deadlines(), sanitize=sanitize
    ) as workshop:
        return _verified(workshop, program)


def compare(problem: Problem, program: Program, device: DeviceRef, seed: int) -> Comparison:
    """Verifies `program`, then times it, the device's copy and every library installed here, taking turns.

    Raises WrongAnswer where the program is not right.
    """
    with Workshop.open(problem, device, FAMILIES, CompilerChoice.AUTO, seed, Deadlines(), sanitize=False) as workshop:
        measurement = _verified(workshop, program)
        compiled = workshop.compile(program).result()
        beside = compiled if isinstance(compiled, Failure) else workshop.bench.side_by_side(program, compiled)
        if isinstance(beside, Failure):
            raise _wrong(program, beside)
        return Comparison(measurement, *beside, workshop.bench.environment)


def _verified(workshop: Workshop, program: Program) -> Measurement:
    compiled = workshop.compile(program).result()
    outcome = compiled if isinstance(compiled, Failure) else workshop.bench.evaluate(program, compiled)
    if isinstance(outcome, Failure):
        raise _wrong(program, outcome)
    return outcome


def _wrong(program: Program, failure: Failure) -> WrongAnswer:
    return WrongAnswer(f"{failure.kind}: {failure.message} ({program.family} {program.config})")
