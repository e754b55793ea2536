"""The timing policy, in one function."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from warpsmith.devices.base import Graph, Runtime
from warpsmith.store.conditions import SAME_BUFFERS, THROTTLED, Cached, Launched
from warpsmith.store.record import Timing
from warpsmith.tuner.evaluate.outcomes import Measured
from warpsmith.tuner.evaluate.timing_policy import Launching, Rotation, TimingPolicy
from warpsmith.tuner.operations.peer import first_line

LEAST_SAMPLES = 3
"""Before a candidate is given up as too slow: one or two may have met another program's work."""
MAX_DROPPED = 2
"""Samples under throttling that are dropped for each that a policy wants at most; then they count, and it is said."""
COOLING_S = 0.005
"""Pause after such a sample."""
ENDLESS_S = 0.15
"""Throttling that outlasts so much of such samples and pauses on end does not end: kernels of 7 ms with 5 TFLOP keep an
H100 at its power limit by themselves, and finals of five waited for 26 s in all."""


class Work(Protocol):
    """What is timed: does the work once on buffer set `index`, on `stream` (None: the default one)."""

    def __call__(self, index: int, /, stream: int | None = None) -> None: ...


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
        self._captured_from = 0
        self.runs = 0
        self._eager_runs = 0  # of them, each on the next set of buffers, from the first one on
        self._graph: Graph | None = None
        self.repeats = 1
        self.sample()  # the first run loads code and fills the translation caches
        self.once_ns = max(self.sample(), 1.0)
        self.repeats = max(1, math.ceil(policy.sample_ns / self.once_ns))
        if policy.launching is Launching.GRAPH:
            self._captured_from = self._next_set
            self._graph = runtime.captured(self._work) if uncaptured is None else self._foreign_graph(uncaptured)
        self.samples: list[float] = []
        # Dropped samples last no longer than those that are kept may.
        longest = int(policy.patience_ns / (self.once_ns * self.repeats))
        self._to_drop = MAX_DROPPED * min(policy.max_samples, max(1, longest))
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
        self.runs += self.repeats
        self._eager_runs += self.repeats if self._graph is None else 0
        return self._runtime.elapsed_ns(work) / self.repeats

    @property
    def captured_sets(self) -> tuple[int, ...]:
        """The sets of buffers that the graph runs on."""
        return tuple(sorted((self._captured_from + i) % self._sets for i in range(min(self.repeats, self._sets))))

    @property
    def used_sets(self) -> tuple[int, ...]:
        """The sets of buffers that some run has used: a graph uses the same ones each time."""
        eager = range(min(self._eager_runs, self._sets))
        return tuple(eager) if self._graph is None else tuple(sorted({*eager, *self.captured_sets}))

    @property
    def replay(self) -> Callable[[], None] | None:
        """Launches the graph once more; None where there is none."""
        return None if self._graph is None else self._graph.launch

    def take(self) -> None:
        """Takes one more sample; those under throttling are dropped, until it is plain that it does not end."""
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
    """The time of `measured`, where nobody asks what was run for it."""
    with measured(runtime, run, rotation, policy, best_ns) as found:
        return found.timing


@contextlib.contextmanager
def measured(
    runtime: Runtime, run: Work, rotation: Rotation, policy: TimingPolicy, best_ns: float | None = None
) -> Iterator[Measured]:
    """Times `run(i)`, which launches the work on buffer set `i` (0 to rotation.sets-1), and keeps what was timed ready.

    Warm-up, then samples until the spread is known, the budget is spent, or `best_ns` is out of reach. A sample is
    the mean of as many runs as make it last; the statistic is the median over samples.
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
    sets_pace: bool = False
    """Whether others that take many times as long as it take fewer turns; see `TimingPolicy.turns`."""


def measure_in_turns(runtime: Runtime, entrants: Mapping[str, Entrant], policy: TimingPolicy) -> dict[str, Timing]:
    """Times several entrants sample by sample in turns, each on its own buffers, so that a drift meets them all.

    One that is far behind those that set the pace takes part in fewer turns, evenly among them.
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
