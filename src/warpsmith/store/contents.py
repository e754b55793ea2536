"""What a store holds, by operation and device, and what is wrong with it in plain words."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping

from sqlalchemy import ColumnElement, Connection, Table, func, select, true, union

from warpsmith.generator.device import Device
from warpsmith.generator.problem import Problem
from warpsmith.store import rows
from warpsmith.store.ceilings import ceilings_of
from warpsmith.store.layout import CEILINGS_SINCE, RUNNERS_UP_SINCE
from warpsmith.store.poison import is_listed, listed
from warpsmith.store.rows import Contents, Row, Unreadable, in_order
from warpsmith.store.store import Store
from warpsmith.store.tables import (
    POISON_IDENTITY,
    ceilings,
    devices,
    found,
    of_operation,
    poisoned,
    problems,
    runners_up,
    runs,
    trials,
    winners,
)
from warpsmith.store.trials import found_trials
from warpsmith.store.tuners import run_of
from warpsmith.store.winners import found_runners_up, found_winners

SUBJECT = ("problem_key", "device_key")
"""Columns that identify a tuning subject: a problem on a device."""


@dataclasses.dataclass(frozen=True, slots=True)
class Scope:
    """Problems of an operation, on a device; None means all."""

    operation: str | None = None
    device_key: str | None = None
    """`Device.key()`."""

    def of(self, table: Table) -> ColumnElement[bool]:
        """Condition on a row of trials, winners, runs or poisoned programs: it belongs to this scope."""
        inside: ColumnElement[bool] = true()
        if self.device_key is not None:
            inside &= table.c.device_key == self.device_key
        if self.operation is None:
            return inside
        if table is poisoned:  # a program has no problem here; families are named after their operation
            return inside & table.c.family.startswith(f"{self.operation}_", autoescape=True)
        return inside & of_operation(table, self.operation)


EVERYTHING = Scope()


@dataclasses.dataclass(frozen=True, slots=True)
class Counts:
    """Number of rows of each kind in a store."""

    winners: int
    trials: int
    failures: Mapping[str, int]
    """Number of failed trials, by `FailureKind` or by a kind that only a newer version knows."""
    poisoned: int
    """Programs that must not be run again."""
    runs: int


def count_rows(store: Store, scope: Scope = EVERYTHING) -> Counts:
    """Counts the rows of a scope, including rows that cannot be parsed."""
    has_runs = store.database.schema >= 2  # a store of schema 1 has neither runs nor poisoned programs
    by_kind = select(trials.c.failure_kind, func.count()).where(scope.of(trials)).group_by(trials.c.failure_kind)

    def work(connection: Connection) -> Counts:
        kinds: dict[str | None, int] = {row[0]: row[1] for row in connection.execute(by_kind)}
        return Counts(
            winners=_count(connection, winners, scope),
            trials=sum(kinds.values()),
            failures={kind: count for kind, count in sorted(kinds.items(), key=str) if kind is not None},
            poisoned=_count(connection, poisoned, scope, is_listed()) if has_runs else 0,
            runs=_count(connection, runs, scope) if has_runs else 0,
        )

    return store.database.read(work)


def _count(connection: Connection, table: Table, scope: Scope, *where: ColumnElement[bool]) -> int:
    return connection.scalar(select(func.count()).select_from(table).where(scope.of(table), *where)) or 0


def subjects_of(store: Store, scope: Scope = EVERYTHING) -> tuple[tuple[Problem, Device], ...]:
    """Problems and devices with a trial, a winner, a runner-up or a run, by problem key, then device key.

    Those that cannot be parsed are left out.
    """
    newer = ((2, runs), (RUNNERS_UP_SINCE, runners_up))
    tables = (trials, winners, *(table for since, table in newer if store.database.schema >= since))
    pairs = union(*(select(table.c.problem_key, table.c.device_key).where(scope.of(table)) for table in tables))

    def work(connection: Connection) -> tuple[tuple[Problem, Device], ...]:
        named = in_order(found(connection, select(pairs.subquery())), *SUBJECT)
        known = {each.key(): each for each in rows.readable(rows.problem_of, found(connection, select(problems)))}
        seen = {each.key(): each for each in rows.readable(rows.device_of, found(connection, select(devices)))}
        return tuple(
            (known[row["problem_key"]], seen[row["device_key"]])
            for row in named
            if row["problem_key"] in known and row["device_key"] in seen
        )

    return store.database.read(work)


@dataclasses.dataclass(frozen=True, slots=True)
class History:
    """Rows that a merge copies beside a store's contents; JSON lines do not contain them."""

    poisoned: tuple[Row, ...] = ()
    """Programs that must not be run again. Programs that are only started now are left to that store's own tuners."""
    runs: tuple[Row, ...] = ()


def contents_of(store: Store) -> Contents:
    """Every problem, device, trial, winner and runner-up in one snapshot, including unreadable ones, as rows of the
    current schema.
    """
    return store.database.read(lambda connection: _contents(connection, store.database.schema))


def contents_and_history(store: Store) -> tuple[Contents, History]:
    """Contents with the poisoned programs and runs, in one snapshot. A store of schema 1 has none of these."""
    without_id = [column for column in runs.c if column.name != "id"]

    def work(connection: Connection) -> tuple[Contents, History]:
        contents = _contents(connection, store.database.schema)
        if store.database.schema < 2:
            return contents, History()
        poisoned_rows = in_order(listed(connection), *POISON_IDENTITY)
        return contents, History(poisoned_rows, found(connection, select(*without_id).order_by(runs.c.id)))

    return store.database.read(work)


def _contents(connection: Connection, schema: int) -> Contents:
    kept = found_trials(connection, schema)
    return Contents(
        problems=in_order(found(connection, select(problems)), "key"),
        devices=in_order(found(connection, select(devices)), "key"),
        trials=tuple({name: value for name, value in row.items() if name != "id"} for row in kept),
        winners=found_winners(connection, schema),
        runners_up=found_runners_up(connection, schema),
        ceilings=in_order(found(connection, select(ceilings)), "device_key") if schema >= CEILINGS_SINCE else (),
    )


def check_store(store: Store) -> tuple[str, ...]:
    """What is wrong with a store, one line each; empty if nothing is."""

    def work(connection: Connection) -> list[str]:
        # Not even SQLite may be able to read the rows of a broken file.
        if broken := database_problems(connection):
            return broken
        schema = store.database.schema
        kept_runs = found(connection, select(runs).order_by(runs.c.id)) if schema >= 2 else ()
        return [*row_problems(_contents(connection, schema)), *_unreadable(kept_runs, run_of, _name_of_run)]

    return tuple(f"{store.location}: {line}" for line in store.database.read(work))


def database_problems(connection: Connection) -> list[str]:
    """Problems that SQLite itself finds in a file; empty for other databases, which check themselves."""
    if connection.dialect.name != "sqlite":
        return []
    lines = connection.exec_driver_sql("PRAGMA integrity_check").scalars()
    orphans = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
    return [
        *(f"SQLite's integrity check says: {line}" for line in lines if line != "ok"),
        *(f"row {row} of {table} belongs to nothing in {parent}" for table, row, parent, _ in orphans),
    ]


def row_problems(contents: Contents) -> list[str]:
    """Rows that cannot be parsed."""
    return [
        *_unreadable(contents.problems, rows.problem_of, lambda row: f"problem {row['key']!r}"),
        *_unreadable(contents.devices, rows.device_of, lambda row: f"device {row['key']!r}"),
        *_unreadable(contents.trials, rows.trial_of, lambda row: f"trial {row['config']} of {_subject(row)}"),
        *_unreadable(contents.winners, rows.record_of, lambda row: f"winner of {_subject(row)}"),
        *_unreadable(contents.ceilings, ceilings_of, lambda row: f"ceilings of {row['device_key']!r}"),
        *_unreadable(contents.runners_up, rows.record_of, lambda row: f"fastest {row['family']} of {_subject(row)}"),
    ]


def _name_of_run(row: Row) -> str:
    return f"run {row['id']} of {_subject(row)}"


def _subject(row: Row) -> str:
    return f"{row['problem_key']!r} on {row['device_key']!r}"


def _unreadable(kept: tuple[Row, ...], parse: Callable[[Row], object], name: Callable[[Row], str]) -> Iterator[str]:
    for row in kept:
        try:
            parse(row)
        except Unreadable as error:
            yield f"{name(row)}: {error}"
