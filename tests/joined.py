"""Joins the units of a program into one text. For a small kernel, g++ spends most of its time on fixed costs."""

from __future__ import annotations

import dataclasses

from policies import ONE_RUN
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.runtime import Runtime
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Launch, Program, Unit
from warpsmith.plans.match import Match, MatchKind
from warpsmith.plans.plan import Plan
from warpsmith.store.record import Failure, Measurement
from warpsmith.tuner.evaluate.testbed import Testbed

NAME = "joined"


def joined(program: Program) -> Program:
    """The same program as one unit, which takes g++ a quarter of the time of five.

    Each text gets a namespace of its own. A text with dynamic shared memory gets none, because the host device declares
    that memory at global scope. Returns the program unchanged if it has one unit, if several texts have dynamic shared
    memory, if a step is a library call, or if a launch has constant memory variables, which are looked up by name.
    """
    at_large = [unit for unit in program.units if "extern __shared__" in unit.source]
    launches = [step for step in program.steps if isinstance(step, Launch)]
    if len(program.units) < 2 or len(at_large) > 1 or len(launches) < len(program.steps):
        return program
    if any(launch.constants for launch in launches):
        return program
    numbered = [(unit, f"unit_{number}") for number, unit in enumerate(program.units) if unit not in at_large]
    texts = [_in_namespace(unit, space, launches) for unit, space in numbered]
    source = "\n".join([*texts, *(unit.source for unit in at_large)])
    steps = tuple(dataclasses.replace(launch, unit=NAME) for launch in launches)
    return dataclasses.replace(program, units=(Unit(NAME, source),), steps=steps)


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


def _in_namespace(unit: Unit, space: str, launches: list[Launch]) -> str:
    entries = dict.fromkeys(launch.entry for launch in launches if launch.unit == unit.name)
    used = "".join(f"using {space}::{entry};\n" for entry in entries)
    return f"namespace {space} {{\n{unit.source}\n}}\n{used}"
