"""SQL statements for the tables, for both SQLite and PostgreSQL."""

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
    return tuple(dict(row) for row in connection.execute(query).mappings())


def found_winners(connection: Connection, schema: int, *where: ColumnElement[bool]) -> tuple[Row, ...]:
    """Winners as rows of the current schema, by problem and device, and then with the preferred conditions first."""
    kept = [column for column in winners.c if schema >= 3 or column.name != "conditions"]
    return rows.winners_in_order(found(connection, select(*kept).where(*where)))


def matches(table: Table, row: Row, names: Sequence[str]) -> ColumnElement[bool]:
    """Condition on a row of `table`: it has the values of `row` in the columns `names`."""
    return and_(*(table.c[name] == row[name] for name in names))


def insert(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """Insert of the connection's dialect, because `ON CONFLICT` is not standard SQL."""
    return postgresql.insert(table) if connection.dialect.name == "postgresql" else sqlite.insert(table)


def add_missing(connection: Connection, table: Table, added: Iterable[Row]) -> None:
    """Inserts the rows whose identity is not in the table yet."""
    if values := [dict(row) for row in added]:
        connection.execute(insert(connection, table).on_conflict_do_nothing(), values)


def add_subject(connection: Connection, problem: Problem, device: Device) -> None:
    """Inserts the problem and the device that other rows refer to, if they are missing."""
    add_missing(connection, problems, (rows.problem_row(problem),))
    add_missing(connection, devices, (rows.device_row(device),))


def replace(connection: Connection, table: Table, row: Row, identity: Sequence[str]) -> None:
    """`replace_all` for one row."""
    replace_all(connection, table, (row,), identity)


def replace_all(connection: Connection, table: Table, new: Sequence[Row], identity: Sequence[str]) -> None:
    """Inserts rows of the same columns. A row of the same identity is overwritten and keeps its id.

    It is a single statement, built and compiled once: for a hundred trials that is nine tenths of the time.
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
