"""SQLAlchemy's engines for SQLite, for code that writes stores or reads more than winners."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from sqlalchemy import Connection, Engine, NullPool, StaticPool, create_engine, event

from warpsmith.store import sqlite
from warpsmith.store.layout import SCHEMA_VERSION
from warpsmith.store.sqlite import APPLICATION_ID, Access

IMMEDIATE = "warpsmith_immediate"
"""Execution option: take the write lock at the start, because SQLite refuses, instead of queueing, a reader that starts
to write.
"""


def file_engine(path: Path, access: Access) -> Engine:
    """An engine that keeps the file open only while it is used, so that a fork or a kill leaves nothing locked."""
    pragmas = sqlite.WRITER_PRAGMAS if access is Access.WRITE else ()

    def connect() -> sqlite3.Connection:
        return sqlite.connect(sqlite.uri(path, access), pragmas)

    return _transactional(create_engine("sqlite://", creator=connect, poolclass=NullPool))


def memory_engine() -> Engine:
    """An in-memory database that lives as long as its engine."""

    def connect() -> sqlite3.Connection:
        return sqlite.connect("file::memory:", ("foreign_keys=ON",))

    return _transactional(create_engine("sqlite://", creator=connect, poolclass=StaticPool))


def _transactional(engine: Engine) -> Engine:
    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        immediate = connection.get_execution_options().get(IMMEDIATE, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")

    return engine


def claim(connection: Connection) -> None:
    """Marks the database as a store of the newest schema."""
    connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.exec_driver_sql(f"PRAGMA user_version = {SCHEMA_VERSION}")
