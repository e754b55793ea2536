"""Makes the training step of a layer. It is the only module here that other packages import."""

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
from warpsmith.plans.conv2d.shared_step import SharedStep, verify_step
from warpsmith.plans.conv2d.spectra_choice import SharedKernels, choose, shared_kernels
from warpsmith.plans.conv2d.training_step import Choice as Choice
from warpsmith.plans.conv2d.training_step import ChosenBy as ChosenBy
from warpsmith.plans.conv2d.training_step import SeparateStep, TooLittleWorkspace
from warpsmith.plans.conv2d.training_step import TrainingStep as TrainingStep
from warpsmith.plans.loaded import Verify
from warpsmith.plans.make import plan
from warpsmith.plans.plan import open_runtime
from warpsmith.plans.poisoned import WrongProgram
from warpsmith.store.store_chain import open_for_look_up


def training_step(
    layer: Conv2d, device: str, store: str | None, reuse: bool | None, which: str | None = None
) -> TrainingStep:
    """Implementation of `warpsmith.training_step`, with its arguments and errors."""
    if not isinstance(layer, Conv2d):
        raise BadArgument(f"a training step is of the forward pass of a Conv2d; got {layer!r}")
    problems = passes_of(layer)
    reuse = None if reuse is None else flag(reuse, "reuse")
    separate = functools.partial(_separate, problems, device, store, Verify.of(which))
    if reuse is False:
        return separate(Choice(False, ChosenBy.CALLER, "reuse=False was given"))
    ref = DeviceRef.parse(device)
    with open_for_look_up(store) as stores:
        target = stores.measured(ref.device())
        kernels = shared_kernels(problems, target, stores)
        if isinstance(kernels, str):
            if reuse:
                raise BadArgument(f"no spectra are kept of {layer.key()}: {kernels}")
            return separate(Choice(False, ChosenBy.NECESSITY, kernels))
        requested = Choice(True, ChosenBy.CALLER, "reuse=True was given")
        choice = requested if reuse else choose(problems, kernels, target, stores)
    if not choice.reuse:
        return separate(choice)
    try:
        step = _shared(problems, kernels, ref, choice)
        _require_right(step, Verify.of(which), ref)
    except (TooLittleWorkspace, IllegalConfig, WrongResult) as error:
        if reuse:
            raise
        if isinstance(error, WrongResult):
            warnings.warn(
                f"{error}; three plans take its place", WrongProgram, stacklevel=3
            )  # attributed to the caller of the API
        return separate(Choice(False, ChosenBy.NECESSITY, str(error)))
    return step


def _require_right(step: SharedStep, which: Verify, ref: DeviceRef) -> None:
    """Checks a step. Raises WrongResult if results are wrong. The verdict holds for later steps too."""
    if (wrong := verify_step(step, which, ref.compiler)) is None:
        return
    names = ", ".join(f"{match.program.family} {match.program.config.key()}" for match in step.matches.values())
    layer = step.problems[Pass.FPROP].key()
    raise WrongResult(f"a training step by {names} gave wrong results for {layer}: {wrong.message}")


def _shared(problems: Mapping[Pass, Conv2d], kernels: SharedKernels, ref: DeviceRef, choice: Choice) -> SharedStep:
    programs = kernels.programs(problems, ref.device())
    compiler = ref.compiler(CompilerChoice.AUTO)
    return SharedStep(problems, kernels.matches, programs, compiler, open_runtime(ref), choice)


def _separate(
    problems: Mapping[Pass, Conv2d], device: str, store: str | None, which: Verify, choice: Choice
) -> SeparateStep:
    plans = {pass_: plan(problem, device, store, AUTO, which) for pass_, problem in problems.items()}
    return SeparateStep(problems, plans, choice)
