"""A trial with the moment at which it ended."""

from __future__ import annotations

import dataclasses
import datetime

from warpsmith.store.record import Trial


@dataclasses.dataclass(frozen=True, slots=True)
class Finished:
    """A trial and when it was done."""

    at: datetime.datetime
    """UTC."""
    trial: Trial

    @classmethod
    def now(cls, trial: Trial) -> Finished:
        """A trial that is done now."""
        return cls(datetime.datetime.now(datetime.UTC), trial)
