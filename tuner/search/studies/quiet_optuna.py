"""Optuna without its log lines."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import optuna


@contextlib.contextmanager
def quiet_optuna() -> Iterator[None]:
    """Silences what Optuna logs here, such as the creation of a study.

    Optuna has one level for the whole process. Put back at once, the user's own studies log as before; set at import,
    it would silence them too.
    """
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(verbosity)
