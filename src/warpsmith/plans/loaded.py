"""A program loaded on its device, as a plan calls it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from warpsmith.devices.base import Runtime
from warpsmith.devices.binary import Binaries
from warpsmith.devices.executable import Executable
from warpsmith.devices.launches import Launches
from warpsmith.devices.launching import launches_of
from warpsmith.devices.signature import Signature
from warpsmith.generator.problem import Problem
from warpsmith.plans.match import Match

LaunchesOf = Callable[[tuple[str, ...], tuple[str, ...]], Launches]
"""Maps the names of a call's operands, those passed by address and those passed by value, to the program's launches."""


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

    @classmethod
    def of(cls, problem: Problem, match: Match, binaries: Binaries, runtime: Runtime) -> LoadedProgram:
        """Loads a whole program. Raises as `Executable.load` and `Signature.of` do."""
        executable = Executable.load(runtime, match.program, binaries)
        signature = Signature.of(problem, match.program)
        launches = launches_of(executable, runtime, signature.buffers, signature.operands)
        return cls(problem, match, binaries, runtime, executable, signature, launches)

    @classmethod
    def of_part(
        cls,
        problem: Problem,
        match: Match,
        binaries: Binaries,
        runtime: Runtime,
        executable: Executable,
        held: Mapping[str, bytes],
        bound: LaunchesOf,
    ) -> LoadedProgram:
        """Wraps a part of a program; its other inputs are already on the device.

        Args:
            problem: problem that the whole program computes.
            match: how the program was found.
            binaries: binaries of the part's units, by name.
            runtime: the device.
            executable: the loaded part.
            held: inputs that calls do not pass, with the bytes that kernels take of them by value.
            bound: makes the part's launches.
        """
        signature = Signature.of(problem, executable.program, held)
        launches = bound(signature.buffers, signature.operands)
        return cls(problem, match, binaries, runtime, executable, signature, launches)
