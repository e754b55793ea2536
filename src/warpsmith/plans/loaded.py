"""A program on its device, as a plan calls it."""

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
"""Maps the names of the operands whose addresses and bytes a call brings to what launches a program."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class LoadedProgram:
    """A program, or the part of one that each call does."""

    problem: Problem
    match: Match
    binaries: Binaries
    runtime: Runtime
    executable: Executable
    signature: Signature
    launches: Launches

    @classmethod
    def of(cls, problem: Problem, match: Match, binaries: Binaries, runtime: Runtime) -> LoadedProgram:
        """A whole program. Raises as `Executable.load` and `Signature.of` do."""
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
        """A part of a program: what it reads beside a call's arrays is there already.

        Args:
            problem: what the whole program computes.
            match: how that was found.
            binaries: of each unit of the part.
            runtime: the device.
            executable: the part, loaded.
            held: inputs that no call gives, with the bytes that kernels take of them.
            bound: makes what launches the part.
        """
        signature = Signature.of(problem, executable.program, held)
        launches = bound(signature.buffers, signature.operands)
        return cls(problem, match, binaries, runtime, executable, signature, launches)
