"""Check of libraries whose errors are relative to the norm of the results, as those of transforms are."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.devices.elements import scaled_error
from warpsmith.generator.filter1d import Filter1d, SignalLayout
from warpsmith.generator.problem import PEAK, DType
from warpsmith.tuner.operations.filter1d.gates import alone, gate_rows, gated, gated_operands
from warpsmith.tuner.operations.filter1d.oracle import activated, correlation_taps, samples, slope, terms
from warpsmith.tuner.operations.judge import Operands, Samples

NORM_TOLERANCE = 2e-5
"""Largest error of a sample, relative to the norm. TF32 and 16-bit factors exceed it."""
_MOST_SAMPLES = 512
_MOST_TERMS = 1 << 24
_MEASURED = 1 << 20
"""Elements of a signal whose mean square is taken for that of all."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class NormCheck:
    """Some results by direct sums.

    Where few taps meet the signal, as at the ends of `full`, the terms of a result may all be small, and the errors of
    a transform large against them. `Peer.tolerance` is then infinite, and results are checked by this.
    """

    expected: Samples
    norm: float
    """Twice the root mean square of the sampled sums, or of what a whole window of the signal and the biases give if
    that is larger, times the largest slope of the activation.
    """
    dtype: DType

    @classmethod
    def of(cls, problem: Filter1d, operands: Operands) -> NormCheck:
        if problem.gates is not None:
            return cls._of_gated(problem, operands)
        size = problem.output.components.size
        count = min(size, max(16, min(_MOST_SAMPLES, _MOST_TERMS // terms(problem))))
        indices = np.unique([0, size - 1, *np.random.default_rng(0).integers(0, size, count)])
        real = DType.FLOAT32 if problem.output.dtype is DType.COMPLEX64 else problem.output.dtype
        sums = samples(dataclasses.replace(problem, activation=None), operands, indices)
        filters = np.abs(correlation_taps(problem, operands["weights"]).astype(np.complex128))
        signal = np.abs(operands["signal"].reshape(-1)[:_MEASURED].astype(np.complex128))
        window = np.square(signal).mean() * np.square(filters).sum(axis=1).max()
        if problem.bias:
            window += np.square(operands["bias"].astype(np.float64)).mean()
        norm = slope(problem) * PEAK * math.sqrt(max(np.square(sums.expected).mean(), window))
        found = Samples(indices, activated(problem, sums.expected), slope(problem) * sums.least_scale)
        return cls(found, norm, real)

    @classmethod
    def _of_gated(cls, problem: Filter1d, operands: Operands) -> NormCheck:
        """The check of the filter alone, whose results a gate multiplies."""
        found = cls.of(alone(problem), gated_operands(problem, operands))
        rows = gate_rows(problem, operands)
        if rows is None:
            return found
        gates = (rows.swapaxes(1, 2) if problem.layout is SignalLayout.BTC else rows).reshape(-1)
        sums, chosen = found.expected, gates[found.expected.indices]
        both = gated(sums.expected, sums.least_scale, chosen)
        norm = found.norm * float(np.abs(gates[:_MEASURED].astype(np.float64)).max())
        return cls(Samples(sums.indices, both.expected, both.scale), norm, found.dtype)

    def checked(self, result: NDArray[Any]) -> NDArray[Any]:
        """The result. Raises RuntimeError if samples of it are wrong."""
        numbers = np.ascontiguousarray(result).reshape(-1)
        if np.iscomplexobj(numbers):
            numbers = numbers.view(np.float32)
        expected = self.expected.expected
        scale = np.full(expected.shape, self.norm)
        error = float(np.max(scaled_error(numbers[self.expected.indices], expected, scale, self.dtype)))
        if not error <= NORM_TOLERANCE:
            raise RuntimeError(
                f"its error of {error:.1e}, relative to the norm of the results, is over the bound of "
                f"{NORM_TOLERANCE:.0e}"
            )
        return result
