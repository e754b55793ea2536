"""Timing of work on a device under one policy, briefly in rotation or sustained for many seconds."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from warpsmith.devices.module import Graph
from warpsmith.devices.runtime import Runtime
from warpsmith.store.conditions import SAME_BUFFERS, THROTTLED, Cached, Launched
from warpsmith.store.record import Timing
from warpsmith.tuner.evaluate.outcomes import Measured
from warpsmith.tuner.evaluate.timing_policy import Launching, Rotation, TimingPolicy
from warpsmith.tuner.operations.peer import first_line

LEAST_SAMPLES = 3
"""Least number of samples before a candidate is given up as too slow: one or two may coincide with another program's
work.
"""
MAX_DROPPED = 2
"""Largest number of samples dropped for throttling per sample that the policy wants; later ones count and are
marked.
"""
COOLING_S = 0.005
"""Seconds of pause after a throttled sample."""
ENDLESS_S = 0.15
"""Seconds of consecutive throttled samples and pauses after which throttling is taken to be permanent. Kernels of 7 ms
with 5 TFLOP keep an H100 at its power limit by themselves; finals of five of them waited for 26 s in all.
"""


class Work(Protocol):
    """Timed function: does the work once on buffer set `index`, on `stream` (None: the default one)."""

    def __call__(self, index: int, /, stream: int | None = None) -> None: ...


class _Stopwatch:
    """Stopwatch of one contender: calibrated, warm, and sampled on demand."""

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
        self._captured_from = 0
        self.runs = 0
        self._eager_runs = 0  # runs outside a graph, each on the next set of buffers, beginning with set 0
        self._graph: Graph | None = None
        self.repeats = 1
        self.sample()  # the first run loads code and fills the translation caches
        self.once_ns = max(self.sample(), 1.0)
        self.repeats = max(1, math.ceil(policy.sample_ns / self.once_ns))
        if policy.launching is Launching.GRAPH:
            self._captured_from = self._next_set
            self._graph = runtime.captured(self._work) if uncaptured is None else self._foreign_graph(uncaptured)
        self.samples: list[float] = []
        # Dropped samples together may last no longer than the kept ones.
        longest = int(policy.patience_ns / (self.once_ns * self.repeats))
        self._to_drop = MAX_DROPPED * min(policy.max_samples, max(1, longest))
        self.throttled = False
        """True if a sample was kept although power or temperature limited the clocks."""

    def _foreign_graph(self, uncaptured: Callable[[str], None]) -> Graph | None:
        """Graph of another library's work; None if it cannot be captured, after reporting why."""
        try:
            return self._runtime.captured(self._work, rehearse=True)
        except Exception as error:  # a library may raise anything during capture
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
        """Nanoseconds per run, averaged over one sample."""
        self._renew()
        work = self._work if self._graph is None else self._graph.launch
        self.runs += self.repeats
        self._eager_runs += self.repeats if self._graph is None else 0
        return self._runtime.elapsed_ns(work) / self.repeats

    @property
    def captured_sets(self) -> tuple[int, ...]:
        """Buffer sets that the graph runs on."""
        return tuple(sorted((self._captured_from + i) % self._sets for i in range(min(self.repeats, self._sets))))

    @property
    def used_sets(self) -> tuple[int, ...]:
        """Buffer sets that any run has used; a graph uses the same ones each time."""
        eager = range(min(self._eager_runs, self._sets))
        return tuple(eager) if self._graph is None else tuple(sorted({*eager, *self.captured_sets}))

    @property
    def replay(self) -> Callable[[], None] | None:
        """Function that launches the graph once more; None if there is no graph."""
        return None if self._graph is None else self._graph.launch

    def take(self) -> None:
        """Takes one more sample. Throttled samples are dropped until throttling is found to be permanent."""
        waited_s = 0.0
        while True:
            sample = self.sample()
            throttled = self._runtime.throttled()
            if not throttled or self._to_drop == 0:
                break
            waited_s += sample * self.repeats / 1e9 + COOLING_S
            self._to_drop = self._to_drop - 1 if waited_s < ENDLESS_S else 0
            time.sleep(COOLING_S)
        self.throttled |= throttled
        self.samples.append(sample)

    def timing(self, conditions: str) -> Timing:
        p20, median, p80 = _quantiles(self.samples)
        launches = _launches(self._runtime, Launching.EAGER if self._graph is None else Launching.GRAPH)
        note = f", {THROTTLED}" if self.throttled else ""
        policy = f"median, {self.repeats} runs a sample, {launches}, {conditions}{note}"
        return Timing(median, p20, p80, len(self.samples), policy)

    def close(self) -> None:
        if self._graph is not None:
            self._graph.close()


def conditions_of(policy: TimingPolicy, runtime: Runtime, set_bytes: int) -> str:
    """`Timing.conditions` of an undisturbed timing under `policy`, for buffer sets of `set_bytes`."""
    rotation = policy.rotation(set_bytes, runtime.device.l2_bytes)
    return f"{_launches(runtime, policy.launching)}, {_conditions(rotation)}"


def measure(
    runtime: Runtime, run: Work, rotation: Rotation, policy: TimingPolicy, best_ns: float | None = None
) -> Timing:
    """Timing by `measured`, for callers that do not need the runs."""
    with measured(runtime, run, rotation, policy, best_ns) as found:
        return found.timing


@contextlib.contextmanager
def measured(
    runtime: Runtime, run: Work, rotation: Rotation, policy: TimingPolicy, best_ns: float | None = None
) -> Iterator[Measured]:
    """Times `run(i)`, which launches the work on buffer set `i` (0 to rotation.sets-1). The graph stays open inside the
    block.

    After a warm-up, it takes samples until the spread is known, the budget is spent, or `best_ns` is out of reach. A
    sample is the mean of enough runs to last; the statistic is the median over samples.
    """
    out_of_reach = math.inf if best_ns is None else policy.give_up_factor * best_ns
    with contextlib.closing(_Stopwatch(runtime, run, rotation.sets, policy)) as watch:
        while len(watch.samples) < policy.max_samples:
            watch.take()
            if len(watch.samples) >= LEAST_SAMPLES and min(watch.samples) > out_of_reach:
                break
            if len(watch.samples) < policy.least_samples(watch.once_ns):
                continue
            p20, median, p80 = _quantiles(watch.samples)
            if p80 - p20 < policy.spread * median or sum(watch.samples) * watch.repeats > policy.budget_ns:
                break
        timing = watch.timing(_conditions(rotation))
        yield Measured(timing, watch.runs, watch.used_sets, watch.replay, watch.captured_sets)


@dataclasses.dataclass(frozen=True, slots=True)
class Entrant:
    """Participant in a timing in turns: `run(i)` does the work on buffer set i."""

    run: Work
    rotation: Rotation | None = None
    """Rotation of its buffers; None if it has a single set of its own."""
    takes_stream: bool = False
    """True if `run` works on any stream, so that it can be captured in a graph."""
    renew: Callable[[], None] = lambda: None
    """Called before each sample, untimed: restores inputs that runs have overwritten."""
    uncaptured: Callable[[str], None] | None = None
    """Called with the reason if another library's work cannot be captured; it is then launched eagerly. If None, the
    capture error is raised.
    """
    sets_pace: bool = False
    """True if others that take many times as long take fewer turns; see `TimingPolicy.turns`."""


def measure_in_turns(runtime: Runtime, entrants: Mapping[str, Entrant], policy: TimingPolicy) -> dict[str, Timing]:
    """Times several entrants in turns, sample by sample, each on its own buffers, so that a drift affects all alike.

    An entrant far behind those that set the pace takes part in fewer turns, spread evenly.
    """
    with contextlib.ExitStack() as opened:
        watches = {}
        for name, entrant in entrants.items():
            own = policy if entrant.takes_stream else dataclasses.replace(policy, launching=Launching.EAGER)
            sets = entrant.rotation.sets if entrant.rotation else 1
            watches[name] = opened.enter_context(
                contextlib.closing(_Stopwatch(runtime, entrant.run, sets, own, entrant.renew, entrant.uncaptured))
            )
        pace_ns = min((watches[name].once_ns for name, each in entrants.items() if each.sets_pace), default=math.inf)
        turns = {name: policy.turns(watch.once_ns, watch.repeats, pace_ns) for name, watch in watches.items()}
        for turn in range(1, policy.min_samples + 1):
            for name, watch in watches.items():
                if turn * turns[name] // policy.min_samples > len(watch.samples):
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


SAMPLE_NS = 20e6
"""Nanoseconds that a sample lasts, about: between two samples the device waits for the host, for some 0.1 ms."""
MOST_RUNS = 500
"""Largest number of runs per sample: a stream that holds back its work until all is queued takes about a thousand
launches.
"""
LAST_PART = 0.5
"""Share of the time, at its end, that the reported median covers."""
CLOCK_EVERY_S = 0.5
"""Seconds between readings of the clock: the device is idle during each."""


@dataclasses.dataclass(frozen=True, slots=True)
class Sustained:
    """Time of a kernel that ran repeatedly for many seconds."""

    seconds: float
    """Seconds that it ran in all."""
    median_ns: float
    """Median over the samples of the last part."""
    first_ns: float
    """Median over the samples of an equally long first part."""
    samples: int
    """Number of samples in the last part."""
    clock_mhz: tuple[int, int] | None
    """Lowest and highest SM clock read in the last part; None if it cannot be read."""
    throttled: bool
    """True if power or temperature limited the clocks in the last part."""
    policy: str
    """The statistic and the conditions, as in `Timing.policy`."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Sample:
    at_s: float
    """Seconds since the beginning."""
    ns: float
    """Nanoseconds of one run."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Reading:
    at_s: float
    clock_mhz: int | None
    throttled: bool


def measure_sustained(
    runtime: Runtime,
    run: Work,
    rotation: Rotation,
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> Sustained:
    """Runs `run(i)` on its buffer sets in turn for `seconds`, launch by launch. No sample is dropped.

    Args:
        runtime: the device.
        run: launches the work on buffer set i, 0 to rotation.sets-1.
        rotation: how the buffers are rotated through.
        seconds: least duration; at least one sample is taken.
        clock: returns seconds.
    """
    sets, repeats = itertools.cycle(range(rotation.sets)), 1

    def work() -> None:
        for _ in range(repeats):
            run(next(sets))

    runtime.elapsed_ns(work)  # the first run loads code
    once_ns = max(runtime.elapsed_ns(work), 1.0)
    repeats = max(1, min(MOST_RUNS, math.ceil(SAMPLE_NS / once_ns)))
    start, samples, readings = clock(), list[_Sample](), list[_Reading]()
    while not samples or samples[-1].at_s < seconds:
        ns = runtime.elapsed_ns(work) / repeats
        at_s = clock() - start
        samples.append(_Sample(at_s, ns))
        if not readings or at_s - readings[-1].at_s >= CLOCK_EVERY_S or at_s >= seconds:
            readings.append(_Reading(at_s, runtime.clock_mhz(), runtime.throttled()))
    launched = Launched.QUEUED if runtime.queues_work else Launched.EAGER
    cached = Cached.COLD if rotation.cold else Cached.WARM
    return _sustained(samples, readings, f"median, {repeats} runs a sample, {launched}, sustained, {cached}")


def _sustained(samples: list[_Sample], readings: list[_Reading], policy: str) -> Sustained:
    whole_s = samples[-1].at_s
    first = [sample.ns for sample in samples if sample.at_s <= LAST_PART * whole_s]
    last = [sample.ns for sample in samples if sample.at_s > (1 - LAST_PART) * whole_s]
    late = [reading for reading in readings if reading.at_s > (1 - LAST_PART) * whole_s]
    clocks = [reading.clock_mhz for reading in late if reading.clock_mhz is not None]
    return Sustained(
        seconds=whole_s,
        median_ns=statistics.median(last),
        first_ns=statistics.median(first or last),
        samples=len(last),
        clock_mhz=(min(clocks), max(clocks)) if clocks else None,
        throttled=any(reading.throttled for reading in late),
        policy=policy,
    )
