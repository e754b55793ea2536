"""Schema revision 0002: tables of programs that kill a tuner, of runs, of tuners, and of their claims on candidates."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def _text(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text, nullable=False) for name in names]


def upgrade() -> None:
    op.create_table(
        "warpsmith_poisoned",
        *_text("device_key", "fingerprint", "family", "config"),
        sa.Column("starts", sa.Integer, nullable=False),
        sa.Column("failure_kind", sa.Text),
        sa.Column("message", sa.Text),
        *_text("created_at"),
        sa.PrimaryKeyConstraint("device_key", "fingerprint", name="pk_warpsmith_poisoned"),
        sa.ForeignKeyConstraint(["device_key"], ["warpsmith_devices.key"], name="fk_warpsmith_poisoned_device_key"),
    )
    op.create_table(
        "warpsmith_runs",
        sa.Column("id", sa.Integer, nullable=False),
        *_text("token", "problem_key", "device_key", "created_at", "spec"),
        sa.PrimaryKeyConstraint("id", name="pk_warpsmith_runs"),
        sa.UniqueConstraint("token", name="uq_warpsmith_runs_identity"),
        sa.ForeignKeyConstraint(["problem_key"], ["warpsmith_problems.key"], name="fk_warpsmith_runs_problem_key"),
        sa.ForeignKeyConstraint(["device_key"], ["warpsmith_devices.key"], name="fk_warpsmith_runs_device_key"),
    )
    op.create_table(
        "warpsmith_tuners",
        *_text("id", "name"),
        sa.Column("beats", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_warpsmith_tuners"),
    )
    identity = ("problem_key", "device_key", "family", "config", "fingerprint", "compiler")
    op.create_table(
        "warpsmith_claims",
        *_text(*identity, "tuner"),
        sa.PrimaryKeyConstraint(*identity, name="pk_warpsmith_claims"),
        sa.ForeignKeyConstraint(["tuner"], ["warpsmith_tuners.id"], name="fk_warpsmith_claims_tuner"),
    )


def downgrade() -> None:
    for table in ("warpsmith_claims", "warpsmith_tuners", "warpsmith_runs", "warpsmith_poisoned"):
        op.drop_table(table)
