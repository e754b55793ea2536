"""PostgreSQL servers: settings that make a store there behave as a file does, and messages for its errors."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, text
from sqlalchemy.exc import DBAPIError, DisconnectionError, OperationalError, ProgrammingError

from warpsmith.errors import StoreError
from warpsmith.store import sqlite

if TYPE_CHECKING:
    import psycopg

DRIVER = "postgresql+psycopg"

QUEUED = "warpsmith_queued"
"""Execution option: wait for the one lock that every writer takes first.

Writers run one after the other, as they do on a file. So they cannot deadlock over rows that they take in different
orders, and ids become visible in the order in which they were assigned.
"""

WRITER_LOCK = sqlite.APPLICATION_ID
"""Number of the advisory lock. It belongs to the database that contains the store."""

IDLE_TIMEOUT_S = 10
"""Seconds after which the server ends an idle transaction: its client is stopped, or its machine gone. This is well
below the time that others wait for its lock. Transactions here take milliseconds, and are retried.
"""

CONNECTION_OPTIONS = {
    "client_encoding": "utf8",
    "connect_timeout": 10,
    # A lost machine is noticed after 10 + 3 * 5 s; the system's default is two hours.
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,  # ms, for data that were sent and not acknowledged
    # Poolers that share a connection between clients do not support prepared statements.
    "prepare_threshold": None,
}
"""Options of libpq and psycopg, unless the URL sets them."""

_STANDBY = "is a copy that follows another server, and takes no changes: name the server that it follows"
_GRANT = f"have the right to change its tables granted, or {sqlite.OTHER_STORE}"

GOING_OR_COMING = ("57P01", "57P02", "57P03", "25P03")
"""SQLSTATEs: shut down by an administrator, after a crash, cannot connect now; idle in a transaction for too long."""


def engines(url: URL, *, write: bool) -> tuple[Engine, Engine]:
    """A reader's and a writer's engine over one pool of connections. Raises ImportError without psycopg.

    Args:
        url: a URL whose driver is DRIVER.
        write: if False, the server refuses every change.
    """
    options: dict[str, Any] = {name: value for name, value in CONNECTION_OPTIONS.items() if name not in url.query}
    options["cursor_factory"] = whole_batch_cursor()
    # There is no upper bound on connections: each thread has at most one.
    engine = _safe_to_fork(create_engine(url, connect_args=options, max_overflow=-1))

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        if connection.get_execution_options().get(QUEUED, False):
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = {round(sqlite.BUSY_TIMEOUT_S * 1000)}")
            connection.exec_driver_sql(f"SET LOCAL idle_in_transaction_session_timeout = '{IDLE_TIMEOUT_S}s'")
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({WRITER_LOCK})")

    reader = engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
    # Each statement sees what was committed before it: a snapshot from before the lock would miss the last writer's
    # rows.
    writer = engine.execution_options(isolation_level="READ COMMITTED", postgresql_readonly=not write, **{QUEUED: True})
    return reader, writer


@functools.cache
def whole_batch_cursor() -> type[psycopg.Cursor[Any]]:
    """Class of cursors that send all rows of a statement in one message. Raises ImportError without psycopg."""
    import psycopg

    class WholeBatchCursor(psycopg.Cursor[Any]):
        """Cursor whose `executemany` sends one message in total.

        psycopg's own sends one message per row and one after them. A server that waits for the next of them does not
        count the transaction as idle. A client that is stopped there would keep its locks for ever, and no timeout of
        the server (before PostgreSQL 17) would end it.
        """

        def executemany(self, query: Any, params_seq: Iterable[Any], *, returning: bool = False) -> None:
            """Executes the statement for each row. Raises NotSupportedError if results are requested."""
            if returning:
                raise psycopg.NotSupportedError("rows are sent as one message, which returns nothing")
            with psycopg.ClientCursor(self.connection) as binder:
                statements = [binder.mogrify(query, row) for row in params_seq]
            if statements:
                self.execute("; ".join(statements).encode())  # bytes, as only literal str type-checks

    return WholeBatchCursor


def _safe_to_fork(engine: Engine) -> Engine:
    """Gives a forked child its own connections (SQLAlchemy's documentation, "Using Connection Pools with fork")."""

    @event.listens_for(engine, "connect")
    def connect(_: object, record: Any) -> None:
        record.info["pid"] = os.getpid()

    @event.listens_for(engine, "checkout")
    def checkout(_: object, record: Any, proxy: Any) -> None:
        if record.info["pid"] != os.getpid():
            record.dbapi_connection = proxy.dbapi_connection = None
            raise DisconnectionError("the connection belongs to the parent process")

    return engine


def check_encoding(connection: Connection, name: str) -> None:
    """Raises StoreError for a database that cannot store every character."""
    encoding = connection.scalar(text("SHOW server_encoding"))
    if encoding != "UTF8":
        raise StoreError(
            f"{name} keeps text as {encoding}, but a store needs UTF8: "
            "make the database with `createdb --encoding UTF8 --template template0`"
        )


def check_writable(connection: Connection, name: str, table: str) -> None:
    """Raises StoreError if the server, or the user, may not change the store. It is checked before a search, not after
    it.
    """
    if connection.scalar(text("SELECT pg_is_in_recovery()")):
        raise StoreError(f"{name} {_STANDBY}")
    if not connection.scalar(text("SELECT has_table_privilege(:name, 'INSERT')"), {"name": table}):
        raise StoreError(f"{name} may only be read by this user: {_GRANT}")


def is_lost(error: DBAPIError) -> bool:
    """True if the connection is lost or could not be made, so that a retry may succeed."""
    if error.connection_invalidated:
        return True
    state = _state(error)
    # Only the server gives a state: an operational error without one comes from libpq, which has lost the server.
    return isinstance(error, OperationalError) and (state is None or state in GOING_OR_COMING)


def refuses_option(error: BaseException | None) -> bool:
    """True if the client library, which gives no SQLSTATE, rejected a connection option."""
    return isinstance(error, ProgrammingError) and _state(error) is None


def explain(error: DBAPIError, name: str) -> str:
    """The message for a user."""
    said = str(error.orig).strip()
    first = said.partition("\n")[0].removeprefix("connection failed: ").removeprefix("connection is bad: ")
    # libpq's question is the only sign that no server listens; psycopg reports its own timeout.
    if "Is the server running" in said or "timeout expired" in said:
        return f"{name}: no server answers ({first})"
    if "during recovery" in said:
        return f"{name} {_STANDBY}"
    lines = {
        "42501": f"{name}: {first}: {_GRANT}",
        "55P03": f"another process is writing {name} since {sqlite.BUSY_TIMEOUT_S:g} s: try again when it is done",
        "53100": f"the disk of {name} is full: free some space; what it held before is kept",
        "25006": f"{name} is read-only: open it for writing, on a server that takes changes",
    }
    return lines.get(_state(error) or "", f"{name}: {first}")


def _state(error: DBAPIError) -> str | None:
    """SQLSTATE of an error (PostgreSQL's documentation, appendix A); None for an error of the client library."""
    return getattr(error.orig, "sqlstate", None)
