"""Verification of a plan's program: by an earlier verdict, by a check now, or by a check of its first call."""

from __future__ import annotations

from collections.abc import Callable

from warpsmith.devices.checked_calls import ReadCall
from warpsmith.devices.compiler import Compiler
from warpsmith.devices.process import ForkLock
from warpsmith.generator.program import Program
from warpsmith.plans.first_use.verdicts import VERDICTS, Finding, verdict_name
from warpsmith.plans.loaded import EXEMPT, NOT_REQUESTED, Outcome, Verification, Verified, VerifiedProgram, Verify
from warpsmith.plans.match import MatchKind

Other = Callable[[VerifiedProgram, Finding], VerifiedProgram]
"""Function that returns a replacement for a program whose results are wrong."""

_MOST_ATTEMPTS = 4
"""Number of calls with data that allow no check, after which no further call is checked."""


def verify(program: VerifiedProgram, which: Verify, compiler: Callable[[], Compiler], other: Other) -> Finding | None:
    """Checks a new plan's program and records the outcome in it. A check that cannot be carried out does nothing else.

    Args:
        program: the program before its first call.
        which: which programs are checked.
        compiler: makes the compiler for the program's device.
        other: returns the replacement if the check of the first call fails.

    Returns: the finding if results are wrong; None if no fault is known.
    """
    loaded = program.loaded
    if which is Verify.NEVER:
        program.verified = NOT_REQUESTED
    elif which is Verify.FIRST and loaded.match.kind is MatchKind.EXACT:
        program.verified = EXEMPT
    else:
        name = verdict_name(loaded.problem, loaded.runtime.device, loaded.match.program.fingerprint, loaded.binaries)
        finding = VERDICTS.get(name) or _checked(program, name, compiler, other)
        if finding is not None:
            program.verified = _verification(finding)
            return None if finding.is_right else finding
    return None


def _checked(program: VerifiedProgram, name: str, compiler: Callable[[], Compiler], other: Other) -> Finding | None:
    loaded = program.loaded
    try:
        # This imports NumPy's random numbers, and Jinja2 with its templates.
        from warpsmith.plans.first_use.check import check_on_random_data, is_quick, why_not, why_not_calls

        if reason := why_not(loaded.problem, loaded.runtime):
            program.verified = Verification(Verified.NOT, reason=reason)
            return None
        finding = None
        if is_quick(loaded.problem, loaded.runtime) and not loaded.runtime.is_being_captured():
            finding = check_on_random_data(loaded, compiler(), seed_of(loaded.match.program))
    except Exception as error:
        program.verified = Verification(Verified.NOT, reason=str(error))
        return None
    if finding is None and (reason := why_not_calls(loaded.problem)):
        program.verified = Verification(Verified.NOT, reason=reason)
    elif finding is None:
        program.check_next_call(FirstCall(name, compiler, other))
    else:
        VERDICTS.put(name, finding)
    return finding


def seed_of(program: Program) -> int:
    """The seed of one program's check, below 2^60, so that the check is reproducible."""
    return int(program.fingerprint[:15], 16)


def _verification(finding: Finding) -> Verification:
    return Verification(Verified.CHECKED, finding.samples, finding.largest_error)


class FirstCall:
    """Check of a program's first call. It is used if random operands do not fit or take long, or if a graph was being
    captured.

    Args:
        name: file name of the verdict.
        compiler: makes the compiler for the program's device.
        other: returns the replacement if the results are wrong.
    """

    def __init__(self, name: str, compiler: Callable[[], Compiler], other: Other) -> None:
        self.lock = ForkLock()
        self._name, self._compiler, self._other = name, compiler, other
        self._attempts = 0

    def settle(self, program: VerifiedProgram, call: ReadCall) -> Outcome:
        """Checks a call; see `PendingCheck.settle`."""
        self._attempts += 1
        loaded = program.loaded
        try:
            from warpsmith.plans.first_use.check import check_call

            finding = check_call(loaded, self._compiler(), seed_of(loaded.match.program), call)
        except Exception as error:
            return Outcome(Verification(Verified.NOT, reason=str(error)))
        if finding is None:
            if self._attempts < _MOST_ATTEMPTS:
                return Outcome(program.verified, self)
            return Outcome(Verification(Verified.NOT, reason="the data of the first calls were not all finite"))
        VERDICTS.put(self._name, finding)
        verified = _verification(finding)
        return Outcome(verified) if finding.is_right else Outcome(verified, other=self._other(program, finding))
