"""Publication of trials as Optuna studies, beside the store."""

from __future__ import annotations

import warnings

from warpsmith.errors import StoreError
from warpsmith.store.store import Store
from warpsmith.tuner.run.search_loop import SearchLoop


def publish(loop: SearchLoop, store: Store) -> None:
    """Adds the trials of this process to Optuna's studies beside the store."""
    if store.database.address is None or not loop.finished:
        return
    from warpsmith.tuner.search.studies.study_store import StudyStore  # Optuna takes 0.3 s to import

    try:
        studies = StudyStore(store.database.address)
        for name, family in loop.search.families.items():
            if mine := [each for each in loop.finished if each.trial.family == name]:
                studies.add(family.made.study_name, family.made.space, mine)
    except StoreError as error:
        warnings.warn(str(error), stacklevel=2)  # nothing is lost: the trials are in the store
