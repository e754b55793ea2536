"""Which tuner tries what, so that several at one store try nothing twice.

Whether a tuner is dead is for the others to see: its beats do not change over a time of their own monotonic clocks. No
time is stored, since the clocks of several machines differ, and step.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Select, Table, and_, delete, select, update

from warpsmith.errors import StoreError
from warpsmith.generator.device import Device
from warpsmith.generator.problem import Problem
from warpsmith.generator.space import Config
from warpsmith.store import rows
from warpsmith.store.rows import Row
from warpsmith.store.schema import TRIAL_IDENTITY, claims, trials, tuners
from warpsmith.store.statements import add_missing, delete_all, found, matches


class StruckOff(StoreError):
    """The tuner is not at work, as the others see it: they struck it off, and its claims are theirs."""


@dataclasses.dataclass(frozen=True, slots=True)
class Claim:
    """What a tuner is about to try: a trial's identity, less problem and device."""

    family: str
    config: Config
    fingerprint: str
    compiler: str


def claim_row(problem: Problem, device: Device, claim: Claim) -> Row:
    """A claim as a row of its table, without its tuner."""
    return {
        "problem_key": problem.key(),
        "device_key": device.key(),
        **rows.program_columns(claim.family, claim.config, claim.fingerprint, claim.compiler),
    }


def register(connection: Connection, tuner: str, name: str) -> None:
    """Adds a tuner that has not beaten yet."""
    add_missing(connection, tuners, ({"id": tuner, "name": rows.plain(name), "beats": 0},))


def beat(connection: Connection, tuner: str) -> None:
    """Counts a beat; a repeated commit counts twice, which is a sign of life too. Raises StruckOff."""
    changed = connection.execute(update(tuners).where(tuners.c.id == tuner).values(beats=tuners.c.beats + 1))
    if changed.rowcount == 0:
        raise _struck_off(tuner)


def beats(connection: Connection) -> dict[str, int]:
    """How often each tuner at work has beaten, by its id."""
    return {row["id"]: row["beats"] for row in found(connection, select(tuners))}


def take(connection: Connection, tuner: str, wanted: Iterable[Row]) -> tuple[Row, ...]:
    """Those of the claims, as rows without a tuner, that are the tuner's from here on. Raises StruckOff."""
    if connection.scalar(select(tuners.c.id).where(tuners.c.id == tuner)) is None:
        raise _struck_off(tuner)
    asked = {_identity(row): row for row in wanted}
    stored = _identities(connection, select(*_columns(trials)).where(_near(trials, asked.values())))
    free = {identity: row for identity, row in asked.items() if identity not in stored}
    add_missing(connection, claims, ({**row, "tuner": tuner} for row in free.values()))
    # Asked for again rather than counted: after a repeated commit the tuner's own claims are there already.
    own = _near(claims, free.values()) & (claims.c.tuner == tuner)
    held = _identities(connection, select(*_columns(claims)).where(own))
    return tuple(row for identity, row in free.items() if identity in held)


def _identity(row: Row) -> tuple[str, ...]:
    return tuple(row[name] for name in TRIAL_IDENTITY)


def _identities(connection: Connection, query: Select[Any]) -> set[tuple[str, ...]]:
    return {tuple(row) for row in connection.execute(query)}


def _columns(table: Table) -> list[Column[Any]]:
    return [table.c[name] for name in TRIAL_IDENTITY]


def _near(table: Table, wanted: Iterable[Row]) -> ColumnElement[bool]:
    """Narrows a query to about the rows wanted; databases differ in how they compare whole identities to a list."""
    kept = list(wanted)
    return and_(*(table.c[name].in_({row[name] for row in kept}) for name in ("problem_key", "fingerprint")))


def give_back(connection: Connection, tuner: str, rows_back: Iterable[Row]) -> None:
    """Removes claims of the tuner; those of others stay."""
    for row in rows_back:
        connection.execute(delete(claims).where(matches(claims, row, TRIAL_IDENTITY) & (claims.c.tuner == tuner)))


def settle(connection: Connection, trial_rows: Sequence[Row]) -> None:
    """Removes the claims on trials that are stored now, whoever holds them."""
    delete_all(connection, claims, trial_rows, TRIAL_IDENTITY)


def strike(connection: Connection, tuner: str) -> str | None:
    """Removes a tuner with its claims, and gives its name; None where it is gone already."""
    name = connection.scalar(select(tuners.c.name).where(tuners.c.id == tuner))
    connection.execute(delete(claims).where(claims.c.tuner == tuner))
    connection.execute(delete(tuners).where(tuners.c.id == tuner))
    return name


def _struck_off(tuner: str) -> StruckOff:
    return StruckOff(f"the tuner {tuner} was struck off, since it gave no sign of life: register it again")
