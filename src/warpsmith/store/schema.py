"""The tables of a store. Names have a prefix, because a server's database may hold Optuna's tables too."""

from __future__ import annotations

from sqlalchemy import Column, Float, ForeignKey, Integer, MetaData, Table, Text, UniqueConstraint

from warpsmith.store.layout import POISONED_TABLE, PROBLEMS_TABLE, RUNNERS_UP_TABLE, WINNERS_TABLE
from warpsmith.store.layout import RUNNER_UP_IDENTITY as RUNNER_UP_IDENTITY
from warpsmith.store.layout import SCHEMA_VERSION as SCHEMA_VERSION
from warpsmith.store.layout import VERSION_TABLE as VERSION_TABLE
from warpsmith.store.layout import WINNER_IDENTITY as WINNER_IDENTITY

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_identity",
    }
)

version = Table(VERSION_TABLE, MetaData(), Column("version_num", Text))

problems = Table(
    PROBLEMS_TABLE,
    metadata,
    Column("key", Text, primary_key=True),
    Column("operation", Text, nullable=False),
    Column("spec", Text, nullable=False),
)

devices = Table(
    "warpsmith_devices",
    metadata,
    Column("key", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("spec", Text, nullable=False),
)

PROGRAM_IDENTITY = ("problem_key", "device_key", "family", "config", "fingerprint", "compiler")
"""Columns that identify a program. Claims refer to it, and it has either one failure or several times."""
TRIAL_IDENTITY = (*PROGRAM_IDENTITY, "conditions")
"""Columns that identify a trial: a newer outcome replaces an older one."""

# JSON is stored as text: the identity must compare bytes, and one damaged row must not make a whole query fail.
trials = Table(
    "warpsmith_trials",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("problem_key", Text, ForeignKey("warpsmith_problems.key"), nullable=False),
    Column("device_key", Text, ForeignKey("warpsmith_devices.key"), nullable=False),
    Column("family", Text, nullable=False),
    Column("config", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("compiler", Text, nullable=False),
    Column("conditions", Text, nullable=False),
    Column("failure_kind", Text),
    Column("median_ns", Float),
    Column("p20_ns", Float),
    Column("p80_ns", Float),
    Column("created_at", Text, nullable=False),
    Column("spec", Text, nullable=False),
    UniqueConstraint(*TRIAL_IDENTITY),
)

winners = Table(
    WINNERS_TABLE,
    metadata,
    Column("problem_key", Text, ForeignKey("warpsmith_problems.key"), primary_key=True),
    Column("device_key", Text, ForeignKey("warpsmith_devices.key"), primary_key=True),
    Column("conditions", Text, primary_key=True),
    Column("family", Text, nullable=False),
    Column("config", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("compiler", Text, nullable=False),
    Column("median_ns", Float, nullable=False),
    Column("p20_ns", Float, nullable=False),
    Column("p80_ns", Float, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("spec", Text, nullable=False),
)

runners_up = Table(
    RUNNERS_UP_TABLE,
    metadata,
    Column("problem_key", Text, ForeignKey("warpsmith_problems.key"), primary_key=True),
    Column("device_key", Text, ForeignKey("warpsmith_devices.key"), primary_key=True),
    Column("conditions", Text, primary_key=True),
    Column("family", Text, primary_key=True),
    Column("config", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("compiler", Text, nullable=False),
    Column("median_ns", Float, nullable=False),
    Column("p20_ns", Float, nullable=False),
    Column("p80_ns", Float, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("spec", Text, nullable=False),
)
"""The fastest candidate of each family that the winner beat; see `runners_up`."""

POISON_IDENTITY = ("device_key", "fingerprint")

poisoned = Table(
    POISONED_TABLE,
    metadata,
    Column("device_key", Text, ForeignKey("warpsmith_devices.key"), primary_key=True),
    Column("fingerprint", Text, primary_key=True),
    Column("family", Text, nullable=False),
    Column("config", Text, nullable=False),
    Column("starts", Integer, nullable=False),
    Column("failure_kind", Text),
    Column("message", Text),
    Column("created_at", Text, nullable=False),
)
"""Programs that were started and have not ended, and those that ended badly."""

runs = Table(
    "warpsmith_runs",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("token", Text, nullable=False, unique=True),
    Column("problem_key", Text, ForeignKey("warpsmith_problems.key"), nullable=False),
    Column("device_key", Text, ForeignKey("warpsmith_devices.key"), nullable=False),
    Column("created_at", Text, nullable=False),
    Column("spec", Text, nullable=False),
)
"""Tuning runs. The tuner chooses the token, so that repeating a commit whose confirmation was lost adds no second
row.
"""

tuners = Table(
    "warpsmith_tuners",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("beats", Integer, nullable=False),
)
"""Active tuners. Beats are counted, not dated, because the clocks of several machines cannot be compared."""

claims = Table(
    "warpsmith_claims",
    metadata,
    *(Column(name, Text, primary_key=True) for name in PROGRAM_IDENTITY),
    Column("tuner", Text, ForeignKey("warpsmith_tuners.id"), nullable=False),
)
"""The programs that each tuner is trying now."""
