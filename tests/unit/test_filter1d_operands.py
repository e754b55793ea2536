"""Every family reads every input of a problem that it says it solves, and writes every output."""

from __future__ import annotations

from typing import Any

import pytest

from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter1d.operation import FILTER1D
from warpsmith.generator.presets import H200
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.generator.steps import Launch

HALVES: dict[str, Any] = {"dtype": "bfloat16", "taps_dtype": "bfloat16", "mode": "causal"}
MANY: dict[str, Any] = {"channels": 64, "filters": 64}
PROBLEMS = (
    Filter1d(1024, 200, 64, bias=True, activation="silu", **MANY, **HALVES),
    Filter1d(1024, 200, 64, bias=True, precision="f16", **MANY, **HALVES),
    Filter1d(1024, 200, 64, gates="both", **MANY, **HALVES),
    Filter1d(1024, 200, 64, gates="both", projection=3, **MANY, **HALVES),
    Filter1d(1024, 7, 2, layout="btc", gates="after", bias=True, **MANY, **HALVES),
    Filter1d(2**20, 2**17, gates="before"),
    Filter1d(2**20, 2**20, lags=(-50, 50), gates="after"),
    Filter1d(2**20, 2**20, nonfinite="any", bias=True),
    Filter1d(480, 400, mode="causal", state="carried", bias=True, **MANY),
    Filter1d(480, 4, 8, mode="causal", state="carried", state_rows=9, circular=True, **MANY),
    Filter1d(480, 4, mode="causal", state="both", packed=5, **MANY),
    Filter1d(1024, 128, 64, pass_="wgrad", **MANY, **HALVES),  # type: ignore[arg-type]  # a name
    Filter1d(1024, 4, 8, pass_="backward", bias=True, activation="silu", **MANY, **HALVES),  # type: ignore[arg-type]
)


def used_by(program: Program) -> set[str]:
    """Names of operands, and of workspaces, that some step of a program is given."""
    used: set[str] = set()
    for step in program.steps:
        arguments = (*step.arguments, *(step.constants if isinstance(step, Launch) else ()))
        used |= {getattr(each, "buffer", None) or getattr(each, "operand", "") for each in arguments}
    return used


@pytest.mark.parametrize("problem", PROBLEMS, ids=Problem.key)
def test_no_operand_is_left_out(problem: Filter1d) -> None:
    able = [each for each in FILTER1D.families if each.why_not(problem, H200) is None]
    assert able
    for family in able:
        left = {each.name for each in problem.operands} - used_by(
            family.program(problem, family.default(problem, H200))
        )
        assert not left, (family.name, left)
