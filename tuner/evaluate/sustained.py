"""Sustained time of a kernel, after power and temperature have settled."""

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
