"""Timing policy: how many samples a time needs, and under which conditions it is taken."""

from __future__ import annotations

import dataclasses
import enum
import math

from warpsmith.errors import BadArgument
from warpsmith.generator.device import DeviceKind
from warpsmith.store.conditions import flushes_cache

FAR = 3.0
"""Ratio to our fastest time above which a baseline takes fewer turns: no difference of a percent matters there."""
HOPELESS = 50.0
"""Ratio to our fastest time above which a baseline takes one turn."""
LEAST_FAR_TURNS = 3
"""Least number of turns of a baseline that is far but not hopeless: one or two samples may coincide with another
program's work.
"""
LEAST_LONG_TURNS = 3
"""Least number of samples of a kernel that takes long and may win."""

MAX_SETS = 256
"""Largest number of buffer sets to rotate through. Data so small that they would need more are timed within the L2
cache.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Rotation:
    """Number of buffer sets that runs use in turn, and whether each run then finds its data outside the L2 cache."""

    sets: int
    cold: bool


class CacheState(enum.StrEnum):
    """State of the L2 cache when a run starts."""

    COLD = "cold"
    WARM = "warm"


class Launching(enum.StrEnum):
    """Way in which timed work reaches the device; it matches the users' way of launching."""

    EAGER = "eager"
    """One launch at a time. If the device can, a whole sample is queued before it starts, so that launching costs no
    time.
    """
    GRAPH = "graph"
    """One CUDA graph that holds all runs of a sample, launched as a whole."""


@dataclasses.dataclass(frozen=True, slots=True)
class TimingPolicy:
    """Conditions and sample counts of a timing. Times are in ns."""

    min_samples: int
    max_samples: int
    budget_ns: float
    """Nanoseconds of samples after which sampling stops once there are `min_samples`, whatever the spread."""
    sample_ns: float
    """Nanoseconds that one sample lasts at least: it repeats the work, so that event overhead does not show."""
    spread: float
    """Sampling stops once (p80 - p20) / median is below this."""
    give_up_factor: float
    """A candidate whose fastest sample takes more than this many times the best time stops after LEAST_SAMPLES."""
    final_factor: int
    """Samples of a finalist per sample of the search."""
    cold: bool
    """True to rotate through buffers that together exceed twice the L2 cache, if MAX_SETS allows."""
    launching: Launching = Launching.EAGER
    patience_ns: float = 0.5e9
    """Nanoseconds of samples above which a slow kernel takes fewer than `min_samples`, but at least LEAST_LONG_TURNS.
    Ten samples of a slow kernel for a layer of 5 TFLOP would last 3 s, and its 120 in the finals 36 s. 70 samples of a
    fast kernel of 7 ms give its median to 0.1%.
    """
    far_budget_ns: float = 1e9
    """Nanoseconds of all turns of a baseline that is far behind: 120 turns of a library that takes 0.5 s beside our 0.3
    ms would last a minute.
    """

    @classmethod
    def for_kind(
        cls, kind: DeviceKind, *, cold: bool | None = None, launching: Launching = Launching.EAGER
    ) -> TimingPolicy:
        """Policy of a search. A GPU's events resolve 0.5 us; other programs disturb a host's clock.

        Args:
            kind: kind of the device.
            cold: see the field; None for the default, which is True on a GPU and False on the host.
            launching: see the field; a host has no graphs.

        Raises:
            BadArgument: cold caches or CUDA graphs were requested on the host.
        """
        if kind is DeviceKind.CUDA:
            # 120 samples with the usual spread of 1% give the median to 0.07%.
            return cls(10, 60, 60e6, 200e3, 0.01, 1.1, 12, cold=cold is not False, launching=launching)
        if cold or launching is not Launching.EAGER:
            raise BadArgument(
                "the host is always timed with warm caches and without CUDA graphs; --l2 and --launch need a GPU"
            )
        return cls(5, 30, 300e6, 2e6, 0.02, 1.5, 6, cold=False)

    def for_finalists(self) -> TimingPolicy:
        """The same policy with `final_factor` times as many samples, for the few that may win."""
        return dataclasses.replace(
            self,
            min_samples=self.final_factor * self.min_samples,
            max_samples=self.final_factor * self.max_samples,
            budget_ns=self.final_factor * self.budget_ns,
        )

    def least_samples(self, once_ns: float) -> int:
        """Least number of samples of a kernel whose single run takes `once_ns`."""
        return min(self.min_samples, max(LEAST_LONG_TURNS, int(self.patience_ns / once_ns)))

    def turns(self, once_ns: float, repeats: int, pace_ns: float) -> int:
        """Number of the `min_samples` turns that an entrant takes part in.

        Args:
            once_ns: time of one run of it.
            repeats: runs per sample.
            pace_ns: time of one run of our fastest kernel.
        """
        if once_ns <= FAR * pace_ns:
            return self.least_samples(once_ns)
        least = 1 if once_ns > HOPELESS * pace_ns else LEAST_FAR_TURNS
        return min(self.min_samples, max(least, int(self.far_budget_ns / (once_ns * repeats))))

    def rotation(self, set_bytes: int, l2_bytes: int) -> Rotation:
        """Rotation through buffer sets of `set_bytes` each, on a device with `l2_bytes` of L2 cache."""
        if not self.cold:
            return Rotation(1, cold=False)
        if flushes_cache(set_bytes, l2_bytes):
            return Rotation(1, cold=True)
        needed = 1 + math.ceil(2 * l2_bytes / set_bytes)
        return Rotation(needed, cold=True) if needed <= MAX_SETS else Rotation(1, cold=False)
