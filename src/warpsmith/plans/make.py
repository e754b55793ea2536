"""From a problem to a plan: look up, generate, compile, load."""

from __future__ import annotations

import warnings

from warpsmith.devices.base import Runtime
from warpsmith.devices.select import CompilerChoice, DeviceRef
from warpsmith.generator.problem import Problem
from warpsmith.plans.lookup import look_up
from warpsmith.plans.match import Match
from warpsmith.plans.plan import Plan, open_runtime

SOFT_FACTS = ("driver", "toolkit")
"""Facts of the environment whose change may move times, but not answers."""


class StaleTiming(UserWarning):
    """The stored time was taken with another driver or toolkit than the installed one; results are not affected."""


def plan(problem: Problem, device: str, store: str | None) -> Plan:
    """What `warpsmith.plan` does, which has its arguments and errors."""
    ref = DeviceRef.parse(device)
    match = look_up(problem, ref.device(), store)
    binary = ref.compiler(CompilerChoice.AUTO).compile(match.program)
    runtime = open_runtime(ref)
    _warn_of_soft_changes(match, runtime)
    return Plan(problem, match, binary, runtime)


def _warn_of_soft_changes(match: Match, runtime: Runtime) -> None:
    if match.record is None:
        return
    then, now = match.record.provenance.environment, runtime.environment()
    for fact in SOFT_FACTS:
        if fact in then and fact in now and then[fact] != now[fact]:
            text = f"the stored time was taken with {fact} {then[fact]}, here is {now[fact]}; tune again to renew it"
            warnings.warn(text, StaleTiming, stacklevel=4)  # whoever called warpsmith.plan
