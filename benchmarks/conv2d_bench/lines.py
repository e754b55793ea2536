"""Results as JSON lines, appended one by one and flushed, so that a run that is stopped loses nothing and can
continue.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def read(path: Path) -> list[Row]:
    """Rows of a file, oldest first; none if there is no file. An incomplete last line is skipped."""
    if not path.exists():
        return []
    rows = []
    for line in path.read_text().splitlines():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return rows


def command() -> str:
    """The command line of this script; of the paths of its files only the names."""
    script, *arguments = sys.argv
    names = (Path(each).name if "/" in each else each for each in arguments)
    return shlex.join(["python", f"benchmarks/{Path(script).name}", *names])


def latest(rows: list[Row]) -> list[Row]:
    """The last measurement row for each problem and set, in the order of the first ones."""
    found: dict[tuple[str, str], Row] = {}
    for row in rows:
        if "key" in row:
            found[row["set"], row["key"]] = row
    return list(found.values())


def is_measured(row: Row) -> bool:
    """True if a row has times; else it says what failed."""
    return "failed" not in row


def add(path: Path, row: Row) -> None:
    """Appends a row and flushes it to disk. It starts a new line if the last one is incomplete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")
        file.write(json.dumps(row).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
