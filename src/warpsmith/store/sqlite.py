"""SQLite files: opening them, recognising stores, and messages for SQLite's errors.

This module uses only Python's own SQLite, which suffices for a look-up. SQLAlchemy's engines are in `opening`.
"""

from __future__ import annotations

import contextlib
import enum
import os
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from warpsmith.errors import StoreError, one_line
from warpsmith.store.layout import SCHEMA_VERSION, VERSION_TABLE

APPLICATION_ID = 0x77737031
"""The text `wsp1` in ASCII, at offset 68 of every store's header (SQLite file format, section 1.3.13)."""

BUSY_TIMEOUT_S = 30.0
"""Seconds that a writer waits for another; a trial's transaction takes milliseconds."""

WRITER_PRAGMAS = ("journal_mode=DELETE", "synchronous=FULL", "foreign_keys=ON")
"""Settings of a writer. WAL is never used: such a file cannot be read in a read-only folder, nor shared over a network
file system.
"""

UNTRUSTED_SCHEMA = "trusted_schema=OFF"
"""Setting of every connection: a view, a trigger or a default of a foreign file may call no function with side effects
(SQLite's documentation, "Defense Against The Dark Arts").
"""

SMALLEST_PAGE = 512
"""Bytes; a database has at least one page (SQLite file format, section 1.3.2)."""

MEMORY_IS_EMPTY = "a store in memory starts empty: open it for writing, or name a file"
OTHER_STORE = "name another store with --store or WARPSMITH_STORE"
RESTORE = "restore a copy, or move it away and tune again"


class Access(enum.StrEnum):
    """Access modes, as parameters of SQLite's URIs."""

    READ = "mode=ro"
    IMMUTABLE = "mode=ro&immutable=1"
    """Access to a file that nobody writes: SQLite takes no lock and looks for no journal."""
    RECOVER = "mode=rw"
    """Lets SQLite roll back an unfinished transaction of a killed writer."""
    WRITE = "mode=rwc"


def path_of(location: str) -> Path:
    """The file that a location names, with `~` and `~user` expanded. Raises StoreError if no file can have such a
    name.
    """
    if "\0" in location:
        raise StoreError(f"{location!r} is no name of a file: {OTHER_STORE}")
    try:
        return Path(location).expanduser()
    except RuntimeError:  # an unknown `~user`
        raise StoreError(f"{location} lies in the folder of a user who is not known here: {OTHER_STORE}") from None


def uri(path: Path, access: Access) -> str:
    return f"{path.absolute().as_uri()}?{access}"


class StoreBusy(StoreError):
    """Another process has locked the store for longer than this one waits."""


def connect(address: str, pragmas: tuple[str, ...] = (), wait_s: float | None = None) -> sqlite3.Connection:
    """Opens a URI. It waits `wait_s` seconds for locks, BUSY_TIMEOUT_S if None. Raises sqlite3.Error."""
    timeout_s = BUSY_TIMEOUT_S if wait_s is None else wait_s
    # isolation_level=None: Python's own BEGIN comes late and never before DDL, so this package sends its own.
    connection = sqlite3.connect(address, uri=True, timeout=timeout_s, isolation_level=None, check_same_thread=False)
    try:
        for pragma in (UNTRUSTED_SCHEMA, *pragmas):
            connection.execute(f"PRAGMA {pragma}")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


@contextlib.contextmanager
def reading(path: Path, access: Access, wait_s: float | None = None) -> Iterator[sqlite3.Connection]:
    """One transaction over a consistent snapshot of a file, which is open only inside this context.

    Raises StoreError; its subclass StoreBusy if the file is locked for longer than `wait_s` seconds.
    """
    try:
        with contextlib.closing(connect(uri(path, access), wait_s=wait_s)) as connection:
            connection.execute("BEGIN")
            yield connection
    except sqlite3.Error as error:
        raise explain(error, str(path), wait_s) from error
    except UnicodeDecodeError as error:  # text of a damaged file, which SQLite passes on unchanged
        raise StoreError(f"{path} is damaged ({one_line(error)}): {RESTORE}") from error


def reading_access(path: Path) -> Access:
    """READ, or RECOVER if a killed writer left a journal: a read-only connection cannot roll it back."""
    journal = Path(f"{path.resolve()}-journal")
    return Access.RECOVER if journal.exists() and os.access(path, os.W_OK) else Access.READ


def check_path(path: Path, *, write: bool) -> None:
    """Raises StoreError for a path at which no file can be opened. For writing, it creates the missing folders."""
    try:
        if path.is_dir():
            raise StoreError(f"{path} is a folder: name a file in it, such as {path / 'store.db'}")
        if leads_nowhere(path) and not (write and path.resolve().parent.is_dir()):
            raise StoreError(f"{path} is a link to {path.readlink()}, which is not there: mend it, or {OTHER_STORE}")
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


def leads_nowhere(path: Path) -> bool:
    """True if the path is a symbolic link whose target does not exist. Raises OSError."""
    return path.is_symlink() and not path.exists()


def is_blank(path: Path) -> bool:
    """True if the file is missing or empty: a writer that was killed at its very start leaves an empty one.

    Raises StoreError for a file that is smaller than any database; SQLite treats some of these as empty.
    """
    size = path.stat().st_size if path.exists() else 0
    if 0 < size < SMALLEST_PAGE:
        raise StoreError(f"{path} is not a warpsmith store, or cut short ({size} bytes): {RESTORE}")
    return size == 0


def check_file(path: Path, *, write: bool, immutable: bool, wait_s: float | None = None) -> None:
    """Raises StoreError unless the file is a readable store, or, for writing, one that can be written or created.

    It checks with a read-only connection, also before writing: a file of another program is never changed.
    """
    check_path(path, write=write)
    if not _holds_store(path, immutable=immutable, wait_s=wait_s) and not write:
        raise StoreError(f"{path} is empty, not a store: tune with --store {path} to fill it, or remove it")


def _holds_store(path: Path, *, immutable: bool, wait_s: float | None) -> bool:
    """True if the file holds a store; False if no program has written anything into it.

    Raises StoreError for a file that is truncated, of another program, or of a newer schema.
    """
    if is_blank(path):
        return False
    with reading(path, Access.IMMUTABLE if immutable else reading_access(path), wait_s) as connection:
        return _recognised(connection, path)


def _recognised(connection: sqlite3.Connection, path: Path) -> bool:
    application = _pragma(connection, "application_id")
    if application == 0 and not _tables(connection):
        return False
    if application != APPLICATION_ID:
        raise StoreError(f"{path} is an SQLite database of another program: {OTHER_STORE}")
    check_schema_number(_pragma(connection, "user_version"), str(path))
    # SQLite does not notice a last page that is incomplete.
    expected = _pragma(connection, "page_count") * _pragma(connection, "page_size")
    size = path.stat().st_size
    if size < expected:
        raise StoreError(f"{path} is cut short ({size} of {expected} bytes): {RESTORE}")
    return True


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def _tables(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def schema_number(connection: sqlite3.Connection, name: str) -> int:
    """Schema number of the file; 0 for none. Raises StoreError for one that this version does not know."""
    if VERSION_TABLE not in _tables(connection):
        return 0
    row = connection.execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchone()
    return known_revision(row[0] if row else None, name)


def known_revision(revision: object, name: str) -> int:
    """Schema number of an alembic revision; 0 for none. Raises StoreError for one that this version does not know."""
    if revision is None:
        return 0
    if not isinstance(revision, str) or (revision.isdecimal() and not re.fullmatch("[0-9]{4}", revision)):
        raise StoreError(f"{name} is damaged (its schema is noted as {revision!r:.40}): {RESTORE}")
    if not revision.isdecimal():
        raise StoreError(f"{name} was written by a newer warpsmith (schema {revision:.40}): upgrade warpsmith")
    check_schema_number(int(revision), name)
    return int(revision)


def check_schema_number(number: int, name: str) -> None:
    """Raises StoreError for a schema that this version does not know."""
    if number > SCHEMA_VERSION:
        raise StoreError(
            f"{name} was written by a newer warpsmith (schema {number}; this one knows {SCHEMA_VERSION}): "
            "upgrade warpsmith"
        )


def check_begun(number: int, name: str) -> int:
    """The schema number. Raises StoreError if it is 0, which means none."""
    if number == 0:
        raise StoreError(f"{name} holds no store yet: tune with --store {name} to fill it")
    return number


def explain(error: sqlite3.Error, name: str, wait_s: float | None = None) -> StoreError:
    """The message for a user; a StoreBusy if another process held a lock for `wait_s` seconds."""
    code, said = getattr(error, "sqlite_errorcode", 0), one_line(error)
    if code & 0xFF == sqlite3.SQLITE_BUSY:
        waited_s = BUSY_TIMEOUT_S if wait_s is None else wait_s
        return StoreBusy(f"another process is writing {name} since {waited_s:g} s: try again when it is done")
    if code == sqlite3.SQLITE_READONLY_ROLLBACK:
        return StoreError(f"{name} was left half-written by a killed program: open it once where it is writable")
    lines = {
        sqlite3.SQLITE_FULL: f"the disk of {name} is full: free some space; what it held before is kept",
        sqlite3.SQLITE_IOERR: f"the disk of {name} failed or is full ({said}): what it held before is kept",
        sqlite3.SQLITE_READONLY: f"{name} is read-only: make it writable, or {OTHER_STORE}",
        sqlite3.SQLITE_CORRUPT: f"{name} is damaged or cut short ({said}): {RESTORE}",
        sqlite3.SQLITE_NOTADB: f"{name} is not a warpsmith store (no SQLite file at all): {OTHER_STORE}",
        sqlite3.SQLITE_CANTOPEN: f"{name} cannot be opened ({said}): check the rights of it and its folder",
    }
    primary = code & 0xFF  # the other bits make it an extended code
    return StoreError(lines.get(primary, f"{name}: {said}"))
