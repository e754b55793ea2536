"""What both readers of a store, SQLAlchemy's and `store_reader`, go by: the schema's number and the winners' tables."""

from __future__ import annotations

SCHEMA_VERSION = 6
"""Counts the revisions in `migrations/versions`; revision N is named N in four digits."""

VERSION_TABLE = "warpsmith_version"
"""Where alembic notes the revision. Not its default name, which Optuna's tables use."""

PROBLEMS_TABLE = "warpsmith_problems"
WINNERS_TABLE = "warpsmith_winners"
RUNNERS_UP_TABLE = "warpsmith_runners_up"
POISONED_TABLE = "warpsmith_poisoned"

WINNER_IDENTITY = ("problem_key", "device_key", "conditions")
"""The columns of which a store has one winner each. Times under other conditions cannot be compared, so that a winner
under others is another winner."""

RUNNER_UP_IDENTITY = (*WINNER_IDENTITY, "family")
"""Those of which it has one runner-up each."""

WINNER_COLUMNS = (
    *("problem_key", "device_key", "family", "config", "fingerprint", "compiler"),
    *("median_ns", "p20_ns", "p80_ns", "created_at", "spec"),
)
"""The columns that winners and runners-up have in every schema."""

POISONED_COLUMNS = ("fingerprint", "failure_kind", "starts", "message")
"""The columns of poisoned programs that look-ups read."""

POISONED_SINCE = 2
"""The schema from which on there are poisoned programs."""

RUNNERS_UP_SINCE = 5
"""The schema from which on there are runners-up."""

REKEYED_SINCE = 6
"""The schema from which on fingerprints leave out comments and names of the generated text."""
