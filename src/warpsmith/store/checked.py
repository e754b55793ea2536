"""Result of timing a stored winner again. It is stored among the environment facts of its record.

Every version of the schema and of the interchange form has a place for such facts, so nothing is lost when a version
does not know these.
"""

from __future__ import annotations

import dataclasses
import enum

from warpsmith.store.record import Record


class Verdict(enum.StrEnum):
    """Result of checking a winner again."""

    SAME = "same"
    """Correct, and the time lies in the tie band of the stored one."""
    FASTER = "faster"
    SLOWER = "slower"
    WRONG = "wrong"
    """Not correct today, or it does not run."""
    UNCHECKED = "unchecked"
    """Nothing is known: its source is of another version, or its time was taken under other conditions."""

    @property
    def is_good(self) -> bool:
        """True if the winner needs no action."""
        return self in (Verdict.SAME, Verdict.UNCHECKED)


@dataclasses.dataclass(frozen=True, slots=True)
class Checked:
    """Time and result of a winner's latest check."""

    at: str
    """Time in UTC, ISO 8601."""
    verdict: Verdict
    median_ns: float | None
    """None if the winner is not correct."""
    driver: str | None
    """None on a host device."""


_AT, _VERDICT, _TIME, _DRIVER = "checked", "checked verdict", "checked ns", "checked driver"


def marked(record: Record, checked: Checked) -> Record:
    """The record with this check; it replaces an earlier one."""
    earlier = record.provenance.environment
    kept = {name: fact for name, fact in earlier.items() if name not in (_AT, _VERDICT, _TIME, _DRIVER)}
    note = {_AT: checked.at, _VERDICT: str(checked.verdict)}
    if checked.median_ns is not None:
        note[_TIME] = repr(checked.median_ns)
    if checked.driver is not None:
        note[_DRIVER] = checked.driver
    return dataclasses.replace(record, provenance=dataclasses.replace(record.provenance, environment={**kept, **note}))


def checked_of(record: Record) -> Checked | None:
    """The latest check of a record; None if it has none, or one that this version cannot read."""
    facts = record.provenance.environment
    try:
        median_ns = float(facts[_TIME]) if _TIME in facts else None
        return Checked(facts[_AT], Verdict(facts[_VERDICT]), median_ns, facts.get(_DRIVER))
    except (KeyError, ValueError):
        return None


def was_wrong(record: Record) -> bool:
    """True if the latest check found the winner's results wrong."""
    checked = checked_of(record)
    return checked is not None and checked.verdict is Verdict.WRONG
