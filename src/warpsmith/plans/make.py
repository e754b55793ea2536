"""From a problem to a plan: look up, generate, compile, load."""

from __future__ import annotations

import os
import warnings

from warpsmith.devices.base import Binary, Runtime
from warpsmith.devices.binary_cache import CachedCompiler
from warpsmith.devices.select import CompilerChoice, DeviceRef
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.problem import Problem
from warpsmith.plans.answers import Circumstances, keep, recalled
from warpsmith.plans.match import Match
from warpsmith.plans.memo import Before, Key, PlanMemo
from warpsmith.plans.plan import Plan, open_runtime
from warpsmith.store.location import named_location

SOFT_FACTS = ("driver", "toolkit")
"""Facts of the environment whose change may move times, but not answers."""


class StaleTiming(UserWarning):
    """The stored time was taken with another driver or toolkit than the installed one; results are not affected."""


def plan(problem: Problem, device: str, store: str | None) -> Plan:
    """What `warpsmith.plan` does, which has its arguments and errors."""
    key = problem, device, named_location(store)
    return _PLANS.get(key) or _made(key)


def forget_plans() -> None:
    """Lets go of the plans that `plan` remembers; they live on where somebody else has them."""
    _PLANS.forget()


def _made(key: Key) -> Plan:
    problem, device, store = key
    ref = DeviceRef.parse(device)
    before = Before.of(store)
    match, binary = _answer(problem, ref, store, before)
    made = _PLANS.earlier(key, ref)
    if made is None or made.match != match:
        runtime = open_runtime(ref)
        _warn_of_soft_changes(match, runtime, binary)
        made = Plan(problem, match, binary, runtime)
    _PLANS.put(key, made, ref, before)
    return made


def _answer(problem: Problem, ref: DeviceRef, store: str | None, before: Before) -> tuple[Match, Binary]:
    """The best answer, compiled: that of an earlier process where it still holds."""
    target = ref.device()
    circumstances = None
    if ref.kind is DeviceKind.CUDA and before.state is not None:
        circumstances = Circumstances(problem, target, store, before.state)
        if (earlier := recalled(circumstances)) is not None:
            return earlier
    # All families, and Jinja2 with its templates.
    from warpsmith.plans.lookup import look_up_wholly

    match, is_whole = look_up_wholly(problem, target, store)
    compiler = ref.compiler(CompilerChoice.AUTO)
    binary = compiler.compile(match.program)
    if circumstances is not None and is_whole and isinstance(compiler, CachedCompiler):
        keep(circumstances, match, compiler.file_name(match.program))
    return match, binary


def _warn_of_soft_changes(match: Match, runtime: Runtime, binary: Binary) -> None:
    if match.record is None:
        return
    then, now = match.record.provenance.environment, runtime.soft_facts(binary)
    for fact in SOFT_FACTS:
        if fact in then and fact in now and then[fact] != now[fact]:
            text = f"the stored time was taken with {fact} {then[fact]}, here is {now[fact]}; tune again to renew it"
            warnings.warn(text, StaleTiming, stacklevel=5)  # whoever called warpsmith.plan


_PLANS = PlanMemo()

os.register_at_fork(after_in_child=forget_plans)
