"""Schema revision 0005: a table of runners-up, the fastest trial of each family that a winner beat.

The upgrade fills it from stored trials.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

SUBJECT = ("problem_key", "device_key", "conditions")
PROGRAM = ("family", "config", "fingerprint", "compiler")
TIMES = ("median_ns", "p20_ns", "p80_ns")

trials = sa.table(
    "warpsmith_trials", *(sa.column(name) for name in ("id", *SUBJECT, *PROGRAM, *TIMES, "created_at", "spec"))
)
winners = sa.table("warpsmith_winners", *(sa.column(name) for name in (*SUBJECT, "family")))
problems = sa.table("warpsmith_problems", *(sa.column(name) for name in ("key", "operation", "spec")))
devices = sa.table("warpsmith_devices", *(sa.column(name) for name in ("key", "spec")))


def _created() -> sa.Table:
    return op.create_table(
        "warpsmith_runners_up",
        *(sa.Column(name, sa.Text, nullable=False) for name in (*SUBJECT, *PROGRAM)),
        *(sa.Column(name, sa.Float, nullable=False) for name in TIMES),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("created_at", "spec")),
        *(
            sa.ForeignKeyConstraint(
                [f"{one}_key"], [f"warpsmith_{one}s.key"], name=f"fk_warpsmith_runners_up_{one}_key"
            )
            for one in ("problem", "device")
        ),
        sa.PrimaryKeyConstraint(*SUBJECT, "family", name="pk_warpsmith_runners_up"),
    )


def _fastest() -> sa.Select[Any]:
    """The query of runners-up: the fastest trial of each family but the winner's, for each winner."""
    of_family = [trials.c[name] for name in (*SUBJECT, "family")]
    place = sa.func.row_number().over(partition_by=of_family, order_by=(trials.c.median_ns, trials.c.id)).label("place")
    ranked = sa.select(trials.c.id, place).where(trials.c.median_ns.is_not(None)).subquery()
    same = sa.and_(*(winners.c[name] == trials.c[name] for name in SUBJECT))
    return (
        sa.select(
            trials,
            problems.c.operation,
            problems.c.spec.label("problem_spec"),
            devices.c.spec.label("device_spec"),
        )
        .join(ranked, sa.and_(ranked.c.id == trials.c.id, ranked.c.place == 1))
        .join(winners, same)
        .join(problems, problems.c.key == trials.c.problem_key)
        .join(devices, devices.c.key == trials.c.device_key)
        .where(winners.c.family != trials.c.family)
    )


def _records() -> Iterator[dict[str, Any]]:
    """Yields the rows of runners-up. Trials with damaged JSON are left out: `db check` reports them."""
    for row in op.get_bind().execute(_fastest()).mappings():
        try:
            spec = {
                "operation": row["operation"],
                "problem": json.loads(row["problem_spec"]),
                "problem_key": row["problem_key"],
                "device": json.loads(row["device_spec"]),
                "device_key": row["device_key"],
                "trial": json.loads(row["spec"]),
                "baselines": [],
                "provenance": {"created": row["created_at"], "warpsmith": "", "environment": {}},
                "left_out": [],
            }
        except (ValueError, TypeError):
            continue
        kept = {name: row[name] for name in (*SUBJECT, *PROGRAM, *TIMES, "created_at")}
        yield {**kept, "spec": json.dumps(spec, sort_keys=True, separators=(",", ":"))}


def upgrade() -> None:
    runners_up = _created()
    if derived := list(_records()):
        op.bulk_insert(runners_up, derived)


def downgrade() -> None:
    op.drop_table("warpsmith_runners_up")
