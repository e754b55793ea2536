"""What a testbed is asked about, and what it answers."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable

from warpsmith.devices.binary import Binaries
from warpsmith.generator.program import Program
from warpsmith.store.record import Baseline, Failure, LeftOut, Measurement, Timing


@dataclasses.dataclass(frozen=True, slots=True)
class Contender:
    """A verified program, to be timed in turns with others."""

    program: Program
    binaries: Binaries
    measurement: Measurement
    """The verification, with the program timed alone."""


@dataclasses.dataclass(frozen=True, slots=True)
class Evaluated:
    """What came of a candidate, and where its time went, in ms."""

    outcome: Measurement | Failure
    load_ms: float
    """Loading and binding it."""
    verify_ms: float
    time_ms: float


@dataclasses.dataclass(frozen=True, slots=True)
class InTurns:
    """Times taken in turns."""

    ours: tuple[Timing, ...]
    """Of the contenders, in their order."""
    baselines: tuple[Baseline, ...]
    """The device's copy, and the other libraries installed here."""
    left_out: tuple[LeftOut, ...] = ()
    """The other libraries that were not timed."""


@dataclasses.dataclass(frozen=True, slots=True)
class Measured:
    """A time, and what was run for it."""

    timing: Timing
    runs: int
    """Warm-up and all."""
    sets: tuple[int, ...]
    """The sets of buffers that they used: fewer than there are where there were fewer runs."""
    replay: Callable[[], None] | None
    """Launches the graph that was timed once more; None where none was."""
    replayed: tuple[int, ...]
    """The sets of buffers that it uses."""


class Laps:
    """Times of what follows one upon the other, in ms."""

    def __init__(self) -> None:
        self._marks = [time.monotonic()]

    def next(self) -> None:
        """What ran since the last mark has ended."""
        self._marks.append(time.monotonic())

    def three(self) -> tuple[float, float, float]:
        """The first three; 0 for what was not reached."""
        laps = [(end - begin) * 1e3 for begin, end in itertools.pairwise(self._marks)]
        first, second, third = (*laps, 0.0, 0.0, 0.0)[:3]
        return first, second, third
