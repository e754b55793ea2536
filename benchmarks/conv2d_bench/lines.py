"""Results as JSON lines: added one by one and flushed, so that a run that is stopped loses nothing and goes on."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def read(path: Path) -> list[Row]:
    """The rows of a file, oldest first; none where there is no file. A last line that was cut off is passed over."""
    if not path.exists():
        return []
    rows = []
    for line in path.read_text().splitlines():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return rows


def latest(rows: list[Row]) -> list[Row]:
    """The rows of measurements, the last one for each problem and kind of row, in the order of the first ones."""
    found: dict[tuple[str, str], Row] = {}
    for row in rows:
        if "key" in row:
            found[row["set"], row["key"]] = row
    return list(found.values())


def is_measured(row: Row) -> bool:
    """Whether a row has times; else it says what failed."""
    return "failed" not in row


def add(path: Path, row: Row) -> None:
    """Adds a row and lets it reach the disk. Begins a line anew where the last one was cut off."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")
        file.write(json.dumps(row).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
