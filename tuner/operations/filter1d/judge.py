"""Judge of filters of one-dimensional signals, and the random signals and taps that it draws."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.devices.elements import numpy_dtype
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.filter1d import Filter1d, Mode
from warpsmith.generator.problem import DType, Operand
from warpsmith.generator.reference.filter1d import Filter1dReference
from warpsmith.tuner.operations.drawing import deviates, drawn, random_bytes
from warpsmith.tuner.operations.filter1d.gates import drawn_gates
from warpsmith.tuner.operations.filter1d.gradient_peers import gradient_makers
from warpsmith.tuner.operations.filter1d.gradients import (
    filter_of,
    gradient_inputs,
    gradient_references,
    gradient_stress_inputs,
    mean_terms,
    sum_terms,
)
from warpsmith.tuner.operations.filter1d.oracle import reference, samples, terms
from warpsmith.tuner.operations.filter1d.peers import gpu_makers, host_makers
from warpsmith.tuner.operations.filter1d.states import drawn_indices, written_states
from warpsmith.tuner.operations.filter1d.stress import stress_inputs, stress_slack
from warpsmith.tuner.operations.judge import Judge, Operands, References, Samples
from warpsmith.tuner.operations.peer import PeerMaker

_INT16 = 1 << 12
"""Samples of type int16 are drawn from -4096 to 4095, as those of a 13-bit converter."""
_ROOT_MEAN_SQUARES = {DType.INT16: _INT16 / math.sqrt(3), DType.UINT8: 255 / math.sqrt(3)}
"""Root mean squares of random samples; they are 1 for other types."""
_LARGEST_DEVIATION = 4096.0
"""Standard deviation of the results that random taps may give if these are float16, whose largest number is 65504."""
_ACTIVATED_DEVIATION = 4.0
"""Standard deviation of the sums that reach an activation: of larger ones SiLU hardly differs from ReLU."""
_BEYOND = 32
"""Samples by which a small problem's signal exceeds the filter."""
_SMALL_TAPS = 1024
"""Most taps of a small problem, unless the problem knows them."""


class Filter1dJudge(Judge[Filter1d]):
    """Compares with float64 sums by products with band matrices.

    Peers are cuDNN and cuFFT through PyTorch, and CuPy; on the host they are SciPy and PyTorch.
    """

    def inputs(self, problem: Filter1d, generator: np.random.Generator) -> Operands:
        if problem.pass_.is_gradient:
            return gradient_inputs(problem, self.inputs(filter_of(problem), generator), generator)
        signal, weights = _samples(problem.operands[0], generator), _weights(problem, generator)
        bias = {"bias": _bias(problem, weights, generator)} if problem.bias else {}
        states = (each for each in problem.inputs if each.name in ("before", "state"))
        older = {each.name: _samples(each, generator) for each in states}
        places = drawn_indices(problem, generator)
        return {"signal": signal, "weights": weights, **bias, **older, **places, **drawn_gates(problem, generator)}

    def stress_inputs(self, problem: Filter1d, generator: np.random.Generator) -> Operands:
        return (gradient_stress_inputs if problem.pass_.is_gradient else stress_inputs)(problem, generator)

    def stress_slack(self, problem: Filter1d) -> float:
        return stress_slack((sum_terms if problem.pass_.is_gradient else terms)(problem))

    def terms(self, problem: Filter1d) -> int:
        return mean_terms(problem) if problem.pass_.is_gradient else terms(problem)

    def references(self, problem: Filter1d, operands: Operands) -> References:
        if problem.pass_.is_gradient:
            return gradient_references(problem, operands)
        return {problem.output.name: reference(problem, operands), **written_states(problem, operands)}

    def kernels(self, problem: Filter1d) -> Filter1dReference | None:
        """None for gradients, which only the host computes."""
        return None if problem.pass_.is_gradient else Filter1dReference()

    def copied(self, problem: Filter1d, operands: Operands) -> References:
        return {} if problem.pass_.is_gradient else written_states(problem, operands)

    def samples(self, problem: Filter1d, operands: Operands, indices: NDArray[np.int64]) -> Samples:
        return samples(problem, operands, indices)

    def smaller(self, problem: Filter1d) -> Filter1d:
        taps = problem.taps if problem.weights is not None else min(problem.taps, _SMALL_TAPS)
        is_causal = problem.state is not None or problem.packed is not None
        mode = Mode.CAUSAL if is_causal else problem.mode or Mode.FULL
        samples = (taps + _BEYOND) * (problem.down if is_causal else 1)  # `down` divides a signal with a state
        return dataclasses.replace(
            problem,
            signal=min(problem.signal, samples),
            taps=taps,
            batch=min(problem.batch, 2),
            mode=mode,
            lags=None,
            pitch=None,
            result_pitch=None,
        )

    def peers(self, problem: Filter1d, operands: Operands, kind: DeviceKind, sets: int) -> tuple[PeerMaker, ...]:
        if problem.pass_.is_gradient:
            return gradient_makers(problem, operands, kind, sets)
        return (host_makers if kind is DeviceKind.HOST else gpu_makers)(problem, operands, sets)


def _samples(signal: Operand, generator: np.random.Generator) -> NDArray[Any]:
    """Normal deviates, or integers of equal probability."""
    match signal.dtype:
        case DType.UINT8:
            return drawn(signal.shape, np.uint8, generator, random_bytes)
        case DType.INT16:
            return drawn(signal.shape, np.int16, generator, _shorts)
        case DType.COMPLEX64:
            return drawn(signal.components.shape, np.float32, generator, deviates).view(np.complex64)[..., 0]
        case _:
            return drawn(signal.shape, numpy_dtype(signal.dtype), generator, deviates)


def _shorts(generator: np.random.Generator, count: int) -> NDArray[Any]:
    return generator.integers(-_INT16, _INT16, count, dtype=np.int16)


def _weights(problem: Filter1d, generator: np.random.Generator) -> NDArray[Any]:
    """Normal deviates, smaller ones if results would leave the range of float16, or that where an activation bends."""
    weights = problem.operands[1]
    values = drawn(weights.components.shape, np.float32, generator, deviates)
    most = math.inf
    if problem.activation is not None:
        most = _ACTIVATED_DEVIATION
    elif problem.output.dtype is DType.FLOAT16:
        most = _LARGEST_DEVIATION
    deviation = _ROOT_MEAN_SQUARES.get(problem.dtype, 1.0) * math.sqrt(problem.taps)
    values *= np.float32(min(1.0, most / deviation))
    if weights.dtype is DType.COMPLEX64:
        return values.view(np.complex64)[..., 0]
    return values.astype(numpy_dtype(weights.dtype), copy=False)


def _bias(problem: Filter1d, weights: NDArray[Any], generator: np.random.Generator) -> NDArray[Any]:
    """Normal deviates of the size of the sums, unless float16 cannot hold these."""
    bias = problem.inputs[2]
    taps = weights if problem.weights is None else np.array(problem.weights)
    norm = math.sqrt(np.square(taps.astype(np.float64)).sum() / problem.filters)
    deviation = norm * _ROOT_MEAN_SQUARES.get(problem.dtype, 1.0) or 1.0
    if DType.FLOAT16 in (problem.dtype, bias.dtype, problem.output.dtype):
        deviation = min(deviation, _LARGEST_DEVIATION)
    values = drawn(bias.shape, np.float32, generator, deviates) * np.float32(deviation)
    return values.astype(numpy_dtype(bias.dtype), copy=False)
