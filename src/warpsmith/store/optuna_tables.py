"""Optuna 5's tables in a store's database: finds trials of studies that are no longer needed, and removes them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, MetaData, Table, Text, bindparam, inspect, select, update

from warpsmith.store.rows import Row
from warpsmith.store.tables import delete_all, found

KNOWN_SCHEMA = 12
"""Version of Optuna's tables that this module can read and change without Optuna."""
FINGERPRINT = "fingerprint"
"""Attribute of an Optuna trial that holds the fingerprint of its program."""

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
    """Prefix of the names of a problem's studies on a device; the family and its space follow."""
    return f"{problem_key} on {device_key} by "


def without_trial(connection: Connection, kept: Mapping[tuple[str, str], frozenset[str]]) -> tuple[Row, ...]:
    """Optuna trials whose program has no trial in the store, as ids of trial and study.

    Empty if the database has no studies, or those of another version of Optuna's tables.

    Args:
        connection: a connection to the store's database.
        kept: fingerprints of the store's remaining trials, by (problem key, device key). Only these studies are
            searched.
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

    The remaining trials are renumbered, because Optuna numbers the trials of a study from 0 without a gap.
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
    """Optuna's tables by name; None if they are missing, or of another version."""
    names = {"studies", "trials", "version_info", *_OF_TRIALS, *_OF_STUDIES}
    if not names <= set(inspect(connection).get_table_names()):
        return None
    reflected = MetaData()
    reflected.reflect(connection, only=sorted(names))
    version = reflected.tables["version_info"]
    return reflected.tables if connection.scalar(select(version.c.schema_version)) == KNOWN_SCHEMA else None
