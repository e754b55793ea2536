"""The optional extras of warpsmith, and the command that installs a missing one."""

from __future__ import annotations

import enum
import importlib.util

from warpsmith.errors import MissingExtra


class Extra(enum.StrEnum):
    """An extra of the package, as pip names it."""

    TUNE = "tune"
    """Searching for kernels, and writing to stores."""
    POSTGRES = "postgres"
    """Stores on a PostgreSQL server."""
    CUDA = "cuda"
    """NVIDIA GPUs: only wheels, in addition to the driver."""
    PEERS = "peers"
    """Libraries that winners are compared with."""
    PYCUDA = "pycuda"
    """PyCUDA, as a compiler and for memory and events. It is built on installation, which needs the CUDA toolkit."""


_MODULES = {
    Extra.TUNE: ("sqlalchemy", "alembic", "optuna"),
    Extra.POSTGRES: ("sqlalchemy", "alembic", "psycopg"),
    Extra.CUDA: ("cuda.bindings", "cuda.core"),
    Extra.PEERS: ("torch", "cupy"),
    Extra.PYCUDA: ("pycuda",),
}
"""Modules of each extra that are imported."""


def install(extra: Extra) -> str:
    """The command that installs an extra."""
    return f'pip install "warpsmith[{extra}]"'


def missing(extra: Extra) -> str | None:
    """The first module of an extra that is not installed; None if all are. It imports none of them."""
    return next((module for module in _MODULES[extra] if not _is_installed(module)), None)


def require(extra: Extra, doing: str) -> None:
    """Raises MissingExtra if an extra is not installed. `doing` begins the sentence "... needs optuna"."""
    if (module := missing(extra)) is not None:
        raise MissingExtra(f"{doing} needs {module}: {install(extra)}")


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:  # its parent package is missing
        return False
