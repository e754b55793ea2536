"""The few statements that the tables need, alike on SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Table, and_, bindparam, delete, select
from sqlalchemy.dialects import postgresql, sqlite

from warpsmith.generator.device import Device
from warpsmith.generator.problem import Problem
from warpsmith.store import rows
from warpsmith.store.rows import Row
from warpsmith.store.schema import devices, problems, winners


def found(connection: Connection, query: Select[Any]) -> tuple[Row, ...]:
    """The rows that a query gives, in its order."""
    return tuple(dict(row) for row in connection.execute(query).mappings())


def found_winners(connection: Connection, schema: int, *where: ColumnElement[bool]) -> tuple[Row, ...]:
    """Winners as rows of today's schema, by problem and device; of one of those under the usual conditions first."""
    kept = [column for column in winners.c if schema >= 3 or column.name != "conditions"]
    return rows.winners_in_order(found(connection, select(*kept).where(*where)))


def matches(table: Table, row: Row, names: Sequence[str]) -> ColumnElement[bool]:
    """Whether a row of `table` has the values of `row` in the columns `names`."""
    return and_(*(table.c[name] == row[name] for name in names))


def insert(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """The dialect's own insert: `ON CONFLICT` is not standard SQL."""
    return postgresql.insert(table) if connection.dialect.name == "postgresql" else sqlite.insert(table)


def add_missing(connection: Connection, table: Table, added: Iterable[Row]) -> None:
    """Inserts the rows whose identity is not in the table yet."""
    if values := [dict(row) for row in added]:
        connection.execute(insert(connection, table).on_conflict_do_nothing(), values)


def add_subject(connection: Connection, problem: Problem, device: Device) -> None:
    """Inserts what other rows belong to, where it is missing."""
    add_missing(connection, problems, (rows.problem_row(problem),))
    add_missing(connection, devices, (rows.device_row(device),))


def replace(connection: Connection, table: Table, row: Row, identity: Sequence[str]) -> None:
    """`replace_all` of one."""
    replace_all(connection, table, (row,), identity)


def replace_all(connection: Connection, table: Table, new: Sequence[Row], identity: Sequence[str]) -> None:
    """Inserts rows of the same columns, or overwrites those of the same identity, which keep their ids.

    As one statement, which is built and compiled once: of a hundred trials that is nine tenths of the time.
    """
    if new:
        statement = insert(connection, table)
        changed = {name: statement.excluded[name] for name in new[0] if name not in identity}
        connection.execute(
            statement.on_conflict_do_update(index_elements=identity, set_=changed), [dict(row) for row in new]
        )


def delete_all(connection: Connection, table: Table, like: Sequence[Row], names: Sequence[str]) -> None:
    """Deletes the rows that have the values of one of `like` in the columns `names`."""
    if like:
        same = and_(*(table.c[name] == bindparam(f"its_{name}") for name in names))
        connection.execute(delete(table).where(same), [{f"its_{name}": row[name] for name in names} for row in like])
