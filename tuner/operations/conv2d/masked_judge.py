"""Judge of gradients of images behind a ReLU."""

from __future__ import annotations

import numpy as np

from warpsmith.generator.conv2d.sums.ladder.masked_gradient import MaskedGradient
from warpsmith.generator.device import DeviceKind
from warpsmith.tuner.operations.conv2d.judge import Conv2dJudge
from warpsmith.tuner.operations.conv2d.peers import makers
from warpsmith.tuner.operations.judge import Judge, Operands, References
from warpsmith.tuner.operations.peer import PeerMaker

_LAYERS = Conv2dJudge()


class MaskedGradientJudge(Judge[MaskedGradient]):
    """Compares with the gradient of the layer for a dy that is masked in float64; half of y is zero. Peers are the
    layer's, behind PyTorch's own gradient of a ReLU.
    """

    def inputs(self, problem: MaskedGradient, generator: np.random.Generator) -> Operands:
        return self._with_results(problem, _LAYERS.inputs(problem.layer, generator), generator)

    def stress_inputs(self, problem: MaskedGradient, generator: np.random.Generator) -> Operands:
        return self._with_results(problem, _LAYERS.stress_inputs(problem.layer, generator), generator)

    def _with_results(self, problem: MaskedGradient, others: Operands, generator: np.random.Generator) -> Operands:
        (y,) = (each for each in problem.inputs if each.name == "y")
        return {**others, "y": np.maximum(generator.standard_normal(y.shape, np.float32), 0)}

    def stress_slack(self, problem: MaskedGradient) -> float:
        return _LAYERS.stress_slack(problem.layer)

    def terms(self, problem: MaskedGradient) -> int:
        return _LAYERS.terms(problem.layer)

    def references(self, problem: MaskedGradient, operands: Operands) -> References:
        masked = np.where(operands["y"] != 0, operands["dy"], np.float32(0))
        return _LAYERS.references(problem.layer, {**operands, "dy": masked})

    def smaller(self, problem: MaskedGradient) -> MaskedGradient:
        return MaskedGradient(_LAYERS.smaller(problem.layer))

    def peers(self, problem: MaskedGradient, operands: Operands, kind: DeviceKind, sets: int) -> tuple[PeerMaker, ...]:
        return makers(problem.layer, operands, kind, sets)
