"""Prints results, as one JSON document or a few aligned lines, and writes files that the user names, whole or not at
all.
"""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import stat
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from warpsmith.cli.verdicts import beside_facts, checked_facts, conditions_words, copy_share, format_timing, summary
from warpsmith.errors import WarpsmithError
from warpsmith.files import write_whole
from warpsmith.generator.device import DeviceKind
from warpsmith.plans.match import Match
from warpsmith.store.record import Measurement, Record
from warpsmith.units import format_rate


def print_json(document: dict[str, Any]) -> None:
    """Prints one JSON document on standard output."""
    print(json.dumps(document, indent=2))


def print_error(line: str) -> None:
    """Prints the one line that a failed command writes on standard error."""
    print(f"warpsmith: error: {line}", file=sys.stderr)


def print_facts(facts: Iterable[tuple[str, str]]) -> None:
    """Prints `name  value` lines, the values in one column."""
    for name, value in facts:
        print(f"{name:<9} {value}".rstrip())


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Prints a Markdown table."""
    print(table(header, rows))


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, without the newline at its end."""
    lines = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join((f"| {' | '.join(header)} |", f"|{'---|' * len(header)}", *lines))


def record_facts(record: Record) -> list[tuple[str, str]]:
    """Lines for a stored winner: problem, device, kernel, time, baselines and accuracy."""
    measurement = record.trial.outcome
    if not isinstance(measurement, Measurement):
        raise TypeError("a winner has a measurement")
    timing = measurement.timing
    speed = format_rate(record.problem.bytes, timing.median_ns)
    if (share := copy_share(record.verdicts)) is not None:
        speed += f", {share} of copy speed"
    note = "  (a CPU's time: it says nothing of a GPU)" if record.device.kind is DeviceKind.HOST else ""
    facts = [
        ("problem", record.problem.key()),
        ("device", record.device.name),
        ("winner", f"{record.trial.family} {record.trial.config}"),
        ("time", f"{format_timing(timing)}{note}"),
        ("timed", conditions_words(record)),
        ("speed", speed),
        ("error", f"{measurement.max_error:.2g} {record.problem.error_unit}, against float64"),
    ]
    verdict = ("verdict", summary(record.verdicts))
    return [*facts, *beside_facts(record), verdict, *checked_facts(record)]


def match_document(match: Match) -> dict[str, Any]:
    """A look-up's answer as JSON values."""
    return {
        "match": str(match.kind),
        "reasons": list(match.reasons),
        "family": match.program.family,
        "config": match.program.config.values(),
        "fingerprint": match.program.fingerprint,
        **winner_document(match.record),
    }


def winner_document(record: Record | None) -> dict[str, Any]:
    """JSON values of a winner: the most important times first, in ns, then the whole record."""
    if record is None:
        return {
            "time_ns": None,
            "conditions": None,
            "baselines_ns": {},
            "vendor": None,
            "beats_vendor": None,
            "verdict": None,
            "verdicts": [],
            "left_out": [],
            "record": None,
        }
    verdict = record.verdict
    return {
        "time_ns": record.trial.median_ns,
        "conditions": record.conditions,
        "vendor": None if verdict is None else verdict.baseline.name,
        "beats_vendor": None if verdict is None or verdict.speed_up is None else verdict.speed_up > 1,
        "verdict": summary(record.verdicts),
        "verdicts": [each.spec() for each in record.verdicts],
        "left_out": [dataclasses.asdict(each) for each in record.left_out],
        "baselines_ns": {baseline.name: baseline.timing.median_ns for baseline in record.baselines},
        "record": record.spec(),
    }


def check_writable(file: Path) -> None:
    """Raises WarpsmithError if `file` cannot be written. It is called before work that would be lost."""
    try:
        if file.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not file.exists() and not stat.S_ISDIR(file.parent.stat().st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if not os.access(file if file.exists() else file.parent, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise _refusal(file, error) from None


def is_same_file(file: Path, other: str) -> bool:
    """True if both name the same existing file."""
    try:
        return file.samefile(other)
    except OSError:
        return False


def save_file(file: Path, content: str | bytes) -> None:
    """Writes `content` to `file`; an earlier file stays if the disk is full. Raises WarpsmithError."""
    data = content.encode() if isinstance(content, str) else content
    try:
        if file.exists() and not file.is_file() and not file.is_dir():  # such as /dev/stdout
            file.write_bytes(data)
        else:
            write_whole(file.resolve(), data)
    except OSError as error:
        raise _refusal(file, error) from None


def _refusal(file: Path, error: OSError) -> WarpsmithError:
    return WarpsmithError(f"cannot write {file}: {error.strerror}; name another file")
