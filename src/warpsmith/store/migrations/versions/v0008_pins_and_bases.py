"""Schema revision 0008: runners-up may be winners of a pinned search, which a column tells apart.

`warpsmith.store.rebasing` gives the configs of Fourier families their basis.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

TABLE = "warpsmith_runners_up"
KEY = "pk_warpsmith_runners_up"
IDENTITY = ("problem_key", "device_key", "conditions", "family")


def upgrade() -> None:
    with op.batch_alter_table(TABLE) as table:
        table.add_column(sa.Column("pins", sa.Text, nullable=False, server_default=""))
        table.drop_constraint(KEY, type_="primary")
        table.create_primary_key(KEY, [*IDENTITY, "pins"])


def downgrade() -> None:
    """Removes the winners of pinned searches."""
    runners_up = sa.table(TABLE, sa.column("pins"))
    op.execute(sa.delete(runners_up).where(runners_up.c.pins != ""))
    with op.batch_alter_table(TABLE) as table:
        table.drop_constraint(KEY, type_="primary")
        table.drop_column("pins")
        table.create_primary_key(KEY, list(IDENTITY))
