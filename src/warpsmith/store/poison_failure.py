"""Reads rows of poisoned programs, for both readers of a store."""

from __future__ import annotations

from warpsmith.store.record import Failure, FailureKind
from warpsmith.store.rows import Row

POISONOUS = frozenset({FailureKind.CRASH, FailureKind.TIMEOUT, FailureKind.OUT_OF_BOUNDS})
"""Failures of a program that ran and may do more harm than fail when it runs again."""

MAX_STARTS = 3
"""Starts without an end after which a program is given up. One may be a power cut, and two may be bad luck."""


def poison_failure(row: Row) -> Failure:
    """The reason why a program must not be run again."""
    if row["failure_kind"] is None:
        return Failure(FailureKind.CRASH, f"the tuner died {row['starts']} times while it ran")
    try:
        return Failure(FailureKind(row["failure_kind"]), row["message"] or "")
    except ValueError:  # a kind of a newer warpsmith; ignoring it would run the program
        return Failure(FailureKind.CRASH, f"{row['failure_kind']}: {row['message']}")
