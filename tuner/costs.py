"""Where a tuning run's time goes, stage by stage."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import time
from collections.abc import Iterator, Mapping


class Stage(enum.StrEnum):
    """What a candidate passes through, in its order."""

    ASK = "ask"
    """Searching: which config to try next, and what its time teaches."""
    GENERATE = "generate"
    """Its CUDA text."""
    COMPILE = "compile"
    """In all processes together."""
    LOAD = "load"
    """Onto the device."""
    VERIFY = "verify"
    TIME = "time"
    STORE = "store"
    """Committing trials; beside everything else."""
    CHOOSE = "choose"
    """Verifying and timing the finalists again, beside the other libraries."""


@dataclasses.dataclass(frozen=True, slots=True)
class Costs:
    """What a run cost."""

    seconds: Mapping[Stage, float]
    """Of each stage. Stages overlap, so that their sum is more than the run lasted."""
    processes: int
    """Compilers at work at once."""
    devices: int
    twins: int
    """Candidates with the same machine code and launches as an earlier one, which were not run again."""

    def spec(self) -> dict[str, object]:
        """The costs as JSON values."""
        return {**dataclasses.asdict(self), "seconds": {str(stage): cost for stage, cost in self.seconds.items()}}


class Ledger:
    """Adds costs up. For one thread."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(Stage, 0.0)
        self.twins = 0

    @contextlib.contextmanager
    def during(self, stage: Stage) -> Iterator[None]:
        """Counts the time until the block ends."""
        start = time.monotonic()
        try:
            yield
        finally:
            self.add(stage, time.monotonic() - start)

    def add(self, stage: Stage, seconds: float) -> None:
        """Counts time that was measured elsewhere."""
        self.seconds[stage] += seconds
