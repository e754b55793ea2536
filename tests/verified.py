"""Verifies programs of small layers on the host without timing them. Several programs are compiled as one text."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

from joined import joined
from policies import ONE_RUN
from sanitized import Untimed
from together import at_once, together
from warpsmith.devices.compiler import Binaries, Compiler
from warpsmith.devices.runtime import Runtime
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.plans.match import Match, MatchKind
from warpsmith.plans.plan import Plan
from warpsmith.store.record import Failure, Measurement

Case = tuple[Problem, Program]


def compiled(compiler: Compiler, programs: Sequence[Program]) -> list[tuple[Program, Binaries]]:
    """Programs and their binaries. Equal units of programs that are one text are compiled once."""
    found = dict[int, tuple[Program, Binaries]]()
    for numbers in at_once(programs):
        part = [programs[number] for number in numbers]
        whole, placed = together(part) if len(part) > 1 else (joined(part[0]), (joined(part[0]),))
        binaries = compiler.compile_program(whole)
        found |= {number: (each, binaries) for number, each in zip(numbers, placed, strict=True)}
    return [found[number] for number in range(len(programs))]


def outcomes(host: Runtime, compiler: Compiler, cases: Sequence[Case]) -> list[Measurement | Failure]:
    """Outcome of each program. Its buffers are guarded and poisoned, and its runs must give the same bits."""
    made = compiled(compiler, [program for _, program in cases])
    return [_outcome(host, problem, *each) for (problem, _), each in zip(cases, made, strict=True)]


def evaluated(host: Runtime, compiler: Compiler, problem: Problem, program: Program) -> Measurement | Failure:
    """Outcome of one program."""
    (outcome,) = outcomes(host, compiler, [(problem, program)])
    return outcome


def check(host: Runtime, compiler: Compiler, cases: Sequence[Case]) -> list[float]:
    """Largest error of each program. Fails with a list of all that are wrong."""
    found = outcomes(host, compiler, cases)
    wrong = [
        f"{problem.key()} | {program.family} {program.config}: {outcome}"
        for (problem, program), outcome in zip(cases, found, strict=True)
        if not isinstance(outcome, Measurement)
    ]
    assert not wrong, "\n".join([f"{len(wrong)} programs are wrong", *wrong])
    return [each.max_error for each in found if isinstance(each, Measurement)]


def plans_of(host: Runtime, compiler: Compiler, cases: Mapping[str, Case]) -> dict[str, Plan]:
    """Plans that run the programs, by the names of the cases."""
    made = compiled(compiler, [program for _, program in cases.values()])
    return {
        name: Plan.load(problem, Match(MatchKind.DEFAULT, program, None, ()), binaries, host)
        for (name, (problem, _)), (program, binaries) in zip(cases.items(), made, strict=True)
    }


def _outcome(host: Runtime, problem: Problem, program: Program, binaries: Binaries) -> Measurement | Failure:
    with contextlib.closing(Untimed(host, problem, 3, ONE_RUN, guarded=True)) as bed:
        return bed.evaluate(program, binaries, ONE_RUN).outcome
