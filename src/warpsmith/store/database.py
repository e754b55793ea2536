"""An open database: transactions over it, tried again where a server went away."""

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
from warpsmith.store.own_writes import OWN_WRITES

Result = TypeVar("Result")

RECONNECT_S = 120.0
"""How long a store waits for a server that went away: a restart takes seconds, a machine's reboot a minute or two."""

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0


class ServerLost(StoreError):
    """The server could not be reached, or the connection broke before the transaction's end was heard of."""


@dataclasses.dataclass(frozen=True, slots=True)
class Database:
    """A database at a schema that this version knows.

    What `read` and `write` are given must be repeatable: a commit that was done while its answer was lost is done
    again.
    """

    name: str
    """What messages call it: its path, or its URL without the password."""
    reader: Engine
    """Its transactions see one moment."""
    writer: Engine
    """Its transactions come one after the other."""
    schema: int
    """Its number. A reader may have an older one than this version writes, which lacks some tables."""

    @property
    def server_url(self) -> str | None:
        """The URL of a server, with its password; None for a file."""
        url = self.reader.url
        return None if url.get_backend_name() == "sqlite" else url.render_as_string(hide_password=False)

    @property
    def address(self) -> str | None:
        """What another process opens it by; None for one in memory."""
        if isinstance(self.reader.pool, StaticPool):
            return None
        return self.server_url or str(Path(self.name).absolute())

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection]:
        """One transaction over an unchanging state. Raises StoreError at once where no server answers."""
        with self._explained(), self.reader.begin() as connection:
            yield connection

    @contextlib.contextmanager
    def writing(self) -> Iterator[Connection]:
        """One write transaction: all of it, or nothing where the block raises. StoreError as `reading` does."""
        try:
            with self._explained(), self.writer.begin() as connection:
                yield connection
        finally:
            OWN_WRITES.note()  # also after an error: a commit may be done whose answer was lost

    def read(self, work: Callable[[Connection], Result]) -> Result:
        """`work` in one `reading` transaction. Raises StoreError, after RECONNECT_S where a server went away."""
        return self._patiently(self.reading, work)

    def write(self, work: Callable[[Connection], Result]) -> Result:
        """`work` in one `writing` transaction. Raises StoreError, after RECONNECT_S where a server went away."""
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
        except UnicodeDecodeError as error:  # of text in a damaged file, which SQLite hands on as it is
            raise StoreError(f"{self.name} is damaged ({error}): {sqlite.RESTORE}") from error
        except DBAPIError as error:
            if isinstance(error.orig, sqlite3.Error):
                raise sqlite.explain(error.orig, self.name) from error
            if postgresql.is_lost(error):
                raise ServerLost(postgresql.explain(error, self.name)) from error
            raise StoreError(postgresql.explain(error, self.name)) from error
        except StatementError as error:  # a value of another type than its column, which no server or file has seen
            said = one_line(error.orig)
            told = f"a row to be stored in {self.name} is damaged ({said:.200}): nothing was added; restore its source"
            raise StoreError(told) from error
