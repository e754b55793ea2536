"""Copies the rows of one store into another: all of them, or nothing if a row is refused."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from sqlalchemy import Connection, Table, func, select

from warpsmith.store import poison, runners_up, trial_rows
from warpsmith.store.rows import Contents, Row, in_order
from warpsmith.store.schema import POISON_IDENTITY, WINNER_IDENTITY, devices, poisoned, problems, runs, trials, winners
from warpsmith.store.statements import add_missing, found, found_winners, matches, replace_all
from warpsmith.store.trial_rows import found_trials


@dataclasses.dataclass(frozen=True, slots=True)
class MergeReport:
    """Counts of the changes that a merge or an import made."""

    trials_added: int
    winners_added: int
    winners_replaced: int
    """Problems, devices and conditions for which the other store had the faster winner."""
    winners_kept: int
    """Problems, devices and conditions for which this store's winner was as fast or faster."""
    runs_added: int = 0
    poisoned_added: int = 0
    """Programs that must not be run again and that this store did not know."""
    runners_up_added: int = 0
    """Combinations of family, problem, device and conditions whose fastest losing candidate came from the other
    store.
    """


@dataclasses.dataclass(frozen=True, slots=True)
class History:
    """Rows that a merge copies beside a store's contents; JSON lines do not contain them."""

    poisoned: tuple[Row, ...] = ()
    """Programs that must not be run again. Programs that are only started now are left to that store's own tuners."""
    runs: tuple[Row, ...] = ()


def contents_of(connection: Connection, schema: int) -> Contents:
    """Every problem, device, trial, winner and runner-up of a store of that schema, as rows of the current schema."""
    listed = found_trials(connection, schema)
    return Contents(
        problems=in_order(found(connection, select(problems)), "key"),
        devices=in_order(found(connection, select(devices)), "key"),
        trials=tuple({name: value for name, value in row.items() if name != "id"} for row in listed),
        winners=found_winners(connection, schema),
        runners_up=runners_up.found_runners_up(connection, schema),
    )


def history_of(connection: Connection, schema: int) -> History:
    """The poisoned programs and runs of a store; empty for schema 1."""
    if schema < 2:
        return History()
    without_id = [column for column in runs.c if column.name != "id"]
    return History(
        poisoned=_not_to_be_run(connection),
        runs=found(connection, select(*without_id).order_by(runs.c.id)),
    )


def with_todays_fingerprints(contents: Contents, history: History) -> tuple[Contents, History]:
    """What another store, or lines of another time, hold, with fingerprints of schema 6 where they were of schema 5.

    They stay as they are where the earlier generator cannot be started: their times are then no longer found.
    """
    from warpsmith.store.rekeying import rekeyed  # a process and a pool, of which only old rows have need

    try:
        contents, poisoned_rows = rekeyed(contents, history.poisoned)
    except OSError:
        return contents, history
    return contents, dataclasses.replace(history, poisoned=poisoned_rows)


def absorb(connection: Connection, contents: Contents, history: History) -> MergeReport:
    """Copies all rows: new trials and runs, new or faster winners and runners-up, and programs that must not be run.

    Copying the same rows again changes nothing: a trial is identified by its program and conditions, a run by the
    random token of its tuner.
    """
    for table, added in ((problems, contents.problems), (devices, contents.devices)):
        add_missing(connection, table, added)
    report = MergeReport(_added(connection, trials, contents.trials, trial_rows.add_others), 0, 0, 0)
    for row in contents.winners:
        report = _compete(connection, row, report)
    for row in contents.runners_up:
        report = _beside(connection, row, report)
    return dataclasses.replace(
        report,
        runs_added=_added(connection, runs, history.runs, lambda its, rows: add_missing(its, runs, rows)),
        poisoned_added=_warn(connection, history.poisoned),
    )


def _added(
    connection: Connection, table: Table, rows: tuple[Row, ...], add: Callable[[Connection, tuple[Row, ...]], None]
) -> int:
    """Number of rows that `add` adds to the table."""
    count = select(func.count()).select_from(table)
    before = connection.scalar(count) or 0
    add(connection, rows)
    return (connection.scalar(count) or 0) - before


def _compete(connection: Connection, row: Row, report: MergeReport) -> MergeReport:
    own_ns = connection.scalar(select(winners.c.median_ns).where(matches(winners, row, WINNER_IDENTITY)))
    if runners_up.stays(own_ns, row):
        # The other store's winner may be the fastest candidate of a family that lost here.
        return _beside(connection, row, dataclasses.replace(report, winners_kept=report.winners_kept + 1))
    runners_up.crown(connection, row)
    if own_ns is None:
        return dataclasses.replace(report, winners_added=report.winners_added + 1)
    return dataclasses.replace(report, winners_replaced=report.winners_replaced + 1)


def _beside(connection: Connection, row: Row, report: MergeReport) -> MergeReport:
    """Lets another store's candidate compete with this store's runner-up of the same family."""
    return dataclasses.replace(report, runners_up_added=report.runners_up_added + runners_up.compete(connection, row))


def _warn(connection: Connection, theirs: tuple[Row, ...]) -> int:
    """Adds programs to the poison list. What this store already knows about a listed program stays."""
    own = {_identity(row) for row in _not_to_be_run(connection)}
    new = [row for row in theirs if _identity(row) not in own]
    replace_all(connection, poisoned, new, POISON_IDENTITY)
    return len(new)


def _not_to_be_run(connection: Connection) -> tuple[Row, ...]:
    rows = in_order(found(connection, select(poisoned)), *POISON_IDENTITY)
    listed = {key: poison.listed(connection, key) for key in {row["device_key"] for row in rows}}
    return tuple(row for row in rows if row["fingerprint"] in listed[row["device_key"]])


def _identity(row: Row) -> tuple[str, ...]:
    return tuple(row[name] for name in POISON_IDENTITY)
