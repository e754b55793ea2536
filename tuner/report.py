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
    """Result of a tuning run."""

    record: Record | None
    """The stored winner, or, in a search of some kernels only, the best of these; None for a run under sanitizers."""
    finalists: tuple[Trial, ...]
    """Finalists with their times taken in turns, the winner first."""
    before: Trial | None
    """Program that a look-up returned before the search, with its time in the same turns; the winner is never slower.
    None for a run under sanitizers, and if that program is not correct.
    """
    tried: int
    """Number of trials of this run, on all devices and by all tuners that shared it."""
    others: int
    """Number of `tried` trials that ran on further devices or in other tuners."""
    reused: int
    """Number of trials of earlier runs that are still valid."""
    failures: Mapping[FailureKind, int]
    space_size: int | None
    """Number of configs of all families; None if a space is too large to be counted."""
    elapsed_s: float
    interrupted: bool
    """True if Ctrl-C ended the search."""
    costs: Costs
    overall: Record | None
    """Kernel that a search of some kernels only did not reach and that is as fast or faster; None if `record` won."""
    runners_up: tuple[Record, ...]
    """Fastest record of each family except the overall winner's, ordered by family name."""
    standings: tuple[Standing, ...]
    """Kernel families that competed: first those that stayed to the end, then the others, with when and why they
    left.
    """
    part_failures: tuple[PartFailure, ...] = ()
    """Parts of the run that failed, such as a stage of a pipeline; the run continued without them."""

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
