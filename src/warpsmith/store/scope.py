"""Parts of a store, by operation and device, and counts of their rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from sqlalchemy import ColumnElement, Connection, Table, func, select, true, union

from warpsmith.generator.device import Device
from warpsmith.generator.problem import Problem
from warpsmith.store import rows
from warpsmith.store.layout import RUNNERS_UP_SINCE
from warpsmith.store.poison import is_listed
from warpsmith.store.rows import in_order
from warpsmith.store.schema import devices, poisoned, problems, runners_up, runs, trials, winners
from warpsmith.store.statements import found

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
        keys = select(problems.c.key).where(problems.c.operation == self.operation)
        return inside & table.c.problem_key.in_(keys)


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


def counts(connection: Connection, scope: Scope, schema: int) -> Counts:
    """Counts the rows of a scope; a store of schema 1 has neither runs nor poisoned programs."""
    by_kind = select(trials.c.failure_kind, func.count()).where(scope.of(trials)).group_by(trials.c.failure_kind)
    kinds: dict[str | None, int] = {row[0]: row[1] for row in connection.execute(by_kind)}
    return Counts(
        winners=_count(connection, winners, scope),
        trials=sum(kinds.values()),
        failures={kind: count for kind, count in sorted(kinds.items(), key=str) if kind is not None},
        poisoned=_count(connection, poisoned, scope, is_listed()) if schema >= 2 else 0,
        runs=_count(connection, runs, scope) if schema >= 2 else 0,
    )


def _count(connection: Connection, table: Table, scope: Scope, which: ColumnElement[bool] | None = None) -> int:
    query = select(func.count()).select_from(table).where(scope.of(table))
    return connection.scalar(query if which is None else query.where(which)) or 0


def subjects(connection: Connection, scope: Scope, schema: int) -> tuple[tuple[Problem, Device], ...]:
    """Problems and devices with a trial, a winner, a runner-up or a run, ordered by their keys.

    Those that cannot be parsed are left out.
    """
    newer = ((2, runs), (RUNNERS_UP_SINCE, runners_up))
    tables = (trials, winners, *(table for since, table in newer if schema >= since))
    pairs = union(*(select(table.c.problem_key, table.c.device_key).where(scope.of(table)) for table in tables))
    named = in_order(found(connection, select(pairs.subquery())), *SUBJECT)
    known = {each.key(): each for each in rows.readable(rows.problem_of, found(connection, select(problems)))}
    seen = {each.key(): each for each in rows.readable(rows.device_of, found(connection, select(devices)))}
    return tuple(
        (known[row["problem_key"]], seen[row["device_key"]])
        for row in named
        if row["problem_key"] in known and row["device_key"] in seen
    )
