"""From a layer to a training step: whether spectra are kept, by which kernels, compiled and loaded."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping

from warpsmith.devices.select import CompilerChoice, DeviceRef
from warpsmith.errors import BadArgument, WrongResult
from warpsmith.generator.canonical import flag
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.fourier.sharing import passes_of
from warpsmith.generator.gate import IllegalConfig
from warpsmith.generator.problem import AUTO
from warpsmith.plans.make import plan
from warpsmith.plans.plan import open_runtime
from warpsmith.plans.poisoned import WrongProgram
from warpsmith.plans.training.choice import choose
from warpsmith.plans.training.first_use import verify_step
from warpsmith.plans.training.kernels import SharedKernels, shared_kernels
from warpsmith.plans.training.shared import SharedStep
from warpsmith.plans.training.step import Choice, ChosenBy, TooLittleWorkspace, TrainingStep
from warpsmith.plans.training.usual import UsualStep
from warpsmith.plans.verified import Verify
from warpsmith.store.location import open_for_look_up


def training_step(
    layer: Conv2d, device: str, store: str | None, reuse: bool | None, which: str | None = None
) -> TrainingStep:
    """What `warpsmith.training_step` does, which has its arguments and errors."""
    if not isinstance(layer, Conv2d):
        raise BadArgument(f"a training step is of the forward pass of a Conv2d; got {layer!r}")
    problems = passes_of(layer)
    reuse = None if reuse is None else flag(reuse, "reuse")
    usual = functools.partial(_usual, problems, device, store, Verify.of(which))
    if reuse is False:
        return usual(Choice(False, ChosenBy.CALLER, "reuse=False was given"))
    ref = DeviceRef.parse(device)
    with open_for_look_up(store) as stores:
        kernels = shared_kernels(problems, ref.device(), stores)
        if isinstance(kernels, str):
            if reuse:
                raise BadArgument(f"no spectra are kept of {layer.key()}: {kernels}")
            return usual(Choice(False, ChosenBy.NECESSITY, kernels))
        asked = Choice(True, ChosenBy.CALLER, "reuse=True was given")
        choice = asked if reuse else choose(problems, kernels, ref.device(), stores)
    if not choice.reuse:
        return usual(choice)
    try:
        step = _shared(problems, kernels, ref, choice)
        _require_right(step, Verify.of(which), ref)
    except (TooLittleWorkspace, IllegalConfig, WrongResult) as error:
        if reuse:
            raise
        if isinstance(error, WrongResult):
            warnings.warn(f"{error}; three plans take its place", WrongProgram, stacklevel=3)  # who called the API
        return usual(Choice(False, ChosenBy.NECESSITY, str(error)))
    return step


def _require_right(step: SharedStep, which: Verify, ref: DeviceRef) -> None:
    """Checks a step. Raises WrongResult where results are wrong; later steps of these programs need no other check."""
    if (wrong := verify_step(step, which, ref.compiler)) is None:
        return
    names = ", ".join(f"{match.program.family} {match.program.config.key()}" for match in step.matches.values())
    layer = step.problems[Pass.FPROP].key()
    raise WrongResult(f"a training step by {names} gave wrong results for {layer}: {wrong.message}")


def _shared(problems: Mapping[Pass, Conv2d], kernels: SharedKernels, ref: DeviceRef, choice: Choice) -> SharedStep:
    programs = kernels.programs(problems, ref.device())
    compiler = ref.compiler(CompilerChoice.AUTO)
    return SharedStep(problems, kernels.matches, programs, compiler, open_runtime(ref), choice)


def _usual(problems: Mapping[Pass, Conv2d], device: str, store: str | None, which: Verify, choice: Choice) -> UsualStep:
    plans = {pass_: plan(problem, device, store, AUTO, which) for pass_, problem in problems.items()}
    return UsualStep(problems, plans, choice)
