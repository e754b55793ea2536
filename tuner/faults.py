"""Failures of parts of a tuning run, such as a stage or a family, after which the run goes on without the part."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable
from typing import Any

from warpsmith.errors import BadArgument, CompileError, DeviceError, LaunchError, OutOfMemory, StoreError
from warpsmith.store.record import Failure, FailureKind


class Part(enum.StrEnum):
    """Parts that may fail without ending a tuning run."""

    STAGE = "stage"
    """The search of one pipeline stage, which is a problem of its own."""
    FAMILY = "family"
    """A kernel family: its space, its default config or one of its programs."""
    REFERENCE = "reference"
    """One way of computing the float64 reference, or one data set."""
    PEER = "peer"
    """The other libraries that a winner is timed against."""
    WORKER = "worker"
    """A process that verifies and times candidates."""


@dataclasses.dataclass(frozen=True, slots=True)
class PartFailure:
    part: Part
    name: str
    failure: Failure

    @property
    def message(self) -> str:
        """The failure as one line."""
        return f"{self.part} {self.name}: {self.failure.kind}: {self.failure.message}"

    def spec(self) -> dict[str, Any]:
        """The failure as JSON values."""
        failure = self.failure
        return {"part": str(self.part), "name": self.name, "kind": str(failure.kind), "reason": failure.message}


class Faults:
    """The failed parts of one run, ordered by their first failures."""

    def __init__(self) -> None:
        self._found: dict[tuple[Part, str], PartFailure] = {}

    def add(self, part: Part, name: str, cause: Failure | BaseException) -> None:
        """Records a failure. Only the first failure of each part is kept."""
        failure = cause if isinstance(cause, Failure) else failure_of(cause)
        self._found.setdefault((part, name), PartFailure(part, name, failure))

    def extend(self, failures: Iterable[PartFailure]) -> None:
        """Records the failures of another run or another process."""
        for each in failures:
            self.add(each.part, each.name, each.failure)

    @property
    def all(self) -> tuple[PartFailure, ...]:
        return tuple(self._found.values())


_KINDS: tuple[tuple[type[BaseException], FailureKind], ...] = (
    (OutOfMemory, FailureKind.OUT_OF_MEMORY),
    (MemoryError, FailureKind.OUT_OF_MEMORY),
    (CompileError, FailureKind.COMPILE),
    (LaunchError, FailureKind.LAUNCH),
    (DeviceError, FailureKind.CRASH),
    (BadArgument, FailureKind.INVALID),
)
"""Failure kinds of the expected exceptions; the first match counts."""

NEVER_CONTAINED = (StoreError,)
"""Errors that affect every part alike: without a store, no result of a run is saved."""


def failure_of(error: BaseException) -> Failure:
    """Converts an exception to a failure: its kind and its first line. The message of an unexpected exception begins
    with the name of its class.
    """
    kind = next((kind for expected, kind in _KINDS if isinstance(error, expected)), None)
    words = (str(error).strip().splitlines() or [""])[0]
    if kind is not None and not isinstance(error, MemoryError):
        return Failure(kind, words)
    message = f"{type(error).__name__}: {words}" if words else type(error).__name__
    return Failure(kind or FailureKind.CRASH, message)
