"""The tables of a store, and statements on them for both SQLite and PostgreSQL.

Table names have a prefix, because a server's database may hold Optuna's tables too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Float,
    ForeignKey,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Select,
    String,
    Table,
    Text,
    UniqueConstraint,
    and_,
    bindparam,
    delete,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite

from warpsmith.generator.device import Device
from warpsmith.generator.problem import Problem
from warpsmith.store import rows
from warpsmith.store.layout import (
    CEILINGS_COLUMNS,
    CEILINGS_TABLE,
    POISONED_TABLE,
    PROBLEMS_TABLE,
    RUNNERS_UP_TABLE,
    SCHEMA_VERSION,
    VERSION_TABLE,
    WINNERS_TABLE,
)
from warpsmith.store.rows import Row

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_identity",
    }
)

version = Table(
    VERSION_TABLE,
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name=f"{VERSION_TABLE}_pkc"),
)
"""Alembic's table, as it makes it itself."""

problems = Table(
    PROBLEMS_TABLE,
    metadata,
    Column("key", Text, primary_key=True),
    Column("operation", Text, nullable=False),
    Column("spec", Text, nullable=False),
)

devices = Table(
    "warpsmith_devices",
    metadata,
    Column("key", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("spec", Text, nullable=False),
)

CEILINGS_IDENTITY = ("device_key",)

ceilings = Table(
    CEILINGS_TABLE,
    metadata,
    Column("device_key", Text, ForeignKey("warpsmith_devices.key"), primary_key=True),
    *(Column(name, Text, nullable=False) for name in CEILINGS_COLUMNS),
)

PROGRAM_IDENTITY = ("problem_key", "device_key", "family", "config", "fingerprint", "compiler")
"""Columns that identify a program. Claims refer to it, and it has either one failure or several times."""
TRIAL_IDENTITY = (*PROGRAM_IDENTITY, "conditions")
"""Columns that identify a trial: a newer outcome replaces an older one."""

# JSON is stored as text: the identity must compare bytes, and one damaged row must not make a whole query fail.
trials = Table(
    "warpsmith_trials",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("problem_key", Text, ForeignKey("warpsmith_problems.key"), nullable=False),
    Column("device_key", Text, ForeignKey("warpsmith_devices.key"), nullable=False),
    Column("family", Text, nullable=False),
    Column("config", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("compiler", Text, nullable=False),
    Column("conditions", Text, nullable=False),
    Column("failure_kind", Text),
    Column("median_ns", Float),
    Column("p20_ns", Float),
    Column("p80_ns", Float),
    Column("created_at", Text, nullable=False),
    Column("spec", Text, nullable=False),
    UniqueConstraint(*TRIAL_IDENTITY),
)

winners = Table(
    WINNERS_TABLE,
    metadata,
    Column("problem_key", Text, ForeignKey("warpsmith_problems.key"), primary_key=True),
    Column("device_key", Text, ForeignKey("warpsmith_devices.key"), primary_key=True),
    Column("conditions", Text, primary_key=True),
    Column("family", Text, nullable=False),
    Column("config", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("compiler", Text, nullable=False),
    Column("median_ns", Float, nullable=False),
    Column("p20_ns", Float, nullable=False),
    Column("p80_ns", Float, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("spec", Text, nullable=False),
)

runners_up = Table(
    RUNNERS_UP_TABLE,
    metadata,
    Column("problem_key", Text, ForeignKey("warpsmith_problems.key"), primary_key=True),
    Column("device_key", Text, ForeignKey("warpsmith_devices.key"), primary_key=True),
    Column("conditions", Text, primary_key=True),
    Column("family", Text, primary_key=True),
    Column("pins", Text, primary_key=True, server_default=""),
    Column("config", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("compiler", Text, nullable=False),
    Column("median_ns", Float, nullable=False),
    Column("p20_ns", Float, nullable=False),
    Column("p80_ns", Float, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("spec", Text, nullable=False),
)
"""The fastest candidate of each family that the winner beat, and winners of pinned searches; see `winners`."""

POISON_IDENTITY = ("device_key", "fingerprint")

poisoned = Table(
    POISONED_TABLE,
    metadata,
    Column("device_key", Text, ForeignKey("warpsmith_devices.key"), primary_key=True),
    Column("fingerprint", Text, primary_key=True),
    Column("family", Text, nullable=False),
    Column("config", Text, nullable=False),
    Column("starts", Integer, nullable=False),
    Column("failure_kind", Text),
    Column("message", Text),
    Column("created_at", Text, nullable=False),
)
"""Programs that were started and have not ended, and those that ended badly."""

runs = Table(
    "warpsmith_runs",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("token", Text, nullable=False, unique=True),
    Column("problem_key", Text, ForeignKey("warpsmith_problems.key"), nullable=False),
    Column("device_key", Text, ForeignKey("warpsmith_devices.key"), nullable=False),
    Column("created_at", Text, nullable=False),
    Column("spec", Text, nullable=False),
)
"""Tuning runs. The tuner chooses the token, so that repeating a commit whose confirmation was lost adds no second
row.
"""

tuners = Table(
    "warpsmith_tuners",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("beats", Integer, nullable=False),
)
"""Active tuners. Beats are counted, not dated, because the clocks of several machines cannot be compared."""

claims = Table(
    "warpsmith_claims",
    metadata,
    *(Column(name, Text, primary_key=True) for name in PROGRAM_IDENTITY),
    Column("tuner", Text, ForeignKey("warpsmith_tuners.id"), nullable=False),
)
"""The programs that each tuner is trying now."""


def create_all(connection: Connection) -> None:
    """Makes the tables of the newest schema in a database without a store. The revisions would make the same tables,
    one after the other, in seven times the time.
    """
    metadata.create_all(connection)
    version.create(connection, checkfirst=True)
    connection.execute(version.insert(), {"version_num": f"{SCHEMA_VERSION:04d}"})


def found(connection: Connection, query: Select[Any]) -> tuple[Row, ...]:
    return tuple(dict(row) for row in connection.execute(query).mappings())


def of_operation(table: Table, operation: str) -> ColumnElement[bool]:
    """Condition on a row of `table`: its problem is one of the operation."""
    return table.c.problem_key.in_(select(problems.c.key).where(problems.c.operation == operation))


def of_subject(table: Table, problem: Problem, device: Device) -> ColumnElement[bool]:
    """Condition on a row of `table`: it belongs to the problem on the device."""
    return of_keys(table, problem.key(), device.key())


def of_keys(table: Table, problem_key: str, device_key: str) -> ColumnElement[bool]:
    """`of_subject` for the keys of the problem and the device."""
    return and_(table.c.problem_key == problem_key, table.c.device_key == device_key)


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
