"""Options of a tuning run."""

from __future__ import annotations

import dataclasses
import enum
import numbers

from warpsmith.devices.select import CompilerChoice
from warpsmith.errors import BadArgument
from warpsmith.generator.canonical import count
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.selection import EVERYTHING, Selection
from warpsmith.tuner.evaluate.timing_policy import Launching, TimingPolicy
from warpsmith.tuner.search.sampler_choice import SamplerChoice
from warpsmith.tuner.workers.deadlines import Deadlines

LARGEST_SEED = 2**32 - 1
"""Largest seed: Optuna's samplers take 32 bits."""


class Effort(enum.StrEnum):
    """Search effort, used if no number of trials is given."""

    QUICK = "quick"
    NORMAL = "normal"
    FULL = "full"

    @property
    def trials(self) -> int:
        return {Effort.QUICK: 20, Effort.NORMAL: 100, Effort.FULL: 400}[self]


def _seconds(value: object) -> float:
    """Checks a time limit. Raises BadArgument."""
    if isinstance(value, numbers.Real) and not isinstance(value, bool) and float(value) > 0:
        return float(value)
    raise BadArgument(f"a time limit must be above 0 seconds; got {value!r}")


@dataclasses.dataclass(frozen=True, slots=True)
class TuneOptions:
    """Options of a search."""

    trials: int = 100
    """Number of trials in the store at the end, including those of earlier runs. If only pipelines of several kernels
    solve the problem, two fifths of the trials and of the time go to their stages; see `parts.SHARE`.
    """
    time_limit_s: float | None = None
    """Seconds of search. They begin when the device is ready, after its float64 reference was computed, and end before
    the winner is chosen. A search continues until the best known configs have times; see `known.have_times`.
    """
    seed: int = 0
    compiler: CompilerChoice = CompilerChoice.AUTO
    sanitize: bool = False
    """True to run candidates under AddressSanitizer and UndefinedBehaviorSanitizer (host device); no winner is
    stored.
    """
    drops: bool = True
    """True to drop, before they run, candidates that cannot win by their registers, spills or operations."""
    cold: bool | None = None
    """Timing with a cold L2 cache; see `TimingPolicy.for_kind`."""
    launching: Launching = Launching.EAGER
    sampler: SamplerChoice = SamplerChoice.ADDITIVE
    selection: Selection = EVERYTHING
    """Kernels to search: all that solve the problem, those of one family, or those with some values of parameters."""
    deadlines: Deadlines = dataclasses.field(default_factory=Deadlines)

    def __post_init__(self) -> None:
        set_field = object.__setattr__  # the documented way to canonicalise a frozen dataclass
        set_field(self, "trials", count(self.trials, "trials"))
        if self.time_limit_s is not None:
            set_field(self, "time_limit_s", _seconds(self.time_limit_s))
        set_field(self, "seed", count(self.seed, "a seed", most=LARGEST_SEED, least=0))

    def timing_policy(self, kind: DeviceKind) -> TimingPolicy:
        return TimingPolicy.for_kind(kind, cold=self.cold, launching=self.launching)
