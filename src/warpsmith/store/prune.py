"""Removes rows that a store no longer needs, in one transaction: all of them or nothing."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, Table, delete, select

from warpsmith.generator.device import Device
from warpsmith.generator.problem import Problem
from warpsmith.generator.space import Config
from warpsmith.store import optuna_tables, rows, sqlite
from warpsmith.store.contents import EVERYTHING, SUBJECT, Scope
from warpsmith.store.layout import PINS_SINCE, RUNNER_UP_IDENTITY, RUNNERS_UP_SINCE, SCHEMA_VERSION, WINNER_IDENTITY
from warpsmith.store.poison import LISTED_BY, is_listed_row
from warpsmith.store.record import POISONOUS
from warpsmith.store.rows import Row, Unreadable
from warpsmith.store.store import Store
from warpsmith.store.tables import (
    POISON_IDENTITY,
    ceilings,
    delete_all,
    devices,
    found,
    poisoned,
    problems,
    runners_up,
    runs,
    trials,
    winners,
)

PROGRAM = (*SUBJECT, "family", "config", "fingerprint")
"""Columns that identify a program's source text, whatever compiled it."""

Holds = Callable[[Problem, Device, str, Config, str], bool]
"""Tells whether a problem, a device, a family and a config still generate a program of that fingerprint."""


@dataclasses.dataclass(frozen=True, slots=True)
class Unwanted:
    """Rows to remove within a scope."""

    scope: Scope = EVERYTHING
    keep_trials: int | None = None
    """Number of trials to keep under each conditions, for each problem and device that has a winner: the fastest ones.
    The trials of the winner and of the runners-up stay as well.
    """
    stale: frozenset[tuple[str, ...]] = frozenset()
    """Values of the columns PROGRAM, from `stale_programs`."""
    poisoned: bool = False
    """Whether to remove the poison list and the trials that put programs on it, which would keep them from being tried
    again.
    """
    everything: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Pruned:
    """Counts of removed rows."""

    trials: Mapping[tuple[str, str], int]
    """Number of trials, by (problem key, device key)."""
    winners: tuple[tuple[str, str], ...]
    """(problem key, device key) of each winner, once for each conditions."""
    runs: int
    poisoned: int
    study_trials: int = 0
    """Optuna trials whose program has no trial in the store any more."""
    runners_up: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """Rows to remove, each with its identifying columns."""

    trials: tuple[Row, ...]
    winners: tuple[Row, ...]
    runs: tuple[Row, ...]
    poisoned: tuple[Row, ...]
    study_trials: tuple[Row, ...] = ()
    runners_up: tuple[Row, ...] = ()

    def counts(self) -> Pruned:
        subjects = collections.Counter(_subject(row) for row in self.trials)
        return Pruned(
            trials={each: subjects[each] for each in sorted(subjects, key=_as_text)},
            winners=tuple(sorted((_subject(row) for row in self.winners), key=_as_text)),
            runs=len(self.runs),
            poisoned=sum(map(is_listed_row, self.poisoned)),
            study_trials=len(self.study_trials),
            runners_up=len(self.runners_up),
        )


def stale_programs(
    listed: Iterable[Row], holds: Holds, checked: Callable[[int], None] = lambda _: None
) -> frozenset[tuple[str, ...]]:
    """Programs of `programs_of` that are no longer generated.

    A program that this version cannot read counts as current, because a newer version may generate it.

    Args:
        listed: rows with the columns PROGRAM and the specs of problem and device.
        holds: generates the program's text, which takes about 20 ms. No lock is held meanwhile.
        checked: called after each program, with the number of programs checked so far.
    """
    found_stale = set()
    for number, row in enumerate(listed, start=1):
        try:
            problem = rows.problem_from_spec(row["operation"], rows.from_json(row["problem_spec"]))
            device = rows.device_from_spec(rows.from_json(row["device_spec"]))
            config = Config.of(rows.from_json(row["config"]))
        except (Unreadable, AttributeError):
            continue
        if not holds(problem, device, row["family"], config, row["fingerprint"]):
            found_stale.add(_values(row, PROGRAM))
        checked(number)
    return frozenset(found_stale)


def programs_of(store: Store, scope: Scope = EVERYTHING) -> tuple[Row, ...]:
    """Every program that has a trial, a winner or a runner-up, with its problem and device."""
    tables = (trials, winners, runners_up) if store.database.schema >= RUNNERS_UP_SINCE else (trials, winners)

    def work(connection: Connection) -> tuple[Row, ...]:
        listed: dict[tuple[str, ...], Row] = {}
        for table in tables:
            query = (
                select(
                    *(table.c[name] for name in PROGRAM),
                    problems.c.operation,
                    problems.c.spec.label("problem_spec"),
                    devices.c.spec.label("device_spec"),
                )
                .join(problems, table.c.problem_key == problems.c.key)
                .join(devices, table.c.device_key == devices.c.key)
                .where(scope.of(table))
                .distinct()
            )
            listed |= {_values(row, PROGRAM): row for row in found(connection, query)}
        return tuple(listed[program] for program in sorted(listed, key=_as_text))

    return store.database.read(work)


def prune_store(store: Store, unwanted: Unwanted, *, dry_run: bool = False) -> Pruned:
    """Removes unwanted rows, and problems and devices that no row refers to any more; all of them or nothing.

    With `dry_run` it only reports what it would remove. A store that is open for reading suffices for that.
    """
    database = store.database
    if dry_run:
        return database.read(lambda connection: _plan(connection, unwanted, database.schema).counts())
    return database.write(lambda connection: _carry_out(connection, unwanted))


def _plan(connection: Connection, unwanted: Unwanted, schema: int) -> Plan:
    """The rows that are unwanted now; a store of schema 1 has neither runs nor poisoned programs."""
    scope = unwanted.scope
    # A schema without this column has the conditions in the JSON.
    with_conditions = ("conditions",) if schema >= 4 else ("spec",)
    tried = _listed(connection, trials, ("id", *PROGRAM, "failure_kind", "median_ns", *with_conditions), scope)
    tried = tuple(map(rows.trial_with_conditions, tried))
    identity = ("conditions",) if schema >= 3 else ()
    won = _listed(connection, winners, (*PROGRAM, *identity), scope)
    listed = _listed(connection, poisoned, (*POISON_IDENTITY, *LISTED_BY), scope) if schema >= 2 else ()
    beside = (*PROGRAM, "conditions", *(("pins",) if schema >= PINS_SINCE else ()))
    beaten = _listed(connection, runners_up, beside, scope) if schema >= RUNNERS_UP_SINCE else ()
    if unwanted.everything:
        all_runs = _listed(connection, runs, ("id",), scope) if schema >= 2 else ()
        of_studies = _of_studies(connection, tried, {row["id"] for row in tried})
        return Plan(tried, won, all_runs, listed, of_studies, beaten)
    lost = [row for row in won if _values(row, PROGRAM) in unwanted.stale]
    kept: dict[tuple[str, str], set[tuple[str, ...]]] = {}
    for row in won:
        if row not in lost:
            kept.setdefault(_subject(row), set()).add(_values(row, PROGRAM))
    lost_beaten = tuple(row for row in beaten if _values(row, PROGRAM) in unwanted.stale)
    for row in beaten:
        if row not in lost_beaten and _subject(row) in kept:
            kept[_subject(row)].add(_values(row, PROGRAM))
    gone = {row["id"] for row in tried if _values(row, PROGRAM) in unwanted.stale}
    if unwanted.poisoned:
        gone |= {row["id"] for row in tried if row["failure_kind"] in POISONOUS}
    if unwanted.keep_trials is not None:
        gone |= _slow([row for row in tried if row["id"] not in gone], kept, unwanted.keep_trials)
    forgiven = listed if unwanted.poisoned else ()
    of_studies = _of_studies(connection, tried, gone)
    going = tuple(row for row in tried if row["id"] in gone)
    return Plan(going, tuple(lost), (), forgiven, of_studies, lost_beaten)


def _of_studies(connection: Connection, tried: tuple[Row, ...], gone: set[int]) -> tuple[Row, ...]:
    """Optuna trials that go with the store's trials whose ids are in `gone`."""
    kept: dict[tuple[str, str], set[str]] = {_subject(row): set() for row in tried if row["id"] in gone}
    for row in tried:
        if row["id"] not in gone and _subject(row) in kept:
            kept[_subject(row)].add(row["fingerprint"])
    return optuna_tables.without_trial(connection, {subject: frozenset(texts) for subject, texts in kept.items()})


def _listed(connection: Connection, table: Table, names: tuple[str, ...], scope: Scope) -> tuple[Row, ...]:
    return found(connection, select(*(table.c[name] for name in names)).where(scope.of(table)))


def _slow(tried: list[Row], won: Mapping[tuple[str, str], set[tuple[str, ...]]], keep: int) -> set[int]:
    """Ids of trials to remove, for subjects that have a winner: failures and all but the fastest. Trials of the winner
    and of runners-up stay.
    """
    slow = set()
    for subject, group in itertools.groupby(sorted(tried, key=lambda row: _as_text(_subject(row))), key=_subject):
        if subject not in won:
            continue
        mine = list(group)
        measured = [row for row in mine if isinstance(row["median_ns"], int | float)]
        by_conditions: dict[str, list[Row]] = {}
        for row in sorted(measured, key=lambda row: (row["median_ns"], *_as_text(_values(row, PROGRAM)))):
            by_conditions.setdefault(row["conditions"], []).append(row)
        stay = {row["id"] for alike in by_conditions.values() for row in alike[:keep]}
        stay |= {row["id"] for row in measured if _values(row, PROGRAM) in won[subject]}
        slow |= {row["id"] for row in mine} - stay
    return slow


def _carry_out(connection: Connection, unwanted: Unwanted) -> Pruned:
    """Removes the unwanted rows, and the problems and devices that no row refers to any more."""
    planned = _plan(connection, unwanted, SCHEMA_VERSION)
    delete_all(connection, trials, planned.trials, ("id",))
    delete_all(connection, winners, planned.winners, WINNER_IDENTITY)
    delete_all(connection, runners_up, planned.runners_up, RUNNER_UP_IDENTITY)
    delete_all(connection, runs, planned.runs, ("id",))
    delete_all(connection, poisoned, planned.poisoned, POISON_IDENTITY)
    optuna_tables.remove(connection, planned.study_trials)
    if unwanted.everything and unwanted.scope.operation is None:
        connection.execute(delete(ceilings).where(unwanted.scope.of(ceilings)))
    _remove_unused(connection, problems, "problem_key", (trials, winners, runners_up, runs))
    _remove_unused(connection, devices, "device_key", (trials, winners, runners_up, runs, poisoned, ceilings))
    return planned.counts()


def _remove_unused(connection: Connection, table: Table, name: str, users: tuple[Table, ...]) -> None:
    used = [~select(user).where(user.c[name] == table.c.key).exists() for user in users]
    connection.execute(delete(table).where(*used))


def compact_store(store: Store) -> int:
    """Bytes freed by giving free pages of an SQLite file back to the disk. A server does so by itself, and 0 is
    returned.

    Raises StoreError; the file keeps everything it holds.
    """
    database = store.database
    if database.writer.dialect.name != "sqlite":
        return 0
    try:
        opened = database.writer.raw_connection()
    except sqlite3.Error as error:
        raise sqlite.explain(error, database.name) from error
    try:
        # This bypasses SQLAlchemy, which begins a transaction: VACUUM cannot run in one.
        cursor: Any = opened.cursor()
        before = _size(cursor)
        cursor.execute("VACUUM")
        return before - _size(cursor)
    except sqlite3.Error as error:
        raise sqlite.explain(error, database.name) from error
    finally:
        opened.close()


def _size(cursor: Any) -> int:
    pages, page_bytes = (cursor.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
    return int(pages * page_bytes)


def _values(row: Row, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(row[name] for name in names)


def _as_text(values: Iterable[object]) -> tuple[str, ...]:
    """Values as text, for sorting: a damaged file has numbers and bytes in columns of text."""
    return tuple(map(str, values))


def _subject(row: Row) -> tuple[str, str]:
    return row["problem_key"], row["device_key"]
