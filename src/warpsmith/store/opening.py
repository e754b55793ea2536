"""Opens the database at a location and brings its schema up to date, or raises one line that says why it cannot."""

from __future__ import annotations

import dataclasses
import re
import sqlite3
import warnings
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, NullPool, StaticPool, create_engine, event, inspect, make_url, select
from sqlalchemy.exc import ArgumentError

from warpsmith.errors import BadArgument, StoreError, one_line
from warpsmith.store import postgresql, sqlite
from warpsmith.store.database import Database
from warpsmith.store.layout import BASES_SINCE, PROBLEMS_TABLE, REKEYED_SINCE, SCHEMA_VERSION, VERSION_TABLE
from warpsmith.store.location import is_url, redacted
from warpsmith.store.rebasing import rebase
from warpsmith.store.sqlite import APPLICATION_ID, Access
from warpsmith.store.tables import create_all, version

IMMEDIATE = "warpsmith_immediate"
"""Execution option: take the write lock at the start, because SQLite refuses, instead of queueing, a reader that starts
to write.
"""

_PARTS = re.compile(
    r"""(?P<driver>[\w+]+)://
    (?:[^:/]*(?::[^@]*)?@)?                # user and password
    (?:\[[^/?]+\]|[^/:?]+)?                # host
    (?::(?P<port>[^/?]*))?""",
    re.VERBOSE,
)
"""The parts of a URL as SQLAlchemy splits it (`sqlalchemy.engine.url`). SQLAlchemy does not say which part is wrong."""

_QUOTE = "write @, : and / in a user's name or password as %40, %3A and %2F"
_PORT = "the port after the host's colon must be a number from 1 to 65535; leave the colon out for PostgreSQL's own"


class BadUrl(BadArgument, StoreError):
    """Error for a URL that names no store. Exit code 2."""


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
        return _open_server(url, redacted(location), write=write)
    return open_location(url.database or ":memory:", write=write, immutable=immutable)


def _open_file(path: Path, *, write: bool, immutable: bool) -> Database:
    sqlite.check_file(path, write=write, immutable=immutable)
    if write:
        database = _database(str(path), file_engine(path, Access.WRITE))
        _bring_up_to_date(database)
        return database
    access = Access.IMMUTABLE if immutable else Access.READ
    return _readable(_database(str(path), file_engine(path, access)))


def _database(name: str, engine: Engine) -> Database:
    return Database(name, engine, engine.execution_options(**{IMMEDIATE: True}), SCHEMA_VERSION)


def _open_memory(*, write: bool) -> Database:
    if not write:
        raise StoreError(sqlite.MEMORY_IS_EMPTY)
    database = _database("a store in memory", memory_engine())
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
        before = schema_number(connection, database.name)
        if before == 0:
            create_all(connection)
        elif before < SCHEMA_VERSION:
            from warpsmith.store import migrations  # loads alembic, which takes 0.2 s

            migrations.upgrade(connection)
        message = _rekeyed(connection, database.name) if 0 < before < REKEYED_SINCE else None
        if 0 < before < BASES_SINCE:
            rebase(connection)  # after the fingerprints, which are renewed by the names of the time before
        if connection.dialect.name == "sqlite":
            _claim(connection)
    if message is not None:
        warnings.warn(message, StoreUpgraded, stacklevel=4)  # who opened the store


def _rekeyed(connection: Connection, name: str) -> str | None:
    """Renews fingerprints, and says how many winners keep their times; None where there were none."""
    try:
        from warpsmith.store.rekeying import rekey  # loads kernel families' steps, which no other opening needs

        winners, moved = rekey(connection)
    except OSError as error:
        return f"{name} is of schema {SCHEMA_VERSION} now; its times keep their old fingerprints: {one_line(error)}"
    if not winners:
        return None
    message = f"{name} is of schema {SCHEMA_VERSION} now: {moved} of {winners} winners keep their times"
    return message if moved == winners else f"{message}; the others were of an older kernel text already"


def parse_url(location: str) -> URL:
    """The URL of a store, an SQLite file or a PostgreSQL database. Raises BadUrl, whose message never shows a
    password.
    """
    name = redacted(location)
    if not location.isprintable():
        raise BadUrl(f"{' '.join(name.split())!r} has characters that no URL has: {sqlite.OTHER_STORE}")
    try:
        url = make_url(location)
    except ArgumentError:
        raise BadUrl(f"{name} is no database URL: {sqlite.OTHER_STORE}") from None
    except ValueError:  # only an invalid port raises this
        parts = _PARTS.match(location)
        is_quoted = parts is None or "@" not in (parts["port"] or "")
        raise BadUrl(f"{name}: {_PORT if is_quoted else _QUOTE}") from None
    if url.drivername in ("sqlite", "sqlite+pysqlite"):
        _check_file(url, name)
    elif url.drivername in ("postgresql", postgresql.DRIVER):
        _check_server(url, name)
    elif url.get_backend_name() in ("sqlite", "postgresql"):
        raise BadUrl(f"{name}: a store knows no such driver; use {postgresql.DRIVER}://, or name a file")
    else:
        raise BadUrl(f"{name}: a store is a file, or a URL of {postgresql.DRIVER}://")
    return url


def _check_file(url: URL, name: str) -> None:
    if url.host is not None or url.username is not None or url.port is not None:
        raise BadUrl(f"{name}: the path of an SQLite store comes after three slashes, such as sqlite:///store.db")
    if url.query:
        raise BadUrl(f"{name}: an SQLite store takes no URL options; name the file alone")


def _check_server(url: URL, name: str) -> None:
    if "@" in (url.host or ""):
        raise BadUrl(f"{name}: {_QUOTE}")
    if url.port is not None and not 0 < url.port < 2**16:
        raise BadUrl(f"{name}: {_PORT}")
    if "plugin" in url.query:
        raise BadUrl(f"{name}: a store's URL takes the options of PostgreSQL's client library, and plugin is none")


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


def _claim(connection: Connection) -> None:
    """Marks the database as a store of the newest schema."""
    connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.exec_driver_sql(f"PRAGMA user_version = {SCHEMA_VERSION}")
