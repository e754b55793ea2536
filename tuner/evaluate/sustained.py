"""How long a kernel takes once it has run for a while: power and temperature have settled where they stay."""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics
import time
from collections.abc import Callable

from warpsmith.devices.base import Runtime
from warpsmith.store.conditions import Cached, Launched
from warpsmith.tuner.evaluate.timing import Work
from warpsmith.tuner.evaluate.timing_policy import Rotation

SAMPLE_NS = 20e6
"""A sample lasts about this long: between two of them the device waits for the host, for some 0.1 ms."""
MOST_RUNS = 500
"""Runs a sample, at the most: a queue that holds back its work until all is there takes about a thousand launches."""
LAST_PART = 0.5
"""The share of the time, at its end, that the figure is of."""
CLOCK_EVERY_S = 0.5
"""How often the clock is read: the device has nothing to do meanwhile."""


@dataclasses.dataclass(frozen=True, slots=True)
class Sustained:
    """The time of a kernel that ran again and again for many seconds."""

    seconds: float
    """How long it ran in all."""
    median_ns: float
    """Over the samples of the last part."""
    first_ns: float
    """Over those of as long a part at the beginning."""
    samples: int
    """Of the last part."""
    clock_mhz: tuple[int, int] | None
    """The lowest and the highest clock of the multiprocessors seen in the last part; None where none can be read."""
    throttled: bool
    """Whether power or temperature held the clocks down then."""
    policy: str
    """The statistic and the conditions, as `Timing.policy`."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Sample:
    at_s: float
    """Since the beginning."""
    ns: float
    """Of one run."""


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
    """Runs `run(i)` on its buffer sets in turn for so many seconds, launch by launch; nothing is dropped.

    Args:
        runtime: the device.
        run: launches the work on buffer set i, 0 to rotation.sets-1.
        rotation: how its buffers are rotated through.
        seconds: at least one sample is taken in each half.
        clock: gives seconds.
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
    return _told(samples, readings, f"median, {repeats} runs a sample, {launched}, sustained, {cached}")


def _told(samples: list[_Sample], readings: list[_Reading], policy: str) -> Sustained:
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
