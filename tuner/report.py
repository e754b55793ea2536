"""The report of a tuning run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from warpsmith.store.record import FailureKind, Record, Trial, trial_spec
from warpsmith.tuner.costs import Costs
from warpsmith.tuner.faults import PartFailure
from warpsmith.tuner.search.competition import Standing


@dataclasses.dataclass(frozen=True, slots=True)
class TuneReport:
    """The result of a tuning run."""

    record: Record | None
    """The winner as stored, or of a search by `method` the best of that family; None for a run under sanitizers."""
    finalists: tuple[Trial, ...]
    """The finalists with the times that they took in turns, the winner first."""
    before: Trial | None
    """What a look-up answered before the search, with its time in the same turns: the winner is never slower. None for
    a run under sanitizers, and where that answer is not correct."""
    tried: int
    """Trials of this run, on all devices and by all tuners that shared it."""
    others: int
    """Those of `tried` that ran on further devices or in other tuners."""
    reused: int
    """Trials of earlier runs that are still valid."""
    failures: Mapping[FailureKind, int]
    """Failed trials by kind."""
    space_size: int | None
    """Configurations of all families; None where a space is too large to be counted."""
    elapsed_s: float
    """Duration of the run in seconds."""
    interrupted: bool
    """Whether Ctrl-C ended the search."""
    costs: Costs
    """Time by stage."""
    overall: Record | None
    """Of a search by `method`, the winner of another family, which is as fast or faster; None where `record` won."""
    runners_up: tuple[Record, ...]
    """The fastest of each family but that of the overall winner, by the families' names."""
    standings: tuple[Standing, ...]
    """The kernel families that competed: first those that stayed to the end, then the others, with when and why they
    were given up."""
    part_failures: tuple[PartFailure, ...] = ()
    """The parts of the run that failed, such as a stage of a pipeline; the run went on without them."""

    def spec(self) -> dict[str, Any]:
        """The report as JSON values, without the winner and the finalists."""
        return {
            "before": None if self.before is None else trial_spec(self.before),
            "overall": None if self.overall is None else trial_spec(self.overall.trial),
            "trials": self.tried,
            "others": self.others,
            "reused": self.reused,
            "failures": {str(kind): count for kind, count in self.failures.items()},
            "space_size": self.space_size,
            "elapsed_s": self.elapsed_s,
            "costs": self.costs.spec(),
            "families": [dataclasses.asdict(standing) for standing in self.standings],
            "interrupted": self.interrupted,
            "part_failures": [each.spec() for each in self.part_failures],
        }

    def finalists_spec(self) -> dict[str, Any]:
        """The finalists as JSON values."""
        return {"finalists": [trial_spec(trial) for trial in self.finalists]}
