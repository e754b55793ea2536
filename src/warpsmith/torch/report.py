"""What `patch` did to a model: layers that were replaced, and those that were left, with the reason."""

from __future__ import annotations

import dataclasses

from warpsmith.generator.conv2d import Conv2d, ImageLayout, Pass
from warpsmith.generator.problem import DType
from warpsmith.plans.match import MatchKind
from warpsmith.torch.answers import Answer
from warpsmith.torch.remedy import tune_command


@dataclasses.dataclass(frozen=True, slots=True)
class PassReport:
    """How one pass of a layer is computed, for images of one shape."""

    problem: Conv2d
    """The pass, with its shapes."""
    kind: MatchKind | None
    """How well the best stored answer fits; None where no kernel family solves the problem."""
    family: str | None
    """The kernel family that computes it; None where PyTorch does."""

    @classmethod
    def of(cls, answer: Answer) -> PassReport:
        """From what was looked up."""
        assert isinstance(answer.problem, Conv2d)
        kind = None if answer.match is None else answer.match.kind
        return cls(answer.problem, kind, None if answer.plan is None else answer.plan.match.program.family)

    @property
    def pass_(self) -> Pass:
        """Which of the three."""
        return self.problem.pass_

    def __str__(self) -> str:
        return f"{self.pass_} {self.family} ({self.kind})" if self.family else f"{self.pass_} PyTorch"


@dataclasses.dataclass(frozen=True, slots=True)
class ReplacedLayer:
    """A layer that warpsmith computes, all of its passes or some."""

    name: str
    """As `named_modules` has it."""
    passes: tuple[PassReport, ...]
    """Of each shape of images that it saw: three. Empty where the shapes are not known yet."""

    def __str__(self) -> str:
        told = ", ".join(map(str, self.passes)) or "looked up at its first input"
        return f"{self.name}: {told}{self._data}"

    @property
    def _data(self) -> str:
        """Element type and layout, where they are not the usual ones."""
        seen = dict.fromkeys((each.problem.dtype, each.problem.layout) for each in self.passes)
        words = [_told_data(*each) for each in seen if each != (DType.FLOAT32, ImageLayout.NCHW)]
        return f"; {' and '.join(words)}" if words else ""


def _told_data(dtype: DType, layout: ImageLayout) -> str:
    return f"{dtype}, channels_last" if layout is ImageLayout.NHWC else str(dtype)


@dataclasses.dataclass(frozen=True, slots=True)
class LeftLayer:
    """A convolution that PyTorch goes on computing."""

    name: str
    """As `named_modules` has it."""
    reason: str
    """In one line."""
    passes: tuple[PassReport, ...] = ()
    """Where nothing is stored for the layer: what would have to be tuned."""

    def __str__(self) -> str:
        return f"{self.name}: left to PyTorch, {self.reason}"


@dataclasses.dataclass(frozen=True, slots=True)
class PatchReport:
    """The convolution layers of a model, those that were replaced and those that were not."""

    replaced: tuple[ReplacedLayer, ...]
    left: tuple[LeftLayer, ...]
    device: str
    """Where the model's layers are: `host`, or `cuda:I`."""

    @property
    def missing(self) -> tuple[Conv2d, ...]:
        """Problems that PyTorch computes since nothing is stored for them: what to give to `warpsmith.tune`."""
        passes = [each for layer in self.replaced for each in layer.passes]
        passes += [each for layer in self.left for each in layer.passes]
        return tuple(dict.fromkeys(each.problem for each in passes if not each.family))

    @property
    def commands(self) -> tuple[str, ...]:
        """What tunes each of them."""
        return tuple(tune_command(problem, self.device) for problem in self.missing)

    def __str__(self) -> str:
        return "\n".join(map(str, (*self.replaced, *self.left))) or "no convolution layers"
