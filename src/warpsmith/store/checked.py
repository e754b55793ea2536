"""What came of timing a stored winner again: a soft fact of its record, kept among those of its environment.

There, since every version of the schema and of the interchange form has a place for words, and nothing that holds is
lost where a version does not know them.
"""

from __future__ import annotations

import dataclasses
import enum

from warpsmith.store.record import Record


class Verdict(enum.StrEnum):
    """What a second look says of a winner."""

    SAME = "same"
    """Right, and its time lies in the tie band of the stored one."""
    FASTER = "faster"
    SLOWER = "slower"
    WRONG = "wrong"
    """Not right today, or it does not run."""
    UNCHECKED = "unchecked"
    """Nothing was learnt: its text is of another version, or its time was taken under other conditions."""

    @property
    def is_good(self) -> bool:
        """Whether nothing has to be done about it."""
        return self in (Verdict.SAME, Verdict.UNCHECKED)


@dataclasses.dataclass(frozen=True, slots=True)
class Checked:
    """When a winner was timed again, and what came of it."""

    at: str
    """UTC, ISO 8601."""
    verdict: Verdict
    median_ns: float | None
    """None where it is not right."""
    driver: str | None
    """None on a host."""


_AT, _VERDICT, _TIME, _DRIVER = "checked", "checked verdict", "checked ns", "checked driver"


def marked(record: Record, checked: Checked) -> Record:
    """The record with the note, in the place of an earlier one."""
    earlier = record.provenance.environment
    kept = {name: fact for name, fact in earlier.items() if name not in (_AT, _VERDICT, _TIME, _DRIVER)}
    note = {_AT: checked.at, _VERDICT: str(checked.verdict)}
    if checked.median_ns is not None:
        note[_TIME] = repr(checked.median_ns)
    if checked.driver is not None:
        note[_DRIVER] = checked.driver
    return dataclasses.replace(record, provenance=dataclasses.replace(record.provenance, environment={**kept, **note}))


def checked_of(record: Record) -> Checked | None:
    """The note of a record; None where it has none, or one that this version cannot read."""
    facts = record.provenance.environment
    try:
        median_ns = float(facts[_TIME]) if _TIME in facts else None
        return Checked(facts[_AT], Verdict(facts[_VERDICT]), median_ns, facts.get(_DRIVER))
    except (KeyError, ValueError):
        return None


def was_wrong(record: Record) -> bool:
    """Whether the latest look at a winner found its results wrong."""
    checked = checked_of(record)
    return checked is not None and checked.verdict is Verdict.WRONG
