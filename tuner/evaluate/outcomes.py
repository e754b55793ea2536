"""Inputs and results of a testbed."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable

from warpsmith.devices.compiler import Binaries
from warpsmith.generator.program import Program
from warpsmith.store.record import Baseline, Failure, LeftOut, Measurement, Timing


@dataclasses.dataclass(frozen=True, slots=True)
class Contender:
    """Verified program, ready to be timed in turns with others."""

    program: Program
    binaries: Binaries
    measurement: Measurement
    """Result of the verification, with the program timed alone."""


@dataclasses.dataclass(frozen=True, slots=True)
class Evaluated:
    """Outcome of a candidate, and the time spent on it, in ms."""

    outcome: Measurement | Failure
    load_ms: float
    """Milliseconds for loading and binding it."""
    verify_ms: float
    time_ms: float


@dataclasses.dataclass(frozen=True, slots=True)
class InTurns:
    """Timings taken in turns."""

    ours: tuple[Timing, ...]
    """Timings of the contenders, in their order."""
    baselines: tuple[Baseline, ...]
    """The device's copy and the other installed libraries."""
    left_out: tuple[LeftOut, ...] = ()
    """Other libraries that were not timed."""


@dataclasses.dataclass(frozen=True, slots=True)
class Measured:
    """A timing and the runs that it took."""

    timing: Timing
    runs: int
    """Number of runs, including warm-up."""
    sets: tuple[int, ...]
    """Buffer sets that the runs used; fewer than there are if there were fewer runs."""
    replay: Callable[[], None] | None
    """Launches the timed graph once more; None if there is none."""
    replayed: tuple[int, ...]
    """Buffer sets that the graph uses."""


class Laps:
    """Durations of consecutive steps, in ms."""

    def __init__(self) -> None:
        self._marks = [time.monotonic()]

    def next(self) -> None:
        """Ends the current step."""
        self._marks.append(time.monotonic())

    def three(self) -> tuple[float, float, float]:
        """The first three durations; 0 for steps that were not reached."""
        laps = [(end - begin) * 1e3 for begin, end in itertools.pairwise(self._marks)]
        first, second, third = (*laps, 0.0, 0.0, 0.0)[:3]
        return first, second, third
