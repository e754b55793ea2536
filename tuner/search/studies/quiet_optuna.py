"""Context manager that silences Optuna's log lines."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import optuna


@contextlib.contextmanager
def quiet_optuna() -> Iterator[None]:
    """Silences Optuna's log lines inside the block, such as the creation of a study.

    Optuna has one log level for the whole process. It is restored at the end of the block, so the user's own studies
    log as before; a level set at import would silence them too.
    """
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(verbosity)
