"""Whether a plan's program was checked on this device, and what came of it. Bundles use it: no third-party package."""

from __future__ import annotations

import dataclasses
import enum
import os

from warpsmith.generator.problem import member

ENVIRONMENT_VARIABLE = "WARPSMITH_VERIFY"


class Verify(enum.StrEnum):
    """Answers that are checked before they are relied on."""

    FIRST = "first"
    """Answers that nobody has tuned for this problem on this device, once for each program."""
    NEVER = "never"
    ALWAYS = "always"
    """Stored winners too."""

    @classmethod
    def of(cls, word: str | None) -> Verify:
        """What an argument says, else the environment, else FIRST. Raises BadArgument for an unknown word."""
        given = word or os.environ.get(ENVIRONMENT_VARIABLE) or cls.FIRST
        return member(cls, given, "verify" if word else ENVIRONMENT_VARIABLE)


class Verified(enum.StrEnum):
    """What was done to find out whether a plan's results are right."""

    STORED = "stored"
    """Nothing: the answer is a stored winner, which a search has verified."""
    CHECKED = "checked"
    """Some results were compared with float64 sums, by this process or by an earlier one, and are right."""
    PENDING = "pending"
    """Nothing yet: the first call outside of a graph's capture is checked, since random data did not fit or would
    have taken long."""
    NOT = "not"
    """Nothing: it was not asked for, or the check itself failed."""


@dataclasses.dataclass(frozen=True, slots=True)
class Verification:
    """What is known of a plan's results."""

    by: Verified
    samples: int = 0
    """Results that were compared."""
    largest_error: float | None = None
    """Over what the problem's accuracy names (`Problem.error_unit`); None where none were compared."""
    reason: str = ""
    """Why the check failed, for NOT."""


UNASKED = Verification(Verified.NOT, reason="nobody asked for it")
EXEMPT = Verification(Verified.STORED)
TUNED_ELSEWHERE = Verification(Verified.NOT, reason="the bundle's kernel was tuned on another device")
PENDING = Verification(Verified.PENDING)
