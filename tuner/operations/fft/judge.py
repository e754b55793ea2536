"""Judge of Fourier transforms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.device import DeviceKind
from warpsmith.generator.fft import Fft
from warpsmith.generator.problem import DType
from warpsmith.generator.reference.fft import FftReference
from warpsmith.tuner.operations.drawing import deviates, drawn
from warpsmith.tuner.operations.fft.oracle import make_hermitian, reference_fft, samples
from warpsmith.tuner.operations.fft.peers import cufft_peer, scipy_peer
from warpsmith.tuner.operations.fft.stress import stress_fft
from warpsmith.tuner.operations.judge import Judge, Operands, Reference, References, Samples
from warpsmith.tuner.operations.peer import PeerMaker


class FftJudge(Judge[Fft]):
    """Compares with NumPy's float64 transforms; peers are cuFFT and SciPy."""

    def inputs(self, problem: Fft, generator: np.random.Generator) -> Operands:
        found: dict[str, NDArray[Any]] = {}
        for source in problem.inputs:
            values = drawn(source.components.shape, np.float32, generator, deviates)
            if source.dtype is DType.COMPLEX64:
                values = values.view(np.complex64).reshape(source.shape)
                make_hermitian(problem, values)
            found[source.name] = values
        return found

    def stress_inputs(self, problem: Fft, generator: np.random.Generator) -> Operands:
        return stress_fft(problem, generator)

    def terms(self, problem: Fft) -> int:
        """Cost of one result in terms: NumPy takes as long for a transform's stage as for eight terms."""
        return 8 * max(1, math.ceil(math.log2(problem.points)))

    def references(self, problem: Fft, operands: Operands) -> References:
        sources = (operands[each.name] for each in problem.inputs)
        return {problem.output.name: Reference(*reference_fft(problem, *sources))}

    def kernels(self, problem: Fft) -> FftReference:  # noqa: ARG002 - there is one
        return FftReference()

    def samples(self, problem: Fft, operands: Operands, indices: NDArray[np.int64]) -> Samples:
        return samples(problem, operands, indices)

    def smaller(self, problem: Fft) -> Fft:
        return problem.of_two()

    def peers(self, problem: Fft, operands: Operands, kind: DeviceKind, sets: int) -> tuple[PeerMaker, ...]:
        if kind is DeviceKind.HOST:
            return (PeerMaker("SciPy fft", ("scipy",), lambda: scipy_peer(problem, operands, sets)),)
        return (PeerMaker("cuFFT through CuPy", ("cupy",), lambda: cufft_peer(problem, operands, sets)),)
