"""Rows of Fourier families in a store before schema 8 get their basis (`fourier_bases`)."""

from __future__ import annotations

from sqlalchemy import Connection, Table, Text, bindparam, select, update

from warpsmith.store.fourier_bases import FAMILIES, fastest_of_families, with_basis
from warpsmith.store.layout import RUNNER_UP_IDENTITY, WINNER_IDENTITY
from warpsmith.store.tables import delete_all, found, replace_all, runners_up, trials, winners

_CHANGED = ("family", "config", "spec")


def rebase(connection: Connection) -> None:
    """Changes a store's trials, winners and runners-up to rows of schema 8."""
    _replace(connection, winners, WINNER_IDENTITY)
    _replace(connection, trials, ("id",))
    before = found(connection, select(runners_up).where(runners_up.c.family.in_(FAMILIES)))
    won = {tuple(row[name] for name in WINNER_IDENTITY): row["family"] for row in found(connection, select(winners))}
    after = [
        row
        for row in fastest_of_families(map(with_basis, before))
        if won.get(tuple(row[name] for name in WINNER_IDENTITY)) != row["family"]
    ]
    delete_all(connection, runners_up, before, RUNNER_UP_IDENTITY)
    replace_all(connection, runners_up, after, RUNNER_UP_IDENTITY)


def _replace(connection: Connection, of: Table, identity: tuple[str, ...]) -> None:
    changed = [
        {f"new_{name}": new[name] for name in _CHANGED} | {f"its_{name}": row[name] for name in identity}
        for row in found(connection, select(of).where(of.c.family.in_(FAMILIES)))
        if (new := with_basis(row)) is not row
    ]
    if changed:
        same = (of.c[name] == bindparam(f"its_{name}") for name in identity)
        new_values = {name: bindparam(f"new_{name}", type_=Text) for name in _CHANGED}
        connection.execute(update(of).where(*same).values(new_values), changed)
