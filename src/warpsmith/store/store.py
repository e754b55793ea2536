"""One store: trials and winners, each change a transaction of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from sqlalchemy import Connection, Engine, Select, Table, func, select
from sqlalchemy.dialects import postgresql, sqlite

from warpsmith.generator.device import Device
from warpsmith.generator.problem import Problem
from warpsmith.store import integrity, opening, rows
from warpsmith.store.record import Record, Trial
from warpsmith.store.rows import Contents, Row
from warpsmith.store.schema import TRIAL_IDENTITY, WINNER_IDENTITY, devices, problems, trials, winners


@dataclasses.dataclass(frozen=True, slots=True)
class MergeReport:
    """What a merge or an import changed."""

    trials_added: int
    winners_added: int
    winners_replaced: int
    """Problems and devices for which the other store had the faster winner."""
    winners_kept: int
    """Problems and devices for which this store's winner was as fast or faster."""


class Store:
    """An open store. Close it, or use it in a `with`. Threads and forks may share it, unless it lies in memory.

    A row that this version cannot read (damaged, or of an operation of a newer warpsmith) counts as absent; `check`
    names it. Every method raises StoreError where the database fails, and has then changed nothing.
    """

    def __init__(self, engine: Engine, location: str) -> None:
        self._engine = engine
        self.location = location
        """The store's name in messages: its path, or its URL without the password."""

    @classmethod
    def open(cls, location: str, *, write: bool, immutable: bool = False) -> Self:
        """Opens a store.

        Args:
            location: path of an SQLite file, `:memory:`, or an SQLAlchemy URL (sqlite, postgresql).
            write: make the file and its folders where they are missing, and bring an older schema up to date.
            immutable: promise that no process writes the file meanwhile, as holds for an installed one; SQLite
                then takes no locks. For reading only.

        Raises:
            StoreError: missing (for reading), not writable, damaged, of another program, or of a newer schema.
        """
        engine, name = opening.open_location(location, write=write, immutable=immutable)
        return cls(engine, name)

    def close(self) -> None:
        """Gives the database back. A closed store may not be used again."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def add_trial(self, problem: Problem, device: Device, trial: Trial) -> None:
        """Keeps a trial; on disk when this returns. The same program tried again replaces the older outcome."""
        row = rows.trial_row(problem, device, trial, rows.now())
        with opening.writing(self._engine, self.location) as connection:
            _add_subject(connection, problem, device)
            _replace(connection, trials, row, TRIAL_IDENTITY)

    def trials(self, problem: Problem, device: Device) -> tuple[Trial, ...]:
        """Every trial of a problem on a device, oldest first; one that was tried again keeps its place."""
        mine = (trials.c.problem_key == problem.key()) & (trials.c.device_key == device.key())
        found = self._read(select(trials).where(mine).order_by(trials.c.id))
        return rows.readable(rows.trial_of, found)

    def put_winner(self, record: Record) -> None:
        """Makes `record` the winner of its problem on its device, whatever was before.

        Raises:
            ValueError: the record's trial is a failure.
        """
        row = rows.winner_row(record)
        with opening.writing(self._engine, self.location) as connection:
            _add_subject(connection, record.problem, record.device)
            _replace(connection, winners, row, WINNER_IDENTITY)

    def winner(self, problem_key: str, device_key: str) -> Record | None:
        """The winner of `Problem.key()` on `Device.key()`; None where there is none."""
        mine = (winners.c.problem_key == problem_key) & (winners.c.device_key == device_key)
        found = rows.readable(rows.record_of, self._read(select(winners).where(mine)))
        return found[0] if found else None

    def records(self, operation: str | None = None) -> tuple[Record, ...]:
        """All winners, or those of one operation, ordered by problem key, then device key."""
        query = select(winners).order_by(winners.c.problem_key, winners.c.device_key)
        if operation is not None:
            query = query.join(problems).where(problems.c.operation == operation)
        return rows.readable(rows.record_of, self._read(query))

    def contents(self) -> Contents:
        """Every row as it was at one moment, unread ones too."""
        with opening.reading(self._engine, self.location) as connection:
            return _contents(connection)

    def absorb(self, contents: Contents) -> MergeReport:
        """Takes over all rows, or none where it raises: trials not here yet, winners that are new or faster."""
        with opening.writing(self._engine, self.location) as connection:
            for table, added in ((problems, contents.problems), (devices, contents.devices)):
                _add_missing(connection, table, added)
            before = connection.scalar(select(func.count()).select_from(trials)) or 0
            _add_missing(connection, trials, contents.trials)
            after = connection.scalar(select(func.count()).select_from(trials)) or 0
            report = MergeReport(after - before, 0, 0, 0)
            for row in contents.winners:
                report = _compete(connection, row, report)
            return report

    def merge(self, other: Store) -> MergeReport:
        """Takes over what another store holds. The faster of two winners stays, and this store's on a tie."""
        return self.absorb(other.contents())

    def check(self) -> tuple[str, ...]:
        """What is wrong with this store, a line each; empty where nothing is."""
        with opening.reading(self._engine, self.location) as connection:
            broken = integrity.database_problems(connection)
            # The rows of a broken file may be unreadable even to SQLite.
            lines = broken or integrity.row_problems(_contents(connection))
        return tuple(f"{self.location}: {line}" for line in lines)

    def _read(self, query: Select[tuple[object, ...]]) -> tuple[Row, ...]:
        with opening.reading(self._engine, self.location) as connection:
            return _all(connection, query)


def _all(connection: Connection, query: Select[tuple[object, ...]]) -> tuple[Row, ...]:
    return tuple(dict(row) for row in connection.execute(query).mappings())


def _contents(connection: Connection) -> Contents:
    without_id = [column for column in trials.c if column.name != "id"]
    return Contents(
        problems=_all(connection, select(problems).order_by(problems.c.key)),
        devices=_all(connection, select(devices).order_by(devices.c.key)),
        trials=_all(connection, select(*without_id).order_by(trials.c.id)),
        winners=_all(connection, select(winners).order_by(winners.c.problem_key, winners.c.device_key)),
    )


def _insert(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """The dialect's own insert: `ON CONFLICT` is not standard SQL."""
    return postgresql.insert(table) if connection.dialect.name == "postgresql" else sqlite.insert(table)


def _add_subject(connection: Connection, problem: Problem, device: Device) -> None:
    _add_missing(connection, problems, (rows.problem_row(problem),))
    _add_missing(connection, devices, (rows.device_row(device),))


def _add_missing(connection: Connection, table: Table, added: Iterable[Row]) -> None:
    if values := [dict(row) for row in added]:
        connection.execute(_insert(connection, table).on_conflict_do_nothing(), values)


def _replace(connection: Connection, table: Table, row: Row, identity: tuple[str, ...]) -> None:
    changed = {name: value for name, value in row.items() if name not in identity}
    insert = _insert(connection, table).values(**row)
    connection.execute(insert.on_conflict_do_update(index_elements=identity, set_=changed))


def _compete(connection: Connection, row: Row, report: MergeReport) -> MergeReport:
    mine = (winners.c.problem_key == row["problem_key"]) & (winners.c.device_key == row["device_key"])
    own_ns = connection.scalar(select(winners.c.median_ns).where(mine))
    if own_ns is not None and own_ns <= row["median_ns"]:
        return dataclasses.replace(report, winners_kept=report.winners_kept + 1)
    _replace(connection, winners, row, WINNER_IDENTITY)
    if own_ns is None:
        return dataclasses.replace(report, winners_added=report.winners_added + 1)
    return dataclasses.replace(report, winners_replaced=report.winners_replaced + 1)
