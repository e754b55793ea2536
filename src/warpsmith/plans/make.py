"""Making of a plan from a problem: look up, generate, compile, load."""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Mapping

from warpsmith.devices.binary_cache import CachedCompiler
from warpsmith.devices.compiler import Binaries
from warpsmith.devices.library_versions import library_version, versions_in
from warpsmith.devices.runtime import Runtime
from warpsmith.devices.select import CompilerChoice, DeviceRef
from warpsmith.errors import WrongResult
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.problem import Problem, check_method, checked_problem
from warpsmith.plans.answers import Circumstances, keep, recalled
from warpsmith.plans.first_use.finding import Finding
from warpsmith.plans.first_use.verify import verify
from warpsmith.plans.loaded import VerifiedProgram
from warpsmith.plans.match import Match
from warpsmith.plans.memo import Before, Key, PlanMemo
from warpsmith.plans.plan import Plan, open_runtime
from warpsmith.plans.poisoned import WRONG_HERE, refuse
from warpsmith.plans.verified import Verify
from warpsmith.store.location import named_location

SOFT_FACTS = ("driver", "toolkit")
"""Facts of the environment whose change may affect times, but not results."""


class StaleTiming(UserWarning):
    """The stored time was taken with another driver, toolkit or library than the installed one; results stay right."""


def plan(problem: Problem, device: str, store: str | None, method: str, which: str | None = None) -> Plan:
    """Implementation of `warpsmith.plan`, with its arguments and errors."""
    key = problem, device, named_location(store), method, which
    try:
        kept = _PLANS.get(key)
    except TypeError:  # the key contains an unhashable value, such as a list
        _check(key)
        raise
    return kept or _made(key)


def forget_plans() -> None:
    """Clears the cached plans; plans that a caller still holds stay valid."""
    _PLANS.forget()


def _check(key: Key) -> None:
    """Raises BadArgument if the problem is not a Problem, or the method is not text."""
    problem, _, _, method, _ = key
    checked_problem(problem)
    check_method(method)


def _made(key: Key) -> Plan:
    _check(key)
    problem, device, store, method, word = key
    ref, which = DeviceRef.parse(device), Verify.of(word)
    while True:
        before = Before.of(store)
        match, binaries = _answer(problem, ref, store, method, before)
        made = _PLANS.earlier(key, ref)
        if made is None or made.match != match:
            runtime = open_runtime(ref)
            _warn_of_soft_changes(match, runtime, binaries)
            made = Plan.load(problem, match, binaries, runtime)
            wrong = verify(made.program, which, ref.compiler, functools.partial(_in_place_of, key))
            if wrong is not None:
                _refuse(made.program, wrong, store)
                continue  # a look-up skips it, so each round tries another program
        _PLANS.put(key, made, ref, before)
        return made


def _in_place_of(key: Key, wrong_program: VerifiedProgram, wrong: Finding) -> VerifiedProgram:
    """Makes the next answer after the first call of a program gave wrong results."""
    _refuse(wrong_program, wrong, key[2])
    return _made(key).program


def _refuse(wrong_program: VerifiedProgram, wrong: Finding, store: str | None) -> None:
    loaded = wrong_program.loaded
    program, device = loaded.match.program, loaded.runtime.device
    if program.fingerprint in WRONG_HERE.of(device):
        told = WRONG_HERE.of(device)[program.fingerprint]
        raise WrongResult(f"a program that gave wrong results before answers again: {told}")
    refuse(program, loaded.problem, device, wrong.message, store)


def _answer(problem: Problem, ref: DeviceRef, store: str | None, method: str, before: Before) -> tuple[Match, Binaries]:
    """The best answer, compiled; the cached one of an earlier process if it is still valid."""
    target = ref.device()
    circumstances = None
    if ref.kind is DeviceKind.CUDA and before.state is not None:
        circumstances = Circumstances(problem, target, store, before.state, method)
        earlier = recalled(circumstances)
        if earlier is not None and earlier[0].program.fingerprint not in WRONG_HERE.of(target):
            return earlier
    # This import loads all families, and Jinja2 with its templates.
    from warpsmith.plans.lookup import look_up_wholly

    match, is_whole = look_up_wholly(problem, target, store, method)
    compiler = ref.compiler(CompilerChoice.AUTO)
    binaries = compiler.compile_program(match.program)
    if circumstances is not None and is_whole and isinstance(compiler, CachedCompiler):
        files = {name: compiler.file_name(unit) for name, unit in match.program.compilations().items()}
        keep(circumstances, match, files)
    return match, binaries


def _warn_of_soft_changes(match: Match, runtime: Runtime, binaries: Binaries) -> None:
    if match.record is None:
        return
    then, now = match.record.provenance.environment, runtime.soft_facts(binaries)
    changed = [f"{fact} {then[fact]}, here is {now[fact]}" for fact in SOFT_FACTS if _differs(fact, then, now)]
    versions = versions_in(match.record.trial.compiler)
    for library in match.program.libraries:
        here = library_version(runtime.device.kind, library)
        if here not in versions:
            changed.append(f"{', '.join(versions) or 'no library'}, here is {here}")
    for told in changed:
        text = f"the stored time was taken with {told}; tune again to renew it"
        warnings.warn(text, StaleTiming, stacklevel=5)  # attributed to the caller of warpsmith.plan


def _differs(fact: str, then: Mapping[str, str], now: Mapping[str, str]) -> bool:
    return fact in then and fact in now and then[fact] != now[fact]


_PLANS = PlanMemo()

os.register_at_fork(after_in_child=forget_plans)
