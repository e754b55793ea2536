"""What both readers of a store, SQLAlchemy's and `store_reader`, go by: the schema's number and the winners' table."""

from __future__ import annotations

SCHEMA_VERSION = 4
"""Counts the revisions in `migrations/versions`; revision N is named N in four digits."""

VERSION_TABLE = "warpsmith_version"
"""Where alembic notes the revision. Not its default name, which Optuna's tables use."""

PROBLEMS_TABLE = "warpsmith_problems"
WINNERS_TABLE = "warpsmith_winners"

WINNER_IDENTITY = ("problem_key", "device_key", "conditions")
"""The columns of which a store has one winner each. Times under other conditions cannot be compared, so that a winner
under others is another winner."""
