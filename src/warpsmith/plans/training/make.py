"""From a layer to a training step: whether spectra are kept, by which kernels, compiled and loaded."""

from __future__ import annotations

from collections.abc import Mapping

from warpsmith.devices.select import CompilerChoice, DeviceRef
from warpsmith.errors import BadArgument
from warpsmith.generator.canonical import flag
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.fourier.sharing import passes_of
from warpsmith.generator.gate import IllegalConfig
from warpsmith.generator.problem import AUTO
from warpsmith.plans.make import plan
from warpsmith.plans.plan import open_runtime
from warpsmith.plans.training.choice import choose
from warpsmith.plans.training.kernels import SharedKernels, shared_kernels
from warpsmith.plans.training.shared import SharedStep
from warpsmith.plans.training.step import Choice, ChosenBy, TooLittleWorkspace, TrainingStep
from warpsmith.plans.training.usual import UsualStep
from warpsmith.store.location import open_for_look_up


def training_step(layer: Conv2d, device: str, store: str | None, reuse: bool | None) -> TrainingStep:
    """What `warpsmith.training_step` does, which has its arguments and errors."""
    if not isinstance(layer, Conv2d):
        raise BadArgument(f"a training step is of the forward pass of a Conv2d; got {layer!r}")
    problems = passes_of(layer)
    reuse = None if reuse is None else flag(reuse, "reuse")
    if reuse is False:
        return _usual(problems, device, store, Choice(False, ChosenBy.CALLER, "reuse=False was given"))
    ref = DeviceRef.parse(device)
    with open_for_look_up(store) as stores:
        kernels = shared_kernels(problems, ref.device(), stores)
        if isinstance(kernels, str):
            if reuse:
                raise BadArgument(f"no spectra are kept of {layer.key()}: {kernels}")
            return _usual(problems, device, store, Choice(False, ChosenBy.NECESSITY, kernels))
        asked = Choice(True, ChosenBy.CALLER, "reuse=True was given")
        choice = asked if reuse else choose(problems, kernels, ref.device(), stores)
    if not choice.reuse:
        return _usual(problems, device, store, choice)
    try:
        return _shared(problems, kernels, ref, choice)
    except (TooLittleWorkspace, IllegalConfig) as error:
        if reuse:
            raise
        return _usual(problems, device, store, Choice(False, ChosenBy.NECESSITY, str(error)))


def _shared(problems: Mapping[Pass, Conv2d], kernels: SharedKernels, ref: DeviceRef, choice: Choice) -> SharedStep:
    programs = kernels.programs(problems, ref.device())
    compiler = ref.compiler(CompilerChoice.AUTO)
    return SharedStep(problems, kernels.matches, programs, compiler, open_runtime(ref), choice)


def _usual(problems: Mapping[Pass, Conv2d], device: str, store: str | None, choice: Choice) -> UsualStep:
    plans = {pass_: plan(problem, device, store, AUTO) for pass_, problem in problems.items()}
    return UsualStep(problems, plans, choice)
