"""Judge of batched complex matrix products."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.cgemm import Cgemm
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.reference.cgemm import CgemmReference
from warpsmith.tuner.operations.cgemm.oracle import reference, samples
from warpsmith.tuner.operations.cgemm.peers import makers
from warpsmith.tuner.operations.cgemm.stress import stress_inputs, stress_slack
from warpsmith.tuner.operations.drawing import deviates, drawn
from warpsmith.tuner.operations.judge import Judge, Operands, Reference, References, Samples
from warpsmith.tuner.operations.peer import PeerMaker


class CgemmJudge(Judge[Cgemm]):
    """Compares with NumPy's float64 products; peers are cuBLAS through PyTorch, and PyTorch on the host."""

    def inputs(self, problem: Cgemm, generator: np.random.Generator) -> Operands:
        return {
            each.name: drawn(each.components.shape, np.float32, generator, deviates)
            .view(np.complex64)
            .reshape(each.shape)
            for each in problem.inputs
        }

    def stress_inputs(self, problem: Cgemm, generator: np.random.Generator) -> Operands:
        return stress_inputs(problem, generator)

    def stress_slack(self, problem: Cgemm) -> float:
        return stress_slack(problem)

    def terms(self, problem: Cgemm) -> int:
        """Real terms of one result: four for each complex term."""
        return 4 * problem.k

    def references(self, problem: Cgemm, operands: Operands) -> References:
        return {problem.output.name: Reference(*reference(problem, operands))}

    def kernels(self, problem: Cgemm) -> CgemmReference:  # noqa: ARG002 - there is one
        return CgemmReference()

    def samples(self, problem: Cgemm, operands: Operands, indices: NDArray[np.int64]) -> Samples:
        return samples(problem, operands, indices)

    def smaller(self, problem: Cgemm) -> Cgemm:
        return dataclasses.replace(problem, batch=min(problem.batch, 2))

    def peers(self, problem: Cgemm, operands: Operands, kind: DeviceKind, sets: int) -> tuple[PeerMaker, ...]:
        return makers(problem, operands, kind, sets)
