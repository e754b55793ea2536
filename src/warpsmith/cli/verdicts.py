"""Text for the comparison of a winner with its baselines, how much faster it is or why that cannot be said, and for its
latest check.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from warpsmith.generator.registry import OPERATIONS
from warpsmith.store.conditions import is_throttled
from warpsmith.store.record import COPY, BaselineVerdict, LeftOut, Record, Timing, Verdict, checked_of, fastest_library
from warpsmith.units import format_time

NOBODY = "no other library was there to be measured beside it"


def speed_up_words(speed_up: float, name: str) -> str:
    """Text such as `3.06x faster than NPP`; below 1 `1.20x slower than NPP`. `speed_up` is the other's median over
    the winner's.
    """
    return f"{speed_up:.2f}x faster than {name}" if speed_up >= 1 else f"{1 / speed_up:.2f}x slower than {name}"


def words_of(verdict: BaselineVerdict) -> str:
    """Comparison of one baseline with the winner, as text."""
    name = verdict.baseline.name
    if verdict.speed_up is None:
        return f"no verdict against {name}: {verdict.why_not}"
    return speed_up_words(verdict.speed_up, name)


def summary(verdicts: Sequence[BaselineVerdict]) -> str:
    """Says in one line whether a winner beats the other libraries."""
    fastest = fastest_library(verdicts)
    if fastest is not None and fastest.speed_up is not None:
        text = f"{words_of(fastest)}, the fastest library beside it"
        return text if fastest.speed_up >= 1 else f"{text}: use that"
    libraries = [verdict for verdict in verdicts if verdict.is_library]
    return words_of(min(libraries, key=_time)) if libraries else NOBODY


def short(verdicts: Sequence[BaselineVerdict]) -> str:
    """`3.06x` over the fastest other library, `unfair` if none was timed under the winner's conditions, or `-`."""
    fastest = fastest_library(verdicts)
    if fastest is not None:
        return f"{fastest.speed_up:.2f}x"
    return "unfair" if any(verdict.is_library for verdict in verdicts) else "-"


def peer_cell(verdicts: Sequence[BaselineVerdict]) -> str:
    """Table cell for the fastest other library: `3.06x faster than NPP`, its time without a verdict, or `-`."""
    fastest = fastest_library(verdicts)
    if fastest is not None:
        return words_of(fastest)
    libraries = [verdict for verdict in verdicts if verdict.is_library]
    if not libraries:
        return "-"
    unfair = min(libraries, key=_time)
    return f"{unfair.baseline.name}: {format_time(unfair.baseline.timing.median_ns)}, no verdict: {unfair.why_not}"


def copy_share(verdicts: Sequence[BaselineVerdict]) -> str | None:
    """Fraction of the speed of the device's own copy, as `91.2%`; None if no copy was timed under the same
    conditions.
    """
    share = next((each.speed_up for each in verdicts if each.baseline.name == COPY), None)
    return None if share is None else f"{share:.1%}"


def beside_facts(record: Record) -> list[tuple[str, str]]:
    """Lines for the baselines measured beside a winner, and for those left out, with the reason."""
    facts = []
    for verdict in record.verdicts:
        name = verdict.baseline.name
        if not _is_printed(record, verdict):
            continue
        text = f"no verdict: {verdict.why_not}"
        if verdict.speed_up is not None:
            text = f"ours is {speed_up_words(verdict.speed_up, '').removesuffix(' than ')}"
        facts.append(("beside", f"{name}: {format_timing(verdict.baseline.timing)}; {text}"))
    return [*facts, *left_out_facts(record.left_out)]


def left_out_facts(left_out: Iterable[LeftOut]) -> list[tuple[str, str]]:
    """Lines for the libraries that were not measured, with the reason."""
    return [("left out", f"{each.name}: {each.reason}") for each in left_out]


def conditions_words(record: Record) -> str:
    """Conditions of a winner's time, as text."""
    return f"{record.conditions}{', throttled' if is_throttled(record.timing.policy) else ''}"


def _is_printed(record: Record, verdict: BaselineVerdict) -> bool:
    """True if a baseline is worth printing. Earlier versions stored the last family as a baseline; only the simplest
    one is.
    """
    if verdict.is_library or verdict.baseline.name == COPY:
        return True
    operation = OPERATIONS.get(record.problem.operation)
    return operation is not None and verdict.baseline.name.startswith(operation.simplest_name)


def _time(verdict: BaselineVerdict) -> float:
    return verdict.baseline.timing.median_ns


def format_timing(timing: Timing) -> str:
    """Text such as `12.3 us (12.1 to 12.6 us, n=30)`: median, 20th and 80th percentile, number of samples."""
    spread = f"{format_time(timing.p20_ns)} to {format_time(timing.p80_ns)}"
    return f"{format_time(timing.median_ns)} ({spread}, n={timing.samples})"


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
