"""An open database with its transactions, which are retried if a server disappears."""

from __future__ import annotations

import contextlib
import dataclasses
import sqlite3
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection, Engine, StaticPool
from sqlalchemy.exc import DBAPIError, StatementError

from warpsmith.errors import StoreError, one_line
from warpsmith.store import postgresql, sqlite
from warpsmith.store.changes import OWN_WRITES

Result = TypeVar("Result")

RECONNECT_S = 120.0
"""Seconds that a store waits for a lost server: a restart takes seconds, a machine's reboot a minute or two."""

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0


class ServerLost(StoreError):
    """The server could not be reached, or the connection broke before the end of the transaction was confirmed."""


@dataclasses.dataclass(frozen=True, slots=True)
class Database:
    """A database at a schema that this version knows.

    The work passed to `read` and `write` must be repeatable: a commit whose confirmation was lost is done again.
    """

    name: str
    """Name in messages: its path, or its URL without the password."""
    reader: Engine
    """Engine whose transactions see one consistent snapshot."""
    writer: Engine
    """Engine whose transactions run one after the other."""
    schema: int
    """Schema number. A reader may have an older one than this version writes, which lacks some tables."""

    @property
    def server_url(self) -> str | None:
        """URL of a server, with its password; None for a file."""
        url = self.reader.url
        return None if url.get_backend_name() == "sqlite" else url.render_as_string(hide_password=False)

    @property
    def address(self) -> str | None:
        """Path or URL by which another process opens it; None for a database in memory."""
        if isinstance(self.reader.pool, StaticPool):
            return None
        return self.server_url or str(Path(self.name).absolute())

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection]:
        """One transaction over a consistent snapshot. Raises StoreError at once if no server answers."""
        with self._explained(), self.reader.begin() as connection:
            yield connection

    @contextlib.contextmanager
    def writing(self) -> Iterator[Connection]:
        """One write transaction: all of it, or nothing if the block raises. Raises StoreError as `reading` does."""
        try:
            with self._explained(), self.writer.begin() as connection:
                yield connection
        finally:
            OWN_WRITES.note()  # also after an error: the commit may have succeeded

    def read(self, work: Callable[[Connection], Result]) -> Result:
        """Runs `work` in one `reading` transaction. Raises StoreError, after RECONNECT_S if the server is lost."""
        return self._patiently(self.reading, work)

    def write(self, work: Callable[[Connection], Result]) -> Result:
        """Runs `work` in one `writing` transaction. Raises StoreError, after RECONNECT_S if the server is lost."""
        return self._patiently(self.writing, work)

    def _patiently(
        self,
        transaction: Callable[[], contextlib.AbstractContextManager[Connection]],
        work: Callable[[Connection], Result],
    ) -> Result:
        pause, deadline = FIRST_PAUSE_S, None
        while True:
            try:
                with transaction() as connection:
                    return work(connection)
            except ServerLost as lost:
                now = time.monotonic()
                if deadline is None:
                    deadline = now + RECONNECT_S
                    warnings.warn(f"{lost}; waiting for it, up to {RECONNECT_S:g} s", stacklevel=2)
                if now >= deadline:
                    raise StoreError(f"{lost}; waited {RECONNECT_S:g} s for it; what was stored is kept") from lost
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except UnicodeDecodeError as error:  # text of a damaged file, which SQLite passes on unchanged
            raise StoreError(f"{self.name} is damaged ({error}): {sqlite.RESTORE}") from error
        except DBAPIError as error:
            if isinstance(error.orig, sqlite3.Error):
                raise sqlite.explain(error.orig, self.name) from error
            if postgresql.is_lost(error):
                raise ServerLost(postgresql.explain(error, self.name)) from error
            raise StoreError(postgresql.explain(error, self.name)) from error
        except StatementError as error:  # a value of the wrong type for its column; no server or file has seen it
            row = f"a row to be stored in {self.name} is damaged ({one_line(error.orig):.200})"
            raise StoreError(f"{row}: nothing was added; restore its source") from error
