"""Judge of convolution layers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from warpsmith.devices.elements import numpy_dtype
from warpsmith.generator.conv2d import Conv2d
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.reference.conv2d import Conv2dReference
from warpsmith.tuner.operations.conv2d.oracle import reference, samples, smaller, terms
from warpsmith.tuner.operations.conv2d.peers import makers
from warpsmith.tuner.operations.conv2d.stress import stress_inputs, stress_slack
from warpsmith.tuner.operations.drawing import deviates, drawn
from warpsmith.tuner.operations.judge import Judge, Operands, Reference, References, Samples
from warpsmith.tuner.operations.peer import PeerMaker


class Conv2dJudge(Judge[Conv2d]):
    """Compares with float64 sums over taps of matrix products; peers are cuDNN through PyTorch, and PyTorch on the
    host.
    """

    def inputs(self, problem: Conv2d, generator: np.random.Generator) -> Operands:
        return {each.name: drawn(each.shape, numpy_dtype(each.dtype), generator, deviates) for each in problem.inputs}

    def stress_inputs(self, problem: Conv2d, generator: np.random.Generator) -> Operands:
        return stress_inputs(problem, generator)

    def stress_slack(self, problem: Conv2d) -> float:
        return stress_slack(problem)

    def terms(self, problem: Conv2d) -> int:
        return terms(problem)

    def references(self, problem: Conv2d, operands: Operands) -> References:
        return {problem.output.name: Reference(*reference(problem, operands))}

    def kernels(self, problem: Conv2d) -> Conv2dReference:  # noqa: ARG002 - there is one
        return Conv2dReference()

    def samples(self, problem: Conv2d, operands: Operands, indices: NDArray[np.int64]) -> Samples:
        return samples(problem, operands, indices)

    def smaller(self, problem: Conv2d) -> Conv2d:
        return smaller(problem)

    def peers(self, problem: Conv2d, operands: Operands, kind: DeviceKind, sets: int) -> tuple[PeerMaker, ...]:
        return makers(problem, operands, kind, sets)
