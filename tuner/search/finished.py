"""A trial with the time at which it ended."""

from __future__ import annotations

import dataclasses
import datetime

from warpsmith.store.record import Trial


@dataclasses.dataclass(frozen=True, slots=True)
class Finished:
    at: datetime.datetime
    """UTC time at which the trial ended."""
    trial: Trial

    @classmethod
    def now(cls, trial: Trial) -> Finished:
        """The trial, ended now."""
        return cls(datetime.datetime.now(datetime.UTC), trial)
