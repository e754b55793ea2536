"""A program loaded on its device, as a plan calls it, with what is known of its results."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from warpsmith.devices.checked_calls import CheckedCalls, ReadCall
from warpsmith.devices.compiler import Binaries
from warpsmith.devices.executable import Executable
from warpsmith.devices.launches import launches_of
from warpsmith.devices.module import Allocation, Launches
from warpsmith.devices.process import ForkLock
from warpsmith.devices.runtime import Runtime
from warpsmith.devices.signature import Signature
from warpsmith.devices.workspaces import Workspaces
from warpsmith.generator.problem import Problem
from warpsmith.plans.match import Match
from warpsmith.plans.verified import PENDING, UNASKED, Verification

LaunchesOf = Callable[[Signature], Launches]
"""Makes a program's launches for the arguments of its calls."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class LoadedProgram:
    """A loaded program, or the part of one that runs in each call."""

    problem: Problem
    match: Match
    binaries: Binaries
    runtime: Runtime
    executable: Executable
    signature: Signature
    launches: Launches
    calls: CheckedCalls
    workspace_bytes: int
    prepacked: Workspaces | None = None
    """Memory of what was made of prepacked inputs. It is freed with this object."""

    @classmethod
    def of(cls, problem: Problem, match: Match, binaries: Binaries, runtime: Runtime) -> LoadedProgram:
        """Loads a whole program. Raises as `Executable.load` and `Signature.of` do."""
        executable = Executable.load(runtime, match.program, binaries)

        def launches(signature: Signature) -> Launches:
            return launches_of(executable, runtime, signature.arguments)

        return cls.of_part(problem, match, binaries, runtime, executable, {}, launches)

    @classmethod
    def of_part(
        cls,
        problem: Problem,
        match: Match,
        binaries: Binaries,
        runtime: Runtime,
        executable: Executable,
        fixed: Mapping[str, bytes],
        launches: LaunchesOf,
        prepacked: Workspaces | None = None,
    ) -> LoadedProgram:
        """Wraps a part of a program; its other inputs are already on the device.

        Args:
            problem: problem that the whole program computes.
            match: how the program was found.
            binaries: binaries of the part's units, by name.
            runtime: the device.
            executable: the loaded part.
            fixed: inputs that calls do not pass, with the bytes that kernels take of them by value.
            launches: makes the part's launches.
            prepacked: memory of what was made of prepacked inputs.
        """
        signature = Signature.of(problem, executable.program, fixed)
        return cls(
            problem,
            match,
            binaries,
            runtime,
            executable,
            signature,
            launches(signature),
            CheckedCalls(signature, runtime),
            executable.workspace_bytes,
            prepacked,
        )

    def launch(self, inputs: tuple[Any, ...], out: Any, stream: object, workspace: Any) -> ReadCall:
        """Checks the arrays of one call and queues it. Its arguments and errors are those of `Plan.__call__`."""
        self.runtime.check_process()
        call = self.calls.read(inputs, out, stream)
        if workspace is not None and not isinstance(workspace, Allocation):
            workspace = self.calls.scratch(workspace, self.workspace_bytes, call)
        self.launches.launch(call.addresses, call.values, call.stream, workspace)
        call.queued()
        return call


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
