"""Reads the winners and runners-up of a store's file with Python's own SQLite: look-ups need no SQLAlchemy."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from warpsmith.errors import StoreError
from warpsmith.extras import Extra, install
from warpsmith.generator.device import Device
from warpsmith.store import rows, sqlite
from warpsmith.store.ceilings import StoredCeilings, ceilings_of
from warpsmith.store.changes import file_state
from warpsmith.store.fourier_bases import names_before, of_today, runners_up_of_today, times_of_today
from warpsmith.store.layout import (
    CEILINGS_COLUMNS,
    CEILINGS_SINCE,
    CEILINGS_TABLE,
    PINS_SINCE,
    POISONED_COLUMNS,
    POISONED_SINCE,
    POISONED_TABLE,
    PROBLEMS_TABLE,
    RUNNERS_UP_SINCE,
    RUNNERS_UP_TABLE,
    WINNER_COLUMNS,
    WINNERS_TABLE,
)
from warpsmith.store.location import file_of
from warpsmith.store.record import Failure, FamilyTime, Record
from warpsmith.store.rows import MAX_STARTS, Row, poison_failure

Answer = TypeVar("Answer")
Asked = TypeVar("Asked", str, "str | None")


class Winners(Protocol):
    """Queries of a look-up to a store; `Store` implements them too."""

    location: str
    """The store's name in messages: its path, or its URL without the password."""

    def winners(self, problem_key: str, device_key: str | None = None) -> tuple[Record, ...]:
        """Winners of `Problem.key()` on `Device.key()`, one for each conditions, in the order of USUAL_FIRST.

        Without a device, those on all devices, by device key.
        """

    def records(self, operation: str | None = None) -> tuple[Record, ...]:
        """All winners, or those of one operation, by problem key, then device key, then as `winners`."""

    def runners_up(self, problem_key: str, device_key: str) -> tuple[Record, ...]:
        """Fastest candidate of each family except the winner's, for each conditions, in the order of USUAL_FIRST."""

    def pinned_winners(self, problem_key: str, device_key: str) -> tuple[Record, ...]:
        """Winners of pinned searches, for each conditions, in the order of USUAL_FIRST."""

    def beaten(self, family: str) -> tuple[Record, ...]:
        """All runners-up of a family, by problem key, then device key."""

    def family_times(self, operation: str) -> tuple[FamilyTime, ...]:
        """Times of all runners-up of an operation, in no order."""

    def poisoned(self, device: Device) -> dict[str, Failure]:
        """Programs that must not be run again on a device, by `Program.fingerprint`, with the reason."""

    def ceilings(self, device: Device) -> StoredCeilings | None:
        """What was measured on a device; None if nothing was."""

    def close(self) -> None:
        """Closes the database."""


class StoreReader:
    """A store's file for look-ups. It is open only during a query. Threads and forks may share this object.

    A row that this version cannot parse counts as absent. Every method raises StoreError if the file cannot be read.
    """

    def __init__(self, path: Path, access: sqlite.Access, schema: int, wait_s: float | None = None) -> None:
        self.location = str(path)
        self._path = path
        self._access = access
        self._wait_s = wait_s
        self._schema = schema

    @classmethod
    def open(cls, path: Path, *, immutable: bool = False, wait_s: float | None = None) -> Self:
        """Checks that the file is a store of a schema that this version knows.

        Args:
            path: the file.
            immutable: promise that no process writes it meanwhile, as for an installed one; no locks are taken.
            wait_s: seconds that each call waits for a writer's lock; None for as long as writers wait for each other.

        Raises:
            StoreError: missing, empty, damaged, of another program or of a newer schema; StoreBusy if it is locked.
        """
        sqlite.check_file(path, write=False, immutable=immutable, wait_s=wait_s)
        access = sqlite.Access.IMMUTABLE if immutable else sqlite.Access.READ
        with sqlite.reading(path, access, wait_s) as connection:
            schema = sqlite.check_begun(sqlite.schema_number(connection, str(path)), str(path))
        return cls(path, access, schema, wait_s)

    def winners(self, problem_key: str, device_key: str | None = None) -> tuple[Record, ...]:
        mine = f"SELECT * FROM {WINNERS_TABLE} WHERE problem_key = ?"
        values: tuple[str, ...] = (problem_key,)
        if device_key is not None:
            mine, values = f"{mine} AND device_key = ?", (problem_key, device_key)
        return rows.readable(rows.record_of, rows.winners_in_order(self._winners(mine, values)))

    def records(self, operation: str | None = None) -> tuple[Record, ...]:
        return self._kept(StoreReader._records, operation)

    def _records(self, operation: str | None) -> tuple[Record, ...]:
        query = f"SELECT * FROM {WINNERS_TABLE}"
        if operation is not None:
            query += f" WHERE problem_key IN (SELECT key FROM {PROBLEMS_TABLE} WHERE operation = ?)"
        found = self._winners(query, () if operation is None else (operation,))
        return rows.readable(rows.record_of, rows.winners_in_order(found))

    def _winners(self, query: str, values: tuple[str, ...]) -> tuple[Row, ...]:
        return of_today(self._found(query, values), self._schema)

    def runners_up(self, problem_key: str, device_key: str) -> tuple[Record, ...]:
        return self._beside("problem_key = ? AND device_key = ?", (problem_key, device_key), pinned=False)

    def pinned_winners(self, problem_key: str, device_key: str) -> tuple[Record, ...]:
        return self._beside("problem_key = ? AND device_key = ?", (problem_key, device_key), pinned=True)

    def beaten(self, family: str) -> tuple[Record, ...]:
        names = names_before(family)
        return self._beside(f"family IN ({', '.join('?' * len(names))})", names, pinned=False)

    def family_times(self, operation: str) -> tuple[FamilyTime, ...]:
        return self._kept(StoreReader._family_times, operation)

    def _family_times(self, operation: str) -> tuple[FamilyTime, ...]:
        if self._is_without_runners_up():
            return ()
        query = (
            f"SELECT {', '.join(FamilyTime._fields)} FROM {RUNNERS_UP_TABLE} "
            f"WHERE problem_key IN (SELECT key FROM {PROBLEMS_TABLE} WHERE operation = ?)"
        )
        with sqlite.reading(self._path, self._access, self._wait_s) as connection:
            if sqlite.schema_number(connection, self.location) >= PINS_SINCE:
                query += " AND pins = ''"
            return times_of_today(FamilyTime.readable(connection.execute(query, (operation,))), self._schema)

    def poisoned(self, device: Device) -> dict[str, Failure]:
        if self._schema < POISONED_SINCE:
            return {}
        bad = "device_key = ? AND (failure_kind IS NOT NULL OR starts >= ?)"
        found = self._found(f"SELECT * FROM {POISONED_TABLE} WHERE {bad}", (device.key(), MAX_STARTS), POISONED_COLUMNS)
        return {row["fingerprint"]: poison_failure(row) for row in found}

    def ceilings(self, device: Device) -> StoredCeilings | None:
        return self._kept(StoreReader._ceilings, device.key())

    def _ceilings(self, device_key: str) -> StoredCeilings | None:
        with sqlite.reading(self._path, self._access, self._wait_s) as connection:
            if sqlite.schema_number(connection, self.location) < CEILINGS_SINCE:
                return None
            query = f"SELECT {', '.join(CEILINGS_COLUMNS)} FROM {CEILINGS_TABLE} WHERE device_key = ?"
            found = connection.execute(query, (device_key,)).fetchall()
        kept = (dict(zip(CEILINGS_COLUMNS, row, strict=True)) for row in found)
        return next(iter(rows.readable(ceilings_of, kept)), None)

    def _kept(self, query: Callable[[StoreReader, Asked], Answer], asked: Asked) -> Answer:
        """The answer of a query, which is read once while the file's state is the same: each look-up asks for
        thousands of rows, and several layers of a network are looked up one after the other.
        """
        state = None
        with contextlib.suppress(OSError):
            state = file_state(self._path)
        if state is None:
            return query(self, asked)
        answer: Answer = _read(query, (self._path, self._access, self._schema, self._wait_s), asked, state)
        return answer

    def _beside(self, where: str, values: tuple[str, ...], *, pinned: bool) -> tuple[Record, ...]:
        if self._is_without_runners_up():
            return ()
        found = self._found(f"SELECT * FROM {RUNNERS_UP_TABLE} WHERE {where}", values)
        mine = runners_up_of_today(rows.of_pins(found, pinned=pinned), self._schema)
        return rows.readable(rows.record_of, rows.winners_in_order(rows.in_order(mine, "family")))

    def _is_without_runners_up(self) -> bool:
        """True if the file's schema has no table of runners-up. A writer may upgrade it meanwhile, so an old schema is
        read again.
        """
        if self._schema < RUNNERS_UP_SINCE:
            with sqlite.reading(self._path, self._access, self._wait_s) as connection:
                self._schema = sqlite.schema_number(connection, self.location)
        return self._schema < RUNNERS_UP_SINCE

    def _found(
        self, query: str, values: tuple[str | int, ...], needed: tuple[str, ...] = WINNER_COLUMNS
    ) -> tuple[Row, ...]:
        """Rows of a query. Raises StoreError if a column of `needed` is missing, as in a damaged schema."""
        with sqlite.reading(self._path, self._access, self._wait_s) as connection:
            found = connection.execute(query, values)
            names = [column[0] for column in found.description]
            for name in needed:
                if name not in names:
                    raise StoreError(f"{self.location} is damaged (a table has no column {name}): {sqlite.RESTORE}")
            return tuple(dict(zip(names, row, strict=True)) for row in found)

    def close(self) -> None:
        """Does nothing: the file is not open between two calls."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@functools.lru_cache(maxsize=64)
def _read(
    query: Callable[[StoreReader, Any], Any],
    reader: tuple[Path, sqlite.Access, int, float | None],
    asked: str | None,
    state: object,  # noqa: ARG001 - equal states have equal answers
) -> Any:
    return query(StoreReader(*reader), asked)


def open_winners(location: str, *, immutable: bool = False, wait_s: float | None = None) -> Winners:
    """Opens a store for look-ups: a file directly, a server through SQLAlchemy.

    Args:
        location: path of an SQLite file, or an SQLAlchemy URL (sqlite, postgresql).
        immutable: as for `StoreReader.open`.
        wait_s: as for `StoreReader.open`, for a file.

    Raises:
        StoreError: it cannot be read; or it is on a server, and the packages for that are not installed.
    """
    file = file_of(location)
    if file == ":memory:":
        raise StoreError(sqlite.MEMORY_IS_EMPTY)
    if file is not None:
        return StoreReader.open(sqlite.path_of(file), immutable=immutable, wait_s=wait_s)
    try:
        from warpsmith.store.store import Store
    except ModuleNotFoundError as error:
        message = f"a store that is no file needs {error.name}: {install(Extra.POSTGRES)}, or name a file with --store"
        raise StoreError(message) from None
    return Store.open(location, write=False, immutable=immutable)
