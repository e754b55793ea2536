"""Schema revision 0001: tables of problems, devices, trials and winners."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def _problem_and_device(table: str) -> list[sa.schema.SchemaItem]:
    return [
        sa.Column("problem_key", sa.Text, nullable=False),
        sa.Column("device_key", sa.Text, nullable=False),
        sa.ForeignKeyConstraint(["problem_key"], ["warpsmith_problems.key"], name=f"fk_{table}_problem_key"),
        sa.ForeignKeyConstraint(["device_key"], ["warpsmith_devices.key"], name=f"fk_{table}_device_key"),
    ]


def _program() -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text, nullable=False) for name in ("family", "config", "fingerprint", "compiler")]


def _times(*, nullable: bool) -> list[sa.Column[float]]:
    return [sa.Column(name, sa.Float, nullable=nullable) for name in ("median_ns", "p20_ns", "p80_ns")]


def upgrade() -> None:
    op.create_table(
        "warpsmith_problems",
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("operation", sa.Text, nullable=False),
        sa.Column("spec", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_warpsmith_problems"),
    )
    op.create_table(
        "warpsmith_devices",
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("spec", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_warpsmith_devices"),
    )
    op.create_table(
        "warpsmith_trials",
        sa.Column("id", sa.Integer, nullable=False),
        *_problem_and_device("warpsmith_trials"),
        *_program(),
        sa.Column("failure_kind", sa.Text),
        *_times(nullable=True),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("spec", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_warpsmith_trials"),
        sa.UniqueConstraint(
            "problem_key",
            "device_key",
            "family",
            "config",
            "fingerprint",
            "compiler",
            name="uq_warpsmith_trials_identity",
        ),
    )
    op.create_table(
        "warpsmith_winners",
        *_problem_and_device("warpsmith_winners"),
        *_program(),
        *_times(nullable=False),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("spec", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("problem_key", "device_key", name="pk_warpsmith_winners"),
    )


def downgrade() -> None:
    for table in ("warpsmith_winners", "warpsmith_trials", "warpsmith_devices", "warpsmith_problems"):
        op.drop_table(table)
