"""Schema revision 0004: a program has one trial for each timing conditions."""

from __future__ import annotations

import json
from collections.abc import Iterator

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

LAUNCHED = ("queued first", "eager", "CUDA graph")
CACHED = ("cold L2", "warm caches")
USUAL_FIRST = (*(f"{launched}, {cached}" for launched in LAUNCHED for cached in CACHED), "unknown")
"""Conditions in the words of the time of this revision, preferred ones first. A failure has `any`."""
PROGRAM = ("problem_key", "device_key", "family", "config", "fingerprint", "compiler")
IDENTITY = "uq_warpsmith_trials_identity"
BATCH = 1000
"""Trials in memory at once."""

trials = sa.table(
    "warpsmith_trials",
    *(sa.column(name) for name in ("id", *PROGRAM, "conditions", "failure_kind", "spec")),
)


def _conditions(failure_kind: object, spec: object) -> str:
    """Timing conditions in a trial's JSON: `any` for a failure, and `unknown` for damaged JSON, whose row stays for
    `db check` to report.
    """
    if failure_kind is not None:
        return "any"
    try:
        policy = json.loads(str(spec))["measurement"]["timing"]["policy"].split(", ")
    except (ValueError, LookupError, TypeError, AttributeError):
        return "unknown"
    launched = next((each for each in LAUNCHED if each in policy), None)
    cached = next((each for each in CACHED if each in policy), None)
    return f"{launched}, {cached}" if launched and cached else "unknown"


def _batches() -> Iterator[list[dict[str, object]]]:
    """Yields the ids of all trials with their conditions, BATCH at a time."""
    last = 0
    query = sa.select(trials.c.id, trials.c.failure_kind, trials.c.spec).order_by(trials.c.id).limit(BATCH)
    while listed := op.get_bind().execute(query.where(trials.c.id > last)).all():
        yield [{"its_id": row.id, "its_conditions": _conditions(row.failure_kind, row.spec)} for row in listed]
        last = listed[-1].id


def upgrade() -> None:
    op.add_column("warpsmith_trials", sa.Column("conditions", sa.Text))
    told = sa.update(trials).where(trials.c.id == sa.bindparam("its_id"))
    for batch in _batches():
        op.get_bind().execute(told.values(conditions=sa.bindparam("its_conditions")), batch)
    with op.batch_alter_table("warpsmith_trials") as table:
        table.alter_column("conditions", existing_type=sa.Text(), nullable=False)
        table.drop_constraint(IDENTITY, type_="unique")
        table.create_unique_constraint(IDENTITY, [*PROGRAM, "conditions"])


def downgrade() -> None:
    """Keeps one trial per program: the first one in the order of USUAL_FIRST, and then by id."""
    usual = sa.case({text: place for place, text in enumerate(USUAL_FIRST)}, value=trials.c.conditions, else_=99)
    of_program = [trials.c[name] for name in PROGRAM]
    place = sa.func.row_number().over(partition_by=of_program, order_by=(usual, trials.c.id)).label("place")
    ranked = sa.select(trials.c.id, place).subquery()
    op.execute(sa.delete(trials).where(trials.c.id.in_(sa.select(ranked.c.id).where(ranked.c.place > 1))))
    with op.batch_alter_table("warpsmith_trials") as table:
        table.drop_constraint(IDENTITY, type_="unique")
        table.drop_column("conditions")
        table.create_unique_constraint(IDENTITY, list(PROGRAM))
