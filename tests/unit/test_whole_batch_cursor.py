"""Batches to PostgreSQL: many rows go in one message, so a stopped client cannot leave half of them on the server."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import psycopg
import pytest

from warpsmith.store import postgresql as servers
from warpsmith.store.database import Database
from warpsmith.store.opening import open_location

ROWS: tuple[tuple[int, str | None, float], ...] = (
    (1, "it's; 100% \\ \u00e9\u4e16\n--", 0.1),
    (2, None, float("inf")),
    (3, "$1 %(a)s %s", -1e-300),
)


@pytest.fixture
def connection(postgresql: Any) -> Any:
    from sqlalchemy.engine import make_url

    reader, _ = servers.engines(make_url(postgresql.url(postgresql.new_database())), write=True)
    raw = reader.raw_connection()
    yield raw.driver_connection
    raw.close()
    reader.dispose()


def sent(connection: Any, trace: Path, rows: list[tuple[Any, ...]]) -> list[str]:
    """The kinds of the messages that the client sends for `rows`."""
    with trace.open("w") as file, connection.cursor() as cursor:
        connection.pgconn.trace(file.fileno())
        cursor.executemany("INSERT INTO kept VALUES (%s::INTEGER, %s::VARCHAR, %s::FLOAT)", rows)
        connection.pgconn.untrace()
    return re.findall(r"F\t\d+\t(\w+)", trace.read_text())


def test_rows_are_one_message(connection: Any, tmp_path: Path) -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE kept (number INTEGER, name VARCHAR, value FLOAT)")
        assert sent(connection, tmp_path / "trace", list(ROWS)) == ["Query"]
        cursor.execute("SELECT * FROM kept ORDER BY number")
        assert tuple(cursor.fetchall()) == ROWS
        assert sent(connection, tmp_path / "trace", []) == []
        with pytest.raises(psycopg.NotSupportedError, match="returns nothing"):
            cursor.executemany("INSERT INTO kept VALUES (%s)", [(1,)], returning=True)


def test_stores_use_it(database: str) -> None:
    opened: Database = open_location(database, write=True, immutable=False)
    with opened.writing() as connection:
        kind = type(connection.connection.cursor())
    opened.reader.dispose()
    assert kind.__name__ == "WholeBatchCursor"
