"""A training step whose passes share spectra: three forward transforms instead of six. It is checked before its first
call, because its exact programs were never tuned.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from warpsmith.devices.arrays import empty_like_caller
from warpsmith.devices.compiler import Compiler
from warpsmith.devices.executable import Executable
from warpsmith.devices.launches import SharedLaunches, SharedWorkspaces
from warpsmith.devices.module import Launches
from warpsmith.devices.runtime import ALIGNMENT, Runtime, Work
from warpsmith.devices.signature import Signature
from warpsmith.errors import BadArgument
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.fourier.sharing import DY, SharedPrograms, W, X, kept_name
from warpsmith.generator.conv2d.layer.words import GRADIENTS
from warpsmith.generator.problem import DType, Operand, Role
from warpsmith.generator.program import Program
from warpsmith.plans.conv2d.training_step import Choice, TooLittleWorkspace, TrainingStep, no_dy, no_fprop, too_little
from warpsmith.plans.first_use.verdicts import VERDICTS, Finding, verdict_name
from warpsmith.plans.first_use.verify import seed_of
from warpsmith.plans.loaded import EXEMPT, NOT_REQUESTED, LoadedProgram, Verification, Verified, VerifiedProgram, Verify
from warpsmith.plans.match import Match, MatchKind
from warpsmith.plans.plan import Plan

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
        self.whole = dict(zip(Pass, (programs.fprop, *map(programs.given_dy.__getitem__, GRADIENTS)), strict=True))
        """The program of each pass that is given all operands."""
        self.binaries = {pass_: compiler.compile_program(program) for pass_, program in self.whole.items()}
        """Binaries of each pass."""
        loaded = {pass_: Executable.load(runtime, each, self.binaries[pass_]) for pass_, each in self.whole.items()}
        self._executables = tuple(loaded.values())
        self._memory = self.new_memory()
        if self._memory.nbytes > (allowed := problems[Pass.FPROP].workspace_limit):
            raise TooLittleWorkspace(too_little(self._memory.nbytes, allowed))
        self._roles = tuple((role, loaded[role.pass_].part(role.program)) for role in _roles(programs))
        self._parts = {call: Plan(VerifiedProgram(each)) for call, each in self.loaded_on(self._memory).items()}
        self.verification = NOT_REQUESTED
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
    return (
        _Role(Pass.FPROP, programs.fprop, makes=(X, W), outdates=(DY,)),
        *(_Role(pass_, each, (DY,), (pass_.beside_dy,)) for pass_, each in programs.given_dy.items()),
        *(_Role(pass_, each, (), (pass_.beside_dy, DY)) for pass_, each in programs.kept_dy.items()),
    )


MOST_TIMES = 10
"""Multiple of `check.MOST_FLOPS` up to which a step is checked: 50 ms per program on a large GPU. A step is made once
for a layer, and no later call can be checked instead, because the gradients' calls do not pass x and w.
"""
CALLS: tuple[Call, ...] = (
    (Pass.FPROP, False),
    (Pass.DGRAD, True),
    (Pass.WGRAD, False),
    (Pass.WGRAD, True),
    (Pass.DGRAD, False),
)
"""All programs of a step, in an order in which the spectra that each one reads are there."""


def verify_step(step: SharedStep, which: Verify, compiler: Callable[[], Compiler]) -> Finding | None:
    """Checks a new step and records the outcome in it. A check that cannot be carried out does nothing else.

    Args:
        step: the step before its first call.
        which: which programs are checked.
        compiler: makes the compiler for the step's device.

    Returns: the finding if results are wrong; None if no fault is known.
    """
    if which is Verify.NEVER:
        step.verification = NOT_REQUESTED
        return None
    if which is Verify.FIRST and _is_tuned(step):
        step.verification = EXEMPT
        return None
    name = _verdict_name(step)
    finding = VERDICTS.get(name)
    if finding is None:
        try:
            finding = _check(step, compiler())
        except Exception as error:
            step.verification = Verification(Verified.NOT, reason=str(error))
            return None
        VERDICTS.put(name, finding)
    step.verification = Verification(Verified.CHECKED, finding.samples, finding.largest_error)
    return None if finding.is_right else finding


def _is_tuned(step: SharedStep) -> bool:
    """True if all passes are stored winners with unchanged configs. Memory for spectra may have changed a config."""
    return all(
        match.kind is MatchKind.EXACT and step.whole[pass_].config == match.program.config
        for pass_, match in step.matches.items()
    )


def _verdict_name(step: SharedStep) -> str:
    fingerprints = " ".join(program.fingerprint for program in step.programs.programs)
    binaries = {f"{pass_} {name}": each for pass_, own in step.binaries.items() for name, each in own.items()}
    return verdict_name(step.problems[Pass.FPROP], step.runtime.device, fingerprints, binaries)


class NotChecked(Exception):
    """The step is not checked; the message says why in one line."""


def _check(step: SharedStep, compiler: Compiler) -> Finding:
    """Runs all programs of a step on random data in separate memory. Raises NotChecked or WarpsmithError."""
    # This imports NumPy's random numbers, and Jinja2 with its templates.
    from warpsmith.plans.first_use.check import MOST_FLOPS, SHARE_OF_FREE_MEMORY
    from warpsmith.plans.first_use.data import memory_needed

    runtime = step.runtime
    if max(problem.flops for problem in step.problems.values()) > MOST_TIMES * MOST_FLOPS[runtime.device.kind]:
        raise NotChecked("the layer takes too long to be run on random data")
    if runtime.is_being_captured():
        raise NotChecked("the step was made while a graph was captured")
    needed, free = sum(map(memory_needed, step.problems.values())) + ALIGNMENT, runtime.free_bytes()
    if free is not None and needed + step.workspace_bytes > free // SHARE_OF_FREE_MEMORY:
        raise NotChecked("random data do not fit into free memory")
    memory = step.new_memory()
    try:
        with runtime.independent_work() as work:
            return _found(step.loaded_on(memory), compiler, work, seed_of(step.programs.fprop))
    finally:
        memory.close()


def _found(parts: Mapping[Call, LoadedProgram], compiler: Compiler, work: Work, seed: int) -> Finding:
    """Finding of all programs together, with the message of the first wrong one."""
    from warpsmith.plans.first_use.check import compared, kernels_of
    from warpsmith.plans.first_use.data import random_data, values_of

    there: dict[str, int] = {}
    found = Finding(0, 0, 0.0, "")
    for number, call in enumerate(CALLS):
        part = parts[call]
        kernels = kernels_of(part, compiler)
        signature = part.signature
        data = random_data(part.problem, signature, kernels, work, seed + number, there)
        there |= {name: data.inputs[name] for name in (X, W, DY) if name in data.inputs}
        addresses = {**data.inputs, **data.results}
        launched = tuple(addresses[name] for name in signature.arguments.buffers)
        part.launches.launch(launched, values_of(signature, data.known), work.stream)
        one = compared(part, kernels, work, data, seed, is_random=True)
        if one is None:
            raise NotChecked(f"the results of {call[0]} on random data are not all finite")
        message = found.message or (one.message and f"{call[0]}: {one.message}")
        largest = max(found.largest_error, one.largest_error)
        found = Finding(found.samples + one.samples, found.wrong + one.wrong, largest, message)
    return found
