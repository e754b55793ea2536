"""Trials in their table: each program has either one failure, or one time for each conditions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import ColumnElement, Connection, and_, bindparam, delete, func, select, update

from warpsmith.store import rows
from warpsmith.store.conditions import ANY
from warpsmith.store.record import FailureKind
from warpsmith.store.rows import Row
from warpsmith.store.schema import PROGRAM_IDENTITY, TRIAL_IDENTITY, trials
from warpsmith.store.statements import add_missing, found, replace_all

Identity = tuple[str, ...]
"""Values of the columns PROGRAM_IDENTITY."""


def found_trials(connection: Connection, schema: int, where: ColumnElement[bool] | None = None) -> tuple[Row, ...]:
    """Trials of a store of that schema as rows of the current schema, oldest first."""
    kept = [column for column in trials.c if schema >= 4 or column.name != "conditions"]
    query = select(*kept).order_by(trials.c.id)
    listed = found(connection, query if where is None else query.where(where))
    return tuple(map(rows.trial_with_conditions, listed))


def keep(connection: Connection, new: Sequence[Row]) -> None:
    """Stores trials. A trial of the same program and conditions is replaced; the row keeps its id.

    A failure holds under all conditions: it replaces every time of its program, and the next time replaces it. A
    program that was dropped was not run, so its times stay, and nothing is added.
    """
    settled = _settled(new)
    dropped = [row for row in settled if row["failure_kind"] == FailureKind.DROPPED]
    timed = _timed(connection, dropped) if dropped else set()
    kept = [row for row in settled if row["failure_kind"] != FailureKind.DROPPED or identity_of(row) not in timed]
    _free_place(connection, kept)
    replace_all(connection, trials, kept, TRIAL_IDENTITY)


def add_others(connection: Connection, theirs: Iterable[Row]) -> None:
    """Adds another store's trials; this store's own trials stay.

    A program that failed here gets no times from there, and a program that has times here gets no failure.
    """
    identity = [trials.c[name] for name in TRIAL_IDENTITY]
    has_failed = {identity_of(row): row["conditions"] == ANY for row in found(connection, select(*identity))}
    new = []
    for row in theirs:
        is_failure, known = row["conditions"] == ANY, has_failed.get(identity_of(row))
        if known is None or not (known or is_failure):
            has_failed[identity_of(row)] = is_failure
            new.append(row)
    add_missing(connection, trials, new)


def identity_of(row: Row) -> Identity:
    """Values that identify a program, with its problem and device."""
    return tuple(row[name] for name in PROGRAM_IDENTITY)


def _settled(new: Iterable[Row]) -> list[Row]:
    """Applies the rules of `keep` to several new trials; returns the rows that remain."""
    programs: dict[Identity, dict[str, Row]] = {}
    for row in new:
        mine = programs.setdefault(identity_of(row), {})
        if row["failure_kind"] == FailureKind.DROPPED and any(conditions != ANY for conditions in mine):
            continue
        if row["conditions"] == ANY:
            mine.clear()
        mine.pop(ANY, None)
        mine[row["conditions"]] = row
    return [row for mine in programs.values() for row in mine.values()]


def _timed(connection: Connection, of: Iterable[Row]) -> set[Identity]:
    """Programs of the table that have a time; they include all programs of `of` that do."""
    texts = {row["fingerprint"] for row in of}
    query = select(*(trials.c[name] for name in PROGRAM_IDENTITY))
    where = trials.c.fingerprint.in_(texts) & (trials.c.conditions != ANY)
    return {identity_of(row) for row in found(connection, query.where(where))}


def _free_place(connection: Connection, new: Sequence[Row]) -> None:
    """Changes the conditions of rows that are about to be replaced to those of their successors."""
    values = [
        {"its_conditions": row["conditions"], **{f"its_{name}": row[name] for name in PROGRAM_IDENTITY}} for row in new
    ]
    failed = [each for each in values if each["its_conditions"] == ANY]
    timed = [each for each in values if each["its_conditions"] != ANY]
    same = and_(*(trials.c[name] == bindparam(f"its_{name}") for name in PROGRAM_IDENTITY))
    taken = update(trials).values(conditions=bindparam("its_conditions"))
    if failed:
        first = select(func.min(trials.c.id)).where(same).scalar_subquery()
        connection.execute(delete(trials).where(same, trials.c.id > first), failed)
        connection.execute(taken.where(same), failed)
    if timed:
        connection.execute(taken.where(same, trials.c.conditions == ANY), timed)
