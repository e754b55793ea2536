"""State that the tuners on a store share: their runs, which of them are alive, and what each of them is trying.

Claims of tuners on programs make several tuners on one store try nothing twice. Other tuners decide whether a tuner is
dead: its beat counter does not change for some time on their own monotonic clocks. No time is stored, because the
clocks of several machines differ, and step.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, and_, delete, select, update

from warpsmith.errors import StoreError
from warpsmith.generator.device import Device
from warpsmith.generator.problem import Problem
from warpsmith.generator.space import Config
from warpsmith.store import rows
from warpsmith.store.database import Database
from warpsmith.store.record import Trial
from warpsmith.store.rows import Row, Unreadable
from warpsmith.store.tables import (
    PROGRAM_IDENTITY,
    add_missing,
    add_subject,
    claims,
    delete_all,
    found,
    of_subject,
    runs,
    trials,
    tuners,
)


class StruckOff(StoreError):
    """The other tuners took this tuner for dead and removed it; its claims are theirs now."""


@dataclasses.dataclass(frozen=True, slots=True)
class Claim:
    """A program that a tuner is about to try: its identity without problem and device."""

    family: str
    config: Config
    fingerprint: str
    compiler: str


@dataclasses.dataclass(frozen=True, slots=True)
class Granted:
    """Result of requesting claims. Other tuners are trying the rest."""

    mine: frozenset[Claim]
    stored: tuple[Trial, ...]
    """Stored trials of requested programs."""


class Tuners:
    """The tuners on a store, and their claims."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def register(self, name: str) -> str:
        """Adds a tuner and returns its id. `name` identifies it to people, such as its host and process."""
        tuner = uuid.uuid4().hex
        row = {"id": tuner, "name": rows.plain(name), "beats": 0}
        self._database.write(lambda connection: add_missing(connection, tuners, (row,)))
        return tuner

    def beat(self, tuner: str) -> None:
        """A tuner's sign of life. Raises StruckOff if the other tuners took it for dead.

        A repeated commit counts twice, which is harmless.
        """
        counted = update(tuners).where(tuners.c.id == tuner).values(beats=tuners.c.beats + 1)
        if self._database.write(lambda connection: connection.execute(counted).rowcount) == 0:
            raise _struck_off(tuner)

    def beats(self) -> dict[str, int]:
        """Beat counter of each registered tuner, by its id.

        A tuner whose counter does not change, over some time of the caller's own monotonic clock, is dead.
        """
        if self._database.schema < 2:
            return {}
        listed = self._database.read(lambda connection: found(connection, select(tuners)))
        return {row["id"]: row["beats"] for row in listed}

    def strike(self, tuner: str) -> str | None:
        """Removes a tuner and its claims: a dead one, or oneself at the end. Returns its name; None if it was gone."""

        def work(connection: Connection) -> str | None:
            name = connection.scalar(select(tuners.c.name).where(tuners.c.id == tuner))
            connection.execute(delete(claims).where(claims.c.tuner == tuner))
            connection.execute(delete(tuners).where(tuners.c.id == tuner))
            return name

        return self._database.write(work)

    def claim(
        self,
        problem: Problem,
        device: Device,
        tuner: str,
        wanted: Iterable[Claim],
        holds: Callable[[Trial], bool] = lambda _: True,
    ) -> Granted:
        """Claims those of `wanted` that no other tuner has claimed and for which no trial is stored.

        Claims that the tuner already has are granted again. A claim ends with `Store.add_trials` or `strike`.

        A trial for which `holds` is False is to be tried again. Raises StruckOff if the tuner was removed.
        """
        requested = {_identity(_claim_row(problem, device, each)): each for each in wanted}
        return self._database.write(lambda connection: _take(connection, problem, device, tuner, requested, holds))


def _take(
    connection: Connection,
    problem: Problem,
    device: Device,
    tuner: str,
    requested: Mapping[tuple[str, ...], Claim],
    holds: Callable[[Trial], bool],
) -> Granted:
    if connection.scalar(select(tuners.c.id).where(tuners.c.id == tuner)) is None:
        raise _struck_off(tuner)
    # An unreadable trial is tried again, which replaces it.
    near = found(connection, select(trials).where(_near(trials, problem, requested.values())))
    stored = {
        _identity(row): trial
        for row in near
        for trial in (rows.readable(rows.trial_of, [row]) if _identity(row) in requested else ())
        if holds(trial)
    }
    free = {identity: claim for identity, claim in requested.items() if identity not in stored}
    added = ({**_claim_row(problem, device, claim), "tuner": tuner} for claim in free.values())
    add_missing(connection, claims, added)
    # The claims are read back, not counted: after a repeated commit the tuner's own claims are there already.
    own = _near(claims, problem, free.values()) & (claims.c.tuner == tuner)
    names = select(*(claims.c[name] for name in PROGRAM_IDENTITY))
    granted = {tuple(row) for row in connection.execute(names.where(own))}
    mine = frozenset(claim for identity, claim in free.items() if identity in granted)
    return Granted(mine, tuple(stored.values()))


def _claim_row(problem: Problem, device: Device, claim: Claim) -> Row:
    """A claim as a row of its table, without its tuner."""
    return {
        "problem_key": problem.key(),
        "device_key": device.key(),
        **rows.program_columns(claim.family, claim.config, claim.fingerprint, claim.compiler),
    }


def _identity(row: Row) -> tuple[str, ...]:
    return tuple(row[name] for name in PROGRAM_IDENTITY)


def _near(table: Table, problem: Problem, wanted: Iterable[Claim]) -> ColumnElement[bool]:
    """Narrows a query to roughly the wanted rows, because databases differ in how they compare whole identities to a
    list.
    """
    fingerprints = {rows.plain(claim.fingerprint) for claim in wanted}
    return and_(table.c.problem_key == problem.key(), table.c.fingerprint.in_(fingerprints))


def end_claims(connection: Connection, trial_rows: Sequence[Row]) -> None:
    """Removes the claims on programs whose trials are stored now, whichever tuner holds them."""
    delete_all(connection, claims, trial_rows, PROGRAM_IDENTITY)


def _struck_off(tuner: str) -> StruckOff:
    return StruckOff(f"the tuner {tuner} was struck off, since it gave no sign of life: register it again")


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """A tuning run."""

    created_at: str
    """Start in UTC, ISO 8601, by the clock of the machine that ran it."""
    spec: Mapping[str, Any]
    """Options as JSON values."""


class Runs:
    """The tuning runs of a store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, problem: Problem, device: Device, spec: Mapping[str, Any]) -> None:
        """Notes that a tuning run begins now; `spec` holds its options as JSON values."""
        row = {
            "token": uuid.uuid4().hex,
            "problem_key": problem.key(),
            "device_key": device.key(),
            "created_at": rows.now(),
            "spec": rows.to_json(dict(spec)),
        }

        def work(connection: Connection) -> None:
            add_subject(connection, problem, device)
            add_missing(connection, runs, (row,))

        self._database.write(work)

    def of(self, problem: Problem, device: Device) -> tuple[Run, ...]:
        """Runs of a problem on a device, newest last: ordered by id, because clocks step. Runs that cannot be parsed
        are left out.
        """
        if self._database.schema < 2:
            return ()
        mine = select(runs).where(of_subject(runs, problem, device)).order_by(runs.c.id)
        return rows.readable(run_of, self._database.read(lambda connection: found(connection, mine)))


def run_of(row: Row) -> Run:
    """Parses a row of the table of runs. Raises Unreadable."""
    spec = rows.from_json(row["spec"])
    if not isinstance(spec, dict):
        raise Unreadable("its JSON is not a run")
    return Run(row["created_at"], spec)
