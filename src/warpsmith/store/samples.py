"""A sample of a store's trials, from which a tuner learns about other problems: few rows, fast to read."""

from __future__ import annotations

import dataclasses
from typing import Any

from sqlalchemy import Connection, Select, func, select

from warpsmith.generator.device import Device
from warpsmith.generator.problem import Problem
from warpsmith.generator.space import Config
from warpsmith.store import rows
from warpsmith.store.record import Record
from warpsmith.store.rows import Row
from warpsmith.store.schema import devices, problems, trials
from warpsmith.store.statements import found

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


def read(connection: Connection, operation: str) -> tuple[Sample, ...]:
    """Samples of all problems of an operation on all devices. Rows that cannot be parsed are skipped."""
    kept = found(connection, _query(operation))
    if not kept:
        return ()
    subjects = _parsed(connection, operation)
    return rows.readable(lambda row: _sample(row, subjects), kept)


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
