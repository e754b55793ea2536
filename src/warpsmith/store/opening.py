"""From a location to a database at a schema that can be used, or to the one line that says why not."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, inspect, make_url, select
from sqlalchemy.exc import ArgumentError

from warpsmith.errors import StoreError
from warpsmith.store import postgresql, sqlite, sqlite_engine
from warpsmith.store.database import Database
from warpsmith.store.schema import SCHEMA_VERSION, VERSION_TABLE, version


def open_location(location: str, *, write: bool, immutable: bool) -> Database:
    """The database of a file path or SQLAlchemy URL. Raises StoreError, at once where no server answers."""
    if location == ":memory:":
        return _open_memory(write=write)
    if "://" not in location:
        return _open_file(Path(location).expanduser(), write=write, immutable=immutable)
    url = _parse(location)
    name = _shown(url)
    if url.get_backend_name() != "sqlite":
        return _open_server(url, name, write=write)
    if url.query:
        raise StoreError(f"{name}: an SQLite store takes no URL options; name the file alone")
    return open_location(url.database or ":memory:", write=write, immutable=immutable)


def _parse(location: str) -> URL:
    try:
        url = make_url(location)
    except ArgumentError:
        raise StoreError(f"{location} is no database URL: {sqlite.OTHER_STORE}") from None
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise StoreError(f"{_shown(url)}: a store is a file, or a URL of {postgresql.DRIVER}://")
    return url


def _shown(url: URL) -> str:
    return url.difference_update_query(["password", "sslpassword"]).render_as_string(hide_password=True)


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
    if url.drivername not in ("postgresql", postgresql.DRIVER):
        raise StoreError(f"{name}: a store knows no such driver; use {postgresql.DRIVER}://")
    try:
        reader, writer = postgresql.engines(url.set(drivername=postgresql.DRIVER), write=write)
    except ImportError as error:
        raise StoreError(f"{name} needs psycopg ({error}): pip install 'warpsmith[postgres]'") from None
    database = Database(name, reader, writer, SCHEMA_VERSION)
    with database.reading() as connection:
        postgresql.check_encoding(connection, name)
    if not write:
        return _readable(database)
    _bring_up_to_date(database)
    return database


def schema_number(connection: Connection, name: str) -> int:
    """Which schema the database has; 0 for none. Raises StoreError for one that this version does not know."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return 0
    return sqlite.known_revision(connection.scalar(select(version.c.version_num)), name)


def _readable(database: Database) -> Database:
    """The database with its schema, also an older one: a reader cannot bring it up to date."""
    with database.reading() as connection:
        number = sqlite.check_begun(schema_number(connection, database.name), database.name)
    return dataclasses.replace(database, schema=number)


def _bring_up_to_date(database: Database) -> None:
    with database.reading() as connection:
        if schema_number(connection, database.name) == SCHEMA_VERSION:
            return
    # Another process may do the same: whoever gets the lock second finds nothing left to do.
    with database.writing() as connection:
        from warpsmith.store import migrations  # loads alembic, which a store of today's schema never needs

        migrations.upgrade(connection)
        if connection.dialect.name == "sqlite":
            sqlite_engine.claim(connection)
