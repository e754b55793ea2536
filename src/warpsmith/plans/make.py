"""From a problem to a plan: look up, generate, compile, load."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from warpsmith.devices.base import Runtime
from warpsmith.devices.library_versions import library_version, versions_in
from warpsmith.devices.select import CompilerChoice, DeviceRef
from warpsmith.generator.problem import Problem
from warpsmith.plans.lookup import look_up
from warpsmith.plans.match import Match
from warpsmith.plans.plan import Plan, open_runtime

SOFT_FACTS = ("driver", "toolkit")
"""Facts of the environment whose change may move times, but not answers."""


class StaleTiming(UserWarning):
    """The stored time was taken with another driver, toolkit or library than the installed one; results stay right."""


def plan(problem: Problem, device: str, store: str | None) -> Plan:
    """What `warpsmith.plan` does, which has its arguments and errors."""
    ref = DeviceRef.parse(device)
    match = look_up(problem, ref.device(), store)
    binaries = ref.compiler(CompilerChoice.AUTO).compile_program(match.program)
    runtime = open_runtime(ref)
    _warn_of_soft_changes(match, runtime)
    return Plan(problem, match, binaries, runtime)


def _warn_of_soft_changes(match: Match, runtime: Runtime) -> None:
    if match.record is None:
        return
    then, now = match.record.provenance.environment, runtime.environment()
    changed = [f"{fact} {then[fact]}, here is {now[fact]}" for fact in SOFT_FACTS if _differs(fact, then, now)]
    versions = versions_in(match.record.trial.compiler)
    for library in match.program.libraries:
        here = library_version(runtime.device.kind, library)
        if here not in versions:
            changed.append(f"{', '.join(versions) or 'no library'}, here is {here}")
    for told in changed:
        text = f"the stored time was taken with {told}; tune again to renew it"
        warnings.warn(text, StaleTiming, stacklevel=4)  # whoever called warpsmith.plan


def _differs(fact: str, then: Mapping[str, str], now: Mapping[str, str]) -> bool:
    return fact in then and fact in now and then[fact] != now[fact]
