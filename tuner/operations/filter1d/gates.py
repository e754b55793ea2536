"""Gates on the host: random ones, samples times their gates, and what a gate makes of results."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.devices.elements import numpy_dtype
from warpsmith.generator.filter1d import Filter1d, SignalLayout
from warpsmith.generator.problem import Operand
from warpsmith.tuner.operations.drawing import drawn
from warpsmith.tuner.operations.filter1d.states import rows_of
from warpsmith.tuner.operations.judge import Operands, Reference

_ALL = slice(None), slice(None)
_OCTAVES = 8
"""Magnitudes of gates of stress inputs range from 2^-8 to 1: larger ones would leave the range of float16."""


def drawn_gates(problem: Filter1d, generator: np.random.Generator) -> dict[str, NDArray[Any]]:
    """Numbers between -1 and 1."""
    return {each.name: drawn(each.shape, numpy_dtype(each.dtype), generator, _fractions) for each in _gates(problem)}


def _fractions(generator: np.random.Generator, count: int) -> NDArray[Any]:
    return 2 * generator.random(count, np.float32) - 1


def stress_gates(problem: Filter1d, generator: np.random.Generator) -> dict[str, NDArray[Any]]:
    """Gates of different magnitudes and signs, some zero, one NaN and one infinite."""
    found = {}
    for each in _gates(problem):
        gates = np.ldexp(_fractions(generator, each.size), generator.integers(-_OCTAVES, 1, each.size))
        gates[generator.random(each.size) < 1 / 16] = 0.0
        if each.size > 64 and each.name != "projections":
            gates[generator.integers(0, each.size, 2)] = np.nan, np.inf
        found[each.name] = gates.astype(numpy_dtype(each.dtype)).reshape(each.shape)
    return found


def _gates(problem: Filter1d) -> tuple[Operand, ...]:
    return tuple(each for each in problem.inputs if each.name in ("gate_before", "gate_after", "projections"))


def alone(problem: Filter1d) -> Filter1d:
    """The filter of samples that are multiplied already, before a gate multiplies its outputs."""
    return dataclasses.replace(problem, gates=None, projection=None)


def gated_operands(problem: Filter1d, operands: Operands) -> dict[str, NDArray[Any]]:
    """Operands of the filter alone: its signal is the products of samples and gates."""
    rows = gated_rows(problem, operands)
    rows = rows.swapaxes(1, 2) if problem.layout is SignalLayout.BTC else rows
    return {**operands, "signal": np.ascontiguousarray(rows).reshape(operands["signal"].shape)}


def gated_rows(problem: Filter1d, operands: Operands, where: tuple[Any, Any] = _ALL) -> NDArray[Any]:
    """Products of samples and gates, rounded to the signal's type; `where` chooses signals and channels."""
    signal = _streams(problem, operands, "signal", where)
    if problem.gates is None or not problem.gates.has_before:
        return signal
    gate = _streams(problem, operands, "gate_before", where)
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        product: NDArray[Any] = signal.astype(np.float32) * gate.astype(np.float32)  # exact for 16-bit numbers
        return product.astype(signal.dtype)


def gate_rows(problem: Filter1d, operands: Operands, where: tuple[Any, Any] = _ALL) -> NDArray[Any] | None:
    """Gates of the results, (signals, channels, outputs); None if there are none."""
    if problem.gates is None or not problem.gates.has_after:
        return None
    return _streams(problem, operands, "gate_after", where)


class GatedChannels:
    """Samples times their gates, and gates of results, channel by channel; each channel is computed once."""

    def __init__(self, problem: Filter1d, operands: Operands) -> None:
        self._problem, self._operands = problem, operands
        self._samples: dict[tuple[int, int], NDArray[Any]] = {}
        self._gates: dict[tuple[int, int], NDArray[Any] | None] = {}

    def samples(self, batch: int, channel: int) -> NDArray[Any]:
        """Samples of a channel, as the filter reads them."""
        where = batch, channel
        if where not in self._samples:
            self._samples[where] = gated_rows(self._problem, self._operands, _one(*where))[0, 0]
        return self._samples[where]

    def gate(self, batch: int, channel: int, output: int) -> float:
        """Factor of a result; 1 if results have no gates."""
        where = batch, channel
        if where not in self._gates:
            found = gate_rows(self._problem, self._operands, _one(*where))
            self._gates[where] = None if found is None else found[0, 0]
        gates = self._gates[where]
        return 1.0 if gates is None else float(gates[output])


def _one(batch: int, channel: int) -> tuple[slice, slice]:
    return slice(batch, batch + 1), slice(channel, channel + 1)


def _streams(problem: Filter1d, operands: Operands, name: str, where: tuple[Any, Any]) -> NDArray[Any]:
    """A signal or a gate by rows, after its projection: sums in float32 from the oldest sample on, then rounded."""
    samples = problem.result_length if name == "gate_after" else problem.signal
    rows: NDArray[Any] = rows_of(problem, operands[name], samples)[where]
    if problem.projection is None:
        return rows
    number = ("signal", "gate_before", "gate_after").index(name)
    taps = operands["projections"].reshape(-1, problem.channels, problem.projection)[number, where[1]]
    taps = (taps[..., ::-1] if problem.convolve else taps).astype(np.float64)
    sums = np.zeros(rows.shape, np.float32)
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        for k in range(problem.projection):
            back = min(problem.projection - 1 - k, samples)
            moved = np.zeros(rows.shape, np.float64)
            moved[..., back:] = rows[..., : samples - back]
            sums = (taps[..., k, None] * moved + sums).astype(np.float32)  # a fused multiply-add
        return sums.astype(rows.dtype)


def gated(expected: NDArray[Any], scale: NDArray[np.float64], gate: NDArray[Any]) -> Reference:
    """Results times their gates. A result whose gate is not finite is not finite, and not checked."""
    factor = gate.astype(np.float64)
    with np.errstate(invalid="ignore"):
        results = np.where(np.isfinite(factor), expected * factor, np.nan)
        return Reference(results, np.where(np.isfinite(factor), scale * np.abs(factor), np.nan))
