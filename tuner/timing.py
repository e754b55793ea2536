"""The timing policy, in one function."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Callable, Mapping

from warpsmith.devices.base import Runtime
from warpsmith.generator.device import DeviceKind
from warpsmith.store.record import Timing

MAX_SETS = 256
"""Sets of buffers to rotate through, at most: data so small that more were needed stay in the cache in use too."""


@dataclasses.dataclass(frozen=True, slots=True)
class Rotation:
    """Sets of buffers that runs go through in turn, and whether each run then finds its data outside the L2 cache."""

    sets: int
    cold: bool


@dataclasses.dataclass(frozen=True, slots=True)
class TimingPolicy:
    """When a time is known well enough. Times in ns."""

    min_samples: int
    max_samples: int
    budget_ns: float
    """Samples stop here once there are `min_samples`, whatever the spread."""
    sample_ns: float
    """One sample repeats the work until it lasts about this long, so that event overhead does not show."""
    spread: float
    """Samples stop once (p80 - p20) / median is below this."""
    give_up_factor: float
    """A candidate this many times slower than the best gets `min_samples` and no more."""
    cold: bool
    """Whether runs rotate through buffers that together exceed the L2 cache twice, where MAX_SETS allows."""

    @classmethod
    def for_kind(cls, kind: DeviceKind) -> TimingPolicy:
        """The policy of a search: a GPU's events resolve 0.5 us; a host's clock suffers its other programs."""
        if kind is DeviceKind.CUDA:
            return cls(10, 60, 60e6, 200e3, 0.01, 2.0, cold=True)
        return cls(5, 30, 300e6, 2e6, 0.02, 2.0, cold=False)

    def for_finalists(self) -> TimingPolicy:
        """The same with more samples, for the few that may win."""
        return dataclasses.replace(
            self, min_samples=3 * self.min_samples, max_samples=3 * self.max_samples, budget_ns=3 * self.budget_ns
        )

    def rotation(self, set_bytes: int, l2_bytes: int) -> Rotation:
        """How to rotate through buffer sets of `set_bytes` each, on a device with that much L2 cache."""
        if not self.cold:
            return Rotation(1, cold=False)
        if set_bytes >= 2 * l2_bytes:
            return Rotation(1, cold=True)
        needed = 1 + math.ceil(2 * l2_bytes / set_bytes)
        return Rotation(needed, cold=True) if needed <= MAX_SETS else Rotation(1, cold=False)


class _Stopwatch:
    """One contender: calibrated, warm, and sampled on demand."""

    def __init__(self, runtime: Runtime, run: Callable[[int], None], sets: int, sample_ns: float) -> None:
        self._runtime = runtime
        self._run = run
        self._sets = sets
        self._next_set = 0
        self.repeats = 1
        self.sample()  # the first run loads code and fills the translation caches
        self.once_ns = max(self.sample(), 1.0)
        self.repeats = max(1, math.ceil(sample_ns / self.once_ns))
        self.samples: list[float] = []

    def _work(self) -> None:
        for _ in range(self.repeats):
            self._run(self._next_set)
            self._next_set = (self._next_set + 1) % self._sets

    def sample(self) -> float:
        """The mean time of one sample's runs."""
        return self._runtime.elapsed_ns(self._work) / self.repeats

    def take(self) -> None:
        """Takes one more sample."""
        self.samples.append(self.sample())

    def timing(self, conditions: str) -> Timing:
        p20, median, p80 = _quantiles(self.samples)
        launches = "queued first" if self._runtime.queues_work else "eager"
        policy = f"median, {self.repeats} runs a sample, {launches}, {conditions}"
        return Timing(median, p20, p80, len(self.samples), policy)


def measure(
    runtime: Runtime,
    run: Callable[[int], None],
    rotation: Rotation,
    policy: TimingPolicy,
    best_ns: float | None = None,
) -> Timing:
    """Times `run(i)`, which launches the work on buffer set `i` (0 to rotation.sets-1) on the default stream.

    Warm-up, then samples until the spread is known or the budget is spent. A sample is the mean of as many
    runs as make it last; the statistic is the median over samples.
    """
    watch = _Stopwatch(runtime, run, rotation.sets, policy.sample_ns)
    hopeless = best_ns is not None and watch.once_ns > policy.give_up_factor * best_ns
    while len(watch.samples) < policy.max_samples:
        watch.take()
        if len(watch.samples) < policy.min_samples:
            continue
        p20, median, p80 = _quantiles(watch.samples)
        if hopeless or p80 - p20 < policy.spread * median or sum(watch.samples) * watch.repeats > policy.budget_ns:
            break
    return watch.timing(_conditions(rotation))


@dataclasses.dataclass(frozen=True, slots=True)
class Entrant:
    """What takes turns with others: `run(i)` does the work on buffer set i."""

    run: Callable[[int], None]
    rotation: Rotation | None = None
    """How its buffers are rotated through; None where it has one set of its own."""


def measure_in_turns(runtime: Runtime, entrants: Mapping[str, Entrant], policy: TimingPolicy) -> dict[str, Timing]:
    """Times several entrants sample by sample in turns, each on its own buffers, so that a drift meets them all."""
    watches = {
        name: _Stopwatch(runtime, entrant.run, entrant.rotation.sets if entrant.rotation else 1, policy.sample_ns)
        for name, entrant in entrants.items()
    }
    for _ in range(policy.min_samples):
        for watch in watches.values():
            watch.take()
    return {name: watch.timing(f"in turns, {_conditions(entrants[name].rotation)}") for name, watch in watches.items()}


def _conditions(rotation: Rotation | None) -> str:
    if rotation is None:
        return "same buffers"
    return "cold L2" if rotation.cold else "warm caches"


def _quantiles(samples: list[float]) -> tuple[float, float, float]:
    if len(samples) == 1:
        return samples[0], samples[0], samples[0]
    fifths = statistics.quantiles(samples, n=5, method="inclusive")
    return fifths[0], statistics.median(samples), fifths[3]
