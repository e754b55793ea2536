"""Finds what is wrong with a store and describes it in plain words."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlalchemy import Connection

from warpsmith.store import rows
from warpsmith.store.merging import contents_of
from warpsmith.store.rows import Contents, Row, Unreadable
from warpsmith.store.runs import every as every_run
from warpsmith.store.runs import run_of
from warpsmith.store.statements import found


def database_problems(connection: Connection) -> list[str]:
    """Problems that SQLite itself finds in a file; empty for other databases, which check themselves."""
    if connection.dialect.name != "sqlite":
        return []
    told = connection.exec_driver_sql("PRAGMA integrity_check").scalars()
    orphans = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
    return [
        *(f"SQLite's integrity check says: {line}" for line in told if line != "ok"),
        *(f"row {row} of {table} belongs to nothing in {parent}" for table, row, parent, _ in orphans),
    ]


def store_problems(connection: Connection, schema: int) -> list[str]:
    """Problems of a store of that schema, one line each."""
    # Not even SQLite may be able to read the rows of a broken file.
    if broken := database_problems(connection):
        return broken
    kept_runs = found(connection, every_run()) if schema >= 2 else ()
    return row_problems(contents_of(connection, schema)) + run_problems(kept_runs)


def row_problems(contents: Contents) -> list[str]:
    """Rows that cannot be parsed."""
    return [
        *_unreadable(contents.problems, rows.problem_of, lambda row: f"problem {row['key']!r}"),
        *_unreadable(contents.devices, rows.device_of, lambda row: f"device {row['key']!r}"),
        *_unreadable(contents.trials, rows.trial_of, lambda row: f"trial {row['config']} of {_subject(row)}"),
        *_unreadable(contents.winners, rows.record_of, lambda row: f"winner of {_subject(row)}"),
        *_unreadable(contents.runners_up, rows.record_of, lambda row: f"fastest {row['family']} of {_subject(row)}"),
    ]


def run_problems(runs: tuple[Row, ...]) -> list[str]:
    """Tuning runs that cannot be parsed."""
    return list(_unreadable(runs, run_of, lambda row: f"run {row['id']} of {_subject(row)}"))


def _subject(row: Row) -> str:
    return f"{row['problem_key']!r} on {row['device_key']!r}"


def _unreadable(listed: tuple[Row, ...], parse: Callable[[Row], object], name: Callable[[Row], str]) -> Iterator[str]:
    for row in listed:
        try:
            parse(row)
        except Unreadable as error:
            yield f"{name(row)}: {error}"
