"""What was measured beside a winner, in words: how much faster it is, or why that cannot be said."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from warpsmith.generator.registry import simplest_family
from warpsmith.store.conditions import is_throttled
from warpsmith.store.record import COPY, BaselineVerdict, LeftOut, Record, Timing, fastest_library
from warpsmith.units import format_time

NOBODY = "no other library was there to be measured beside it"


def speed_up_words(speed_up: float, name: str) -> str:
    """`3.06x faster than NPP`; below 1 `1.20x slower than NPP`. `speed_up` is the other's median over ours."""
    return f"{speed_up:.2f}x faster than {name}" if speed_up >= 1 else f"{1 / speed_up:.2f}x slower than {name}"


def words_of(verdict: BaselineVerdict) -> str:
    """What one baseline says of the winner."""
    name = verdict.baseline.name
    if verdict.speed_up is None:
        return f"no verdict against {name}: {verdict.why_not}"
    return speed_up_words(verdict.speed_up, name)


def summary(verdicts: Sequence[BaselineVerdict]) -> str:
    """Whether a winner beats the other libraries, in one line."""
    fastest = fastest_library(verdicts)
    if fastest is not None and fastest.speed_up is not None:
        told = f"{words_of(fastest)}, the fastest library beside it"
        return told if fastest.speed_up >= 1 else f"{told}: use that"
    libraries = [verdict for verdict in verdicts if verdict.is_library]
    return words_of(min(libraries, key=_time)) if libraries else NOBODY


def short(verdicts: Sequence[BaselineVerdict]) -> str:
    """`3.06x` over the fastest of the other libraries, `unfair` where none was timed as the winner was, or `-`."""
    fastest = fastest_library(verdicts)
    if fastest is not None:
        return f"{fastest.speed_up:.2f}x"
    return "unfair" if any(verdict.is_library for verdict in verdicts) else "-"


def peer_cell(verdicts: Sequence[BaselineVerdict]) -> str:
    """The fastest of the other libraries in the cell of a table: `3.06x faster than NPP`, its time, or `-`."""
    fastest = fastest_library(verdicts)
    if fastest is not None:
        return words_of(fastest)
    libraries = [verdict for verdict in verdicts if verdict.is_library]
    if not libraries:
        return "-"
    unfair = min(libraries, key=_time)
    return f"{unfair.baseline.name}: {format_time(unfair.baseline.timing.median_ns)}, no verdict: {unfair.why_not}"


def copy_share(verdicts: Sequence[BaselineVerdict]) -> str | None:
    """How near a winner comes to the device's own copy, as `91.2%`; None where no copy was timed as it was."""
    share = next((each.speed_up for each in verdicts if each.baseline.name == COPY), None)
    return None if share is None else f"{share:.1%}"


def beside_facts(record: Record) -> list[tuple[str, str]]:
    """What was measured beside a winner, and what was left out and why."""
    facts = []
    for verdict in record.verdicts:
        name = verdict.baseline.name
        if not _is_told(record, verdict):
            continue
        told = f"no verdict: {verdict.why_not}"
        if verdict.speed_up is not None:
            told = f"ours is {speed_up_words(verdict.speed_up, '').removesuffix(' than ')}"
        facts.append(("beside", f"{name}: {format_timing(verdict.baseline.timing)}; {told}"))
    return [*facts, *left_out_facts(record.left_out)]


def left_out_facts(left_out: Iterable[LeftOut]) -> list[tuple[str, str]]:
    """The libraries that were not measured, and why not."""
    return [("left out", f"{each.name}: {each.reason}") for each in left_out]


def conditions_words(record: Record) -> str:
    """The conditions of a winner's time."""
    return f"{record.conditions}{', throttled' if is_throttled(record.timing.policy) else ''}"


def _is_told(record: Record, verdict: BaselineVerdict) -> bool:
    """Earlier versions kept the family that came last as a baseline; it says something where it is the simplest."""
    simplest = simplest_family(record.problem.operation)
    if verdict.is_library or verdict.baseline.name == COPY:
        return True
    return simplest is not None and verdict.baseline.name.startswith(simplest.name)


def _time(verdict: BaselineVerdict) -> float:
    return verdict.baseline.timing.median_ns


def format_timing(timing: Timing) -> str:
    """`12.3 us (12.1 to 12.6 us, n=30)`: the median, the 20th and 80th percentile, the number of samples."""
    spread = f"{format_time(timing.p20_ns)} to {format_time(timing.p80_ns)}"
    return f"{format_time(timing.median_ns)} ({spread}, n={timing.samples})"
