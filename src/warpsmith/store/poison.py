"""Programs that must not be run again on a device: they crashed it, never ended, or killed the tuner."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from sqlalchemy import ColumnElement, Connection, delete, select

from warpsmith.generator.device import Device
from warpsmith.generator.space import Config
from warpsmith.store import rows
from warpsmith.store.database import Database
from warpsmith.store.record import POISONOUS, Failure, FailureKind, Trial
from warpsmith.store.rows import MAX_STARTS, Row
from warpsmith.store.tables import POISON_IDENTITY, add_missing, devices, found, insert, poisoned, replace_all

NEVER_RAN = frozenset(
    {
        FailureKind.INVALID,
        FailureKind.DROPPED,
        FailureKind.COMPILE,
        FailureKind.LAUNCH,
        FailureKind.OUT_OF_MEMORY,
    }
)
"""Failures that say nothing about the program's behaviour when it runs."""

LISTED_BY = ("failure_kind", "starts")
"""Columns that `is_listed` reads."""


@dataclasses.dataclass(frozen=True, slots=True)
class Started:
    """A program that is about to run."""

    family: str
    config: Config
    fingerprint: str
    """`Program.fingerprint`. It identifies the program for every problem, compiler and seed."""


class PoisonList:
    """The poison list of a store, and the programs that run now."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def mark_started(self, device: Device, started: Iterable[Started]) -> None:
        """Counts a start of each program: they are about to run. `Store.add_trials` notes that they ended.

        A commit whose confirmation was lost is repeated, and counts twice. That does little harm: the mark is removed
        once the program ends, and a program that never ends is given up after two deaths instead of three.
        """
        at = rows.now()
        marked = [{**_program(device.key(), each), "starts": 1, "created_at": at} for each in started]

        def work(connection: Connection) -> None:
            add_missing(connection, devices, (rows.device_row(device),))
            for row in marked:
                added = insert(connection, poisoned).values(**row)
                again = {"starts": poisoned.c.starts + 1}
                connection.execute(added.on_conflict_do_update(index_elements=POISON_IDENTITY, set_=again))

        self._database.write(work)

    def mark_ended(self, device: Device, fingerprints: Iterable[str]) -> None:
        """Removes the start counts of programs that ended in good order, such as by Ctrl-C, without a trial."""
        ended = tuple(fingerprints)
        self._database.write(lambda connection: _clear_starts(connection, device.key(), ended))

    def add(self, device: Device, program: Started, failure: Failure) -> None:
        """Notes a program that must not be run again, with the reason, whatever was known of it before."""
        row = _row(device.key(), program, failure, rows.now())

        def work(connection: Connection) -> None:
            add_missing(connection, devices, (rows.device_row(device),))
            replace_all(connection, poisoned, [row], POISON_IDENTITY)

        self._database.write(work)


def _clear_starts(connection: Connection, device_key: str, fingerprints: Iterable[str]) -> None:
    """Removes the start counts of programs, but not the rows of programs that failed badly."""
    mine = (poisoned.c.device_key == device_key) & poisoned.c.fingerprint.in_(list(fingerprints))
    connection.execute(delete(poisoned).where(mine & poisoned.c.failure_kind.is_(None)))


def note_outcomes(connection: Connection, device_key: str, trials: Sequence[Trial], at: str) -> None:
    """Updates the poison list from the outcomes of trials."""
    kinds = {trial.fingerprint: _kind_of(trial) for trial in trials}
    harmless = [name for name, kind in kinds.items() if kind is None or kind not in POISONOUS | NEVER_RAN]
    mine = (poisoned.c.device_key == device_key) & poisoned.c.fingerprint.in_(harmless)
    # A second wrong result does not clear an earlier one.
    still = poisoned.c.fingerprint.in_([name for name, kind in kinds.items() if kind is FailureKind.WRONG])
    wrong = still & poisoned.c.failure_kind.is_not(None) & (poisoned.c.failure_kind == str(FailureKind.WRONG))
    connection.execute(delete(poisoned).where(mine & ~wrong))
    _clear_starts(connection, device_key, [name for name, kind in kinds.items() if kind in NEVER_RAN])
    added = [
        _row(device_key, Started(trial.family, trial.config, trial.fingerprint), trial.outcome, at)
        for trial in trials
        if isinstance(trial.outcome, Failure)
        if trial.outcome.kind in POISONOUS and kinds[trial.fingerprint] in POISONOUS
    ]
    replace_all(connection, poisoned, added, POISON_IDENTITY)


def _kind_of(trial: Trial) -> FailureKind | None:
    return trial.outcome.kind if isinstance(trial.outcome, Failure) else None


def _program(device_key: str, program: Started) -> dict[str, str]:
    return {
        "device_key": device_key,
        "fingerprint": program.fingerprint,
        "family": program.family,
        "config": rows.config_text(program.config),
    }


def _row(device_key: str, program: Started, failure: Failure, at: str) -> Row:
    return {
        **_program(device_key, program),
        "starts": 0,
        "failure_kind": str(failure.kind),
        "message": rows.plain(failure.message),
        "created_at": at,
    }


def is_listed() -> ColumnElement[bool]:
    """Condition on a row: its program must not be run again. A program that was started and has not ended may still be
    running.
    """
    return poisoned.c.failure_kind.is_not(None) | (poisoned.c.starts >= MAX_STARTS)


def is_listed_row(row: Row) -> bool:
    """The condition of `is_listed`, for a row that was read."""
    return row["failure_kind"] is not None or row["starts"] >= MAX_STARTS


def listed(connection: Connection, *where: ColumnElement[bool]) -> tuple[Row, ...]:
    """Rows of programs that must not be run again."""
    return found(connection, select(poisoned).where(is_listed(), *where))
