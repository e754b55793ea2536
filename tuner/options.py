"""Options of a tuning run."""

from __future__ import annotations

import dataclasses
import enum

from warpsmith.devices.select import CompilerChoice
from warpsmith.errors import BadArgument
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.problem import AUTO
from warpsmith.tuner.evaluate.timing_policy import Launching, TimingPolicy
from warpsmith.tuner.search.sampler_choice import SamplerChoice
from warpsmith.tuner.workers.deadlines import Deadlines

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
    """Trials to have in the store at the end, with those of earlier runs. Where only programs of several kernels solve
    the problem, two fifths of them and of the time go to the kernels one by one; see `parts.SHARE`."""
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
    method: str = AUTO
    """The family that alone is searched, by its name; AUTO for all that solve the problem."""
    deadlines: Deadlines = dataclasses.field(default_factory=Deadlines)

    def __post_init__(self) -> None:
        if self.trials < 1:
            raise BadArgument(f"trials must be 1 or more; got {self.trials}")
        if self.time_limit_s is not None and not self.time_limit_s > 0:
            raise BadArgument(f"a time limit must be above 0 seconds; got {self.time_limit_s}")
        if not 0 <= self.seed <= LARGEST_SEED:
            raise BadArgument(f"a seed must be from 0 to {LARGEST_SEED}; got {self.seed}")

    def timing_policy(self, kind: DeviceKind) -> TimingPolicy:
        """How candidates are timed on a device of this kind."""
        return TimingPolicy.for_kind(kind, cold=self.cold, launching=self.launching)
