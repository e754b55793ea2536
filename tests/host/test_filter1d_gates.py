"""Gates of every filter1d family that has them, on the CPU, compared with float64 sums and under the sanitizers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import exhaustive
import sanitized
import verified
from filter1d_cases import DEVICE, FAMILIES, program_of, solved_by
from filter1d_gates import GATED, GROUPED, PROJECTED
from joined import plans_of
from warpsmith.devices.elements import numpy_dtype
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.generator.family import Family
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter1d.plain_family import Filter1dPlain
from warpsmith.generator.program import Program
from warpsmith.plans.first_use.check import check_on_random_data
from warpsmith.plans.match import Match, MatchKind
from warpsmith.plans.plan import Plan
from warpsmith.tuner.operations.registry import random_operands

PROBLEMS = (*GATED, *GROUPED, *PROJECTED)
ABLE = tuple(family for family in FAMILIES if solved_by(family, PROBLEMS))
every_family = pytest.mark.parametrize("family", ABLE, ids=lambda family: family.name)
PLAIN = Filter1dPlain()


def test_the_families_with_gates() -> None:
    assert {each.name for each in ABLE} == {
        "filter1d_plain",
        "filter1d_registers",
        "filter1d_channels",
        "filter1d_toeplitz",
        "filter1d_toeplitz_channels",
        "filter1d_fft",
    }


@every_family
def test_results_are_right(family: Family[Filter1d], host: HostRuntime, quickest: HostCompiler) -> None:
    """Defaults and random configs, stress data, guards around operands, and equal bits."""
    problems = exhaustive.share(solved_by(family, PROBLEMS), ABLE.index(family), 3)
    assert problems
    verified.check(host, quickest, [(each, program_of(family, each, turn)) for turn, each in enumerate(problems)])


@every_family
@pytest.mark.usefixtures("compile_without_optimisation")
def test_kernels_are_clean_under_the_sanitizers(family: Family[Filter1d], tmp_path: Path) -> None:
    some = exhaustive.share(solved_by(family, PROBLEMS), ABLE.index(family), 8)[-2:]
    assert some
    sanitized.check([(each, program_of(family, each, turn)) for turn, each in enumerate(some)], tmp_path)


@every_family
def test_a_nan_in_a_gate_is_a_nan_of_that_product_alone(
    family: Family[Filter1d], host: HostRuntime, quickest: HostCompiler
) -> None:
    fields: dict[str, Any] = {"mode": "causal", "dtype": "bfloat16", "taps_dtype": "bfloat16", "gates": "both"}
    problems = [Filter1d(300, 20, 2, channels=16, layout=each, **fields) for each in ("bct", "btc")]
    for problem in solved_by(family, problems):
        given = random_operands(problem, 1)
        spoilt = {name: np.array(each) for name, each in given.items()}
        axis = problem.inputs[0].shape.index(300)
        by_time = [np.moveaxis(spoilt[name], axis, 2) for name in ("gate_before", "gate_after")]
        by_time[0][1, 3, 100] = np.nan
        by_time[1][0, 5, 7] = np.nan
        (plan,) = plans_of(host, quickest, [(problem, program_of(family, problem))])
        clean, found = (
            np.moveaxis(np.array(plan(*(each[operand.name] for operand in problem.inputs))), axis, 2)
            for each in (given, spoilt)
        )
        reached = np.isnan(found.astype(np.float32))
        expected = np.zeros_like(reached)
        expected[1, 3, 100:120] = expected[0, 5, 7] = True
        assert np.array_equal(reached, expected), problem.key()
        others = ~reached.any(axis=2)
        assert np.array_equal(clean[others], found[others])


def test_gates_are_products_in_the_types_of_signal_and_result(host: HostRuntime, quickest: HostCompiler) -> None:
    """One tap of 1: the result is the rounded product of three numbers, in this order."""
    problem = Filter1d(500, 1, dtype="float16", taps_dtype="float16", gates="both")
    family = next(each for each in FAMILIES if each.name == "filter1d_plain")
    (plan,) = plans_of(host, quickest, [(problem, family.program(problem, family.default(problem, DEVICE)))])
    x, before, after = (np.random.default_rng(i).standard_normal(500).astype(np.float16) for i in range(3))
    result = np.array(plan(x, np.ones(1, numpy_dtype(problem.dtype)), before, after))
    assert np.array_equal(result, (x * before).astype(np.float16) * after)


MISTAKES = (
    (Filter1d(60, 5, 2, channels=4, gates="before"), "load_gated<Sample>(gated_signal + lag + k)", "__ldg(signal + k)"),
    (
        Filter1d(60, 5, 2, channels=4, filters=4, dtype="bfloat16", gates="both", activation="silu"),
        "gated_output(finish(sum), gated_result + output)",
        "to_result(finish(sum))",
    ),
    (
        Filter1d(60, 5, channels=4, layout="btc", dtype="float16", result_dtype="bfloat16", gates="after"),
        "gated_result + output * 4ll",
        "gated_result + output * 3ll",
    ),
)
"""A problem, a part of the plain kernel's text, and a mistake in it that stays within the operands."""


@pytest.mark.parametrize(("problem", "part", "mistake"), MISTAKES, ids=str)
def test_first_use_finds_mistakes(
    problem: Filter1d, part: str, mistake: str, host: HostRuntime, quickest: HostCompiler
) -> None:
    right = PLAIN.program(problem, PLAIN.default(problem, DEVICE))
    assert part in right.source
    wrong = Program.of_source(right.family, right.config, right.source.replace(part, mistake), right.launches)
    assert checked(host, quickest, problem, right).is_right
    assert not checked(host, quickest, problem, wrong).is_right


@every_family
def test_first_use_passes_right_programs(family: Family[Filter1d], host: HostRuntime, quickest: HostCompiler) -> None:
    for problem in exhaustive.share(solved_by(family, PROBLEMS), ABLE.index(family), 9):
        finding = checked(host, quickest, problem, family.program(problem, family.default(problem, DEVICE)))
        assert finding is not None, problem.key()
        assert finding.is_right, (problem.key(), finding)


def checked(host: HostRuntime, compiler: HostCompiler, problem: Filter1d, program: Program) -> Any:
    match = Match(MatchKind.DEFAULT, program, None, ())
    plan = Plan.load(problem, match, compiler.compile_program(program), host)
    return check_on_random_data(plan.loaded, compiler, 1)
