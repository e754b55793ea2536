"""Schema revision 0006: the tables stay as they are.

`warpsmith.store.rekeying` gives the rows their new fingerprints, since that takes a generator.
"""

from __future__ import annotations

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    pass


def downgrade() -> None:
    pass
