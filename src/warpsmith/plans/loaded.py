"""A program loaded on its device, as a plan calls it, with what is known of its results.

Inputs may be prepacked: steps that depend on bound inputs alone run once, the others in each call.
"""

from __future__ import annotations

import dataclasses
import enum
import itertools
import os
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from warpsmith.devices.checked_calls import CheckedCalls, ReadCall
from warpsmith.devices.compiler import Binaries
from warpsmith.devices.executable import Executable
from warpsmith.devices.launches import launches_of
from warpsmith.devices.module import Allocation, Launches
from warpsmith.devices.process import ForkLock
from warpsmith.devices.runtime import Runtime
from warpsmith.devices.signature import Signature, weights_bytes
from warpsmith.devices.workspaces import Workspaces
from warpsmith.generator.prepacking import SplitProgram, split_program
from warpsmith.generator.problem import Problem, member
from warpsmith.plans.match import Match

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
        self.verified = NOT_REQUESTED
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


ENVIRONMENT_VARIABLE = "WARPSMITH_VERIFY"


class Verify(enum.StrEnum):
    """Choice of the programs that are checked before they are relied on."""

    FIRST = "first"
    """Programs that were not tuned for this problem on this device, once per program."""
    NEVER = "never"
    ALWAYS = "always"
    """Also stored winners."""

    @classmethod
    def of(cls, word: str | None) -> Verify:
        """Value of the argument, else of the environment, else FIRST. Raises BadArgument for an unknown word."""
        given = word or os.environ.get(ENVIRONMENT_VARIABLE) or cls.FIRST
        return member(cls, given, "verify" if word else ENVIRONMENT_VARIABLE)


class Verified(enum.StrEnum):
    """What was done to verify a plan's results."""

    STORED = "stored"
    """Nothing: the program is a stored winner, which a search has verified."""
    CHECKED = "checked"
    """Some results were compared with float64 sums, by this process or by an earlier one, and are right."""
    PENDING = "pending"
    """Nothing yet: the next call that is not under graph capture is checked, because random data did not fit or would
    have taken long.
    """
    NOT = "not"
    """Nothing: no check was requested, or the check itself failed."""


@dataclasses.dataclass(frozen=True, slots=True)
class Verification:
    """Outcome of verifying a plan's results."""

    by: Verified
    samples: int = 0
    """Number of results that were compared."""
    largest_error: float | None = None
    """Largest error divided by the scale that the problem's accuracy names (`Problem.error_unit`); None if none were
    compared.
    """
    reason: str = ""
    """Reason why no check took place, for NOT."""


NOT_REQUESTED = Verification(Verified.NOT, reason="nobody asked for it")
EXEMPT = Verification(Verified.STORED)
TUNED_ELSEWHERE = Verification(Verified.NOT, reason="the bundle's kernel was tuned on another device")
PENDING = Verification(Verified.PENDING)


def prepacked(whole: LoadedProgram, inputs: Mapping[str, Any]) -> LoadedProgram | None:
    """The part of a program that runs in each call, once the steps that depend on bound inputs alone have run.

    As many inputs are prepacked as possible; the other ones remain inputs of the part.

    Args:
        whole: the program.
        inputs: arrays by the names of the problem's inputs.

    Returns: None if no step depends on some of these inputs alone.

    Raises:
        BadArgument: an array does not fit.
        OutOfMemory: the results of these steps do not fit.
    """
    for count in range(len(inputs), 0, -1):
        for names in itertools.combinations(inputs, count):
            if (parts := split_program(whole.match.program, names)) is not None:
                return _loaded_rest(whole, {name: inputs[name] for name in names}, parts)
    return None


def _loaded_rest(whole: LoadedProgram, inputs: Mapping[str, Any], parts: SplitProgram) -> LoadedProgram:
    """Runs the first part, and loads the rest."""
    runtime, problem = whole.runtime, whole.problem
    memory = Workspaces(runtime, parts.workspaces)
    kept = memory.allocate_kept().addresses
    _run_first(whole, inputs, parts, kept)
    executable = Executable.load(runtime, parts.rest, whole.binaries)
    by_value = parts.rest.by_value
    operands = {each.name: each for each in problem.inputs}
    fixed = {name: weights_bytes(inputs[name], operands[name]) if name in by_value else b"" for name in inputs}

    def launches(signature: Signature) -> Launches:
        return launches_of(executable, runtime, dataclasses.replace(signature.arguments, kept=kept))

    return LoadedProgram.of_part(problem, whole.match, whole.binaries, runtime, executable, fixed, launches, memory)


def _run_first(whole: LoadedProgram, inputs: Mapping[str, Any], parts: SplitProgram, kept: Mapping[str, int]) -> None:
    """Runs the steps of the bound inputs and waits for them, because calls may come on any stream."""
    runtime = whole.runtime
    signature = Signature.of_inputs(whole.problem, parts.first, inputs)
    executable = Executable.load(runtime, parts.first, whole.binaries)
    try:
        arrays = tuple(inputs[name] for name in signature.caller_inputs)
        call = CheckedCalls(signature, runtime).read(arrays, (), None)
        launches = launches_of(executable, runtime, dataclasses.replace(signature.arguments, kept=kept))
        launches.launch(call.addresses, call.values, call.stream)
        call.queued()
        runtime.synchronize()
    finally:
        executable.close()
