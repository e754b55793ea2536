"""Signals, taps and biases that are hard on rounding errors; see `Judge.stress_inputs`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.devices.elements import numpy_dtype
from warpsmith.generator.filter1d import Filter1d, SignalLayout
from warpsmith.generator.problem import DType, Operand
from warpsmith.tuner.operations.drawing import cancel, far_apart, hard_kinds
from warpsmith.tuner.operations.filter1d.gates import stress_gates
from warpsmith.tuner.operations.filter1d.states import drawn_indices, samples_in
from warpsmith.tuner.operations.judge import Operands

_OCTAVES = 20
"""Magnitudes of samples range from 2^-20 to 2^20."""
_HALF_OCTAVES = 10
"""Magnitudes of float16 samples range from 2^-10 to 2^10, and to as much if a result is float16."""
_WEIGHT_OCTAVES = 6
"""Magnitudes of taps range from 2^-6 to 2^6: a small sample under a large tap then stands beside a large sample under a
small tap.
"""
_REGION = 13
"""Samples of a region with its own kind of numbers; odd, so that regions begin at any position of a thread's outputs.
"""
_CHARACTERS = 5
_DRAWN = (61, 16411)
"""Channels of all signals, and samples, that are drawn; more repeat them, since 2^27 samples would take 20 s. They are
primes, so that repeats begin at any position of a thread's outputs.
"""
_DRAWN_TAPS = (67, 65537)
"""Filters and taps that are drawn."""
_APART_OCTAVES = 20
"""Binary logarithm of the factor by which one channel is larger than the others: a million."""
_SLACK = 0.3
_CHAIN = 1024
"""Terms after which errors grow no further: kernels add up longer sums in parts."""


def stress_slack(terms_of_sum: int) -> float:
    """Factor on the error bound that right kernels may need on these inputs for sums of so many real terms.

    Sums of constants and of equal signs round the same way again and again. In float32 the simplest kernel was off by
    2.0e-7 of the sum of |terms| with 5 taps, by 6.6e-7 with 33, by 1.05e-6 with 129 and, for complex taps, by 1.27e-6:
    up to 1.1e-7 times the root of the number of real terms. Beyond 256 taps, which it adds up in parts, it was off by
    1.2e-6 at most, up to 16,385 taps. Three times that is allowed, if it exceeds the bound of 1e-6.
    """
    return max(1.0, _SLACK * math.sqrt(min(terms_of_sum, _CHAIN)))


def stress_inputs(problem: Filter1d, generator: np.random.Generator) -> Operands:
    """Signals and taps of very different magnitudes, side by side.

    Of several channels one is a million times as large as the others, and one holds a NaN and an infinity: a kernel
    must not let them affect other channels, or outputs whose window does not contain them.
    """
    signal, weights = problem.inputs[:2]
    found = {signal.name: _samples(problem, signal, generator), weights.name: _weights(problem, generator)}
    if problem.bias:
        bias = problem.inputs[2]
        found[bias.name] = far_apart(generator, bias.shape, _octaves(problem)).astype(numpy_dtype(bias.dtype))
    for each in problem.inputs:
        if each.name in ("before", "state"):
            found[each.name] = _samples(problem, each, generator)
    found |= stress_gates(problem, generator)
    return {**found, **drawn_indices(problem, generator)}


def _samples(problem: Filter1d, operand: Operand, generator: np.random.Generator) -> NDArray[Any]:
    """Samples of all channels of a signal, or of a state."""
    rows, samples = samples_in(problem, operand)
    shape = (min(rows, _DRAWN[0]), min(samples, _DRAWN[1]))
    if operand.dtype in (DType.INT16, DType.UINT8):
        drawn = _integers(operand.dtype, shape, generator)
    else:
        numbers = _numbers(problem, shape, generator)
        _set_apart(problem, numbers, generator)
        drawn = _of_parts(numbers, operand.dtype)
    # Rounded before they are repeated, so that no large array exists twice.
    values = _repeated(drawn, (rows, samples)).reshape(-1, problem.channels, samples)
    if problem.layout is SignalLayout.BTC:
        values = np.ascontiguousarray(values.swapaxes(1, 2))
    return values.reshape(operand.shape)


def _set_apart(problem: Filter1d, numbers: NDArray[np.float32], generator: np.random.Generator) -> None:
    """Makes one of several channels large, unless float16 cannot hold it, and spoils another one."""
    if len(numbers) < 2:
        return
    large, spoilt = generator.choice(len(numbers), 2, replace=False)
    if _octaves(problem) == _OCTAVES:
        numbers[large] *= np.float32(2.0**_APART_OCTAVES)
    numbers[spoilt, generator.integers(0, numbers.shape[1], 2), 0] = np.nan, np.inf


def _octaves(problem: Filter1d) -> int:
    return _HALF_OCTAVES if DType.FLOAT16 in (problem.dtype, problem.output.dtype) else _OCTAVES


def _regions(shape: tuple[int, int], generator: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number of each sample's region, with channels as rows, and the kind of numbers of each region."""
    across = math.ceil(shape[1] / _REGION)
    number = np.arange(shape[0])[:, None] * across + np.arange(shape[1]) // _REGION
    return number, generator.integers(0, _CHARACTERS, shape[0] * across)


def _signs(shape: tuple[int, int]) -> NDArray[np.float32]:
    """Alternating signs."""
    return np.where(np.add.outer(np.arange(shape[0]), np.arange(shape[1])) % 2 == 0, np.float32(1), np.float32(-1))


def _numbers(problem: Filter1d, shape: tuple[int, int], generator: np.random.Generator) -> NDArray[np.float32]:
    """Channels in regions of five kinds of numbers (see `hard_kinds`), as real numbers in an additional dimension."""
    parts = (*shape, 2 if problem.dtype is DType.COMPLEX64 else 1)
    octaves = _octaves(problem)
    number, character = _regions(shape, generator)
    level = generator.uniform(-octaves, octaves, len(character)).astype(np.float32)[number][..., None]
    deviates = generator.standard_normal(parts, np.float32)
    uniform = generator.random(parts, np.float32)
    kinds = hard_kinds(deviates, uniform, level, _signs(shape)[..., None], octaves)
    return np.asarray(np.choose(character[number][..., None], kinds), np.float32)


def _integers(dtype: DType, shape: tuple[int, int], generator: np.random.Generator) -> NDArray[Any]:
    """Channels in regions of five kinds of integers: extremes, faint ones, all, the largest, and alternating ones."""
    kind = numpy_dtype(dtype)
    low, high = (np.float32(end) for end in (np.iinfo(kind).min, np.iinfo(kind).max))
    number, character = _regions(shape, generator)
    uniform = generator.random(shape, np.float32)
    extremes = np.where(uniform < 0.5, low, high)
    faint = np.where(uniform < 0.02, high, np.floor(3 * uniform))
    spread = np.floor(low + (high - low) * uniform)
    alternating = np.where(_signs(shape) > 0, low, high)
    kinds = (extremes, faint, spread, np.full(shape, high), alternating)
    return np.choose(character[number], kinds).astype(kind)


def _weights(problem: Filter1d, generator: np.random.Generator) -> NDArray[Any]:
    """Taps of very different magnitudes. Those of every other filter sum to about zero: the largest is adjusted for
    this. Those of the others have one sign. For a float16 result they are scaled so that no result overflows.
    """
    weights = problem.operands[1]
    shape = (min(problem.filters, _DRAWN_TAPS[0]), min(problem.taps, _DRAWN_TAPS[1]))
    parts = 2 if weights.dtype is DType.COMPLEX64 else 1
    values = far_apart(generator, (shape[0] * parts, shape[1]), _WEIGHT_OCTAVES)
    cancel(values[::2])
    values[1::2] = np.abs(values[1::2])
    if problem.output.dtype is DType.FLOAT16:
        repeats = math.ceil(problem.taps / shape[1])
        values /= repeats * np.abs(values).sum(axis=1, keepdims=True)
    numbers = values.reshape(shape[0], parts, shape[1]).swapaxes(1, 2).astype(np.float32)
    drawn = _of_parts(np.ascontiguousarray(numbers), weights.dtype)
    return _repeated(drawn, (problem.filters, problem.taps)).reshape(weights.shape)


def _repeated(drawn: NDArray[Any], shape: tuple[int, int]) -> NDArray[Any]:
    """Rows and columns of `drawn` again and again. Copies are whole rows: numbers one by one take 70 times as long."""
    (rows, columns), whole = drawn.shape, np.empty(shape, drawn.dtype)
    for left in range(0, shape[1], columns):
        part = whole[:rows, left : left + columns]
        part[...] = drawn[:, : part.shape[1]]
    for top in range(rows, shape[0], rows):
        part = whole[top : top + rows]
        part[...] = whole[: len(part)]
    return whole


def _of_parts(numbers: NDArray[np.float32], dtype: DType) -> NDArray[Any]:
    """Elements of a type from their real numbers, which lie in the last dimension."""
    if dtype is DType.COMPLEX64:
        return numbers.view(np.complex64)[..., 0]
    return numbers[..., 0].astype(numpy_dtype(dtype))
