"""Alembic runs this module for each command; `warpsmith.store.migrations` passes it an open connection."""

from __future__ import annotations

from alembic import context

from warpsmith.store.layout import VERSION_TABLE
from warpsmith.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    render_as_batch=True,  # SQLite alters a table by copying it
)
context.run_migrations()
