"""Names and columns that both readers of a store, SQLAlchemy's and `store_reader`, use: schema number and winners'
tables.
"""

from __future__ import annotations

SCHEMA_VERSION = 8
"""Number of revisions in `migrations/versions`. Revision N is named N in four digits."""

VERSION_TABLE = "warpsmith_version"
"""Table in which alembic notes the revision. Its default name is not used, because Optuna's tables have it."""

PROBLEMS_TABLE = "warpsmith_problems"
WINNERS_TABLE = "warpsmith_winners"
RUNNERS_UP_TABLE = "warpsmith_runners_up"
POISONED_TABLE = "warpsmith_poisoned"
CEILINGS_TABLE = "warpsmith_ceilings"

WINNER_IDENTITY = ("problem_key", "device_key", "conditions")
"""Columns that identify a winner. Times under different conditions cannot be compared, so each has its own winner."""

RUNNER_UP_IDENTITY = (*WINNER_IDENTITY, "family", "pins")
"""Columns that identify a runner-up. `pins` is empty for the fastest kernel of a family, and else `Pins.key()` of the
search whose winner the row is.
"""

WINNER_COLUMNS = (
    *("problem_key", "device_key", "family", "config", "fingerprint", "compiler"),
    *("median_ns", "p20_ns", "p80_ns", "created_at", "spec"),
)
"""Columns that winners and runners-up have in every schema."""

POISONED_COLUMNS = ("fingerprint", "failure_kind", "starts", "message")
"""Columns of poisoned programs that look-ups read."""

POISONED_SINCE = 2
"""First schema with poisoned programs."""

RUNNERS_UP_SINCE = 5
"""First schema with runners-up."""

REKEYED_SINCE = 6
"""First schema whose fingerprints leave out comments and names of the generated text."""

CEILINGS_SINCE = 7
"""First schema with the devices' measured ceilings."""

PINS_SINCE = 8
"""First schema with winners of pinned searches."""

BASES_SINCE = 8
"""First schema in which the configs of Fourier families have a basis."""

CEILINGS_COLUMNS = ("created_at", "driver", "compiler", "spec")
"""Columns of ceilings beside the device's key."""
