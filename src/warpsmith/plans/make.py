"""Making of a plan from a problem: look up, generate, compile, load. Plans are cached while stores are unchanged."""

from __future__ import annotations

import dataclasses
import functools
import os
import time
import warnings
from collections.abc import Callable, Mapping

from warpsmith.devices.compiler import Binaries
from warpsmith.devices.library_versions import library_version, versions_in
from warpsmith.devices.runtime import Runtime
from warpsmith.devices.select import CompilerChoice, DeviceRef
from warpsmith.errors import WrongResult
from warpsmith.generator.pins import NO_PINS, PinnedValues, Pins
from warpsmith.generator.problem import Problem, check_method, checked_problem
from warpsmith.generator.selection import Selection
from warpsmith.plans.answer_cache import Circumstances, cached_answer
from warpsmith.plans.first_use.verdicts import Finding
from warpsmith.plans.first_use.verify import verify
from warpsmith.plans.loaded import VerifiedProgram, Verify
from warpsmith.plans.match import Match
from warpsmith.plans.plan import Plan, open_runtime
from warpsmith.plans.poisoned import WRONG_HERE, refuse
from warpsmith.store.changes import OWN_WRITES, State, state_of
from warpsmith.store.location import named_location

SOFT_FACTS = ("driver", "toolkit")
"""Facts of the environment whose change may affect times, but not results."""


class StaleTiming(UserWarning):
    """The stored time was taken with another driver, toolkit or library than the installed one; results stay right."""


def plan(
    problem: Problem,
    device: str,
    store: str | None,
    method: str,
    which: str | None = None,
    parameters: PinnedValues | None = None,
) -> Plan:
    """Implementation of `warpsmith.plan`, with its arguments and errors."""
    pins = None if parameters is None else Pins.of(parameters)
    key = problem, device, named_location(store), method, which, pins
    try:
        cached = _PLANS.get(key)
    except TypeError:  # the key contains an unhashable value, such as a list
        _check(key)
        raise
    return cached or _made(key)


def forget_plans() -> None:
    """Clears the cached plans; plans that a caller still holds stay valid."""
    _PLANS.forget()


def _check(key: Key) -> None:
    """Raises BadArgument if the problem is not a Problem, or the method is not text."""
    problem, _, _, method, _, _ = key
    checked_problem(problem)
    check_method(method)


def _made(key: Key) -> Plan:
    _check(key)
    problem, device, store, method, word, pins = key
    selection = Selection(method, pins or NO_PINS)
    ref, which = DeviceRef.parse(device), Verify.of(word)
    while True:
        before = Before.of(store)
        match, binaries = _answer(problem, ref, store, selection, before)
        made = _PLANS.earlier(key, ref)
        if made is None or made.match != match:
            runtime = open_runtime(ref)
            _warn_of_soft_changes(match, runtime, binaries)
            made = Plan.load(problem, match, binaries, runtime, functools.partial(_of_other_problem, key))
            wrong = verify(made.program, which, ref.compiler, functools.partial(_in_place_of, key))
            if wrong is not None:
                _refuse(made.program, wrong, store)
                continue  # a look-up skips it, so each round tries another program
        _PLANS.put(key, made, ref, before)
        return made


def _of_other_problem(key: Key, problem: Problem) -> Plan:
    """The plan that the same request gets for another problem."""
    key = (problem, *key[1:])
    return _PLANS.get(key) or _made(key)


def _in_place_of(key: Key, wrong_program: VerifiedProgram, wrong: Finding) -> VerifiedProgram:
    """Makes the next answer after the first call of a program gave wrong results."""
    _refuse(wrong_program, wrong, key[2])
    return _made(key).program


def _refuse(wrong_program: VerifiedProgram, wrong: Finding, store: str | None) -> None:
    loaded = wrong_program.loaded
    program, device = loaded.match.program, loaded.runtime.device
    if program.fingerprint in WRONG_HERE.of(device):
        message = WRONG_HERE.of(device)[program.fingerprint]
        raise WrongResult(f"a program that gave wrong results before answers again: {message}")
    refuse(program, loaded.problem, device, wrong.message, store)


def _answer(
    problem: Problem, ref: DeviceRef, store: str | None, selection: Selection, before: Before
) -> tuple[Match, Binaries]:
    """The best answer, compiled; the cached one of an earlier process if it is still valid."""
    target = ref.device()
    circumstances = Circumstances(problem, target, store, before.state, selection)
    if circumstances.can_be_cached:
        earlier = cached_answer(circumstances)
        if earlier is not None and earlier[0].program.fingerprint not in WRONG_HERE.of(target):
            return earlier
    # This import loads all families, and Jinja2 with its templates.
    from warpsmith.plans.fresh_answer import fresh_answer

    return fresh_answer(circumstances, ref.compiler(CompilerChoice.AUTO))


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
    for change in changed:
        text = f"the stored time was taken with {change}; tune again to renew it"
        warnings.warn(text, StaleTiming, stacklevel=5)  # attributed to the caller of warpsmith.plan


def _differs(fact: str, then: Mapping[str, str], now: Mapping[str, str]) -> bool:
    return fact in then and fact in now and then[fact] != now[fact]


MOST_PLANS = 64
"""Largest number of cached plans, with their code on the device; the least recently requested one is dropped."""

LOOK_EVERY_S = 0.005
"""Seconds for which a plan is returned without checking the stores' files: a check takes 40 us. Writes by this process
are seen at once.
"""


Key = tuple[Problem, str, str | None, str, str | None, Pins | None]
"""Problem, device, store, method, the `verify` argument and the pinned parameters of a plan. Device and store are as
the user named them, the store by argument or environment. The environment's `verify` is read only when a plan is made:
reading it takes 1 us, and a cached plan is found in 3 us.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Before:
    """State of the stores before they were read."""

    state: State | None
    writes: int

    @classmethod
    def of(cls, store: str | None) -> Before:
        """The current state."""
        writes = OWN_WRITES.count
        return cls(state_of(store), writes)


class _CachedPlan:
    """A cached plan and the state that it was made from."""

    __slots__ = ("fresh_until", "plan", "ref", "state", "used", "writes")

    def __init__(self, plan: Plan, ref: DeviceRef, state: State, writes: int, now: float) -> None:
        self.plan = plan
        self.ref = ref
        self.state = state
        self.writes = writes
        self.fresh_until = now + LOOK_EVERY_S
        self.used = now


class PlanCache:
    """Cache of this process's plans. Thread-safe. A forked child must call `forget`, since it has no GPU.

    Args:
        clock: monotonic clock, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._plans: dict[Key, _CachedPlan] = {}

    def __len__(self) -> int:
        return len(self._plans)

    def get(self, key: Key) -> Plan | None:
        """The cached plan for the same request, in the words of its key; None if it must be made anew.

        Raises BadArgument or DeviceError as `DeviceRef.parse` does.
        """
        cached = self._plans.get(key)
        if cached is None:
            return None
        now = self._clock()
        if now < cached.fresh_until and cached.writes == OWN_WRITES.count:
            cached.used = now
            return cached.plan
        return cached.plan if self._is_good(key, cached, now) else None

    def _is_good(self, key: Key, cached: _CachedPlan, now: float) -> bool:
        """True if everything that the plan was made from is unchanged."""
        _, device, store, *_ = key
        writes = OWN_WRITES.count  # read before the check: a write in between is seen at the next one
        if DeviceRef.parse(device) != cached.ref or state_of(store) != cached.state:
            return False
        cached.writes, cached.fresh_until, cached.used = writes, now + LOOK_EVERY_S, now
        return True

    def earlier(self, key: Key, ref: DeviceRef) -> Plan | None:
        """The plan made last for the same request on the same device, even if the stores changed since."""
        cached = self._plans.get(key)
        return cached.plan if cached is not None and cached.ref == ref else None

    def put(self, key: Key, plan: Plan, ref: DeviceRef, before: Before) -> None:
        """Caches a plan that was made from the stores' state `before`; a plan from a store on a server is not
        cached.
        """
        if before.state is None:
            return
        self._plans[key] = _CachedPlan(plan, ref, before.state, before.writes, self._clock())
        while len(self._plans) > MOST_PLANS:
            oldest = min(self._plans.copy().items(), key=lambda item: item[1].used)[0]
            self._plans.pop(oldest, None)

    def forget(self) -> None:
        self._plans = {}


_PLANS = PlanCache()

os.register_at_fork(after_in_child=forget_plans)
