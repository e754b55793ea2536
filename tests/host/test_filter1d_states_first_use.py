"""First use of filters with states and packed sequences: right programs pass, and each kind of mistake is found."""

from __future__ import annotations

from typing import Any

import pytest

import warpsmith as ws
from filter1d_cases import DEVICE, FAMILIES
from filter1d_states import STATES
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.devices.runtime import Runtime
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter1d.plain_family import Filter1dPlain
from warpsmith.generator.program import Program
from warpsmith.plans.first_use.check import check_on_random_data, why_not, why_not_calls
from warpsmith.plans.loaded import Verified
from warpsmith.plans.match import Match, MatchKind
from warpsmith.plans.plan import Plan

PLAIN = Filter1dPlain()


def filter1d(**fields: Any) -> Filter1d:
    return Filter1d(**{"signal": 30, "taps": 5, "mode": "causal", "channels": 4, "filters": 4} | fields)


MISTAKES = (
    (filter1d(batch=3, state="before"), "row % 4 * 4ll + kStateWidth", "row % 4 * 4ll + kStateWidth - 1"),
    (filter1d(packed=4), "const int begin = min(", "const int begin = 0 * min("),
    (filter1d(packed=4, state="both", layout="btc"), "sequence * kStatePitch", "(sequence / 2) * kStatePitch"),
    (filter1d(batch=3, state="carried", signal=2), "constexpr int first = 0;", "const int first = lag < 0 ? -lag : 0;"),
    (filter1d(batch=9, state="carried", state_rows=12, signal=1), "__ldg(indices + row / 4)", "row / 4"),
    (
        filter1d(batch=3, state="carried", circular=True, state_width=7),
        "place_in_ring(position + lag + k)",
        "place_in_ring(position + lag + k + 1)",
    ),
)
"""A problem, a line of the plain kernel, and a mistake in it that stays within the operands."""


def checked(host: Runtime, compiler: HostCompiler, problem: Filter1d, program: Program) -> Any:
    match = Match(MatchKind.DEFAULT, program, None, ())
    plan = Plan.load(problem, match, compiler.compile_program(program), host)
    assert why_not(problem, host) is None
    return check_on_random_data(plan.loaded, compiler, 1)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_right_programs_pass(family: Any, host: HostRuntime, quickest: HostCompiler) -> None:
    problems = [each for each in STATES if family.why_not(each, DEVICE) is None]
    for problem in problems[FAMILIES.index(family) % 2 :: 2]:
        finding = checked(host, quickest, problem, family.program(problem, family.default(problem, DEVICE)))
        assert finding is not None, problem.key()
        assert finding.is_right, (problem.key(), finding)


@pytest.mark.parametrize(("problem", "line", "mistake"), MISTAKES, ids=str)
def test_mistakes_are_found(
    problem: Filter1d, line: str, mistake: str, host: HostRuntime, quickest: HostCompiler
) -> None:
    right = PLAIN.program(problem, PLAIN.default(problem, DEVICE))
    assert line in right.source
    wrong = Program.of_source(right.family, right.config, right.source.replace(line, mistake), right.launches)
    assert checked(host, quickest, problem, right).is_right
    finding = checked(host, quickest, problem, wrong)
    assert finding is not None
    assert not finding.is_right
    assert "should be" in finding.message


def test_calls_that_change_a_state_are_not_checked() -> None:
    assert "each call changes its state" in str(why_not_calls(filter1d(state="carried")))
    assert why_not_calls(filter1d(state="both", packed=2)) is None


@pytest.mark.parametrize("fields", [{"state": "carried", "signal": 2}, {"state": "both", "packed": 3}])
def test_plans_are_verified(fields: dict[str, Any]) -> None:
    assert ws.plan(filter1d(**fields), device="host", verify="first").verified.by is Verified.CHECKED
