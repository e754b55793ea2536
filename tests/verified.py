"""Verifies programs of small layers on the host without timing them. Several programs are compiled as one text."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from joined import compiled
from policies import ONE_RUN
from sanitized import Untimed
from warpsmith.devices.compiler import Binaries, Compiler
from warpsmith.devices.runtime import Runtime
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.store.record import Failure, Measurement

Case = tuple[Problem, Program]


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


def _outcome(host: Runtime, problem: Problem, program: Program, binaries: Binaries) -> Measurement | Failure:
    with contextlib.closing(Untimed(host, problem, 3, ONE_RUN, guarded=True)) as bed:
        return bed.evaluate(program, binaries, ONE_RUN).outcome
