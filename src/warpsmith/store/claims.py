"""Claims of tuners on programs, so that several tuners on one store try nothing twice.

Other tuners decide whether a tuner is dead: its beat counter does not change for some time on their own monotonic
clocks. No time is stored, because the clocks of several machines differ, and step.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence

from sqlalchemy import ColumnElement, Connection, Table, and_, delete, select, update

from warpsmith.errors import StoreError
from warpsmith.generator.device import Device
from warpsmith.generator.problem import Problem
from warpsmith.generator.space import Config
from warpsmith.store import rows
from warpsmith.store.record import Trial
from warpsmith.store.rows import Row
from warpsmith.store.schema import PROGRAM_IDENTITY, claims, trials, tuners
from warpsmith.store.statements import add_missing, delete_all, found


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


def _claim_row(problem: Problem, device: Device, claim: Claim) -> Row:
    """A claim as a row of its table, without its tuner."""
    return {
        "problem_key": problem.key(),
        "device_key": device.key(),
        **rows.program_columns(claim.family, claim.config, claim.fingerprint, claim.compiler),
    }


def register(connection: Connection, tuner: str, name: str) -> None:
    """Adds a tuner with zero beats."""
    add_missing(connection, tuners, ({"id": tuner, "name": rows.plain(name), "beats": 0},))


def beat(connection: Connection, tuner: str) -> None:
    """Counts a beat. A repeated commit counts twice, which is harmless. Raises StruckOff."""
    changed = connection.execute(update(tuners).where(tuners.c.id == tuner).values(beats=tuners.c.beats + 1))
    if changed.rowcount == 0:
        raise _struck_off(tuner)


def beats(connection: Connection) -> dict[str, int]:
    """Beat counter of each registered tuner, by its id."""
    return {row["id"]: row["beats"] for row in found(connection, select(tuners))}


def take(
    connection: Connection,
    problem: Problem,
    device: Device,
    tuner: str,
    wanted: Iterable[Claim],
    holds: Callable[[Trial], bool],
) -> Granted:
    """Claims for the tuner the wanted programs that are free, and returns these and the trials stored already. Raises
    StruckOff.
    """
    if connection.scalar(select(tuners.c.id).where(tuners.c.id == tuner)) is None:
        raise _struck_off(tuner)
    asked = {_identity(_claim_row(problem, device, each)): each for each in wanted}
    # An unreadable trial is tried again, which replaces it.
    near = found(connection, select(trials).where(_near(trials, problem, asked.values())))
    stored = {
        _identity(row): trial
        for row in near
        for trial in (rows.readable(rows.trial_of, [row]) if _identity(row) in asked else ())
        if holds(trial)
    }
    free = {identity: claim for identity, claim in asked.items() if identity not in stored}
    added = ({**_claim_row(problem, device, claim), "tuner": tuner} for claim in free.values())
    add_missing(connection, claims, added)
    # The claims are read back, not counted: after a repeated commit the tuner's own claims are there already.
    own = _near(claims, problem, free.values()) & (claims.c.tuner == tuner)
    held = {tuple(row) for row in connection.execute(select(*(claims.c[name] for name in PROGRAM_IDENTITY)).where(own))}
    return Granted(frozenset(claim for identity, claim in free.items() if identity in held), tuple(stored.values()))


def _identity(row: Row) -> tuple[str, ...]:
    return tuple(row[name] for name in PROGRAM_IDENTITY)


def _near(table: Table, problem: Problem, wanted: Iterable[Claim]) -> ColumnElement[bool]:
    """Narrows a query to roughly the wanted rows, because databases differ in how they compare whole identities to a
    list.
    """
    fingerprints = {rows.plain(claim.fingerprint) for claim in wanted}
    return and_(table.c.problem_key == problem.key(), table.c.fingerprint.in_(fingerprints))


def settle(connection: Connection, trial_rows: Sequence[Row]) -> None:
    """Removes the claims on programs whose trials are stored now, whichever tuner holds them."""
    delete_all(connection, claims, trial_rows, PROGRAM_IDENTITY)


def strike(connection: Connection, tuner: str) -> str | None:
    """Removes a tuner with its claims and returns its name; None if it is gone already."""
    name = connection.scalar(select(tuners.c.name).where(tuners.c.id == tuner))
    connection.execute(delete(claims).where(claims.c.tuner == tuner))
    connection.execute(delete(tuners).where(tuners.c.id == tuner))
    return name


def _struck_off(tuner: str) -> StruckOff:
    return StruckOff(f"the tuner {tuner} was struck off, since it gave no sign of life: register it again")
