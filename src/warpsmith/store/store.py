"""One store: trials, winners and the shared state of tuners. Each change is one transaction."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from sqlalchemy import ColumnElement, Connection, update

from warpsmith.generator.device import Device
from warpsmith.generator.problem import Problem
from warpsmith.store import claims, integrity, merging, opening, poison, prune, rows, runners_up, runs, samples, schema
from warpsmith.store.database import Database
from warpsmith.store.family_time import FamilyTime
from warpsmith.store.fleet import Fleet
from warpsmith.store.merging import History, with_todays_fingerprints
from warpsmith.store.merging import MergeReport as MergeReport  # what `absorb` and `merge` return
from warpsmith.store.poison import Started
from warpsmith.store.prune import Pruned, Unwanted
from warpsmith.store.record import Failure, Record, Trial
from warpsmith.store.rows import Contents, Row
from warpsmith.store.runs import Run
from warpsmith.store.samples import Sample
from warpsmith.store.schema import trials, winners
from warpsmith.store.scope import EVERYTHING, Counts, Scope, counts, subjects
from warpsmith.store.statements import add_subject, found_winners, matches
from warpsmith.store.trial_rows import found_trials, keep


class Store(Fleet):
    """An open store. Close it, or use it in a `with`. Threads and forks may share it, unless it lies in memory.

    A row that this version cannot parse (damaged, or of an operation of a newer warpsmith) counts as absent; `check`
    names it. Every method raises StoreError if the database fails, and has then changed nothing. If a server is lost,
    every method waits for it, up to `database.RECONNECT_S` seconds.
    """

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.location = database.name
        """The store's name in messages: its path, or its URL without the password."""

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
        return cls(opening.open_location(location, write=write, immutable=immutable))

    @property
    def server_url(self) -> str | None:
        """The server's URL, with its password, for other tables in the same database; None for a file."""
        return self._database.server_url

    @property
    def address(self) -> str | None:
        """Location by which another process of this machine opens the store, with its password; None for one in
        memory.
        """
        return self._database.address

    def close(self) -> None:
        """Closes the database. A closed store must not be used again."""
        self._database.reader.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def add_trial(self, problem: Problem, device: Device, trial: Trial) -> None:
        """`add_trials` for one trial."""
        self.add_trials(problem, device, (trial,))

    def add_trials(self, problem: Problem, device: Device, added: Iterable[Trial]) -> None:
        """Stores trials, all or none. They are on disk when this returns.

        `trial_rows.keep` defines which earlier trials are replaced. The claims on the programs end. Outcomes that say
        something about running a program again update the list of `poisoned`.
        """
        at, kept = rows.now(), tuple(added)

        def work(connection: Connection) -> None:
            add_subject(connection, problem, device)
            added_rows = [rows.trial_row(problem, device, trial, at) for trial in kept]
            keep(connection, added_rows)
            poison.note_outcomes(connection, device.key(), kept, at)
            claims.settle(connection, added_rows)

        self._database.write(work)

    def trials(self, problem: Problem, device: Device) -> tuple[Trial, ...]:
        """Every trial of a problem on a device, oldest first; one that was tried again keeps its position."""
        return self.trials_since(problem, device, 0)[1]

    def dated_trials(self, problem: Problem, device: Device) -> tuple[tuple[str, Trial], ...]:
        """Pairs of storage time in UTC, ISO 8601, and trial; oldest first."""
        mine = (trials.c.problem_key == problem.key()) & (trials.c.device_key == device.key())
        return rows.readable(lambda row: (row["created_at"], rows.trial_of(row)), self._trials(mine))

    def trials_since(self, problem: Problem, device: Device, last_id: int) -> tuple[int, tuple[Trial, ...]]:
        """The last id, for the next call, and the trials added after `last_id`, oldest first. 0 returns all.

        A trial that was tried again keeps its id, and is not returned again.
        """
        mine = (trials.c.problem_key == problem.key()) & (trials.c.device_key == device.key())
        newer = self._trials(mine & (trials.c.id > last_id))
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
            runners_up.crown(connection, row)

        self._database.write(work)

    def put_runners_up(self, records: Iterable[Record]) -> None:
        """Makes each record its family's runner-up, replacing any other. A record of the winner's family is ignored.

        Raises ValueError for a record whose trial is a failure.
        """
        added = [(record, rows.winner_row(record)) for record in records]

        def work(connection: Connection) -> None:
            for record, row in added:
                add_subject(connection, record.problem, record.device)
                runners_up.keep(connection, row)

        self._database.write(work)

    def renew(self, record: Record) -> bool:
        """Replaces the provenance facts of a winner; False if another winner has taken its place."""
        row = rows.winner_row(record)
        same = matches(winners, row, [name for name in row if name != "spec"])
        changed = update(winners).where(same).values(spec=row["spec"])
        return self._database.write(lambda connection: connection.execute(changed).rowcount) > 0

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
        return self._winners(Scope(operation).of(winners))

    def runners_up(self, problem_key: str, device_key: str) -> tuple[Record, ...]:
        """Fastest candidate of each family except the winner's, for each conditions, in the order of USUAL_FIRST."""
        beaten = schema.runners_up
        return self._runners_up((beaten.c.problem_key == problem_key) & (beaten.c.device_key == device_key))

    def beaten(self, family: str) -> tuple[Record, ...]:
        """All runners-up of a family, by problem key, then device key."""
        return self._runners_up(schema.runners_up.c.family == family)

    def family_times(self, operation: str) -> tuple[FamilyTime, ...]:
        """Times of all runners-up of an operation, in no order."""
        number = self._database.schema
        return self._database.read(lambda connection: runners_up.times(connection, number, operation))

    def samples(self, operation: str) -> tuple[Sample, ...]:
        """Trials of every problem of an operation on every device: the fastest, and others spread over each search."""
        return self._database.read(lambda connection: samples.read(connection, operation))

    def mark_started(self, device: Device, started: Iterable[Started]) -> None:
        """Notes that programs are about to run; `add_trials` notes that they ended."""
        at, marked = rows.now(), tuple(started)
        self._database.write(lambda connection: poison.mark_started(connection, device, marked, at))

    def mark_ended(self, device: Device, fingerprints: Iterable[str]) -> None:
        """Removes the start counts of programs that ended in good order, such as by Ctrl-C, without a trial."""
        ended = tuple(fingerprints)
        self._database.write(lambda connection: poison.mark_ended(connection, device.key(), ended))

    def poison(self, device: Device, program: Started, failure: Failure) -> None:
        """Notes a program that must not be run again on a device, with the reason."""
        row = poison.poison_row(device.key(), program, failure, rows.now())
        self._database.write(lambda connection: poison.put(connection, device, row))

    def poisoned(self, device: Device) -> dict[str, Failure]:
        """Programs that must not be run again on a device, by `Program.fingerprint`, with the reason.

        They failed with a kind of `poison.POISONOUS`, or were started `poison.MAX_STARTS` times without ending.
        """
        if self._database.schema < 2:
            return {}
        return self._database.read(lambda connection: poison.listed(connection, device.key()))

    def add_run(self, problem: Problem, device: Device, spec: Mapping[str, Any]) -> None:
        """Notes that a tuning run begins now; `spec` holds its options as JSON values."""
        row = runs.run_row(problem, device, Run(rows.now(), spec), uuid.uuid4().hex)

        def work(connection: Connection) -> None:
            add_subject(connection, problem, device)
            runs.add(connection, row)

        self._database.write(work)

    def runs(self, problem: Problem, device: Device) -> tuple[Run, ...]:
        """Tuning runs of a problem on a device, newest last."""
        if self._database.schema < 2:
            return ()
        return self._database.read(lambda connection: runs.listed(connection, problem, device))

    def contents(self) -> Contents:
        """Rows of every problem, device, trial, winner and runner-up in one snapshot, including unreadable ones."""
        return self._database.read(lambda connection: merging.contents_of(connection, self._database.schema))

    def absorb(self, contents: Contents) -> MergeReport:
        """Copies all rows, or none if it raises: new trials, and winners and runners-up that are new or faster."""
        renewed, _ = with_todays_fingerprints(contents, History())
        return self._database.write(lambda connection: merging.absorb(connection, renewed, History()))

    def merge(self, other: Store) -> MergeReport:
        """Copies the contents of another store, or nothing if it raises. Merging twice equals merging once.

        The faster of two winners under equal conditions stays, and this store's on a tie. Runs and the poison list are
        copied too: a program that hung one device hangs the next of its kind. The other store's active tuners are not
        copied.
        """
        number = other._database.schema
        contents, history = other._database.read(
            lambda connection: (merging.contents_of(connection, number), merging.history_of(connection, number))
        )
        renewed = with_todays_fingerprints(contents, history)
        return self._database.write(lambda connection: merging.absorb(connection, *renewed))

    def subjects(self, scope: Scope = EVERYTHING) -> tuple[tuple[Problem, Device], ...]:
        """Problems and devices with a trial, a winner, a runner-up or a run, by problem key, then device key."""
        number = self._database.schema
        return self._database.read(lambda connection: subjects(connection, scope, number))

    def counts(self, scope: Scope = EVERYTHING) -> Counts:
        """Number of rows of each kind, including rows that cannot be parsed."""
        number = self._database.schema
        return self._database.read(lambda connection: counts(connection, scope, number))

    def programs(self, scope: Scope = EVERYTHING) -> tuple[Row, ...]:
        """Every program with a trial, a winner or a runner-up, in the form that `prune.stale_programs` takes."""
        return self._database.read(lambda connection: prune.listed_programs(connection, scope, self._database.schema))

    def prune(self, unwanted: Unwanted, *, dry_run: bool = False) -> Pruned:
        """Removes unwanted rows, and problems and devices that no row refers to any more; all of them or nothing.

        With `dry_run` it only reports what it would remove. A store that is open for reading suffices for that.
        """
        number = self._database.schema
        if dry_run:
            return self._database.read(lambda connection: prune.plan(connection, unwanted, number).told())
        return self._database.write(lambda connection: prune.carry_out(connection, unwanted))

    def compact(self) -> int:
        """Returns unused space to the disk, and the number of bytes freed. A server does so by itself."""
        return prune.compact(self._database)

    def check(self) -> tuple[str, ...]:
        """Problems of this store, one line each; empty if there are none."""
        number = self._database.schema
        told = self._database.read(lambda connection: integrity.store_problems(connection, number))
        return tuple(f"{self.location}: {line}" for line in told)

    def _winners(self, where: ColumnElement[bool]) -> tuple[Record, ...]:
        kept = self._database.read(lambda connection: found_winners(connection, self._database.schema, where))
        return rows.readable(rows.record_of, kept)

    def _runners_up(self, where: ColumnElement[bool]) -> tuple[Record, ...]:
        number = self._database.schema
        kept = self._database.read(lambda connection: runners_up.found_runners_up(connection, number, where))
        return rows.readable(rows.record_of, kept)

    def _trials(self, where: ColumnElement[bool]) -> tuple[Row, ...]:
        return self._database.read(lambda connection: found_trials(connection, self._database.schema, where))
