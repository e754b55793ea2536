"""Verification of a plan's program: by an earlier verdict, by a check now, or by a check of its first call."""

from __future__ import annotations

from collections.abc import Callable

from warpsmith.devices.base import Compiler
from warpsmith.devices.calls import ReadCall
from warpsmith.devices.process import ForkLock
from warpsmith.errors import WrongResult
from warpsmith.generator.program import Program
from warpsmith.plans.first_use.finding import Finding
from warpsmith.plans.first_use.verdicts import VERDICTS, verdict_name
from warpsmith.plans.match import MatchKind
from warpsmith.plans.plan import Outcome, Plan
from warpsmith.plans.verified import EXEMPT, UNASKED, Verification, Verified, Verify

Other = Callable[[Plan, Finding], Plan]
"""Function that returns a replacement for a plan whose results are wrong."""

_MOST_ATTEMPTS = 4
"""Number of calls with data that allow no check, after which no further call is checked."""


def verify(plan: Plan, which: Verify, compiler: Callable[[], Compiler], other: Other) -> Finding | None:
    """Checks a new plan and records the outcome in it. A check that cannot be carried out has no other effect.

    Args:
        plan: the plan before its first call.
        which: which plans are checked.
        compiler: makes the compiler for the plan's device.
        other: returns the replacement if the check of the first call fails.

    Returns: the finding if results are wrong; None if no fault is known.
    """
    if which is Verify.NEVER:
        plan.verified = UNASKED
    elif which is Verify.FIRST and plan.match.kind is MatchKind.EXACT:
        plan.verified = EXEMPT
    else:
        name = verdict_name(plan.problem, plan.runtime.device, plan.match.program.fingerprint, plan.binaries)
        finding = VERDICTS.get(name) or _checked(plan, name, compiler, other)
        if finding is not None:
            plan.verified = _told(finding)
            return None if finding.is_right else finding
    return None


def _checked(plan: Plan, name: str, compiler: Callable[[], Compiler], other: Other) -> Finding | None:
    try:
        # This imports NumPy's random numbers, and Jinja2 with its templates.
        from warpsmith.plans.first_use.check import check_on_random_data, is_quick, why_not

        if reason := why_not(plan.problem, plan.runtime):
            plan.verified = Verification(Verified.NOT, reason=reason)
            return None
        finding = None
        if is_quick(plan.problem, plan.runtime) and not plan.runtime.is_being_captured():
            finding = check_on_random_data(plan.loaded, compiler(), seed_of(plan.match.program))
    except Exception as error:
        plan.verified = Verification(Verified.NOT, reason=str(error))
        return None
    if finding is None:
        plan.check_first_call(FirstCall(name, compiler, other))
    else:
        VERDICTS.put(name, finding)
    return finding


def seed_of(program: Program) -> int:
    """The seed of one program's check, below 2^60, so that the check is reproducible."""
    return int(program.fingerprint[:15], 16)


def _told(finding: Finding) -> Verification:
    return Verification(Verified.CHECKED, finding.samples, finding.largest_error)


class FirstCall:
    """Check of a plan's first call. It is used if random operands do not fit or take long, or if a graph was being
    captured.

    Args:
        name: file name of the verdict.
        compiler: makes the compiler for the plan's device.
        other: returns the replacement if the results are wrong.
    """

    def __init__(self, name: str, compiler: Callable[[], Compiler], other: Other) -> None:
        self.lock = ForkLock()
        self._name, self._compiler, self._other = name, compiler, other
        self._attempts = 0

    def settle(self, plan: Plan, call: ReadCall) -> Outcome:
        """Checks a call; see `PendingCheck.settle`."""
        self._attempts += 1
        try:
            from warpsmith.plans.first_use.check import check_call

            finding = check_call(plan.loaded, self._compiler(), seed_of(plan.match.program), call)
        except Exception as error:
            return Outcome(Verification(Verified.NOT, reason=str(error)))
        if finding is None:
            if self._attempts < _MOST_ATTEMPTS:
                return Outcome(plan.verified, self)
            return Outcome(Verification(Verified.NOT, reason="the data of the first calls were not all finite"))
        VERDICTS.put(self._name, finding)
        verified = _told(finding)
        return Outcome(verified) if finding.is_right else Outcome(verified, other=self._other(plan, finding))


def no_right_program(plan: Plan, messages: list[str]) -> WrongResult:
    """Error if every program that may answer was wrong."""
    told = "; ".join(messages)
    where = plan.runtime.device.name
    return WrongResult(f"no program that was tried gives right results for {plan.problem.key()} on {where}: {told}")
