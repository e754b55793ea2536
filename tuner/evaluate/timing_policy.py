"""When a time is known well enough, and under which conditions it is taken."""

from __future__ import annotations

import dataclasses
import enum
import math

from warpsmith.errors import BadArgument
from warpsmith.generator.device import DeviceKind
from warpsmith.store.conditions import flushes_cache

FAR = 3.0
"""Times of the fastest of ours from which on a baseline takes fewer turns: no difference of a percent matters there."""
HOPELESS = 50.0
"""Such times from which on one turn is enough."""
LEAST_FAR_TURNS = 3
"""Of what is not hopeless: one or two may have met another program's work."""
LEAST_LONG_TURNS = 3
"""Least samples of what takes long, and may win."""

MAX_SETS = 256
"""Sets of buffers to rotate through, at most: data so small that more were needed stay in the cache in use too."""


@dataclasses.dataclass(frozen=True, slots=True)
class Rotation:
    """Sets of buffers that runs go through in turn, and whether each run then finds its data outside the L2 cache."""

    sets: int
    cold: bool


class CacheState(enum.StrEnum):
    """In which state a run finds the L2 cache."""

    COLD = "cold"
    WARM = "warm"


class Launching(enum.StrEnum):
    """How timed work reaches the device: as its users will launch it."""

    EAGER = "eager"
    """Launch by launch. Where the device can, all of a sample is queued before it begins: launching costs no time."""
    GRAPH = "graph"
    """Captured in a CUDA graph of as many runs as a sample has, which is launched whole."""


@dataclasses.dataclass(frozen=True, slots=True)
class TimingPolicy:
    """When a time is known well enough, and under which conditions it is taken. Times in ns."""

    min_samples: int
    max_samples: int
    budget_ns: float
    """Samples stop here once there are `min_samples`, whatever the spread."""
    sample_ns: float
    """One sample repeats the work until it lasts about this long, so that event overhead does not show."""
    spread: float
    """Samples stop once (p80 - p20) / median is below this."""
    give_up_factor: float
    """A candidate whose fastest sample is this many times slower than the best gets LEAST_SAMPLES and no more."""
    final_factor: int
    """Samples of a finalist for each of the search."""
    cold: bool
    """Whether runs rotate through buffers that together exceed the L2 cache twice, where MAX_SETS allows."""
    launching: Launching = Launching.EAGER
    patience_ns: float = 0.5e9
    """Samples of what takes long are fewer than `min_samples`, LEAST_LONG_TURNS at the least, so that they last no
    longer: ten of a layer of 5 TFLOP would last 3 s by a slow kernel, and 120 of it 36 s in the finals. 70 of a fast
    one, of 7 ms, know its median to 0.1%."""
    far_budget_ns: float = 1e9
    """Of all turns of what is far behind: 120 of a library that takes 0.5 s beside our 0.3 ms would last a minute."""

    @classmethod
    def for_kind(
        cls, kind: DeviceKind, *, cold: bool | None = None, launching: Launching = Launching.EAGER
    ) -> TimingPolicy:
        """The policy of a search: a GPU's events resolve 0.5 us; a host's clock suffers its other programs.

        Args:
            kind: of the device.
            cold: see the field; None for what is usual: on a GPU yes, on the host no.
            launching: see the field; a host has no graphs.

        Raises BadArgument where the host is asked for what only a GPU has.
        """
        if kind is DeviceKind.CUDA:
            # Of 120 samples with the usual spread of 1% the median is known to 0.07%.
            return cls(10, 60, 60e6, 200e3, 0.01, 1.1, 12, cold=cold is not False, launching=launching)
        if cold or launching is not Launching.EAGER:
            raise BadArgument(
                "the host is always timed with warm caches and without CUDA graphs; --l2 and --launch need a GPU"
            )
        return cls(5, 30, 300e6, 2e6, 0.02, 1.5, 6, cold=False)

    def for_finalists(self) -> TimingPolicy:
        """The same with more samples, for the few that may win."""
        return dataclasses.replace(
            self,
            min_samples=self.final_factor * self.min_samples,
            max_samples=self.final_factor * self.max_samples,
            budget_ns=self.final_factor * self.budget_ns,
        )

    def least_samples(self, once_ns: float) -> int:
        """The samples that are taken at the least of what takes so long once."""
        return min(self.min_samples, max(LEAST_LONG_TURNS, int(self.patience_ns / once_ns)))

    def turns(self, once_ns: float, repeats: int, pace_ns: float) -> int:
        """In how many of `min_samples` turns something takes part.

        Args:
            once_ns: of one run of it.
            repeats: runs of a sample.
            pace_ns: of one run of the fastest of ours.
        """
        if once_ns <= FAR * pace_ns:
            return self.least_samples(once_ns)
        least = 1 if once_ns > HOPELESS * pace_ns else LEAST_FAR_TURNS
        return min(self.min_samples, max(least, int(self.far_budget_ns / (once_ns * repeats))))

    def rotation(self, set_bytes: int, l2_bytes: int) -> Rotation:
        """How to rotate through buffer sets of `set_bytes` each, on a device with that much L2 cache."""
        if not self.cold:
            return Rotation(1, cold=False)
        if flushes_cache(set_bytes, l2_bytes):
            return Rotation(1, cold=True)
        needed = 1 + math.ceil(2 * l2_bytes / set_bytes)
        return Rotation(needed, cold=True) if needed <= MAX_SETS else Rotation(1, cold=False)
