"""Joins units of a program, or of several, into one text. For a small kernel, g++ spends most time on fixed costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from policies import ONE_RUN
from together import at_once, can_be_together, together
from warpsmith.devices.compiler import Binaries
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.runtime import Runtime
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.plans.match import Match, MatchKind
from warpsmith.plans.plan import Plan
from warpsmith.store.record import Failure, Measurement
from warpsmith.tuner.evaluate.testbed import Testbed


def joined(program: Program) -> Program:
    """The same program as one unit, which takes g++ a quarter of the time of five. Unchanged if a step is a library
    call.
    """
    if len(program.units) < 2 or not can_be_together(program):
        return program
    _, (whole,) = together([program])
    return whole


def evaluated(host: Runtime, quick: HostCompiler, problem: Problem, program: Program) -> Measurement | Failure:
    """Outcome of the joined program. Its buffers are guarded and poisoned, and two runs must give the same bits."""
    ((_, whole, binaries),) = compiled(quick, [(problem, joined(program))])
    bed = Testbed(host, problem, 3, ONE_RUN, guarded=True)
    try:
        return bed.evaluate(whole, binaries, ONE_RUN).outcome
    finally:
        bed.close()


def plan_of(host: Runtime, quick: HostCompiler, problem: Problem, program: Program) -> Plan:
    """Plan that runs the joined program."""
    (plan,) = plans_of(host, quick, [(problem, joined(program))])
    return plan


def plans_of(host: Runtime, quick: HostCompiler, cases: Sequence[tuple[Problem, Program]]) -> Iterator[Plan]:
    """Plans of programs that are compiled together."""
    for problem, program, binaries in compiled(quick, cases):
        yield Plan.load(problem, Match(MatchKind.DEFAULT, program, None, ()), binaries, host)


def compiled(
    quick: HostCompiler, cases: Sequence[tuple[Problem, Program]]
) -> Iterator[tuple[Problem, Program, Binaries]]:
    """Yields each case with its binaries. Programs are compiled as one text where they can be."""
    for numbers in at_once([program for _, program in cases]):
        programs = tuple(cases[number][1] for number in numbers)
        whole, placed = together(programs) if len(programs) > 1 else (programs[0], programs)
        binaries = {name: quick.compile(each) for name, each in whole.compilations().items()}
        yield from ((cases[number][0], own, binaries) for number, own in zip(numbers, placed, strict=True))
