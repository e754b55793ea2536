"""Schema revision 0007: a table of the devices' measured ceilings."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.create_table(
        "warpsmith_ceilings",
        *(
            sa.Column(name, sa.Text, nullable=False)
            for name in ("device_key", "created_at", "driver", "compiler", "spec")
        ),
        sa.ForeignKeyConstraint(["device_key"], ["warpsmith_devices.key"], name="fk_warpsmith_ceilings_device_key"),
        sa.PrimaryKeyConstraint("device_key", name="pk_warpsmith_ceilings"),
    )


def downgrade() -> None:
    op.drop_table("warpsmith_ceilings")
