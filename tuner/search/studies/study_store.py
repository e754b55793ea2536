"""Optuna studies of searches in a store's own database, where `optuna-dashboard` shows them."""

from __future__ import annotations

import contextlib
import datetime
import functools
import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import optuna
from optuna.distributions import BaseDistribution, distribution_to_json
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, TrialState, create_trial
from sqlalchemy import Connection, MetaData, NullPool, Table, func, insert, select
from sqlalchemy.exc import SQLAlchemyError

from warpsmith.errors import StoreError
from warpsmith.generator.space import Space
from warpsmith.store import sqlite
from warpsmith.store.location import is_url
from warpsmith.store.optuna_tables import FINGERPRINT, KNOWN_SCHEMA
from warpsmith.store.record import FailureKind, Measurement
from warpsmith.tuner.search.finished import Finished
from warpsmith.tuner.search.studies.coding import Branched
from warpsmith.tuner.search.studies.samplers import quiet_optuna

ATTEMPTS = 3
"""Number of attempts to open a database: if two tuners create Optuna's tables at once, one of them fails."""
TABLES = ("trials", "trial_values", "trial_params", "trial_user_attributes", "version_info")


class StudyStore:
    """Optuna's tables in a database, created if they are missing.

    `Study.ask` and `tell` take 42 ms per trial there, while a GPU tries a hundred configs per second. So a search keeps
    its study in memory, and its trials come here in batches, several per millisecond.

    Args:
        address: the path of an SQLite file, or an SQLAlchemy URL.

    Raises:
        StoreError: the database cannot be opened.

    Source of the tables: Optuna's RDBStorage, which reads them back.
    """

    def __init__(self, address: str) -> None:
        # No connection outlives its use, which comes once per run.
        options: dict[str, object] = {"poolclass": NullPool}
        if is_url(address):
            url = address.replace("{", "{{").replace("}", "}}")  # Optuna passes the URL to `str.format`
        else:
            # The file is opened by its path. In a URL, a `?` in its name would begin the options, and the tables would
            # go into another file.
            url, options["creator"] = "sqlite://", functools.partial(_connect, Path(address))
        with _as_store_error():
            self._storage = _at_last(functools.partial(RDBStorage, url, engine_kwargs=options))

    def add(self, study_name: str, space: Space, finished: Sequence[Finished]) -> None:
        """Adds trials to the study `study_name`, which is created if it is missing.

        The value of a trial is its median time in ns. A failed trial is stored as failed, and a trial that was dropped
        because it cannot win as pruned; the failure is among its attributes.

        Raises StoreError if the database fails. It may then have created the study, but it has added no trial.
        """
        coding = Branched(space)
        frozen = [_frozen(each, coding) for each in finished if space.contains(each.trial.config)]
        with _as_store_error(), quiet_optuna():
            study = optuna.create_study(
                study_name=study_name, storage=self._storage, direction="minimize", load_if_exists=True
            )
            if not self._insert(study._study_id, frozen):
                study.add_trials(frozen)

    def _insert(self, study_id: int, trials: Sequence[FrozenTrial]) -> bool:
        """Writes trials in one transaction. False if the tables have an unknown schema version; the caller then adds
        trials one by one, at 16 ms each.
        """
        tables = MetaData()
        with self._storage.engine.begin() as connection:
            tables.reflect(connection, only=TABLES)
            version = tables.tables["version_info"]
            if connection.scalar(select(version.c.schema_version)) != KNOWN_SCHEMA:
                return False
            if trials:
                _insert_rows(connection, tables.tables, study_id, trials)
        return True


def _connect(path: Path) -> sqlite3.Connection:
    """Opens an existing store file as SQLAlchemy expects it: Python's sqlite3 begins the transactions."""
    uri = sqlite.uri(path, sqlite.Access.RECOVER)
    return sqlite3.connect(uri, uri=True, timeout=sqlite.BUSY_TIMEOUT_S, check_same_thread=False)


def _insert_rows(
    connection: Connection, tables: dict[str, Table], study_id: int, trials: Sequence[FrozenTrial]
) -> None:
    """Inserts the rows of `trials`, as Optuna 5 writes them."""
    numbered = tables["trials"]
    mine = select(func.coalesce(func.max(numbered.c.number) + 1, 0)).where(numbered.c.study_id == study_id)
    first = connection.scalar(mine) or 0
    rows = [
        {
            "number": number,
            "study_id": study_id,
            "state": trial.state.name,
            "datetime_start": _naive(trial.datetime_start),
            "datetime_complete": _naive(trial.datetime_complete),
        }
        for number, trial in enumerate(trials, start=first)
    ]
    returning = insert(numbered).returning(numbered.c.trial_id, sort_by_parameter_order=True)
    ids = list(connection.scalars(returning, rows))
    pairs = list(zip(ids, trials, strict=True))
    _add_rows(connection, tables["trial_values"], (_value_row(at, trial) for at, trial in pairs if trial.values))
    _add_rows(connection, tables["trial_params"], (row for at, trial in pairs for row in _param_rows(at, trial)))
    attributes = (
        {"trial_id": at, "key": key, "value_json": json.dumps(value)}
        for at, trial in pairs
        for key, value in trial.user_attrs.items()
    )
    _add_rows(connection, tables["trial_user_attributes"], attributes)


def _add_rows(connection: Connection, table: Table, rows: Iterable[dict[str, object]]) -> None:
    if listed := list(rows):
        connection.execute(insert(table), listed)


def _value_row(trial_id: int, trial: FrozenTrial) -> dict[str, object]:
    return {"trial_id": trial_id, "objective": 0, "value": trial.value, "value_type": "FINITE"}


def _param_rows(trial_id: int, trial: FrozenTrial) -> Iterator[dict[str, object]]:
    for name, value in trial.params.items():
        distribution = trial.distributions[name]
        yield {
            "trial_id": trial_id,
            "param_name": name,
            "param_value": distribution.to_internal_repr(value),
            "distribution_json": _json_of(distribution),
        }


@functools.lru_cache(maxsize=1024)
def _json_of(distribution: BaseDistribution) -> str:
    return distribution_to_json(distribution)


def _frozen(finished: Finished, coding: Branched) -> FrozenTrial:
    """The trial as an Optuna trial."""
    trial, outcome = finished.trial, finished.trial.outcome
    attributes: dict[str, object] = {FINGERPRINT: trial.fingerprint, "compiler": trial.compiler}
    if isinstance(outcome, Measurement):
        state, value = TrialState.COMPLETE, outcome.timing.median_ns
        attributes |= {"p20_ns": outcome.timing.p20_ns, "p80_ns": outcome.timing.p80_ns, "registers": outcome.registers}
    else:
        state, value = TrialState.PRUNED if outcome.kind is FailureKind.DROPPED else TrialState.FAIL, None
        attributes |= {"failure": str(outcome.kind), "message": outcome.message}
    made = create_trial(
        state=state,
        value=value,
        params=coding.params(trial.config),
        distributions=coding.distributions_of(trial.config),
        user_attrs=attributes,
    )
    made.datetime_start = made.datetime_complete = finished.at
    return made


def _naive(at: datetime.datetime | None) -> datetime.datetime | None:
    """The time as Optuna's tables store it: UTC, without a time zone."""
    return None if at is None else at.astimezone(datetime.UTC).replace(tzinfo=None)


def _at_last(opened: functools.partial[RDBStorage]) -> RDBStorage:
    for _ in range(ATTEMPTS - 1):
        with contextlib.suppress(SQLAlchemyError):
            return opened()
    return opened()


@contextlib.contextmanager
def _as_store_error() -> Iterator[None]:
    try:
        yield
    except (optuna.exceptions.OptunaError, SQLAlchemyError, RuntimeError) as error:  # RuntimeError: newer tables
        reason = str(error).partition("\n")[0]
        raise StoreError(f"the search is stored, but not as an Optuna study: {reason}") from None
