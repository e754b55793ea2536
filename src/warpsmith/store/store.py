"""One store: trials, winners and the shared state of tuners. Each change is one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self

from sqlalchemy import ColumnElement, Connection, select, true, update

from warpsmith.generator.device import Device
from warpsmith.generator.pins import Pins
from warpsmith.generator.problem import Problem
from warpsmith.store import poison, rows, tables
from warpsmith.store.ceilings import StoredCeilings, ceilings_of, ceilings_row
from warpsmith.store.database import Database
from warpsmith.store.fourier_bases import names_before
from warpsmith.store.layout import CEILINGS_SINCE
from warpsmith.store.opening import open_location
from warpsmith.store.poison import PoisonList
from warpsmith.store.record import Failure, FamilyTime, Record, Trial
from warpsmith.store.rows import Row
from warpsmith.store.tables import add_subject, matches, of_keys, of_operation, of_subject, trials, winners
from warpsmith.store.trials import found_trials, keep
from warpsmith.store.tuners import Runs, Tuners, end_claims
from warpsmith.store.winners import crown, family_times, found_runners_up, found_winners, keep_runner_up


class Store:
    """An open store. Close it, or use it in a `with`. Threads and forks may share it, unless it lies in memory.

    A row that this version cannot parse (damaged, or of an operation of a newer warpsmith) counts as absent;
    `contents.check_store` names it. Every method raises StoreError if the database fails, and has then changed nothing.
    If a server is lost, every method waits for it, up to `database.RECONNECT_S` seconds.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        """The open database, for functions of a whole store."""
        self.location = database.name
        """The store's name in messages: its path, or its URL without the password."""
        self.poison = PoisonList(database)
        self.runs = Runs(database)
        self.tuners = Tuners(database)

    @classmethod
    def open(cls, location: str, *, write: bool, immutable: bool = False) -> Self:
        """Opens a store.

        Args:
            location: path of an SQLite file, `:memory:`, or an SQLAlchemy URL (sqlite, postgresql).
            write: create the file and its folders if they are missing, and upgrade an older schema.
            immutable: promise that no process writes the file meanwhile, as for an installed one; SQLite then takes no
                locks. For reading only.

        Raises:
            StoreError: missing (for reading), not writable, damaged, of another program, of a newer schema, or on a
                server that does not answer now.
        """
        return cls(open_location(location, write=write, immutable=immutable))

    def close(self) -> None:
        """Closes the database. A closed store must not be used again."""
        self.database.reader.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def add_trials(self, problem: Problem, device: Device, added: Iterable[Trial]) -> None:
        """Stores trials, all or none. They are on disk when this returns.

        `trials.keep` defines which earlier trials are replaced. The claims on the programs end. Outcomes that say
        something about running a program again update the list of `poisoned`.
        """
        at, kept = rows.now(), tuple(added)

        def work(connection: Connection) -> None:
            add_subject(connection, problem, device)
            added_rows = [rows.trial_row(problem, device, trial, at) for trial in kept]
            keep(connection, added_rows)
            poison.note_outcomes(connection, device.key(), kept, at)
            end_claims(connection, added_rows)

        self.database.write(work)

    def trials(self, problem: Problem, device: Device) -> tuple[Trial, ...]:
        """Every trial of a problem on a device, oldest first; one that was tried again keeps its position."""
        return self.trials_since(problem, device, 0)[1]

    def dated_trials(self, problem: Problem, device: Device) -> tuple[tuple[str, Trial], ...]:
        """Pairs of storage time in UTC, ISO 8601, and trial; oldest first."""
        mine = self._trials(of_subject(trials, problem, device))
        return rows.readable(lambda row: (row["created_at"], rows.trial_of(row)), mine)

    def trials_since(self, problem: Problem, device: Device, last_id: int) -> tuple[int, tuple[Trial, ...]]:
        """The last id, for the next call, and the trials added after `last_id`, oldest first. 0 returns all.

        A trial that was tried again keeps its id, and is not returned again.
        """
        newer = self._trials(of_subject(trials, problem, device) & (trials.c.id > last_id))
        return newer[-1]["id"] if newer else last_id, rows.readable(rows.trial_of, newer)

    def put_winner(self, record: Record) -> None:
        """Makes `record` the winner of its problem on its device under its conditions, replacing any other.

        A previous winner of another family becomes that family's runner-up.

        Raises:
            ValueError: the record's trial is a failure.
        """
        row = rows.winner_row(record)

        def work(connection: Connection) -> None:
            add_subject(connection, record.problem, record.device)
            crown(connection, row)

        self.database.write(work)

    def put_runners_up(self, records: Iterable[Record]) -> None:
        """Makes each record its family's runner-up, replacing any other. A record of the winner's family is ignored.

        Raises ValueError for a record whose trial is a failure.
        """
        self._put_beside([(record, rows.winner_row(record)) for record in records])

    def put_pinned_winner(self, record: Record, pins: Pins) -> None:
        """Makes `record` the winner of a search with `pins`, for its family, replacing any other.

        Raises ValueError for a record whose trial is a failure.
        """
        self._put_beside([(record, {**rows.winner_row(record), "pins": rows.plain(pins.key())})])

    def _put_beside(self, added: Sequence[tuple[Record, Row]]) -> None:
        def work(connection: Connection) -> None:
            for record, row in added:
                add_subject(connection, record.problem, record.device)
                keep_runner_up(connection, row)

        self.database.write(work)

    def renew(self, record: Record) -> bool:
        """Replaces the provenance facts of a winner; False if another winner has taken its place."""
        row = rows.winner_row(record)
        same = matches(winners, row, [name for name in row if name != "spec"])
        changed = update(winners).where(same).values(spec=row["spec"])
        return self.database.write(lambda connection: connection.execute(changed).rowcount) > 0

    def winner(self, problem_key: str, device_key: str, conditions: str | None = None) -> Record | None:
        """The winner of `Problem.key()` on `Device.key()`; None if there is none.

        `conditions` is one of `conditions.USUAL_FIRST`; None means the first of them that has a winner.
        """
        kept = self.winners(problem_key, device_key)
        return next((record for record in kept if conditions in (None, record.conditions)), None)

    def winners(self, problem_key: str, device_key: str | None = None) -> tuple[Record, ...]:
        """Winners of `Problem.key()` on `Device.key()`, one for each conditions, in the order of USUAL_FIRST.

        Without a device, those on all devices, by device key.
        """
        of_problem = winners.c.problem_key == problem_key
        return self._winners(of_problem if device_key is None else of_problem & (winners.c.device_key == device_key))

    def records(self, operation: str | None = None) -> tuple[Record, ...]:
        """All winners, or those of one operation, by problem key, then device key, then as `winners`."""
        return self._winners(true() if operation is None else of_operation(winners, operation))

    def runners_up(self, problem_key: str, device_key: str) -> tuple[Record, ...]:
        """Fastest candidate of each family except the winner's, for each conditions, in the order of USUAL_FIRST."""
        return self._beside(of_keys(tables.runners_up, problem_key, device_key), pinned=False)

    def pinned_winners(self, problem_key: str, device_key: str) -> tuple[Record, ...]:
        """Winners of pinned searches, for each conditions, in the order of USUAL_FIRST."""
        return self._beside(of_keys(tables.runners_up, problem_key, device_key), pinned=True)

    def beaten(self, family: str) -> tuple[Record, ...]:
        """All runners-up of a family, by problem key, then device key."""
        return self._beside(tables.runners_up.c.family.in_(names_before(family)), pinned=False)

    def family_times(self, operation: str) -> tuple[FamilyTime, ...]:
        """Times of all runners-up of an operation, in no order."""
        number = self.database.schema
        return self.database.read(lambda connection: family_times(connection, number, operation))

    def poisoned(self, device: Device) -> dict[str, Failure]:
        """Programs that must not be run again on a device, by `Program.fingerprint`, with the reason.

        They failed with a kind of `record.POISONOUS`, or were started `rows.MAX_STARTS` times without ending.
        """
        if self.database.schema < 2:
            return {}
        mine = tables.poisoned.c.device_key == device.key()
        found = self.database.read(lambda connection: poison.listed(connection, mine))
        return {row["fingerprint"]: rows.poison_failure(row) for row in found}

    def put_ceilings(self, device: Device, stored: StoredCeilings) -> None:
        """Stores what was measured on a device, replacing any earlier ceilings."""
        row = ceilings_row(device, stored)

        def work(connection: Connection) -> None:
            tables.add_missing(connection, tables.devices, (rows.device_row(device),))
            tables.replace(connection, tables.ceilings, row, tables.CEILINGS_IDENTITY)

        self.database.write(work)

    def ceilings(self, device: Device) -> StoredCeilings | None:
        """What was measured on a device; None if nothing was."""
        if self.database.schema < CEILINGS_SINCE:
            return None
        mine = select(tables.ceilings).where(tables.ceilings.c.device_key == device.key())
        kept = self.database.read(lambda connection: tables.found(connection, mine))
        return next(iter(rows.readable(ceilings_of, kept)), None)

    def _winners(self, where: ColumnElement[bool]) -> tuple[Record, ...]:
        kept = self.database.read(lambda connection: found_winners(connection, self.database.schema, where))
        return rows.readable(rows.record_of, kept)

    def _beside(self, where: ColumnElement[bool], *, pinned: bool) -> tuple[Record, ...]:
        number = self.database.schema
        kept = self.database.read(lambda connection: found_runners_up(connection, number, where))
        return rows.readable(rows.record_of, rows.of_pins(kept, pinned=pinned))

    def _trials(self, where: ColumnElement[bool]) -> tuple[Row, ...]:
        return self.database.read(lambda connection: found_trials(connection, self.database.schema, where))
