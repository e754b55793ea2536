"""From a location to a database at a schema that can be used, or to the one line that says why not."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, inspect, select
from sqlalchemy.exc import ArgumentError

from warpsmith.errors import StoreError
from warpsmith.store import postgresql, sqlite
from warpsmith.store.database import Database
from warpsmith.store.schema import SCHEMA_VERSION, VERSION_TABLE, version
from warpsmith.store.url import BadUrl, is_url, parse_url
from warpsmith.store.url import shown as shown


def open_location(location: str, *, write: bool, immutable: bool) -> Database:
    """The database of a file path or SQLAlchemy URL.

    Raises StoreError, at once where no server answers; BadUrl, which is one, for a URL that names no store.
    """
    if location == ":memory:":
        return _open_memory(write=write)
    if not is_url(location):
        return _open_file(_path(location), write=write, immutable=immutable)
    url = parse_url(location)
    if url.get_backend_name() != "sqlite":
        return _open_server(url, shown(location), write=write)
    return open_location(url.database or ":memory:", write=write, immutable=immutable)


def _path(location: str) -> Path:
    if "\0" in location:
        raise StoreError(f"{location!r} is no name of a file: {sqlite.OTHER_STORE}")
    try:
        return Path(location).expanduser()
    except RuntimeError:  # of `~name`
        raise StoreError(
            f"{location} lies in the folder of a user who is not known here: {sqlite.OTHER_STORE}"
        ) from None


def _open_file(path: Path, *, write: bool, immutable: bool) -> Database:
    sqlite.check_path(path, write=write)
    if not _holds_store(path, immutable=immutable) and not write:
        raise StoreError(f"{path} is empty, not a store: tune with --store {path} to fill it, or remove it")
    if write:
        database = _database(str(path), sqlite.file_engine(path, sqlite.Access.WRITE))
        _bring_up_to_date(database)
        return database
    access = sqlite.Access.IMMUTABLE if immutable else sqlite.Access.READ
    return _readable(_database(str(path), sqlite.file_engine(path, access)))


def _database(name: str, engine: Engine) -> Database:
    return Database(name, engine, engine.execution_options(**{sqlite.IMMEDIATE: True}), SCHEMA_VERSION)


def _holds_store(path: Path, *, immutable: bool) -> bool:
    """Looks with a reader's connection, also before writing: a file that is not ours is never changed."""
    if sqlite.is_blank(path):
        return False
    access = sqlite.Access.IMMUTABLE if immutable else sqlite.reading_access(path)
    with _database(str(path), sqlite.file_engine(path, access)).reading() as connection:
        return sqlite.recognise(connection, path)


def _open_memory(*, write: bool) -> Database:
    if not write:
        raise StoreError("a store in memory starts empty: open it for writing, or name a file")
    database = _database("a store in memory", sqlite.memory_engine())
    _bring_up_to_date(database)
    return database


def _open_server(url: URL, name: str, *, write: bool) -> Database:
    try:
        reader, writer = postgresql.engines(url.set(drivername=postgresql.DRIVER), write=write)
    except ImportError as error:
        raise StoreError(f"{name} needs psycopg ({error}): pip install 'warpsmith[postgres]'") from None
    except ArgumentError as error:  # of its options: several hosts with other ports than they are
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
    return database


def schema_number(connection: Connection, name: str) -> int:
    """Which schema the database has; 0 for none. Raises StoreError for one that this version does not know."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return 0
    revision = connection.scalar(select(version.c.version_num))
    if revision is None:
        return 0
    if not revision.isdecimal():
        raise StoreError(f"{name} was written by a newer warpsmith (schema {revision}): upgrade warpsmith")
    sqlite.check_schema_number(int(revision), name)
    return int(revision)


def _readable(database: Database) -> Database:
    """The database with its schema, also an older one: a reader cannot bring it up to date."""
    with database.reading() as connection:
        number = schema_number(connection, database.name)
    if number == 0:
        raise StoreError(f"{database.name} holds no store yet: tune with --store {database.name} to fill it")
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
            sqlite.claim(connection)
