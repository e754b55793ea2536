"""Programs that must not be run again on a device: they crashed it, never ended, or killed the tuner."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from sqlalchemy import ColumnElement, Connection, delete, select

from warpsmith.generator.device import Device
from warpsmith.generator.space import Config
from warpsmith.store import rows
from warpsmith.store.poison_failure import MAX_STARTS, poison_failure
from warpsmith.store.poison_failure import POISONOUS as POISONOUS
from warpsmith.store.record import Failure, FailureKind, Trial
from warpsmith.store.schema import POISON_IDENTITY, devices, poisoned
from warpsmith.store.statements import add_missing, found, insert, replace_all

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


@dataclasses.dataclass(frozen=True, slots=True)
class Started:
    """A program that is about to run."""

    family: str
    config: Config
    fingerprint: str
    """`Program.fingerprint`. It identifies the program for every problem, compiler and seed."""


def mark_started(connection: Connection, device: Device, started: Iterable[Started], at: str) -> None:
    """Counts a start of each program.

    A commit whose confirmation was lost is repeated, and counts twice. That does little harm: the mark is removed once
    the program ends, and a program that never ends is given up after two deaths instead of three.
    """
    add_missing(connection, devices, (rows.device_row(device),))
    for each in started:
        row = {
            "device_key": device.key(),
            "fingerprint": each.fingerprint,
            "family": each.family,
            "config": rows.config_text(each.config),
            "starts": 1,
            "created_at": at,
        }
        added = insert(connection, poisoned).values(**row)
        again = {"starts": poisoned.c.starts + 1}
        connection.execute(added.on_conflict_do_update(index_elements=POISON_IDENTITY, set_=again))


def mark_ended(connection: Connection, device_key: str, fingerprints: Iterable[str]) -> None:
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
    mark_ended(connection, device_key, [name for name, kind in kinds.items() if kind in NEVER_RAN])
    poisonous = [trial for trial in trials if kinds[trial.fingerprint] in POISONOUS and _kind_of(trial) in POISONOUS]
    replace_all(connection, poisoned, [_row(device_key, trial, at) for trial in poisonous], POISON_IDENTITY)


def _kind_of(trial: Trial) -> FailureKind | None:
    return trial.outcome.kind if isinstance(trial.outcome, Failure) else None


def _row(device_key: str, trial: Trial, at: str) -> rows.Row:
    assert isinstance(trial.outcome, Failure)  # a kind of POISONOUS
    return poison_row(device_key, Started(trial.family, trial.config, trial.fingerprint), trial.outcome, at)


def poison_row(device_key: str, program: Started, failure: Failure, at: str) -> rows.Row:
    """Row of a program that must not be run again."""
    return {
        "device_key": device_key,
        "fingerprint": program.fingerprint,
        "family": program.family,
        "config": rows.config_text(program.config),
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


LISTED_BY = ("failure_kind", "starts")
"""Columns that `is_listed` reads."""


def is_listed_row(row: rows.Row) -> bool:
    """The condition of `is_listed`, for a row that was read."""
    return row["failure_kind"] is not None or row["starts"] >= MAX_STARTS


def put(connection: Connection, device: Device, row: rows.Row) -> None:
    """Stores such a row, whatever was known of the program before."""
    add_missing(connection, devices, (rows.device_row(device),))
    replace_all(connection, poisoned, [row], POISON_IDENTITY)


def listed(connection: Connection, device_key: str) -> dict[str, Failure]:
    """Programs that must not be run again, by fingerprint, with the reason."""
    query = select(poisoned).where((poisoned.c.device_key == device_key) & is_listed())
    return {row["fingerprint"]: poison_failure(row) for row in found(connection, query)}
