"""Text for the result of `db check --times` on a winner."""

from __future__ import annotations

from warpsmith.store.record import Record, Verdict, checked_of
from warpsmith.units import format_time

_WORDS = {
    Verdict.SAME: "last checked on {day}: {time}, as stored",
    Verdict.FASTER: "last checked on {day}: {time}, faster than stored; tune again to renew it",
    Verdict.SLOWER: "last checked on {day}: {time}, slower than stored; tune again to renew it",
    Verdict.WRONG: "last checked on {day}: its result was wrong; tune again",
}


def checked_facts(record: Record) -> list[tuple[str, str]]:
    """The latest check of a record as a line for `record_facts`; empty if it was never checked."""
    checked = checked_of(record)
    if checked is None or checked.verdict not in _WORDS:
        return []
    time = "unknown" if checked.median_ns is None else format_time(checked.median_ns)
    driver = "" if checked.driver is None else f" (driver {checked.driver})"
    return [("checked", _WORDS[checked.verdict].format(time=time, day=f"{checked.at[:10]}{driver}"))]
