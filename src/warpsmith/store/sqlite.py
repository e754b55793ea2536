"""SQLite files: how they are opened, how ours are told from others, what its errors mean to a user."""

from __future__ import annotations

import enum
import os
import sqlite3
from pathlib import Path

from sqlalchemy import Connection, Engine, NullPool, StaticPool, create_engine, event, inspect

from warpsmith.errors import StoreError
from warpsmith.store.schema import SCHEMA_VERSION

APPLICATION_ID = 0x77737031
"""`wsp1` in ASCII, at offset 68 of every store's header (SQLite file format, section 1.3.13)."""

BUSY_TIMEOUT_S = 30.0
"""How long a writer waits for another; a trial's transaction takes milliseconds."""

WRITER_PRAGMAS = ("journal_mode=DELETE", "synchronous=FULL", "foreign_keys=ON")
"""Never WAL: such a file cannot be read in a read-only folder, nor shared over a network file system."""

UNTRUSTED_SCHEMA = "trusted_schema=OFF"
"""For every connection: a view, a trigger or a default of a file from elsewhere may call no function that does more
than compute (SQLite's documentation, "Defense Against The Dark Arts")."""

SMALLEST_PAGE = 512
"""Bytes; a database has a page at the least (SQLite file format, section 1.3.2)."""

OTHER_STORE = "name another store with --store or WARPSMITH_STORE"
RESTORE = "restore a copy, or move it away and tune again"

IMMEDIATE = "warpsmith_immediate"
"""Execution option: take the write lock at the start, since a reader that turns writer is refused, not queued."""


class Access(enum.StrEnum):
    """How a file is opened, as SQLite's URI parameters."""

    READ = "mode=ro"
    IMMUTABLE = "mode=ro&immutable=1"
    """For a file that nobody writes: no lock is taken and no journal looked for."""
    RECOVER = "mode=rw"
    """Lets SQLite roll back what a killed writer left."""
    WRITE = "mode=rwc"


def uri(path: Path, access: Access) -> str:
    """SQLite's URI of a file."""
    return f"{path.absolute().as_uri()}?{access}"


def file_engine(path: Path, access: Access) -> Engine:
    """An engine that holds the file open only while it is used, so that a fork or a kill leaves nothing locked."""
    pragmas = WRITER_PRAGMAS if access is Access.WRITE else ()

    def connect() -> sqlite3.Connection:
        return _connect(uri(path, access), pragmas)

    return _transactional(create_engine("sqlite://", creator=connect, poolclass=NullPool))


def memory_engine() -> Engine:
    """A database that lives as long as its engine."""

    def connect() -> sqlite3.Connection:
        return _connect("file::memory:", ("foreign_keys=ON",))

    return _transactional(create_engine("sqlite://", creator=connect, poolclass=StaticPool))


def _connect(address: str, pragmas: tuple[str, ...]) -> sqlite3.Connection:
    # isolation_level=None: Python's own BEGIN comes late and never before DDL, so we send ours.
    connection = sqlite3.connect(
        address, uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
    )
    try:
        for pragma in (UNTRUSTED_SCHEMA, *pragmas):
            connection.execute(f"PRAGMA {pragma}")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _transactional(engine: Engine) -> Engine:
    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        immediate = connection.get_execution_options().get(IMMEDIATE, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")

    return engine


def reading_access(path: Path) -> Access:
    """READ, or RECOVER where a killed writer's journal waits to be rolled back, which a reader alone cannot do."""
    journal = Path(f"{path.resolve()}-journal")
    return Access.RECOVER if journal.exists() and os.access(path, os.W_OK) else Access.READ


def check_path(path: Path, *, write: bool) -> None:
    """Raises StoreError for a path at which no file can be opened; makes the folders of one to be written."""
    try:
        if path.is_dir():
            raise StoreError(f"{path} is a folder: name a file in it, such as {path / 'store.db'}")
        if write:
            path.parent.mkdir(parents=True, exist_ok=True)
        elif not path.exists():
            raise StoreError(f"there is no store at {path}: tune with --store {path} to make it, or {OTHER_STORE}")
    except OSError as error:
        raise StoreError(f"{path} cannot be {'made' if write else 'read'} ({error.strerror}): {OTHER_STORE}") from None
    if write and not os.access(path if path.exists() else path.parent, os.W_OK):
        raise StoreError(f"{path} is read-only: make it writable, or {OTHER_STORE}")
    if write and not os.access(path.resolve().parent, os.W_OK):
        raise StoreError(f"{path} lies in a read-only folder, where SQLite cannot keep a journal: {OTHER_STORE}")


def is_blank(path: Path) -> bool:
    """Whether the file is missing or holds nothing: what a writer killed at its very start leaves.

    Raises StoreError for a file that is smaller than any database, of which SQLite takes some for empty.
    """
    size = path.stat().st_size if path.exists() else 0
    if 0 < size < SMALLEST_PAGE:
        raise StoreError(f"{path} is not a warpsmith store, or cut short ({size} bytes): {RESTORE}")
    return size == 0


def recognise(connection: Connection, path: Path) -> bool:
    """Whether the file holds a store; False where no program has put anything into it.

    Raises StoreError for a file that is cut short, of another program, or of a newer schema.
    """
    application = _pragma(connection, "application_id")
    if application == 0 and not inspect(connection).get_table_names():
        return False
    if application != APPLICATION_ID:
        raise StoreError(f"{path} is an SQLite database of another program: {OTHER_STORE}")
    check_schema_number(_pragma(connection, "user_version"), str(path))
    # SQLite overlooks a last page that is only partly there.
    expected = _pragma(connection, "page_count") * _pragma(connection, "page_size")
    size = path.stat().st_size
    if size < expected:
        raise StoreError(f"{path} is cut short ({size} of {expected} bytes): {RESTORE}")
    return True


def claim(connection: Connection) -> None:
    """Marks the database as ours, of the newest schema."""
    connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.exec_driver_sql(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _pragma(connection: Connection, name: str) -> int:
    return int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one())


def check_schema_number(number: int, name: str) -> None:
    """Raises StoreError for a schema that this version does not know."""
    if number > SCHEMA_VERSION:
        raise StoreError(
            f"{name} was written by a newer warpsmith (schema {number}; this one knows {SCHEMA_VERSION}): "
            "upgrade warpsmith"
        )


def explain(error: sqlite3.Error, name: str) -> StoreError:
    """SQLite's error as the line that a user reads."""
    code = getattr(error, "sqlite_errorcode", 0)
    if code == sqlite3.SQLITE_READONLY_ROLLBACK:
        return StoreError(f"{name} was left half-written by a killed program: open it once where it is writable")
    lines = {
        sqlite3.SQLITE_BUSY: f"another process is writing {name} since {BUSY_TIMEOUT_S:g} s: try again when it is done",
        sqlite3.SQLITE_FULL: f"the disk of {name} is full: free some space; what it held before is kept",
        sqlite3.SQLITE_IOERR: f"the disk of {name} failed or is full ({error}): what it held before is kept",
        sqlite3.SQLITE_READONLY: f"{name} is read-only: make it writable, or {OTHER_STORE}",
        sqlite3.SQLITE_CORRUPT: f"{name} is damaged or cut short ({error}): {RESTORE}",
        sqlite3.SQLITE_NOTADB: f"{name} is not a warpsmith store (no SQLite file at all): {OTHER_STORE}",
        sqlite3.SQLITE_CANTOPEN: f"{name} cannot be opened ({error}): check the rights of it and its folder",
    }
    primary = code & 0xFF  # the rest makes it an extended code
    return StoreError(lines.get(primary, f"{name}: {error}"))
