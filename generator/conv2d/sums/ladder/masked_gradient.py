"""The gradient of a layer's images for a gradient behind its ReLU, as "Optimizing a CNN in CUDA" computes the error.

It is a problem of the ladder's command alone: `Conv2d` leaves the gradient of a ReLU to its caller.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, ClassVar

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.sums.ladder.ladder_plane import PlaneCopy
from warpsmith.generator.problem import Operand, Problem, Role
from warpsmith.generator.program import Program
from warpsmith.generator.steps import Argument, Launch, Pointer, Step, TensorMap, Texture

MASKED = "masked"
"""Name of the workspace and of the unit for a gradient that is masked before."""


@dataclasses.dataclass(frozen=True)
class MaskedGradient(Problem):
    """dgrad of a layer that ends in a ReLU: (dy, w, y) -> dx, where dy counts as zero wherever y is zero.

    Shapes are those of `Conv2d`: dy and y (N, K, P, Q), w (K, C, R, S), dx (N, C, H, W), all float32.

    Args:
        layer: the layer's dgrad, which knows of no ReLU.

    Source: "Optimizing a CNN in CUDA", error calculation.
    """

    operation: ClassVar[str] = "conv2d_masked"
    error_unit: ClassVar[str] = Conv2d.error_unit

    layer: Conv2d

    def spec(self) -> dict[str, Any]:
        return {"layer": self.layer.spec()}

    @classmethod
    def of(cls, spec: dict[str, Any]) -> MaskedGradient:
        return cls(Conv2d.of(spec["layer"]))

    def key(self) -> str:
        return f"{self.layer.key()} mask=y"

    @functools.cached_property
    def operands(self) -> tuple[Operand, ...]:
        *inputs, dx = self.layer.operands
        return (*inputs, dataclasses.replace(inputs[0], name="y", role=Role.INPUT), dx)

    @property
    def flops(self) -> int:
        return self.layer.flops

    @property
    def workspace_limit(self) -> int:
        return self.layer.workspace_limit

    @property
    def error_bound(self) -> float:
        return self.layer.error_bound

    def distance(self, other: Problem) -> float | None:
        return 0.0 if self == other else None


def behind_mask(problem: MaskedGradient, program: Program) -> Program:
    """A program of the layer's dgrad behind a launch that masks dy into a workspace."""
    rows, columns = problem.layer.output_size
    planes = problem.layer.input[0] * problem.layer.weight[0]
    copy = PlaneCopy(problem.key(), planes, rows, columns, 0, 0, rows, columns, is_masked=True)
    first = copy.launch((Pointer("dy"), Pointer("y"), Pointer(MASKED)), MASKED)
    return dataclasses.replace(
        program,
        units=(copy.unit(MASKED), *program.units),
        steps=(first, *map(_reading_masked, program.steps)),
        workspaces=(copy.workspace(MASKED), *program.workspaces),
    )


def _reading_masked(step: Step) -> Step:
    """The step with the masked gradient in place of dy."""
    if isinstance(step, Launch):
        return dataclasses.replace(step, arguments=tuple(map(_masked, step.arguments)))
    return dataclasses.replace(step, arguments=tuple(map(_masked_pointer, step.arguments)))


def _masked(argument: Argument) -> Argument:
    match argument:
        case Pointer():
            return _masked_pointer(argument)
        case Texture(buffer="dy") | TensorMap(buffer="dy"):
            return dataclasses.replace(argument, buffer=MASKED)
        case _:
            return argument


def _masked_pointer(pointer: Pointer) -> Pointer:
    return dataclasses.replace(pointer, buffer=MASKED) if pointer.buffer == "dy" else pointer
