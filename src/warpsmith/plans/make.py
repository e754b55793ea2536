"""From a problem to a plan: look up, generate, compile, load."""

from __future__ import annotations

import warnings

from warpsmith.devices.base import Runtime
from warpsmith.devices.select import CompilerChoice, DeviceRef
from warpsmith.generator.problem import Problem
from warpsmith.plans.lookup import find
from warpsmith.plans.match import Match
from warpsmith.plans.plan import Plan, open_runtime
from warpsmith.store.location import open_for_reading

SOFT_FACTS = ("driver", "toolkit")
"""Facts of the environment whose change may move times, but not answers."""


class StaleTiming(UserWarning):
    """The stored time was taken under another driver or toolkit than the present one."""


def plan(problem: Problem, device: str = "auto", store: str | None = None) -> Plan:
    """The best stored answer for `problem`, ready to be called. Looks up, never searches.

    Args:
        problem: what is to be computed.
        device: `auto`, `cuda:I` or `host`.
        store: a file or URL to look in first; then come the user's own store and the shipped one.

    Raises:
        BadArgument: no such device, or no family solves the problem.
        CompileError, DeviceError, StoreError: as their names say.
    """
    ref = DeviceRef.parse(device)
    with open_for_reading(store) as stores:
        match = find(problem, ref.device(), stores)
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
            warnings.warn(text, StaleTiming, stacklevel=3)
