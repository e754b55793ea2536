"""Migrates a database to the newest schema. It loads alembic, so import it only if there is something to migrate."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection


def config(connection: Connection | None = None) -> Config:
    """Alembic's settings without an alembic.ini; `env.py` takes the connection from them."""
    settings = Config()
    # Alembic interpolates "%" in its options, and a path may contain one.
    settings.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    settings.set_main_option("path_separator", "os")
    settings.attributes["connection"] = connection
    return settings


def upgrade(connection: Connection) -> None:
    """Runs every revision that the database lacks, inside the transaction that `connection` is in."""
    command.upgrade(config(connection), "head")
