"""A psycopg cursor that sends all rows of a statement in one message."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import psycopg


class WholeBatchCursor(psycopg.Cursor[Any]):
    """Cursor whose `executemany` sends one message in total.

    psycopg's own sends one message per row and one after them. A server that waits for the next of them does not count
    the transaction as idle. A client that is stopped there would keep its locks for ever, and no timeout of the server
    (before PostgreSQL 17) would end it.
    """

    def executemany(self, query: Any, params_seq: Iterable[Any], *, returning: bool = False) -> None:
        """Executes the statement for each row. Raises NotSupportedError if results are requested."""
        if returning:
            raise psycopg.NotSupportedError("rows are sent as one message, which returns nothing")
        with psycopg.ClientCursor(self.connection) as binder:
            statements = [binder.mogrify(query, row) for row in params_seq]
        if statements:
            self.execute("; ".join(statements).encode())  # bytes, as only literal str type-checks
