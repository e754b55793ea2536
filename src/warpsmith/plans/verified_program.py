"""A loaded program with what is known of its results, and the check of its first call."""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

from warpsmith.devices.checked_calls import ReadCall
from warpsmith.devices.process import ForkLock
from warpsmith.plans.loaded import LoadedProgram
from warpsmith.plans.verified import PENDING, UNASKED, Verification


class VerifiedProgram:
    """A loaded program and what is known of its results. A plan shares it with the plans that bind some of its inputs.

    Args:
        loaded: the program.
    """

    __slots__ = ("loaded", "pending", "verified")

    def __init__(self, loaded: LoadedProgram) -> None:
        self.loaded = loaded
        """The program that calls run. A check puts another one in its place if results are wrong."""
        self.verified = UNASKED
        """Whether results were compared with float64 sums on this device, and the largest error found."""
        self.pending: PendingCheck | None = None
        """Check of the next call that is not under graph capture."""

    def check_next_call(self, pending: PendingCheck) -> None:
        """Makes the program check its next call that is not under graph capture."""
        self.verified, self.pending = PENDING, pending

    def launch(self, inputs: tuple[Any, ...], out: Any, stream: object, workspace: Any) -> ReadCall:
        """Queues a call, and checks its results if a check is pending. If they are wrong, another program takes this
        one's place and repeats the call.
        """
        pending = self.pending
        if pending is None:
            return self.loaded.launch(inputs, out, stream, workspace)
        with pending.lock:
            if self.pending is pending:
                call = self.loaded.launch(inputs, out, stream, workspace)
                if self.loaded.runtime.identify(call.stream).capture is not None:
                    return call
                outcome = pending.settle(self, call)
                if outcome.other is None:
                    self.verified, self.pending = outcome.verified, outcome.pending
                    return call
                other = outcome.other
                self.loaded, self.verified, self.pending = other.loaded, other.verified, other.pending
                out, workspace = call.target, None  # the workspace had the size that the other program needs
        return self.launch(inputs, out, stream, workspace)


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of the check of a call."""

    verified: Verification
    pending: PendingCheck | None = None
    """Check for the next call, if this one allowed no check."""
    other: VerifiedProgram | None = None
    """Replacement for a program whose results are wrong."""


class PendingCheck(Protocol):
    """Check of a program's first call."""

    lock: ForkLock
    """Lock that serialises calls while the check is pending."""

    def settle(self, program: VerifiedProgram, call: ReadCall) -> Outcome:
        """Checks the result of a call, and waits for it. Raises WrongResult if no program is right."""
        ...
