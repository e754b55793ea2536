"""Stores as JSON lines: a header, then one complete line for each trial, winner, runner-up and measured device."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from warpsmith.errors import StoreError
from warpsmith.store import rows
from warpsmith.store.ceilings import ceilings_of, ceilings_row
from warpsmith.store.contents import contents_of
from warpsmith.store.merging import MergeReport, absorb
from warpsmith.store.rows import Contents, Row, Unreadable
from warpsmith.store.store import Store

FORMAT = "warpsmith-store"
FORMAT_VERSION = 4
BEFORE_PINS = 3
"""Version of files without a winner of a pinned search."""
BEFORE_CEILINGS = 2
"""Version of files without ceilings."""
BEFORE_RUNNERS_UP = 1
"""Version of files without a runner-up, which warpsmith 0.1 can read too."""


def export_lines(store: Store) -> Iterator[str]:
    """The whole store as JSON lines without newlines, as it is when the first line is requested.

    Rows of operations that this version does not know are passed on unchanged.

    Raises:
        StoreError: a row whose JSON is damaged, or the database fails.
    """
    contents = contents_of(store)
    specs = {row["key"]: row for row in (*contents.problems, *contents.devices)}
    yield json.dumps(
        {
            "format": FORMAT,
            "version": _oldest_version(contents),
            "trials": len(contents.trials),
            "winners": len(contents.winners),
            **({"runners_up": len(contents.runners_up)} if contents.runners_up else {}),
            **({"ceilings": len(contents.ceilings)} if contents.ceilings else {}),
        }
    )
    try:
        for row in contents.trials:
            yield _line(_trial_line(row, specs))
        for kind, listed in (("winner", contents.winners), ("runner-up", contents.runners_up)):
            for row in listed:
                pins = {"pins": row["pins"]} if row.get("pins") else {}
                yield _line({"kind": kind, **pins, **_object(row["spec"])})
        for row in contents.ceilings:
            yield _line(_ceilings_line(row, specs))
    except Unreadable as error:
        of = row.get("problem_key", row["device_key"])
        raise StoreError(
            f"{store.location}: a row of {of!r} cannot be exported: {error}; "
            f"`warpsmith db check --store {store.location}` lists all such rows"
        ) from None


def _oldest_version(contents: Contents) -> int:
    """The oldest version of the format that can hold the contents, so that older versions can read the file."""
    if any(row.get("pins") for row in contents.runners_up):
        return FORMAT_VERSION
    if contents.ceilings:
        return BEFORE_PINS
    return BEFORE_CEILINGS if contents.runners_up else BEFORE_RUNNERS_UP


def _line(entry: dict[str, Any]) -> str:
    """JSON of an entry. Raises Unreadable if a damaged file holds other values in place of text."""
    try:
        return json.dumps(entry)
    except (TypeError, ValueError) as error:
        raise Unreadable(str(error)) from None


def _trial_line(row: Row, specs: Mapping[str, Row]) -> dict[str, Any]:
    """Raises Unreadable, also if the trial's problem or device is missing."""
    try:
        problem, device = specs[row["problem_key"]], specs[row["device_key"]]
    except KeyError as error:
        raise Unreadable(f"the store does not say what {error} is") from None
    return {
        "kind": "trial",
        "operation": problem["operation"],
        "problem": rows.from_json(problem["spec"]),
        "problem_key": problem["key"],
        "device": rows.from_json(device["spec"]),
        "device_key": device["key"],
        "trial": rows.from_json(row["spec"]),
        "created_at": row["created_at"],
    }


def _ceilings_line(row: Row, specs: Mapping[str, Row]) -> dict[str, Any]:
    """Raises Unreadable, also if the device is missing."""
    if (device := specs.get(row["device_key"])) is None:
        raise Unreadable(f"the store does not say what {row['device_key']!r} is")
    kept = {name: row[name] for name in ("device_key", "created_at", "driver", "compiler")}
    ceilings = rows.from_json(row["spec"])
    return {"kind": "ceilings", **kept, "device": rows.from_json(device["spec"]), "ceilings": ceilings}


def import_lines(store: Store, lines: Iterable[str], *, source: str = "the import") -> MergeReport:
    """Imports the lines of `export_lines`: every line, or nothing if one is bad.

    Args:
        store: a store that is open for writing.
        lines: exported lines; empty ones are skipped.
        source: name of the lines in messages, such as the file's name.

    Raises:
        StoreError: an invalid line, lines missing at the end, or the database fails.
    """
    return absorb(store, _Reader(source).read(lines))


class _Reader:
    """Collects the rows of an import before any of them is written to the store."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._problems: dict[str, Row] = {}
        self._devices: dict[str, Row] = {}
        self._trials: list[Row] = []
        self._winners: list[Row] = []
        self._runners_up: list[Row] = []
        self._ceilings: list[Row] = []

    def read(self, lines: Iterable[str]) -> Contents:
        number, header = 0, None
        try:
            for number, line in enumerate(lines, start=1):  # noqa: B007  (named in errors)
                if not line.strip():
                    continue
                entry = _object(line)
                if header is None:
                    header = _checked_header(entry)
                else:
                    self._add(entry)
        except UnicodeDecodeError:
            raise StoreError(f"{self._source} is not text in UTF-8; nothing was imported") from None
        except Unreadable as error:
            raise StoreError(f"{self._source}, line {number}: {error}; nothing was imported") from None
        self._check_complete(header)
        return Contents(
            problems=tuple(self._problems.values()),
            devices=tuple(self._devices.values()),
            trials=tuple(self._trials),
            winners=tuple(self._winners),
            runners_up=tuple(self._runners_up),
            ceilings=tuple(self._ceilings),
        )

    def _add(self, entry: dict[str, Any]) -> None:
        match entry.get("kind"):
            case "trial":
                self._add_trial(entry)
            case "winner" | "runner-up" as kind:
                record = rows.checked_record(entry)
                self._add_subject(rows.problem_row(record.problem), rows.device_row(record.device))
                row = rows.winner_row(record)
                if kind == "winner":
                    self._winners.append(row)
                else:
                    self._runners_up.append({**row, "pins": rows.plain(str(entry.get("pins", "")))})
            case "ceilings":
                self._add_ceilings(entry)
            case kind:
                raise Unreadable(f"kind {kind!r} is neither 'trial' nor 'winner' nor 'runner-up' nor 'ceilings'")

    def _add_trial(self, entry: dict[str, Any]) -> None:
        try:
            operation, created_at = entry["operation"], entry["created_at"]
            problem = rows.problem_from_spec(operation, entry["problem"])
            device = rows.device_from_spec(entry["device"])
            trial = rows.checked_trial(entry["trial"])
            rows.check_keys((entry["problem_key"], entry["device_key"]), problem, device)
        except KeyError as error:
            raise Unreadable(f"{error} is missing") from None
        self._add_subject(rows.problem_row(problem), rows.device_row(device))
        self._trials.append(rows.trial_row(problem, device, trial, str(created_at)))

    def _add_ceilings(self, entry: dict[str, Any]) -> None:
        try:
            device = rows.device_from_spec(entry["device"])
            facts = {name: entry[name] for name in ("created_at", "driver", "compiler")}
            stored = ceilings_of({**facts, "spec": rows.to_json(entry["ceilings"])})
            if entry["device_key"] != device.key():
                raise Unreadable(f"it is filed under {entry['device_key']!r}, but its own key is {device.key()!r}")
        except KeyError as error:
            raise Unreadable(f"{error} is missing") from None
        self._devices[device.key()] = rows.device_row(device)
        self._ceilings.append(ceilings_row(device, stored))

    def _add_subject(self, problem: Row, device: Row) -> None:
        self._problems[problem["key"]] = problem
        self._devices[device["key"]] = device

    def _check_complete(self, header: dict[str, Any] | None) -> None:
        if header is None:
            raise StoreError(f"{self._source} is empty: make one with `warpsmith db export`")
        kept = {
            "trials": self._trials,
            "winners": self._winners,
            "runners_up": self._runners_up,
            "ceilings": self._ceilings,
        }
        for name, found in kept.items():
            if (announced := header.get(name, 0)) != len(found):
                raise StoreError(
                    f"{self._source} holds {len(found)} of the {announced} {name} that its first line announces: "
                    "it was cut short or edited; nothing was imported"
                )


def _object(line: str) -> dict[str, Any]:
    entry = rows.from_json(line)
    if not isinstance(entry, dict):
        raise Unreadable("it is no JSON object")
    return entry


def _checked_header(entry: dict[str, Any]) -> dict[str, Any]:
    if entry.get("format") != FORMAT:
        raise Unreadable(f"the first line must say format {FORMAT!r}, as `warpsmith db export` writes it")
    if entry.get("version") not in range(BEFORE_RUNNERS_UP, FORMAT_VERSION + 1):
        raise Unreadable(
            f"format version {entry.get('version')!r}, but this warpsmith reads {FORMAT_VERSION}: upgrade warpsmith"
        )
    if not {"trials", "winners"} <= entry.keys():
        raise Unreadable("the first line must count trials and winners")
    return entry
