"""Time that a tuning run spends in each stage."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import time
from collections.abc import Iterator, Mapping


class CostStage(enum.StrEnum):
    """Stages that a candidate passes through, in order."""

    ASK = "ask"
    """Searching: choosing the next config and learning from its time."""
    GENERATE = "generate"
    """Generating the CUDA source."""
    COMPILE = "compile"
    """Compiling, summed over all compiler processes."""
    LOAD = "load"
    VERIFY = "verify"
    TIME = "time"
    STORE = "store"
    """Committing trials to the store; overlaps all other stages."""
    CHOOSE = "choose"
    """Verifying and timing the finalists again, beside the other libraries."""


@dataclasses.dataclass(frozen=True, slots=True)
class Costs:
    """Costs of one tuning run."""

    seconds: Mapping[CostStage, float]
    """Seconds spent in each stage. Stages overlap, so their sum exceeds the run's duration."""
    processes: int
    """Number of compiler processes at work at once."""
    devices: int
    twins: int
    """Number of candidates whose machine code and launches equal those of an earlier one; they are not run again."""

    def spec(self) -> dict[str, object]:
        """The costs as JSON values."""
        return {**dataclasses.asdict(self), "seconds": {str(stage): cost for stage, cost in self.seconds.items()}}


class Ledger:
    """Accumulates costs. Not thread-safe."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(CostStage, 0.0)
        self.twins = 0

    @contextlib.contextmanager
    def during(self, stage: CostStage) -> Iterator[None]:
        """Adds the duration of the block to `stage`."""
        start = time.monotonic()
        try:
            yield
        finally:
            self.add(stage, time.monotonic() - start)

    def add(self, stage: CostStage, seconds: float) -> None:
        """Adds time that was measured elsewhere."""
        self.seconds[stage] += seconds
