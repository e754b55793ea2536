"""Comparison of one program with the other libraries: verified on fresh data, then timed in turns."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping

from warpsmith.devices.select import CompilerChoice, DeviceRef
from warpsmith.errors import WarpsmithError
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.store.record import Baseline, Failure, LeftOut, Measurement, Timing
from warpsmith.tuner.evaluate.evaluator import Evaluator
from warpsmith.tuner.evaluate.outcomes import Contender
from warpsmith.tuner.evaluate.timing import Sustained
from warpsmith.tuner.workers.deadlines import Deadlines


class WrongAnswer(WarpsmithError):
    """The program gives wrong results on this device, or does not run."""


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """Times of a program and of everything that ran beside it."""

    measurement: Measurement
    """Result of the verification, with the program timed alone."""
    ours: Timing
    """Time of the program in turns with the baselines."""
    baselines: tuple[Baseline, ...]
    environment: dict[str, str]
    left_out: tuple[LeftOut, ...] = ()
    """Other libraries that were not timed, with reasons."""
    sustained: Sustained | None = None
    """Time of the program after it has run for many seconds; None if not requested."""


def check(problem: Problem, program: Program, device: DeviceRef, seed: int, *, sanitize: bool = False) -> Measurement:
    """Verifies `program` on data drawn from `seed`. Raises WrongAnswer if it is not right."""
    with Evaluator.open(
        problem, device, None, CompilerChoice.AUTO, seed, Deadlines(), sanitize=sanitize, finals=True
    ) as evaluator:
        return _verified(evaluator, program).measurement


def compare(
    problem: Problem,
    program: Program,
    device: DeviceRef,
    seed: int,
    others: Mapping[str, Program] | None = None,
    sustained_s: float | None = None,
    *,
    peers: bool = True,
) -> Comparison:
    """Verifies `program`, then times it in turns with the device's copy and every library installed here.

    Args:
        problem: problem that `program` solves.
        program: program to compare.
        device: device to run on.
        seed: seed of the data.
        others: further programs to time as baselines under these names; a program that is not right is left out.
        sustained_s: seconds for which `program` then runs alone, timed at their end; None to skip this.
        peers: time the other libraries.

    Raises:
        WrongAnswer: the program is not right.
    """
    with Evaluator.open(
        problem, device, None, CompilerChoice.AUTO, seed, Deadlines(), sanitize=False, finals=True
    ) as evaluator:
        ours = _verified(evaluator, program)
        right = dict(_right(evaluator, others or {}, ours.measurement.timing.median_ns))
        beside = evaluator.bench.side_by_side((ours, *right.values()), peers=peers)
        if isinstance(beside, Failure):
            raise _wrong(program, beside)
        timing, *others_timings = beside.ours
        ours_too = (Baseline(name, other) for name, other in zip(right, others_timings, strict=True))
        baselines = (*beside.baselines, *ours_too)
        environment = evaluator.bench.opened.environment
        sustained = None if sustained_s is None else evaluator.bench.sustained(ours, sustained_s)
        if isinstance(sustained, Failure):
            raise _wrong(program, sustained)
        return Comparison(ours.measurement, timing, baselines, environment, beside.left_out, sustained)


def _verified(evaluator: Evaluator, program: Program, best_ns: float | None = None) -> Contender:
    contender = evaluator.verified(program, evaluator.bench, best_ns)
    if isinstance(contender, Failure):
        raise _wrong(program, contender)
    return contender


def _right(evaluator: Evaluator, programs: Mapping[str, Program], ours_ns: float) -> Iterator[tuple[str, Contender]]:
    """The programs that are right. Their times alone are not reported, so slower ones take only a few samples."""
    for name, program in programs.items():
        with contextlib.suppress(WrongAnswer):
            yield name, _verified(evaluator, program, ours_ns)


def _wrong(program: Program, failure: Failure) -> WrongAnswer:
    return WrongAnswer(f"{failure.kind}: {failure.message} ({program.family} {program.config})")
