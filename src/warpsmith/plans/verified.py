"""Verification state of a plan's program on this device. Bundles use it: no third-party package."""

from __future__ import annotations

import dataclasses
import enum
import os

from warpsmith.generator.problem import member

ENVIRONMENT_VARIABLE = "WARPSMITH_VERIFY"


class Verify(enum.StrEnum):
    """Choice of the programs that are checked before they are relied on."""

    FIRST = "first"
    """Programs that were not tuned for this problem on this device, once per program."""
    NEVER = "never"
    ALWAYS = "always"
    """Also stored winners."""

    @classmethod
    def of(cls, word: str | None) -> Verify:
        """Value of the argument, else of the environment, else FIRST. Raises BadArgument for an unknown word."""
        given = word or os.environ.get(ENVIRONMENT_VARIABLE) or cls.FIRST
        return member(cls, given, "verify" if word else ENVIRONMENT_VARIABLE)


class Verified(enum.StrEnum):
    """What was done to verify a plan's results."""

    STORED = "stored"
    """Nothing: the program is a stored winner, which a search has verified."""
    CHECKED = "checked"
    """Some results were compared with float64 sums, by this process or by an earlier one, and are right."""
    PENDING = "pending"
    """Nothing yet: the next call that is not under graph capture is checked, because random data did not fit or would
    have taken long.
    """
    NOT = "not"
    """Nothing: no check was requested, or the check itself failed."""


@dataclasses.dataclass(frozen=True, slots=True)
class Verification:
    """Outcome of verifying a plan's results."""

    by: Verified
    samples: int = 0
    """Number of results that were compared."""
    largest_error: float | None = None
    """Largest error divided by the scale that the problem's accuracy names (`Problem.error_unit`); None if none were
    compared.
    """
    reason: str = ""
    """Reason why no check took place, for NOT."""


UNASKED = Verification(Verified.NOT, reason="nobody asked for it")
EXEMPT = Verification(Verified.STORED)
TUNED_ELSEWHERE = Verification(Verified.NOT, reason="the bundle's kernel was tuned on another device")
PENDING = Verification(Verified.PENDING)
