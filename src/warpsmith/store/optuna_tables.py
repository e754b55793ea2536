"""Optuna's tables in a store's database, as Optuna 5 keeps them: whose studies they hold, and removing their trials."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, MetaData, Table, Text, bindparam, inspect, select, update

from warpsmith.store.rows import Row
from warpsmith.store.statements import delete_all, found

KNOWN_SCHEMA = 12
"""The version of Optuna's tables that is written, and removed from, without Optuna."""
FINGERPRINT = "fingerprint"
"""The attribute of an Optuna trial that names the text that ran."""

_OF_TRIALS = (
    "trial_values",
    "trial_intermediate_values",
    "trial_params",
    "trial_user_attributes",
    "trial_system_attributes",
    "trial_heartbeats",
)
_OF_STUDIES = ("study_directions", "study_user_attributes", "study_system_attributes")


def study_prefix(problem_key: str, device_key: str) -> str:
    """How the names of the studies of a problem on a device begin; the family and its space follow."""
    return f"{problem_key} on {device_key} by "


def without_trial(connection: Connection, kept: Mapping[tuple[str, str], frozenset[str]]) -> tuple[Row, ...]:
    """Trials of studies whose text the store has no trial of, as ids of trial and study.

    Empty where the database has no studies, or those of another version of Optuna's tables.

    Args:
        connection: to the store's database.
        kept: the fingerprints of the store's trials, by the keys of problem and device: whose studies are looked at.
    """
    if not kept or (tables := _known_tables(connection)) is None:
        return ()
    studies, trials, attributes = (tables[name] for name in ("studies", "trials", "trial_user_attributes"))
    gone: list[Row] = []
    for keys, fingerprints in kept.items():
        query = (
            select(trials.c.trial_id, trials.c.study_id, attributes.c.value_json)
            .join(studies, studies.c.study_id == trials.c.study_id)
            .join(attributes, attributes.c.trial_id == trials.c.trial_id)
            .where(studies.c.study_name.startswith(study_prefix(*keys), autoescape=True))
            .where(attributes.c.key == FINGERPRINT)
        )
        gone += (row for row in found(connection, query) if json.loads(row["value_json"]) not in fingerprints)
    return tuple(gone)


def replace_fingerprints(connection: Connection, renewed: Mapping[str, str]) -> None:
    """Replaces the fingerprints that Optuna's trials carry; does nothing where the database has no studies."""
    if not renewed or (tables := _known_tables(connection)) is None:
        return
    attributes = tables["trial_user_attributes"]
    replaced = update(attributes).where(
        attributes.c.key == FINGERPRINT, attributes.c.value_json == bindparam("old", type_=Text)
    )
    texts = [{"old": json.dumps(before), "new": json.dumps(after)} for before, after in renewed.items()]
    connection.execute(replaced.values(value_json=bindparam("new", type_=Text)), texts)


def remove(connection: Connection, gone: Sequence[Row]) -> None:
    """Removes trials that `without_trial` found, and studies that have none left.

    The trials that stay are numbered anew: Optuna counts those of a study from 0 without a gap.
    """
    if not gone or (tables := _known_tables(connection)) is None:
        return
    trials = tables["trials"]
    for table in (*(tables[name] for name in _OF_TRIALS), trials):
        delete_all(connection, table, gone, ("trial_id",))
    for study_id in sorted({row["study_id"] for row in gone}):
        stay = select(trials.c.trial_id).where(trials.c.study_id == study_id).order_by(trials.c.number)
        numbered = [{"its_id": each, "its_number": at} for at, each in enumerate(connection.scalars(stay))]
        if numbered:
            renumbered = update(trials).where(trials.c.trial_id == bindparam("its_id"))
            connection.execute(renumbered.values(number=bindparam("its_number")), numbered)
            continue
        for table in (*(tables[name] for name in _OF_STUDIES), tables["studies"]):
            delete_all(connection, table, ({"study_id": study_id},), ("study_id",))


def _known_tables(connection: Connection) -> Mapping[str, Table] | None:
    """Optuna's tables by name; None where they are missing, or of another version."""
    names = {"studies", "trials", "version_info", *_OF_TRIALS, *_OF_STUDIES}
    if not names <= set(inspect(connection).get_table_names()):
        return None
    reflected = MetaData()
    reflected.reflect(connection, only=sorted(names))
    version = reflected.tables["version_info"]
    return reflected.tables if connection.scalar(select(version.c.schema_version)) == KNOWN_SCHEMA else None
