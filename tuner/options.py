"""Options of a tuning run, and its report."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any

from warpsmith.devices.select import CompilerChoice
from warpsmith.errors import BadArgument
from warpsmith.store.record import FailureKind, Record, Trial, trial_spec
from warpsmith.tuner.deadlines import Deadlines
from warpsmith.tuner.rivalry import Standing
from warpsmith.tuner.sampler_choice import SamplerChoice
from warpsmith.tuner.stages import Costs
from warpsmith.tuner.timing_policy import Launching

LARGEST_SEED = 2**32 - 1
"""Optuna's samplers take 32 bits."""


class Effort(enum.StrEnum):
    """How long to search, where no number of trials is given."""

    QUICK = "quick"
    NORMAL = "normal"
    FULL = "full"

    @property
    def trials(self) -> int:
        """Candidates to try."""
        return {Effort.QUICK: 20, Effort.NORMAL: 100, Effort.FULL: 400}[self]


@dataclasses.dataclass(frozen=True, slots=True)
class TuneOptions:
    """How to search."""

    trials: int = 100
    """Trials to have in the store at the end, with those of earlier runs."""
    time_limit_s: float | None = None
    """Of searching, from when the device is ready: its float64 reference comes before, choosing the winner after. A
    search goes on until the best of what is known has a time; see `known.have_times`."""
    seed: int = 0
    compiler: CompilerChoice = CompilerChoice.AUTO
    sanitize: bool = False
    """Run candidates under AddressSanitizer and UndefinedBehaviorSanitizer (host device); stores no winner."""
    drops: bool = True
    """Whether candidates that cannot win by their registers, spills or operations are dropped before they run."""
    cold: bool | None = None
    """See `TimingPolicy.for_kind`."""
    launching: Launching = Launching.EAGER
    sampler: SamplerChoice = SamplerChoice.ADDITIVE
    deadlines: Deadlines = dataclasses.field(default_factory=Deadlines)

    def __post_init__(self) -> None:
        if self.trials < 1:
            raise BadArgument(f"trials must be 1 or more; got {self.trials}")
        if self.time_limit_s is not None and not self.time_limit_s > 0:
            raise BadArgument(f"a time limit must be above 0 seconds; got {self.time_limit_s}")
        if not 0 <= self.seed <= LARGEST_SEED:
            raise BadArgument(f"a seed must be from 0 to {LARGEST_SEED}; got {self.seed}")


@dataclasses.dataclass(frozen=True, slots=True)
class TuneReport:
    """The result of a tuning run."""

    record: Record | None
    """The winner as stored; None for a run under sanitizers."""
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
    standings: tuple[Standing, ...]
    """The kernel families that competed: first those that stayed to the end, then the others, with when and why they
    were given up."""

    def spec(self) -> dict[str, Any]:
        """The report as JSON values, without the winner and the finalists."""
        return {
            "before": None if self.before is None else trial_spec(self.before),
            "trials": self.tried,
            "others": self.others,
            "reused": self.reused,
            "failures": {str(kind): count for kind, count in self.failures.items()},
            "space_size": self.space_size,
            "elapsed_s": self.elapsed_s,
            "costs": self.costs.spec(),
            "families": [dataclasses.asdict(standing) for standing in self.standings],
            "interrupted": self.interrupted,
        }
