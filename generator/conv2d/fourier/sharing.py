"""The three passes of a training step over shared spectra: three forward transforms instead of six.

Each pass of a layer in the frequency domain transforms two of x, w and dy, multiplies, and transforms the result back.
The spectra of an operand are the same numbers in the same order in every pass: (frequencies, images, channels) of x,
(frequencies, filters, channels) of w and (frequencies, images, filters) of dy. This holds if the passes transform on
one basis, begin a filter's plane at the same point, and take the batch whole.

Source: "Parallelized Filters", section 4.1 (both sequences are transformed once, then multiplied block by block);
Vasilache et al. 2014, "Fast Convolutional Nets With fbfft", section 3.1 (table 1: which operands each pass transforms).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

from warpsmith.errors import BadArgument
from warpsmith.generator.conv2d.fourier.parts import FLOAT32_PRODUCTS, step_ns
from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.words import GRADIENTS, Pass
from warpsmith.generator.device import Device
from warpsmith.generator.fft.problem import Fft
from warpsmith.generator.gate import Gate
from warpsmith.generator.pipeline import Pipeline, Stage
from warpsmith.generator.prepacking import SharedWorkspace, SplitProgram, split_program, with_shared_workspaces
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config
from warpsmith.generator.steps import aligned

X, W, DY = "x", "w", "dy"
"""Operands that a training step transforms."""
_ROOMY = 2**62
"""Bytes of workspace so large that no batch is split."""


def passes_of(layer: Conv2d) -> dict[Pass, Conv2d]:
    """The three passes of a training step, each as a problem of its own; the gradients have no bias.

    Raises BadArgument if `layer` is a gradient, or has a ReLU, whose gradient is none of the three passes.
    """
    if layer.pass_ is not Pass.FPROP:
        raise BadArgument(f"a training step is made of a layer's forward pass; got pass {layer.pass_}")
    if layer.relu:
        raise BadArgument("a training step has no relu: its gradient is none of the three passes; apply it behind them")
    return {Pass.FPROP: layer, **{each: dataclasses.replace(layer, pass_=each, bias=False) for each in GRADIENTS}}


@dataclasses.dataclass(frozen=True, slots=True)
class Spectra:
    """The transforms that the three passes share."""

    x: Fft
    w: Fft
    dy: Fft
    family: str
    """Family of the transforms; it is the same for all passes, so a config for one pass fits the others."""

    def nbytes(self, name: str) -> int:
        """Bytes of an operand's spectra, aligned as workspaces are."""
        transform: Fft = getattr(self, name)
        return aligned(transform.output.nbytes)

    @property
    def kept_bytes(self) -> int:
        """Bytes of all three operands' spectra."""
        return sum(map(self.nbytes, (X, W, DY)))

    @property
    def least_bytes(self) -> int:
        """Fewest bytes that a step needs: the kept spectra, and those of dx or dw, which are as many as of x or w.

        The spectra of y share the memory of those of dy, because a forward pass makes the spectra of dy outdated.
        """
        return self.kept_bytes + max(self.nbytes(X), self.nbytes(W))


def spectra_of(family: Pipeline, layer: Conv2d, device: Device) -> Spectra | str:
    """The transforms that the passes of a family share, or one line that says why they share none."""
    found: dict[str, set[tuple[Fft, str]]] = {}
    for problem in passes_of(layer).values():
        transforms = _shareable(family, problem, device)
        if isinstance(transforms, str):
            return transforms
        for name, transform in transforms.items():
            found.setdefault(name, set()).add(transform)
    if found.keys() != {X, W, DY} or any(len(each) > 1 for each in found.values()):
        return "transforms an operand in one pass as it does in no other"
    one = {name: transform for name, ((transform, _),) in found.items()}
    if len(families := {name for ((_, name),) in found.values()}) > 1:
        return f"transforms by {', '.join(sorted(families))}"
    return Spectra(one[X], one[W], one[DY], families.pop())


def takes(family: Pipeline, problem: Conv2d, spectra: Spectra, device: Device) -> bool:
    """Whether a family computes a pass from these spectra, whatever it does in the other passes."""
    transforms = _shareable(family, problem, device)
    return not isinstance(transforms, str) and all(
        transform == (getattr(spectra, name), spectra.family) for name, transform in transforms.items()
    )


@functools.lru_cache(256)
def _shareable(family: Pipeline, problem: Conv2d, device: Device) -> dict[str, tuple[Fft, str]] | str:
    """The transform of each input of a pass and its family, or one line that says why another pass cannot share it."""
    roomy = dataclasses.replace(problem, workspace=_ROOMY)
    if (why := Gate(roomy, device).why_unable(family)) is not None:
        return why
    stages = family.stages(roomy)
    if len(family.runs(roomy)) > len(stages):
        return "takes the batch in parts"
    if any("signal" in stage.memory and "spectrum" not in stage.memory for stage in stages):
        return "keeps no spectra of its result, in whose place those of dy would be"
    found: dict[str, tuple[Fft, str]] = {}
    for name, stage in _transforms(family, roomy).items():
        assert isinstance(stage.problem, Fft)
        found[name] = stage.problem, stage.family.name
    return found


def limited(problem: Conv2d, spectra: Spectra) -> Conv2d:
    """A pass with the workspace that remains beside the spectra that it does not read."""
    taken = problem.pass_.select(0, spectra.nbytes(X), spectra.nbytes(W))
    return dataclasses.replace(problem, workspace=max(0, problem.workspace_limit - taken))


@dataclasses.dataclass(frozen=True, slots=True)
class Kernel:
    """Problem, family and config that compute one pass."""

    problem: Conv2d
    family: Pipeline
    config: Config

    def fitting(self, spectra: Spectra, device: Device) -> Kernel:
        """The kernel with the most similar legal config that leaves room for the spectra of the other passes."""
        space = Gate(limited(self.problem, spectra), device).space(self.family)
        if space.contains(self.config):
            return self
        return dataclasses.replace(self, config=space.like(self.config.values()) or self.config)

    def with_transform_of(self, other: Kernel, name: str) -> Kernel:
        """The kernel with the other's config for the transform of an operand, so that both write the same bits."""
        theirs, ours = (_transforms(each.family, each.problem)[name].name for each in (other, self))
        rest = {name: value for name, value in self.config.items if not name.startswith(f"{ours}.")}
        taken = Config.joined({ours: other.config.of_stage(theirs)})
        return dataclasses.replace(self, config=Config.of({**rest, **taken.values()}))

    def program(self, device: Device) -> Program:
        """The whole pass on `device`, with the spectra of its inputs in workspaces that all passes name alike.

        The spectra of y are as many as those of dy, and use their memory.
        """
        transforms, stages = _transforms(self.family, self.problem), self.family.stages(self.problem)
        shared = {
            stage.memory["spectrum"]: SharedWorkspace(kept_name(name), (name,)) for name, stage in transforms.items()
        }
        if self.problem.pass_ is Pass.FPROP:
            last = next(stage for stage in stages if stage.memory.get("signal") == self.problem.output.name)
            shared[last.memory["spectrum"]] = SharedWorkspace(kept_name(DY))
        gate = Gate(self.problem, device)
        return with_shared_workspaces(gate.program(self.family, self.config), shared)


@dataclasses.dataclass(frozen=True, slots=True)
class SharedPrograms:
    """The programs of a training step, over three kept workspaces (`kept_name`)."""

    fprop: Program
    """Program (x, w[, b]) -> y; it leaves the spectra of x and w, and the spectra of y in the memory for dy's."""
    given_dy: Mapping[Pass, Program]
    """Program (dy) -> dx or dw of each gradient; it leaves the spectra of dy and reads those of x or w."""
    kept_dy: Mapping[Pass, Program]
    """The same programs without dy, whose spectra they read."""

    @classmethod
    def of(cls, kernels: Mapping[Pass, Kernel], device: Device) -> SharedPrograms:
        """The programs of kernels whose spectra agree. dgrad's config transforms dy, whichever gradient comes first.

        Raises IllegalConfig if a kernel's config is not legal on `device`, or wgrad's with that transform is not.
        """
        dgrad = kernels[Pass.DGRAD]
        programs = {pass_: kernels[pass_].with_transform_of(dgrad, DY).program(device) for pass_ in GRADIENTS}
        return cls(
            kernels[Pass.FPROP].program(device),
            {pass_: _parts(program, pass_.beside_dy).rest for pass_, program in programs.items()},
            {pass_: _parts(program, pass_.beside_dy, DY).rest for pass_, program in programs.items()},
        )

    @property
    def programs(self) -> tuple[Program, ...]:
        return self.fprop, *self.given_dy.values(), *self.kept_dy.values()


def kept_name(operand: str) -> str:
    """Name of the workspace with an operand's spectra."""
    return f"spectra_{operand}"


def expected_ns(family: Pipeline, problem: Conv2d, device: Device) -> float:
    """The time of a pass, each stage as long as its bytes or its operations take."""
    return sum(stage_ns(stage, device) for stage in family.stages(problem))


def stage_ns(stage: Stage, device: Device) -> float:
    """The time of a stage, whose operations are float32 ones."""
    return step_ns(stage.problem.bytes, device.rates, FLOAT32_PRODUCTS.ns(stage.problem.flops, device.rates))


def spared(families: Mapping[Pass, Pipeline], problems: Mapping[Pass, Conv2d]) -> tuple[Stage, ...]:
    """The transforms that a training step leaves out: that of w in dgrad, those of x and dy in wgrad."""
    dgrad, wgrad = (_transforms(families[each], problems[each]) for each in GRADIENTS)
    return dgrad[W], wgrad[X], wgrad[DY]


def _transforms(family: Pipeline, problem: Conv2d) -> dict[str, Stage]:
    """The stages that transform an input, by the input's name."""
    inputs = {operand.name for operand in problem.inputs}
    stages = family.stages(problem)
    return {stage.memory["signal"]: stage for stage in stages if stage.memory.get("signal") in inputs}


def _parts(program: Program, *names: str) -> SplitProgram:
    parts = split_program(program, names)
    if parts is None:
        raise ValueError(f"{program.family} makes nothing of {', '.join(names)} alone")
    return parts
