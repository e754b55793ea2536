"""Opens the database at a location and brings its schema up to date, or raises one line that says why it cannot."""

from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, inspect, select
from sqlalchemy.exc import ArgumentError

from warpsmith.errors import StoreError, one_line
from warpsmith.store import postgresql, sqlite, sqlite_engine
from warpsmith.store.database import Database
from warpsmith.store.layout import PROBLEMS_TABLE, REKEYED_SINCE
from warpsmith.store.schema import SCHEMA_VERSION, VERSION_TABLE, version
from warpsmith.store.shown import is_url, shown
from warpsmith.store.url import BadUrl, parse_url


class StoreUpgraded(UserWarning):
    """A store was brought to this version's schema; how many of its winners keep their times."""


def open_location(location: str, *, write: bool, immutable: bool) -> Database:
    """The database of a file path or SQLAlchemy URL.

    Raises StoreError, at once if no server answers; its subclass BadUrl for a URL that names no store.
    """
    if location == ":memory:":
        return _open_memory(write=write)
    if not is_url(location):
        return _open_file(sqlite.path_of(location), write=write, immutable=immutable)
    url = parse_url(location)
    if url.get_backend_name() != "sqlite":
        return _open_server(url, shown(location), write=write)
    return open_location(url.database or ":memory:", write=write, immutable=immutable)


def _open_file(path: Path, *, write: bool, immutable: bool) -> Database:
    sqlite.check_file(path, write=write, immutable=immutable)
    if write:
        database = _database(str(path), sqlite_engine.file_engine(path, sqlite.Access.WRITE))
        _bring_up_to_date(database)
        return database
    access = sqlite.Access.IMMUTABLE if immutable else sqlite.Access.READ
    return _readable(_database(str(path), sqlite_engine.file_engine(path, access)))


def _database(name: str, engine: Engine) -> Database:
    return Database(name, engine, engine.execution_options(**{sqlite_engine.IMMEDIATE: True}), SCHEMA_VERSION)


def _open_memory(*, write: bool) -> Database:
    if not write:
        raise StoreError(sqlite.MEMORY_IS_EMPTY)
    database = _database("a store in memory", sqlite_engine.memory_engine())
    _bring_up_to_date(database)
    return database


def _open_server(url: URL, name: str, *, write: bool) -> Database:
    try:
        reader, writer = postgresql.engines(url.set(drivername=postgresql.DRIVER), write=write)
    except ImportError as error:
        raise StoreError(f"{name} needs psycopg ({error}): pip install 'warpsmith[postgres]'") from None
    except ArgumentError as error:  # invalid options, such as several hosts with a different number of ports
        raise BadUrl(f"{name}: {str(error).partition(chr(10))[0]}") from None
    database = Database(name, reader, writer, SCHEMA_VERSION)
    try:
        with database.reading() as connection:
            postgresql.check_encoding(connection, name)
    except StoreError as error:
        if postgresql.refuses_option(error.__cause__):
            raise BadUrl(str(error)) from None
        raise
    if not write:
        return _readable(database)
    _bring_up_to_date(database)
    with database.reading() as connection:
        postgresql.check_writable(connection, name, PROBLEMS_TABLE)
    return database


def schema_number(connection: Connection, name: str) -> int:
    """Schema number of the database; 0 for none. Raises StoreError for one that this version does not know."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return 0
    return sqlite.known_revision(connection.scalar(select(version.c.version_num)), name)


def _readable(database: Database) -> Database:
    """The database with its schema number, which may be an older one: a reader cannot upgrade it."""
    with database.reading() as connection:
        number = sqlite.check_begun(schema_number(connection, database.name), database.name)
    return dataclasses.replace(database, schema=number)


def _bring_up_to_date(database: Database) -> None:
    with database.reading() as connection:
        if schema_number(connection, database.name) == SCHEMA_VERSION:
            return
    # Another process may do the same: the one that gets the lock second finds nothing left to do.
    with database.writing() as connection:
        from warpsmith.store import migrations  # loads alembic, which a store of the current schema never needs

        before = schema_number(connection, database.name)
        migrations.upgrade(connection)
        told = _rekeyed(connection, database.name) if 0 < before < REKEYED_SINCE else None
        if connection.dialect.name == "sqlite":
            sqlite_engine.claim(connection)
    if told is not None:
        warnings.warn(told, StoreUpgraded, stacklevel=4)  # who opened the store


def _rekeyed(connection: Connection, name: str) -> str | None:
    """Renews fingerprints, and says how many winners keep their times; None where there were none."""
    try:
        from warpsmith.store.rekeying import rekey  # loads kernel families' steps, which no other opening needs

        winners, moved = rekey(connection)
    except OSError as error:
        return f"{name} is of schema {SCHEMA_VERSION} now; its times keep their old fingerprints: {one_line(error)}"
    if not winners:
        return None
    told = f"{name} is of schema {SCHEMA_VERSION} now: {moved} of {winners} winners keep their times"
    return told if moved == winners else f"{told}; the others were of an older kernel text already"
