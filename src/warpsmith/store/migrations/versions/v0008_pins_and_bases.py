"""Schema revision 0008: runners-up may be winners of a pinned search, which a column tells apart.

`warpsmith.store.rebasing` gives the configs of Fourier families their basis.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

TABLE = "warpsmith_runners_up"
IDENTITY = ("problem_key", "device_key", "conditions", "family")
OTHERS = ("config", "fingerprint", "compiler")
TIMES = ("median_ns", "p20_ns", "p80_ns")


def _made_anew(*, with_pins: bool) -> sa.Table:
    """Replaces the table with an empty one: SQLite cannot change a primary key in place."""
    op.drop_table(TABLE)
    pins = [sa.Column("pins", sa.Text, nullable=False, server_default="")] if with_pins else []
    return op.create_table(
        TABLE,
        *(sa.Column(name, sa.Text, nullable=False) for name in IDENTITY),
        *pins,
        *(sa.Column(name, sa.Text, nullable=False) for name in OTHERS),
        *(sa.Column(name, sa.Float, nullable=False) for name in TIMES),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("created_at", "spec")),
        *(
            sa.ForeignKeyConstraint([f"{one}_key"], [f"warpsmith_{one}s.key"], name=f"fk_{TABLE}_{one}_key")
            for one in ("problem", "device")
        ),
        sa.PrimaryKeyConstraint(*IDENTITY, *(column.name for column in pins), name=f"pk_{TABLE}"),
    )


def _rows(*extra: str) -> list[dict[str, Any]]:
    names = (*IDENTITY, *extra, *OTHERS, *TIMES, "created_at", "spec")
    columns: list[sa.ColumnClause[Any]] = [sa.column(name) for name in names]
    found = op.get_bind().execute(sa.select(*columns).select_from(sa.table(TABLE))).mappings()
    return [dict(row) for row in found]


def upgrade() -> None:
    kept = _rows()
    table = _made_anew(with_pins=True)
    if kept:
        op.bulk_insert(table, [{**row, "pins": ""} for row in kept])


def downgrade() -> None:
    """Removes the winners of pinned searches."""
    kept = [{name: value for name, value in row.items() if name != "pins"} for row in _rows("pins") if not row["pins"]]
    table = _made_anew(with_pins=False)
    if kept:
        op.bulk_insert(table, kept)
