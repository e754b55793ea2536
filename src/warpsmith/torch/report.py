"""Report of `patch`: the layers that were replaced, and the layers that were left, with the reason."""

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
    kind: MatchKind | None
    """How well the best stored winner fits; None if no kernel family solves the problem."""
    family: str | None
    """The kernel family that computes the pass; None if PyTorch does."""

    @classmethod
    def of(cls, answer: Answer) -> PassReport:
        """Makes the report from an answer."""
        assert isinstance(answer.problem, Conv2d)
        kind = None if answer.match is None else answer.match.kind
        return cls(answer.problem, kind, None if answer.plan is None else answer.plan.match.program.family)

    @property
    def pass_(self) -> Pass:
        return self.problem.pass_

    def __str__(self) -> str:
        return f"{self.pass_} {self.family} ({self.kind})" if self.family else f"{self.pass_} PyTorch"


@dataclasses.dataclass(frozen=True, slots=True)
class ReplacedLayer:
    """A layer for which warpsmith computes at least one pass."""

    name: str
    """Name in `named_modules`."""
    passes: tuple[PassReport, ...]
    """Three passes for each image shape that the layer saw. Empty if no shape is known yet."""

    def __str__(self) -> str:
        told = ", ".join(map(str, self.passes)) or "looked up at its first input"
        return f"{self.name}: {told}{self._data}"

    @property
    def _data(self) -> str:
        """Element type and layout, if they are not float32 and NCHW."""
        seen = dict.fromkeys((each.problem.dtype, each.problem.layout) for each in self.passes)
        words = [_told_data(*each) for each in seen if each != (DType.FLOAT32, ImageLayout.NCHW)]
        return f"; {' and '.join(words)}" if words else ""


def _told_data(dtype: DType, layout: ImageLayout) -> str:
    return f"{dtype}, channels_last" if layout is ImageLayout.NHWC else str(dtype)


@dataclasses.dataclass(frozen=True, slots=True)
class LeftLayer:
    """A convolution that stays with PyTorch."""

    name: str
    """Name in `named_modules`."""
    reason: str
    """The reason, in one line."""
    passes: tuple[PassReport, ...] = ()
    """The passes to tune, if nothing is stored for the layer."""

    def __str__(self) -> str:
        return f"{self.name}: left to PyTorch, {self.reason}"


@dataclasses.dataclass(frozen=True, slots=True)
class PatchReport:
    """The convolution layers of a model: those that were replaced and those that were left."""

    replaced: tuple[ReplacedLayer, ...]
    left: tuple[LeftLayer, ...]
    device: str
    """Device of the model's layers: `host`, or `cuda:I`."""

    @property
    def missing(self) -> tuple[Conv2d, ...]:
        """Problems that PyTorch computes because nothing is stored for them. Pass them to `warpsmith.tune`."""
        passes = [each for layer in self.replaced for each in layer.passes]
        passes += [each for layer in self.left for each in layer.passes]
        return tuple(dict.fromkeys(each.problem for each in passes if not each.family))

    @property
    def commands(self) -> tuple[str, ...]:
        """Commands that tune the missing problems."""
        return tuple(tune_command(problem, self.device) for problem in self.missing)

    def __str__(self) -> str:
        return "\n".join(map(str, (*self.replaced, *self.left))) or "no convolution layers"
