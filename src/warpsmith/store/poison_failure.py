"""What the rows of poisoned programs say, for both readers of a store."""

from __future__ import annotations

from warpsmith.store.record import Failure, FailureKind
from warpsmith.store.rows import Row

POISONOUS = frozenset({FailureKind.CRASH, FailureKind.TIMEOUT, FailureKind.OUT_OF_BOUNDS})
"""Failures of a program that ran, and may do more harm than fail when it runs again."""

MAX_STARTS = 3
"""Once may be a power cut and twice bad luck."""


def poison_failure(row: Row) -> Failure:
    """Why a program must not be run again."""
    if row["failure_kind"] is None:
        return Failure(FailureKind.CRASH, f"the tuner died {row['starts']} times while it ran")
    try:
        return Failure(FailureKind(row["failure_kind"]), row["message"] or "")
    except ValueError:  # of a newer warpsmith: to overlook it would run the program
        return Failure(FailureKind.CRASH, f"{row['failure_kind']}: {row['message']}")
