"""A cursor of PostgreSQL that sends a statement's many rows as one message."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import psycopg


class WholeBatchCursor(psycopg.Cursor[Any]):
    """psycopg's own `executemany` sends one message a row and one behind them. A server that waits for the next of them
    does not count the transaction as idle: a client that is stopped there would keep what it has locked for ever, and
    no timeout of the server's (before PostgreSQL 17) would end it.
    """

    def executemany(self, query: Any, params_seq: Iterable[Any], *, returning: bool = False) -> None:
        """The statement for each of the rows. Raises NotSupportedError where their results are asked for."""
        if returning:
            raise psycopg.NotSupportedError("rows are sent as one message, which returns nothing")
        with psycopg.ClientCursor(self.connection) as binder:
            statements = [binder.mogrify(query, row) for row in params_seq]
        if statements:
            self.execute("; ".join(statements).encode())  # bytes: a text made here is no literal, as types want it
