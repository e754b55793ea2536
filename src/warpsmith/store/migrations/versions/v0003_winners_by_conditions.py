"""Schema revision 0003: a problem and device have one winner for each timing conditions."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

LAUNCHED = ("queued first", "eager", "CUDA graph")
CACHED = ("cold L2", "warm caches")
USUAL_FIRST = tuple(f"{launched}, {cached}" for launched in LAUNCHED for cached in CACHED)
"""Conditions in the words of the time of this revision, preferred ones first; all others are `unknown`."""


def _columns(*, by_conditions: bool) -> list[sa.Column[str] | sa.Column[float]]:
    names = ("problem_key", "device_key", *(("conditions",) if by_conditions else ()))
    return [
        *(sa.Column(name, sa.Text, nullable=False) for name in (*names, "family", "config", "fingerprint", "compiler")),
        *(sa.Column(name, sa.Float, nullable=False) for name in ("median_ns", "p20_ns", "p80_ns")),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("created_at", "spec")),
    ]


def _made_anew(*, by_conditions: bool) -> sa.Table:
    """Replaces the winners' table with an empty one: SQLite cannot change a primary key in place."""
    op.drop_table("warpsmith_winners")
    identity = ("problem_key", "device_key", *(("conditions",) if by_conditions else ()))
    return op.create_table(
        "warpsmith_winners",
        *_columns(by_conditions=by_conditions),
        sa.ForeignKeyConstraint(["problem_key"], ["warpsmith_problems.key"], name="fk_warpsmith_winners_problem_key"),
        sa.ForeignKeyConstraint(["device_key"], ["warpsmith_devices.key"], name="fk_warpsmith_winners_device_key"),
        sa.PrimaryKeyConstraint(*identity, name="pk_warpsmith_winners"),
    )


def _kept(*, by_conditions: bool) -> list[dict[str, object]]:
    columns: list[sa.ColumnClause[object]] = [
        sa.column(column.name) for column in _columns(by_conditions=by_conditions)
    ]
    query = sa.select(*columns).select_from(sa.table("warpsmith_winners"))
    return [dict(row) for row in op.get_bind().execute(query).mappings()]


def _conditions(spec: object) -> str:
    """Timing conditions in a winner's JSON; `unknown` for damaged JSON, whose row stays for `db check` to report."""
    try:
        policy = json.loads(str(spec))["trial"]["measurement"]["timing"]["policy"].split(", ")
    except (ValueError, LookupError, TypeError, AttributeError):
        return "unknown"
    launched = next((each for each in LAUNCHED if each in policy), None)
    cached = next((each for each in CACHED if each in policy), None)
    return f"{launched}, {cached}" if launched and cached else "unknown"


def upgrade() -> None:
    kept = [{**row, "conditions": _conditions(row["spec"])} for row in _kept(by_conditions=False)]
    winners = _made_anew(by_conditions=True)
    if kept:
        op.bulk_insert(winners, kept)


def downgrade() -> None:
    """Keeps one winner per problem and device: the first one in the order of USUAL_FIRST."""
    order = {conditions: place for place, conditions in enumerate(USUAL_FIRST)}
    kept = sorted(_kept(by_conditions=True), key=lambda row: order.get(str(row["conditions"]), len(order)))
    first: dict[tuple[object, object], dict[str, object]] = {}
    for row in kept:
        del row["conditions"]
        first.setdefault((row["problem_key"], row["device_key"]), row)
    winners = _made_anew(by_conditions=False)
    if first:
        op.bulk_insert(winners, list(first.values()))
