"""Schema revision 0008: the tables stay as they are.

`warpsmith.store.fourier_bases` gives the rows of Fourier families their basis, after those of older schemas have got
their new fingerprints by the names of that time.
"""

from __future__ import annotations

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    pass


def downgrade() -> None:
    pass
