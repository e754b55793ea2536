"""Copies the rows of one store into another: all of them, or nothing if a row is refused."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from sqlalchemy import Connection, Table, func, select

from warpsmith.store.contents import History, contents_and_history
from warpsmith.store.fourier_bases import rebased
from warpsmith.store.layout import WINNER_IDENTITY
from warpsmith.store.poison import listed
from warpsmith.store.rows import Contents, Row
from warpsmith.store.store import Store
from warpsmith.store.tables import (
    POISON_IDENTITY,
    add_missing,
    ceilings,
    devices,
    matches,
    poisoned,
    problems,
    replace_all,
    runs,
    trials,
    winners,
)
from warpsmith.store.trials import add_others
from warpsmith.store.winners import compete, crown, stays


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
    ceilings_added: int = 0
    """Devices whose ceilings this store did not have."""
    poisoned_added: int = 0
    """Programs that must not be run again and that this store did not know."""
    runners_up_added: int = 0
    """Combinations of family, problem, device and conditions whose fastest losing candidate came from the other
    store.
    """


def merge_stores(into: Store, other: Store) -> MergeReport:
    """Copies the contents of another store, or nothing if it raises. Merging twice equals merging once.

    The faster of two winners under equal conditions stays, and this store's on a tie. Runs and the poison list are
    copied too: a program that hung one device hangs the next of its kind. Ceilings are copied for a device that has
    none here. The other store's active tuners are not copied.
    """
    renewed = _of_today(*contents_and_history(other))
    return into.database.write(lambda connection: _absorb(connection, *renewed))


def absorb(store: Store, contents: Contents) -> MergeReport:
    """Copies all rows, or none if it raises: new trials, and winners and runners-up that are new or faster."""
    renewed = _of_today(contents, History())
    return store.database.write(lambda connection: _absorb(connection, *renewed))


def _of_today(contents: Contents, history: History) -> tuple[Contents, History]:
    """What another store, or lines of another time, hold, as a store of this schema holds it."""
    contents, history = _with_todays_fingerprints(contents, history)
    return rebased(contents), history


def _with_todays_fingerprints(contents: Contents, history: History) -> tuple[Contents, History]:
    """What another store, or lines of another time, hold, with fingerprints of schema 6 where they were of schema 5.

    They stay as they are where the earlier generator cannot be started: their times are then no longer found.
    """
    from warpsmith.store.rekeying import rekeyed  # a process and a pool, of which only old rows have need

    try:
        contents, poisoned_rows = rekeyed(contents, history.poisoned)
    except OSError:
        return contents, history
    return contents, dataclasses.replace(history, poisoned=poisoned_rows)


def _absorb(connection: Connection, contents: Contents, history: History) -> MergeReport:
    """Copies all rows: new trials and runs, new or faster winners and runners-up, and programs that must not be run.

    Copying the same rows again changes nothing: a trial is identified by its program and conditions, a run by the
    random token of its tuner.
    """
    for table, added in ((problems, contents.problems), (devices, contents.devices)):
        add_missing(connection, table, added)
    report = MergeReport(_added(connection, trials, contents.trials, add_others), 0, 0, 0)
    for row in contents.winners:
        report = _compete(connection, row, report)
    for row in contents.runners_up:
        report = _beside(connection, row, report)
    return dataclasses.replace(
        report,
        runs_added=_added_missing(connection, runs, history.runs),
        ceilings_added=_added_missing(connection, ceilings, contents.ceilings),
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


def _added_missing(connection: Connection, table: Table, rows: tuple[Row, ...]) -> int:
    return _added(connection, table, rows, lambda its, missing: add_missing(its, table, missing))


def _compete(connection: Connection, row: Row, report: MergeReport) -> MergeReport:
    own_ns = connection.scalar(select(winners.c.median_ns).where(matches(winners, row, WINNER_IDENTITY)))
    if stays(own_ns, row):
        # The other store's winner may be the fastest candidate of a family that lost here.
        return _beside(connection, row, dataclasses.replace(report, winners_kept=report.winners_kept + 1))
    crown(connection, row)
    if own_ns is None:
        return dataclasses.replace(report, winners_added=report.winners_added + 1)
    return dataclasses.replace(report, winners_replaced=report.winners_replaced + 1)


def _beside(connection: Connection, row: Row, report: MergeReport) -> MergeReport:
    """Lets another store's candidate compete with this store's runner-up of the same family."""
    return dataclasses.replace(report, runners_up_added=report.runners_up_added + compete(connection, row))


def _warn(connection: Connection, theirs: tuple[Row, ...]) -> int:
    """Adds programs to the poison list. What this store already knows about a listed program stays."""
    own = {_identity(row) for row in listed(connection)}
    new = [row for row in theirs if _identity(row) not in own]
    replace_all(connection, poisoned, new, POISON_IDENTITY)
    return len(new)


def _identity(row: Row) -> tuple[str, ...]:
    return tuple(row[name] for name in POISON_IDENTITY)
