"""The timing policy, in one function."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import math
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Protocol

from warpsmith.devices.base import Graph, Runtime
from warpsmith.errors import BadArgument
from warpsmith.generator.device import DeviceKind
from warpsmith.store.conditions import SAME_BUFFERS, THROTTLED, Cached, Launched, flushes_cache
from warpsmith.store.record import Timing
from warpsmith.tuner.peer import first_line

MAX_SETS = 256
"""Sets of buffers to rotate through, at most: data so small that more were needed stay in the cache in use too."""


LEAST_SAMPLES = 3
"""Before a candidate is given up as too slow: one or two may have met another program's work."""
MAX_DROPPED = 2
"""Samples under throttling that are dropped for each that a policy wants at most; then they count, and it is said."""
COOLING_S = 0.005
"""Pause after such a sample."""


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


class Work(Protocol):
    """What is timed: does the work once on buffer set `index`, on `stream` (None: the default one)."""

    def __call__(self, index: int, /, stream: int | None = None) -> None: ...


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
            raise BadArgument("the host is timed with warm caches and without graphs; only a GPU has a choice")
        return cls(5, 30, 300e6, 2e6, 0.02, 1.5, 6, cold=False)

    def for_finalists(self) -> TimingPolicy:
        """The same with more samples, for the few that may win."""
        return dataclasses.replace(
            self,
            min_samples=self.final_factor * self.min_samples,
            max_samples=self.final_factor * self.max_samples,
            budget_ns=self.final_factor * self.budget_ns,
        )

    def rotation(self, set_bytes: int, l2_bytes: int) -> Rotation:
        """How to rotate through buffer sets of `set_bytes` each, on a device with that much L2 cache."""
        if not self.cold:
            return Rotation(1, cold=False)
        if flushes_cache(set_bytes, l2_bytes):
            return Rotation(1, cold=True)
        needed = 1 + math.ceil(2 * l2_bytes / set_bytes)
        return Rotation(needed, cold=True) if needed <= MAX_SETS else Rotation(1, cold=False)


class _Stopwatch:
    """One contender: calibrated, warm, and sampled on demand."""

    def __init__(
        self,
        runtime: Runtime,
        run: Work,
        sets: int,
        policy: TimingPolicy,
        renew: Callable[[], None] = lambda: None,
        uncaptured: Callable[[str], None] | None = None,
    ) -> None:
        self._runtime = runtime
        self._run = run
        self._sets = sets
        self._renew = renew
        self._next_set = 0
        self._graph: Graph | None = None
        self.repeats = 1
        self.sample()  # the first run loads code and fills the translation caches
        self.once_ns = max(self.sample(), 1.0)
        self.repeats = max(1, math.ceil(policy.sample_ns / self.once_ns))
        if policy.launching is Launching.GRAPH:
            self._graph = runtime.captured(self._work) if uncaptured is None else self._foreign_graph(uncaptured)
        self.samples: list[float] = []
        self._to_drop = MAX_DROPPED * policy.max_samples
        self.throttled = False
        """Whether a sample was kept although power or temperature held the clocks down."""

    def _foreign_graph(self, uncaptured: Callable[[str], None]) -> Graph | None:
        """A graph of another library's work; None where it cannot be captured, after saying why."""
        try:
            return self._runtime.captured(self._work, rehearse=True)
        except Exception as error:  # a library may raise anything at what it does not expect
            uncaptured(f"it could not be captured in a graph: {first_line(error)}")
            return None

    def _work(self, stream: int | None = None) -> None:
        for _ in range(self.repeats):
            if stream is None:
                self._run(self._next_set)
            else:
                self._run(self._next_set, stream)
            self._next_set = (self._next_set + 1) % self._sets

    def sample(self) -> float:
        """The mean time of one sample's runs."""
        self._renew()
        work = self._work if self._graph is None else self._graph.launch
        return self._runtime.elapsed_ns(work) / self.repeats

    def take(self) -> None:
        """Takes one more sample; those under throttling are dropped, until it is plain that it does not end."""
        while True:
            sample = self.sample()
            throttled = self._runtime.throttled()
            if not throttled or self._to_drop == 0:
                break
            self._to_drop -= 1
            time.sleep(COOLING_S)
        self.throttled |= throttled
        self.samples.append(sample)

    def timing(self, conditions: str) -> Timing:
        p20, median, p80 = _quantiles(self.samples)
        launches = _launches(self._runtime, Launching.EAGER if self._graph is None else Launching.GRAPH)
        told = f", {THROTTLED}" if self.throttled else ""
        policy = f"median, {self.repeats} runs a sample, {launches}, {conditions}{told}"
        return Timing(median, p20, p80, len(self.samples), policy)

    def close(self) -> None:
        """Gives the graph back."""
        if self._graph is not None:
            self._graph.close()


def conditions_of(policy: TimingPolicy, runtime: Runtime, set_bytes: int) -> str:
    """`Timing.conditions` of an undisturbed time under `policy`, for buffer sets of `set_bytes`."""
    rotation = policy.rotation(set_bytes, runtime.device.l2_bytes)
    return f"{_launches(runtime, policy.launching)}, {_conditions(rotation)}"


def measure(
    runtime: Runtime, run: Work, rotation: Rotation, policy: TimingPolicy, best_ns: float | None = None
) -> Timing:
    """Times `run(i)`, which launches the work on buffer set `i` (0 to rotation.sets-1).

    Warm-up, then samples until the spread is known, the budget is spent, or `best_ns` is out of reach. A sample is
    the mean of as many runs as make it last; the statistic is the median over samples.
    """
    out_of_reach = math.inf if best_ns is None else policy.give_up_factor * best_ns
    with contextlib.closing(_Stopwatch(runtime, run, rotation.sets, policy)) as watch:
        while len(watch.samples) < policy.max_samples:
            watch.take()
            if len(watch.samples) >= LEAST_SAMPLES and min(watch.samples) > out_of_reach:
                break
            if len(watch.samples) < policy.min_samples:
                continue
            p20, median, p80 = _quantiles(watch.samples)
            if p80 - p20 < policy.spread * median or sum(watch.samples) * watch.repeats > policy.budget_ns:
                break
        return watch.timing(_conditions(rotation))


@dataclasses.dataclass(frozen=True, slots=True)
class Entrant:
    """What takes turns with others: `run(i)` does the work on buffer set i."""

    run: Work
    rotation: Rotation | None = None
    """How its buffers are rotated through; None where it has one set of its own."""
    takes_stream: bool = False
    """Whether `run` works on any stream, so that it can be captured in a graph."""
    renew: Callable[[], None] = lambda: None
    """Done before each sample, untimed: gives inputs back what runs have overwritten."""
    uncaptured: Callable[[str], None] | None = None
    """Told why the work of another library cannot be captured; it is launched eagerly then. None where that raises."""


def measure_in_turns(runtime: Runtime, entrants: Mapping[str, Entrant], policy: TimingPolicy) -> dict[str, Timing]:
    """Times several entrants sample by sample in turns, each on its own buffers, so that a drift meets them all."""
    with contextlib.ExitStack() as opened:
        watches = {}
        for name, entrant in entrants.items():
            own = policy if entrant.takes_stream else dataclasses.replace(policy, launching=Launching.EAGER)
            sets = entrant.rotation.sets if entrant.rotation else 1
            watches[name] = opened.enter_context(
                contextlib.closing(_Stopwatch(runtime, entrant.run, sets, own, entrant.renew, entrant.uncaptured))
            )
        for _ in range(policy.min_samples):
            for watch in watches.values():
                watch.take()
        return {
            name: watch.timing(f"in turns, {_conditions(entrants[name].rotation)}") for name, watch in watches.items()
        }


def _launches(runtime: Runtime, launching: Launching) -> str:
    if launching is Launching.GRAPH:
        return Launched.GRAPH
    return Launched.QUEUED if runtime.queues_work else Launched.EAGER


def _conditions(rotation: Rotation | None) -> str:
    if rotation is None:
        return SAME_BUFFERS
    return Cached.COLD if rotation.cold else Cached.WARM


def _quantiles(samples: list[float]) -> tuple[float, float, float]:
    if len(samples) == 1:
        return samples[0], samples[0], samples[0]
    fifths = statistics.quantiles(samples, n=5, method="inclusive")
    return fifths[0], statistics.median(samples), fifths[3]
