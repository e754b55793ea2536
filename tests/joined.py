"""Joins units of a program, or of several, into one text. For a small kernel, g++ spends most time on fixed costs."""

from __future__ import annotations

from collections.abc import Sequence

from together import at_once, can_be_together, together
from warpsmith.devices.compiler import Binaries, Compiler
from warpsmith.devices.runtime import Runtime
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.plans.match import Match, MatchKind
from warpsmith.plans.plan import Plan


def joined(program: Program) -> Program:
    """The same program as one unit, which takes g++ a quarter of the time of five. Unchanged if a step is a library
    call.
    """
    if len(program.units) < 2 or not can_be_together(program):
        return program
    _, (whole,) = together([program])
    return whole


def compiled(compiler: Compiler, programs: Sequence[Program]) -> list[tuple[Program, Binaries]]:
    """Programs and their binaries. Programs are compiled as one text where they can be, equal units of these once."""
    found = dict[int, tuple[Program, Binaries]]()
    for numbers in at_once(programs):
        found |= zip(numbers, compiled_as_one(compiler, [programs[number] for number in numbers]), strict=True)
    return [found[number] for number in range(len(programs))]


def compiled_as_one(compiler: Compiler, programs: Sequence[Program]) -> list[tuple[Program, Binaries]]:
    """Programs of one of the groups of `at_once`, and the binaries that they share."""
    if len(programs) > 1:
        whole, placed = together(programs)
    else:
        whole = joined(programs[0])
        placed = (whole,)
    binaries = compiler.compile_program(whole)
    return [(each, binaries) for each in placed]


def plans_of(host: Runtime, compiler: Compiler, cases: Sequence[tuple[Problem, Program]]) -> list[Plan]:
    """Plans of programs that are compiled together."""
    made = compiled(compiler, [program for _, program in cases])
    return [
        Plan.load(problem, Match(MatchKind.DEFAULT, program, None, ()), binaries, host)
        for (problem, _), (program, binaries) in zip(cases, made, strict=True)
    ]


def plan_of(host: Runtime, compiler: Compiler, problem: Problem, program: Program) -> Plan:
    """Plan that runs the joined program."""
    (plan,) = plans_of(host, compiler, [(problem, program)])
    return plan
