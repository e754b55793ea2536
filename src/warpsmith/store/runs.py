"""Tuning runs: when each began, and what was asked of it."""

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
    """UTC, ISO 8601; by the clock of the machine that ran it."""
    spec: Mapping[str, Any]
    """JSON values."""


def run_row(problem: Problem, device: Device, run: Run, token: str) -> Row:
    """A run as a row of its table; `token` is one that no other run has."""
    return {
        "token": token,
        "problem_key": problem.key(),
        "device_key": device.key(),
        "created_at": run.created_at,
        "spec": rows.to_json(dict(run.spec)),
    }


def run_of(row: Row) -> Run:
    """Raises Unreadable."""
    spec = rows.from_json(row["spec"])
    if not isinstance(spec, dict):
        raise Unreadable("its JSON is not a run")
    return Run(row["created_at"], spec)


def add(connection: Connection, row: Row) -> None:
    """Adds a run, once, whose problem and device are there."""
    add_missing(connection, runs, (row,))


def every() -> Select[Any]:
    """All runs, newest last: by id, since clocks step."""
    return select(runs).order_by(runs.c.id)


def listed(connection: Connection, problem: Problem, device: Device) -> tuple[Run, ...]:
    """The runs of a problem on a device, newest last; those that cannot be read are left out."""
    mine = (runs.c.problem_key == problem.key()) & (runs.c.device_key == device.key())
    return rows.readable(run_of, found(connection, every().where(mine)))
