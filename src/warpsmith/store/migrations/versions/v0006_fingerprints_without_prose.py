"""The tables stay. `warpsmith.store.rekeying` gives the rows their new fingerprints, which takes a generator."""

from __future__ import annotations

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    pass


def downgrade() -> None:
    pass
