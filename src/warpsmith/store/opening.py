"""From a location to a database at the right schema, or to the one line that says why not."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, create_engine, inspect, make_url, select
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

from warpsmith.errors import StoreError
from warpsmith.store import sqlite
from warpsmith.store.schema import SCHEMA_VERSION, VERSION_TABLE, version


@contextlib.contextmanager
def explained(name: str) -> Iterator[None]:
    """Turns a database's errors into StoreError that names the store."""
    try:
        yield
    except DBAPIError as error:
        if isinstance(error.orig, sqlite3.Error):
            raise sqlite.explain(error.orig, name) from error
        reason = str(error.orig).strip().partition("\n")[0]
        raise StoreError(f"{name}: {reason}") from error


@contextlib.contextmanager
def writing(engine: Engine, name: str) -> Iterator[Connection]:
    """One write transaction: all of it, or nothing where the block raises."""
    with explained(name), engine.execution_options(**{sqlite.IMMEDIATE: True}).begin() as connection:
        yield connection


@contextlib.contextmanager
def reading(engine: Engine, name: str) -> Iterator[Connection]:
    """One transaction over an unchanging state."""
    with explained(name), engine.begin() as connection:
        yield connection


def open_location(location: str, *, write: bool, immutable: bool) -> tuple[Engine, str]:
    """The engine of a file path or SQLAlchemy URL, and the store's name in messages. Raises StoreError."""
    if location == ":memory:":
        return _open_memory(write=write), "a store in memory"
    if "://" not in location:
        path = Path(location).expanduser()
        return _open_file(path, write=write, immutable=immutable), str(path)
    url = _parse(location)
    name = url.render_as_string(hide_password=True)
    if url.get_backend_name() != "sqlite":
        return _open_server(url, name, write=write), name
    if url.query:
        raise StoreError(f"{name}: an SQLite store takes no URL options; name the file alone")
    return open_location(url.database or ":memory:", write=write, immutable=immutable)


def _parse(location: str) -> URL:
    try:
        url = make_url(location)
    except ArgumentError:
        raise StoreError(f"{location} is no database URL: {sqlite.OTHER_STORE}") from None
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        name = url.render_as_string(hide_password=True)
        raise StoreError(f"{name}: a store is a file, or a URL of postgresql+psycopg://")
    return url


def _open_file(path: Path, *, write: bool, immutable: bool) -> Engine:
    sqlite.check_path(path, write=write)
    if not _holds_store(path, immutable=immutable) and not write:
        raise StoreError(f"{path} is empty, not a store: tune with --store {path} to fill it, or remove it")
    if write:
        engine = sqlite.file_engine(path, sqlite.Access.WRITE)
        _bring_up_to_date(engine, str(path))
    else:
        engine = sqlite.file_engine(path, sqlite.Access.IMMUTABLE if immutable else sqlite.Access.READ)
        _check_readable(engine, str(path))
    return engine


def _holds_store(path: Path, *, immutable: bool) -> bool:
    """Looks with a reader's connection, also before writing: a file that is not ours is never changed."""
    if sqlite.is_blank(path):
        return False
    access = sqlite.Access.IMMUTABLE if immutable else sqlite.reading_access(path)
    with reading(sqlite.file_engine(path, access), str(path)) as connection:
        return sqlite.recognise(connection, path)


def _open_memory(*, write: bool) -> Engine:
    if not write:
        raise StoreError("a store in memory starts empty: open it for writing, or name a file")
    engine = sqlite.memory_engine()
    _bring_up_to_date(engine, "a store in memory")
    return engine


def _open_server(url: URL, name: str, *, write: bool) -> Engine:
    try:
        engine = create_engine(url)
    except NoSuchModuleError:
        raise StoreError(f"{name}: SQLAlchemy has no such driver; use postgresql+psycopg://") from None
    except ModuleNotFoundError as error:
        raise StoreError(f"{name} needs the Python package {error.name}: pip install {error.name}") from None
    if write:
        _bring_up_to_date(engine, name)
    else:
        _check_readable(engine, name)
    return engine


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


def _check_readable(engine: Engine, name: str) -> None:
    with reading(engine, name) as connection:
        number = schema_number(connection, name)
    if number == 0:
        raise StoreError(f"{name} holds no store yet: tune with --store {name} to fill it")
    if number < SCHEMA_VERSION:
        raise StoreError(
            f"{name} was written by an older warpsmith (schema {number}; this one reads {SCHEMA_VERSION}): "
            "anything that opens it for writing brings it up to date, such as `warpsmith tune` with this store"
        )


def _bring_up_to_date(engine: Engine, name: str) -> None:
    with reading(engine, name) as connection:
        if schema_number(connection, name) == SCHEMA_VERSION:
            return
    # Another process may do the same: whoever gets the lock second finds nothing left to do.
    with writing(engine, name) as connection:
        from warpsmith.store import migrations  # loads alembic, which a store of today's schema never needs

        migrations.upgrade(connection)
        if engine.dialect.name == "sqlite":
            sqlite.claim(connection)
