"""The extras that warpsmith is installed with, and how to get one that is missing."""

from __future__ import annotations

import enum
import importlib.util

from warpsmith.errors import MissingExtra


class Extra(enum.StrEnum):
    """An extra of the package, as pip names it."""

    TUNE = "tune"
    """Searching, and writing to stores."""
    POSTGRES = "postgres"
    """Stores on a PostgreSQL server."""
    CUDA = "cuda"
    """NVIDIA GPUs: wheels alone, beside the driver."""
    PEERS = "peers"
    """The libraries that winners are measured beside."""
    PYCUDA = "pycuda"
    """PyCUDA, as a compiler and for memory and events; built on installation, which needs the CUDA toolkit."""


_MODULES = {
    Extra.TUNE: ("sqlalchemy", "alembic", "optuna"),
    Extra.POSTGRES: ("sqlalchemy", "alembic", "psycopg"),
    Extra.CUDA: ("cuda.bindings", "cuda.core"),
    Extra.PEERS: ("torch", "cupy"),
    Extra.PYCUDA: ("pycuda",),
}
"""What each brings that is imported."""


def install(extra: Extra) -> str:
    """The command that installs an extra."""
    return f'pip install "warpsmith[{extra}]"'


def missing(extra: Extra) -> str | None:
    """The first module of an extra that is not installed; None where all are. Imports none of them."""
    return next((module for module in _MODULES[extra] if not _is_installed(module)), None)


def require(extra: Extra, doing: str) -> None:
    """Raises MissingExtra where an extra is not installed. `doing` begins the sentence "... needs optuna"."""
    if (module := missing(extra)) is not None:
        raise MissingExtra(f"{doing} needs {module}: {install(extra)}")


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:  # the package that it lies in is missing
        return False
