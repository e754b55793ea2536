"""Tuning runs: start time and options of each."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Select, select

from warpsmith.generator.device import Device
from warpsmith.generator.problem import Problem
from warpsmith.store import rows
from warpsmith.store.rows import Row, Unreadable
from warpsmith.store.schema import runs
from warpsmith.store.statements import add_missing, found


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """A tuning run."""

    created_at: str
    """Start in UTC, ISO 8601, by the clock of the machine that ran it."""
    spec: Mapping[str, Any]
    """Options as JSON values."""


def run_row(problem: Problem, device: Device, run: Run, token: str) -> Row:
    """A run as a row of its table; `token` is unique to the run."""
    return {
        "token": token,
        "problem_key": problem.key(),
        "device_key": device.key(),
        "created_at": run.created_at,
        "spec": rows.to_json(dict(run.spec)),
    }


def run_of(row: Row) -> Run:
    """Parses a row of the table of runs. Raises Unreadable."""
    spec = rows.from_json(row["spec"])
    if not isinstance(spec, dict):
        raise Unreadable("its JSON is not a run")
    return Run(row["created_at"], spec)


def add(connection: Connection, row: Row) -> None:
    """Adds a run if it is not there yet. Its problem and device must be stored already."""
    add_missing(connection, runs, (row,))


def every() -> Select[Any]:
    """Query of all runs, newest last: ordered by id, because clocks step."""
    return select(runs).order_by(runs.c.id)


def listed(connection: Connection, problem: Problem, device: Device) -> tuple[Run, ...]:
    """Runs of a problem on a device, newest last. Runs that cannot be parsed are left out."""
    mine = (runs.c.problem_key == problem.key()) & (runs.c.device_key == device.key())
    return rows.readable(run_of, found(connection, every().where(mine)))
