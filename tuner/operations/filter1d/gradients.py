"""Gradients of filters of signals: random inputs, stress data and float64 references by NumPy.

Nothing is shared with the generator. The gradient of a signal is one pass over a channel for each tap.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.devices.elements import numpy_dtype
from warpsmith.generator.filter1d import Filter1d, Filter1dPass, Mode
from warpsmith.generator.problem import Accuracy, NonFinite
from warpsmith.tuner.operations.drawing import deviates, drawn
from warpsmith.tuner.operations.filter1d.floors import gains_of, peaks_of
from warpsmith.tuner.operations.filter1d.oracle import by_time, correlation_taps, is_long
from warpsmith.tuner.operations.filter1d.stress import stress_inputs
from warpsmith.tuner.operations.filter1d.transforms import add_by_transforms, correlated_rows, spoil
from warpsmith.tuner.operations.judge import Operands, Reference, References
from warpsmith.tuner.operations.strips import for_each_strip, room_beside

_LEAST_EXPONENT = -700.0
"""Least sum whose exp(-sum) float64 holds; the slope of SiLU at smaller ones is less than 1e-301."""
_STEEPEST, _BEND = 1.1, 0.5
"""Upper bounds of the magnitudes of SiLU's slope, and of the slope's slope: an error of the sum bends the slope."""
_WIDE_BYTES = 8 * 9
"""Bytes that a sample of a channel takes beside the results: of float64 arrays of its length."""
_SPECTRA = 2
"""Multiple of these bytes that transforms take: spectra and products of padded rows."""


def filter_of(problem: Filter1d) -> Filter1d:
    """The filter whose gradients a problem asks for."""
    return dataclasses.replace(problem, pass_=Filter1dPass.FPROP)


def gradient_inputs(problem: Filter1d, forward: Operands, generator: np.random.Generator) -> Operands:
    """The inputs of a gradient from those of its filter, and a normal gradient of the result."""
    operands = {each.name: each for each in problem.inputs}
    gradient = operands["gradient"]
    values = drawn(gradient.shape, numpy_dtype(gradient.dtype), generator, deviates)
    return _wanted(problem, {**forward, "gradient": values})


def gradient_stress_inputs(problem: Filter1d, generator: np.random.Generator) -> Operands:
    """Stress inputs of the filter, and a gradient like a stress signal of the result's length."""
    forward = stress_inputs(filter_of(problem), generator)
    like = Filter1d(
        problem.result_length,
        1,
        problem.batch,
        mode=Mode.FULL,
        channels=problem.channels,
        layout=problem.layout,
        dtype=problem.output_dtype,
    )
    return _wanted(problem, {**forward, "gradient": stress_inputs(like, generator)["signal"]})


def _wanted(problem: Filter1d, given: Operands) -> Operands:
    return {each.name: given[each.name].reshape(each.shape) for each in problem.inputs}


def sum_terms(problem: Filter1d) -> int:
    """Most products that one result adds up: an element of the weights' gradient adds one for each output."""
    if problem.pass_.gives_weights:
        return problem.batch * problem.channels // problem.filters * problem.result_length
    return problem.taps


def mean_terms(problem: Filter1d) -> int:
    """Products of all results, divided by their number."""
    return -(-problem.multiply_adds // sum(each.size for each in problem.outputs))


def gradient_references(problem: Filter1d, operands: Operands) -> References:
    """References of all gradients. The scale of an element is the sum of its |terms|.

    With `signalwise` accuracy it has a floor. That of the weights' gradient is the sum, over the rows that share the
    filter, of the Euclidean norms' product of the row's signal and gradient: no less than any sum of |terms|. That of
    the signal's gradient is the filter's largest gain times the largest |gradient| of the row. Long sums are then
    products of transforms.

    With an activation a term has a factor |gradient| * (1.1 + 0.5 * the sum of |terms| of the filter's output): the
    slope is at most 1.1, and an error of the output changes it by half of that at most. A gradient of a NaN or an
    infinity is not finite, nor is its scale: it is not checked.
    """
    work = _Gradients.of(problem, operands)
    rows = problem.channels // problem.filters * problem.batch
    room = room_beside(sum(each.size for each in problem.outputs))
    length = problem.signal + problem.result_length + problem.taps
    size = _WIDE_BYTES * length * problem.batch * (_SPECTRA if work.is_by_transforms else 1)

    def strip(filters: slice) -> None:
        for number in range(problem.filters)[filters]:
            work.add_filter(number)

    for_each_strip(problem.filters, size * rows // problem.batch, strip, scratch_bytes=size, room=room)
    return {name: Reference(value, scale) for name, (value, scale) in work.results.items()}


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _Gradients:
    """Arrays of the references, by their names in the problem."""

    problem: Filter1d
    given: dict[str, NDArray[Any]]
    results: dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]
    """Values and scales."""

    @property
    def is_signalwise(self) -> bool:
        return self.problem.accuracy is Accuracy.SIGNALWISE

    @property
    def is_by_transforms(self) -> bool:
        """True for long sums without an activation, whose slopes take the filter's outputs term by term."""
        return self.problem.activation is None and is_long(self.problem)

    @classmethod
    def of(cls, problem: Filter1d, operands: Operands) -> _Gradients:
        results = {each.name: (np.zeros(each.shape), np.zeros(each.shape)) for each in problem.outputs}
        return cls(problem, dict(operands), results)

    def add_filter(self, number: int) -> None:
        """Computes the gradients of one filter and of its channels."""
        problem = self.problem
        taps = None
        if "weights" in self.given:
            taps = correlation_taps(problem, self.given["weights"])[number].astype(np.float64)
        group = problem.channels // problem.filters
        for channel in range(number * group, (number + 1) * group):
            self._add_channel(number, channel, taps)

    def _add_channel(self, number: int, channel: int, taps: NDArray[np.float64] | None) -> None:
        problem = self.problem
        own = by_time(problem, self.given["gradient"], problem.result_length)[:, channel].astype(np.float64)
        scale = np.abs(own)
        windows, signal = None, None
        if "signal" in self.given:
            signal = by_time(problem, self.given["signal"], problem.signal)[:, channel].astype(np.float64)
            windows = self._windows(signal)
        if problem.activation is not None:
            assert windows is not None
            assert taps is not None
            bias = float(self.given["bias"][channel]) if problem.bias else 0.0
            own, scale = _sloped(own, windows, taps, bias, problem.result_length)
        if problem.pass_.gives_signal:
            assert taps is not None
            self._set_signal(channel, own, scale, taps)
        if problem.pass_.gives_weights:
            assert windows is not None
            assert signal is not None
            self._add_weights(number, windows, own, scale, _norms(problem, signal) * _norms(problem, scale))
            if problem.bias:
                for values, numbers in zip(self.results["bias_gradient"], (own, scale), strict=True):
                    values[channel] = numbers.sum()

    def _windows(self, signal: NDArray[Any]) -> NDArray[np.float64]:
        """Samples from the first window to the last one, with zeros outside of the signal."""
        problem, first = self.problem, self.problem.first_lag
        stop = first + problem.result_length - 1 + problem.taps
        samples = np.zeros((problem.batch, stop - first))
        left, right = max(0, first), min(problem.signal, stop)
        samples[:, left - first : right - first] = signal[:, left:right]
        return samples

    def _set_signal(
        self, channel: int, own: NDArray[np.float64], scale: NDArray[np.float64], taps: NDArray[np.float64]
    ) -> None:
        """Adds each output's gradient to the samples of its window."""
        problem, first = self.problem, self.problem.first_lag
        outputs = problem.result_length
        left = max(0, first)
        right = min(problem.signal, first + outputs - 1 + problem.taps)
        sums = tuple(np.zeros((problem.batch, outputs + problem.taps - 1)) for _ in range(2))
        if self.is_by_transforms:
            beside = np.pad(own, ((0, 0), (problem.taps - 1, problem.taps - 1)))
            add_by_transforms(taps[::-1], beside, 1, *sums)
        else:
            for reached, numbers, factors in zip(sums, (own, scale), (taps, np.abs(taps)), strict=True):
                for k, factor in enumerate(factors):
                    reached[:, k : k + outputs] += factor * numbers
        if self.is_signalwise:
            floors = gains_of(problem, taps[None])[0] * peaks_of(problem, scale)
            np.maximum(sums[1], floors[:, None], out=sums[1])
        for values, reached in zip(self.results["signal_gradient"], sums, strict=True):
            target = by_time(problem, values, problem.signal)[:, channel]
            target[:, left:right] = reached[:, left - first : right - first]

    def _add_weights(
        self,
        number: int,
        windows: NDArray[np.float64],
        own: NDArray[np.float64],
        scale: NDArray[np.float64],
        floors: NDArray[np.float64],
    ) -> None:
        expected, scales = (
            correlation_taps(self.problem, values)[number] for values in self.results["weights_gradient"]
        )
        if not self.is_signalwise:
            self._add_rows(windows, own, expected)
            self._add_rows(np.abs(windows), scale, scales)
            return
        if self.is_by_transforms:
            bad = ~np.isfinite(windows)
            spoilt = ~np.isfinite(own).all(axis=1)
            expected += correlated_rows(np.where(np.isfinite(own), own, 0.0), np.where(bad, 0.0, windows))
            bad[spoilt] = True
            of_rows: NDArray[np.bool_] = bad.max(axis=0, keepdims=True)
            spoil(of_rows, own.shape[1], 1, expected[None], scales[None])
        else:
            self._add_rows(windows, own, expected)
        scales += floors.sum()
        scales[~np.isfinite(expected)] = np.nan

    @staticmethod
    def _add_rows(windows: NDArray[np.float64], own: NDArray[np.float64], target: NDArray[np.float64]) -> None:
        for row, beside in zip(own, windows, strict=True):
            # One call for all taps: threads wait less for the interpreter lock than with a sum for each tap.
            target += np.correlate(beside, row, "valid")


def _norms(problem: Filter1d, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Euclidean norms of the finite numbers of rows; NaN if one that is not finite may reach all results."""
    squares = np.square(rows)
    squares[~np.isfinite(rows)] = np.nan if problem.nonfinite is NonFinite.ANY else 0.0
    norms: NDArray[np.float64] = np.sqrt(squares.sum(axis=1))
    return norms


def _sloped(
    own: NDArray[np.float64], windows: NDArray[np.float64], taps: NDArray[np.float64], bias: float, outputs: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Gradients times SiLU's slopes at the filter's outputs, and the scales of their errors."""
    sums, magnitudes = np.full(own.shape, bias), np.full(own.shape, abs(bias))
    for k, tap in enumerate(taps):
        samples = windows[:, k : k + outputs]
        sums += tap * samples
        magnitudes += abs(tap) * np.abs(samples)
    logistic = 1 / (1 + np.exp(-np.maximum(sums, _LEAST_EXPONENT)))
    # 1 - logistic would lose the digits of small differences.
    slopes = logistic + sums * logistic / (1 + np.exp(np.minimum(sums, -_LEAST_EXPONENT)))
    return own * slopes, np.abs(own) * (_STEEPEST + _BEND * magnitudes)
