"""The table of trials, and samples of it.

Each program has either one failure, or one time for each conditions. A tuner learns about other problems from a sample
of the trials: few rows, fast to read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, bindparam, delete, func, select, update

from warpsmith.generator.device import Device
from warpsmith.generator.problem import Problem
from warpsmith.generator.space import Config
from warpsmith.store import rows
from warpsmith.store.conditions import ANY
from warpsmith.store.database import Database
from warpsmith.store.fourier_bases import of_today
from warpsmith.store.record import FailureKind, Record
from warpsmith.store.rows import Row
from warpsmith.store.tables import (
    PROGRAM_IDENTITY,
    TRIAL_IDENTITY,
    add_missing,
    devices,
    found,
    problems,
    replace_all,
    trials,
)

Identity = tuple[str, ...]
"""Values of the columns PROGRAM_IDENTITY."""


def found_trials(connection: Connection, schema: int, where: ColumnElement[bool] | None = None) -> tuple[Row, ...]:
    """Trials of a store of that schema as rows of the current schema, oldest first."""
    kept = [column for column in trials.c if schema >= 4 or column.name != "conditions"]
    query = select(*kept).order_by(trials.c.id)
    listed = found(connection, query if where is None else query.where(where))
    return of_today(map(rows.trial_with_conditions, listed), schema)


def keep(connection: Connection, new: Sequence[Row]) -> None:
    """Stores trials. A trial of the same program and conditions is replaced; the row keeps its id.

    A failure holds under all conditions: it replaces every time of its program, and the next time replaces it. A
    program that was dropped was not run, so its times stay, and nothing is added.
    """
    settled = _settled(new)
    dropped = [row for row in settled if row["failure_kind"] == FailureKind.DROPPED]
    timed = _timed(connection, dropped) if dropped else set()
    kept = [row for row in settled if row["failure_kind"] != FailureKind.DROPPED or identity_of(row) not in timed]
    _free_place(connection, kept)
    replace_all(connection, trials, kept, TRIAL_IDENTITY)


def add_others(connection: Connection, theirs: Iterable[Row]) -> None:
    """Adds another store's trials; this store's own trials stay.

    A program that failed here gets no times from there, and a program that has times here gets no failure.
    """
    identity = [trials.c[name] for name in TRIAL_IDENTITY]
    has_failed = {identity_of(row): row["conditions"] == ANY for row in found(connection, select(*identity))}
    new = []
    for row in theirs:
        is_failure, known = row["conditions"] == ANY, has_failed.get(identity_of(row))
        if known is None or not (known or is_failure):
            has_failed[identity_of(row)] = is_failure
            new.append(row)
    add_missing(connection, trials, new)


def identity_of(row: Row) -> Identity:
    """Values that identify a program, with its problem and device."""
    return tuple(row[name] for name in PROGRAM_IDENTITY)


def _settled(new: Iterable[Row]) -> list[Row]:
    """Applies the rules of `keep` to several new trials; returns the rows that remain."""
    programs: dict[Identity, dict[str, Row]] = {}
    for row in new:
        mine = programs.setdefault(identity_of(row), {})
        if row["failure_kind"] == FailureKind.DROPPED and any(conditions != ANY for conditions in mine):
            continue
        if row["conditions"] == ANY:
            mine.clear()
        mine.pop(ANY, None)
        mine[row["conditions"]] = row
    return [row for mine in programs.values() for row in mine.values()]


def _timed(connection: Connection, of: Iterable[Row]) -> set[Identity]:
    """Programs of the table that have a time; they include all programs of `of` that do."""
    texts = {row["fingerprint"] for row in of}
    query = select(*(trials.c[name] for name in PROGRAM_IDENTITY))
    where = trials.c.fingerprint.in_(texts) & (trials.c.conditions != ANY)
    return {identity_of(row) for row in found(connection, query.where(where))}


def _free_place(connection: Connection, new: Sequence[Row]) -> None:
    """Changes the conditions of rows that are about to be replaced to those of their successors."""
    values = [
        {"its_conditions": row["conditions"], **{f"its_{name}": row[name] for name in PROGRAM_IDENTITY}} for row in new
    ]
    failed = [each for each in values if each["its_conditions"] == ANY]
    timed = [each for each in values if each["its_conditions"] != ANY]
    same = and_(*(trials.c[name] == bindparam(f"its_{name}") for name in PROGRAM_IDENTITY))
    taken = update(trials).values(conditions=bindparam("its_conditions"))
    if failed:
        first = select(func.min(trials.c.id)).where(same).scalar_subquery()
        connection.execute(delete(trials).where(same, trials.c.id > first), failed)
        connection.execute(taken.where(same), failed)
    if timed:
        connection.execute(taken.where(same, trials.c.conditions == ANY), timed)


FASTEST, OTHERS = 40, 40
"""Trials to read for each problem and device: the fastest ones, and others, including failures, spread over the
search.
"""
MOST = 20_000
"""Rows of all problems together; reading them takes 0.5 s."""
_SPREAD = 7919
"""A prime. Sorting trials by id times this prime, modulo another prime, spreads them over the search."""
_MODULUS = 10_007


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    """Result of one config: a trial without the reason of a failure."""

    problem: Problem
    device: Device
    family: str
    config: Config
    time_ns: float | None
    """Nanoseconds, median; None for a failure."""

    @classmethod
    def of(cls, record: Record) -> Sample:
        """A winner as a sample."""
        trial = record.trial
        return cls(record.problem, record.device, trial.family, trial.config, trial.median_ns)


def stored_samples(database: Database, operation: str) -> tuple[Sample, ...]:
    """Trials of every problem of an operation on every device: the fastest, and others spread over each search.

    Rows that cannot be parsed are skipped.
    """

    def work(connection: Connection) -> tuple[Sample, ...]:
        kept = found(connection, _query(operation))
        if not kept:
            return ()
        subjects = _parsed(connection, operation)
        return rows.readable(lambda row: _sample(row, subjects), kept)

    return database.read(work)


def _query(operation: str) -> Select[Any]:
    subject = (trials.c.problem_key, trials.c.device_key)
    by_time = func.row_number().over(partition_by=subject, order_by=(trials.c.median_ns.is_(None), trials.c.median_ns))
    spread = trials.c.id % _MODULUS * _SPREAD % _MODULUS
    by_chance = func.row_number().over(partition_by=subject, order_by=(spread, trials.c.id))
    columns = ("problem_key", "device_key", "family", "config", "median_ns")
    ranked = (
        select(*(trials.c[name] for name in columns), by_time.label("by_time"), by_chance.label("by_chance"))
        .join(problems, problems.c.key == trials.c.problem_key)
        .where(problems.c.operation == operation)
        .subquery()
    )
    wanted = (ranked.c.by_time <= FASTEST) | (ranked.c.by_chance <= OTHERS)
    # The fastest trials of every problem come first, so that the limit keeps the most informative ones of all.
    order = (ranked.c.by_time, ranked.c.problem_key, ranked.c.device_key)
    return select(*(ranked.c[name] for name in columns)).where(wanted).order_by(*order).limit(MOST)


def _parsed(connection: Connection, operation: str) -> dict[str, Problem | Device]:
    """Problems and devices by their keys, without those that cannot be parsed."""
    known = rows.readable(rows.problem_of, found(connection, select(problems).where(problems.c.operation == operation)))
    places = rows.readable(rows.device_of, found(connection, select(devices)))
    by_key: dict[str, Problem | Device] = {problem.key(): problem for problem in known}
    return by_key | {device.key(): device for device in places}


def _sample(row: Row, subjects: dict[str, Problem | Device]) -> Sample:
    problem, device = subjects.get(row["problem_key"]), subjects.get(row["device_key"])
    if not isinstance(problem, Problem) or not isinstance(device, Device):
        raise rows.Unreadable("its problem or its device cannot be read")
    values = rows.from_json(row["config"])
    if not isinstance(values, dict) or not all(isinstance(value, int | str) for value in values.values()):
        raise rows.Unreadable("its config is no set of values")
    time_ns = row["median_ns"]
    if time_ns is not None and not time_ns > 0:
        raise rows.Unreadable("its time is none")
    return Sample(problem, device, row["family"], Config.of(values), time_ns)
