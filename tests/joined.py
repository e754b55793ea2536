"""Joins the units of a program into one text. For a small kernel, g++ spends most of its time on fixed costs."""

from __future__ import annotations

from policies import ONE_RUN
from together import can_be_together, together
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
    bed, whole = Testbed(host, problem, 3, ONE_RUN, guarded=True), joined(program)
    try:
        binaries = {name: quick.compile(each) for name, each in whole.compilations().items()}
        return bed.evaluate(whole, binaries, ONE_RUN).outcome
    finally:
        bed.close()


def plan_of(host: Runtime, quick: HostCompiler, problem: Problem, program: Program) -> Plan:
    """Plan that runs the joined program."""
    whole = joined(program)
    binaries = {name: quick.compile(each) for name, each in whole.compilations().items()}
    return Plan.load(problem, Match(MatchKind.DEFAULT, whole, None, ()), binaries, host)
