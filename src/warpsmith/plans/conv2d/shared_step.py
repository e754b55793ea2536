"""A training step whose passes share spectra: three forward transforms instead of six."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from warpsmith.devices.arrays import empty_like_caller
from warpsmith.devices.compiler import Compiler
from warpsmith.devices.executable import Executable
from warpsmith.devices.launches import SharedLaunches, SharedWorkspaces
from warpsmith.devices.module import Launches
from warpsmith.devices.runtime import Runtime
from warpsmith.devices.signature import Signature
from warpsmith.errors import BadArgument
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.fourier.sharing import DY, SharedPrograms, W, X, kept_name
from warpsmith.generator.problem import DType, Operand, Role
from warpsmith.generator.program import Program
from warpsmith.plans.conv2d.training_step import Choice, TooLittleWorkspace, TrainingStep, no_dy, no_fprop, too_little
from warpsmith.plans.loaded import LoadedProgram, VerifiedProgram
from warpsmith.plans.match import Match
from warpsmith.plans.plan import Plan
from warpsmith.plans.verified import UNASKED, Verification

Call = tuple[Pass, bool]
"""A pass, and whether it computes the spectra of dy."""
_SAMPLE = Operand("sample", Role.OUTPUT, (1,), DType.FLOAT32)


class SharedStep(TrainingStep):
    """Training step that keeps the spectra of x, w and dy, one set for each stream.

    Args:
        problems: the three passes.
        matches: how the kernels of each pass were found.
        programs: programs of the passes, over shared workspaces.
        compiler: compiler for these programs.
        runtime: the device.
        choice: the decision.

    Raises:
        CompileError: as a plan.
        TooLittleWorkspace: the workspaces of libraries on this device do not fit beside the spectra.
    """

    def __init__(
        self,
        problems: Mapping[Pass, Conv2d],
        matches: Mapping[Pass, Match],
        programs: SharedPrograms,
        compiler: Compiler,
        runtime: Runtime,
        choice: Choice,
    ) -> None:
        super().__init__(problems, matches, choice)
        self.runtime = runtime
        """The device."""
        self.programs = programs
        """The programs of the passes."""
        whole = {Pass.FPROP: programs.fprop, **programs.given_dy}
        self.binaries = {pass_: compiler.compile_program(program) for pass_, program in whole.items()}
        """Binaries of each pass."""
        loaded = {pass_: Executable.load(runtime, program, self.binaries[pass_]) for pass_, program in whole.items()}
        self._executables = tuple(loaded.values())
        self._memory = self.new_memory()
        if self._memory.nbytes > (allowed := problems[Pass.FPROP].workspace_limit):
            raise TooLittleWorkspace(too_little(self._memory.nbytes, allowed))
        self._roles = tuple((role, loaded[role.pass_].part(role.program)) for role in _roles(programs))
        self._parts = {call: Plan(VerifiedProgram(each)) for call, each in self.loaded_on(self._memory).items()}
        self.verification = UNASKED
        """Whether results of all passes were compared with float64 sums."""
        self._samples: dict[type, Any] = {}
        self._sample: Any = None
        """Array of one number, of the library of the latest dy. Calls without dy make their result like it."""

    @property
    def workspace_bytes(self) -> int:
        return self._memory.nbytes

    @property
    def verified(self) -> Mapping[Pass, Verification]:
        return dict.fromkeys(self.problems, self.verification)

    def new_memory(self) -> SharedWorkspaces:
        """New memory for the spectra and a call's scratch memory, apart from the step's own."""
        return SharedWorkspaces(self.runtime, self._executables)

    def loaded_on(self, memory: SharedWorkspaces) -> dict[Call, LoadedProgram]:
        """The programs, loaded with their spectra in `memory`."""
        return {(role.pass_, DY in role.makes): self._part(role, each, memory) for role, each in self._roles}

    def fprop(self, x: Any, w: Any, b: Any = None, *, out: Any = None, stream: Any = None) -> Any:
        arrays = (x, w) if b is None else (x, w, b)
        return self._parts[Pass.FPROP, False](*arrays, out=out, stream=stream)

    def dgrad(self, dy: Any = None, *, out: Any = None, stream: Any = None) -> Any:
        return self._gradient(Pass.DGRAD, dy, out, stream)

    def wgrad(self, dy: Any = None, *, out: Any = None, stream: Any = None) -> Any:
        return self._gradient(Pass.WGRAD, dy, out, stream)

    def _gradient(self, pass_: Pass, dy: Any, out: Any, stream: Any) -> Any:
        if dy is not None:
            result = self._parts[pass_, True](dy, out=out, stream=stream)
            self._remember_library(dy)
            return result
        if out is None and self._sample is None:
            raise BadArgument(no_dy(pass_))
        target = empty_like_caller(self._sample, self.problems[pass_].output, self.runtime) if out is None else out
        return self._parts[pass_, False](out=target, stream=stream)

    def _remember_library(self, dy: Any) -> None:
        kind = type(dy)
        if kind not in self._samples:
            self._samples[kind] = empty_like_caller(dy, _SAMPLE, self.runtime)
        self._sample = self._samples[kind]

    def _part(self, role: _Role, executable: Executable, memory: SharedWorkspaces) -> LoadedProgram:
        problem, binaries = self.problems[role.pass_], self.binaries[role.pass_]
        makes, outdates = (frozenset(map(kept_name, each)) for each in (role.makes, role.outdates))

        def launches(signature: Signature) -> Launches:
            arguments = signature.arguments
            return SharedLaunches(executable, self.runtime, arguments, memory, role.needs, makes, outdates)

        fixed = dict.fromkeys(role.needs_of, b"")
        match = self.matches[role.pass_]
        return LoadedProgram.of_part(problem, match, binaries, self.runtime, executable, fixed, launches)


@dataclasses.dataclass(frozen=True, slots=True)
class _Role:
    """Use of the spectra by one of a step's programs."""

    pass_: Pass
    program: Program
    makes: tuple[str, ...]
    """Operands whose spectra the program writes."""
    needs_of: tuple[str, ...] = ()
    """Operands whose spectra must be there."""
    outdates: tuple[str, ...] = ()
    """Operands whose spectra are invalid for the next pass."""

    @property
    def needs(self) -> dict[str, str]:
        """Spectra that must be there, each with the error message if they are not."""
        return {kept_name(name): no_dy(self.pass_) if name == DY else no_fprop(self.pass_) for name in self.needs_of}


def _roles(programs: SharedPrograms) -> tuple[_Role, ...]:
    others = {Pass.DGRAD: W, Pass.WGRAD: X}
    return (
        _Role(Pass.FPROP, programs.fprop, makes=(X, W), outdates=(DY,)),
        *(_Role(pass_, each, (DY,), (others[pass_],)) for pass_, each in programs.given_dy.items()),
        *(_Role(pass_, each, (), (others[pass_], DY)) for pass_, each in programs.kept_dy.items()),
    )
