"""Float64 references by NumPy, and single results by direct sums. Nothing is shared with the generator.

A reference is a product of windows with a band matrix, which has one column for each output of a window. Sums are
direct: stress data have magnitudes 2^40 apart, so the errors of a transform would be larger than many results. Only
long filters, of which direct sums would take minutes, are products of transforms, if scales have a floor: the errors of
these are some 1e-15 of it.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.filter1d import Activation, Filter1d, SignalLayout
from warpsmith.generator.problem import Accuracy, DType
from warpsmith.tuner.operations.filter1d.floors import all_floors, gains_of, has_floors, peaks_of
from warpsmith.tuner.operations.filter1d.gates import GatedChannels, gate_rows, gated, gated_operands
from warpsmith.tuner.operations.filter1d.gates import alone as alone_of_gates
from warpsmith.tuner.operations.filter1d.states import alone, history, places, sequences
from warpsmith.tuner.operations.filter1d.transforms import add_by_transforms, spoil
from warpsmith.tuner.operations.judge import Operands, Reference, Samples
from warpsmith.tuner.operations.strips import STRIP_BYTES, for_each_strip, room_beside

_RESULTS = 1 << 13
"""Outputs that one thread computes at once, of one channel or of several."""
_SAMPLES = 1 << 16
"""Samples of one channel that one thread reads at once, about."""
_TAPS = 512
"""Taps of one band matrix; longer filters take several."""
_TILE = 32
"""Outputs of a window, the columns of a band matrix: one with few taps then has little more than its own taps."""
_PRODUCT_SIZE = 1 << 18
"""Multiply-adds of one product: OpenBLAS spreads larger ones over its own threads, which would compete with ours."""

_LARGE = 1 << 33
"""Multiply-adds above which transforms are faster: direct sums of so many take about two seconds on 16 cores."""

_LEAST_EXPONENT = -700.0
"""Least sum whose exp(-sum) float64 holds; SiLU of smaller ones is less than 1e-304 of them."""


def by_time(problem: Filter1d, array: NDArray[Any], samples: int) -> NDArray[Any]:
    """View of a signal or of a result as (batch, channels, time)."""
    if problem.layout is SignalLayout.BTC:
        return array.reshape(problem.batch, samples, problem.channels).swapaxes(1, 2)
    return array.reshape(problem.batch, problem.channels, samples)


def correlation_taps(problem: Filter1d, weights: NDArray[Any]) -> NDArray[Any]:
    """Weights as (filters, taps), in the order of a correlation: tap 0 meets the oldest sample of a window."""
    filters = weights.reshape(problem.filters, problem.taps)
    return filters[:, ::-1] if problem.convolve else filters


def activated(problem: Filter1d, sums: NDArray[Any]) -> NDArray[Any]:
    """Results from sums with their bias."""
    match problem.activation:
        case None:
            return sums
        case Activation.SILU:
            silu: NDArray[Any] = sums / (1 + np.exp(-np.maximum(sums, _LEAST_EXPONENT)))
            return silu


def is_long(problem: Filter1d) -> bool:
    """True if sums are made by transforms: scales have a floor, and direct sums would take long."""
    return problem.accuracy is Accuracy.SIGNALWISE and problem.taps > _TAPS and problem.multiply_adds > _LARGE


def slope(problem: Filter1d) -> float:
    """Factor on the scale of errors: the largest slope of the activation."""
    return 1.0 if problem.activation is None else problem.activation.slope


def terms(problem: Filter1d) -> int:
    """Real products that one result adds up at most."""
    parts = 4 if problem.weights_dtype is DType.COMPLEX64 else 2 if problem.dtype is DType.COMPLEX64 else 1
    is_read = problem.state is not None and problem.state.is_read
    return parts * (problem.taps if is_read else min(problem.taps, problem.signal))


def reference(problem: Filter1d, operands: Operands) -> Reference:
    """The results and the scales of their errors: the sums of |weight| |sample|, plus |bias|, or the floor of the
    channel (`all_floors`) if that is larger, times the largest slope of the activation.

    The real and imaginary parts of complex results are side by side in an additional dimension, with one scale. A
    result whose window contains a NaN or an infinity is NaN, and so is its scale: it is not checked. Packed sequences
    are filtered one by one; results of signals that are skipped are zero, and so is their scale. Gates multiply samples
    first, and results and scales last.
    """
    if problem.gates is not None:
        found = reference(alone_of_gates(problem), gated_operands(problem, operands))
        gate = gate_rows(problem, operands)
        if gate is None:
            return found
        laid = gate.swapaxes(1, 2) if problem.layout is SignalLayout.BTC else gate
        return gated(found.expected, found.scale, laid.reshape(found.expected.shape))
    if problem.packed is not None:
        return _of_sequences(problem, operands)
    components = problem.output.components
    room = room_beside(components.size)
    expected, scale = np.zeros(components.shape), np.zeros(components.shape)
    if problem.output.dtype is DType.COMPLEX64:
        work = _Work.of(problem, operands, expected.view(np.complex128)[..., 0], scale[..., 0])
    else:
        work = _Work.of(problem, operands, expected, scale)
    parts = work.parts()

    def strip(numbers: slice) -> None:
        for part in parts[numbers]:
            work.compute(part)

    for_each_strip(len(parts), STRIP_BYTES, strip, scratch_bytes=work.scratch_bytes, room=room)
    if problem.output.dtype is DType.COMPLEX64:
        scale[..., 1] = scale[..., 0]
    if problem.state_rows is not None:
        for each in (expected, scale):
            each.reshape(problem.batch, -1)[places(problem, operands) < 0] = 0.0
    return Reference(expected, scale)


def _of_sequences(problem: Filter1d, operands: Operands) -> Reference:
    """Reference of packed sequences."""
    components = problem.output.components
    expected, scale = np.zeros(components.shape), np.zeros(components.shape)
    axis = 0 if problem.layout is SignalLayout.BTC or problem.channels == 1 else 1
    shape = problem.output.shape  # (time, channels), or (channels, time)
    signal, before, rows = operands["signal"].reshape(shape), history(problem, operands), places(problem, operands)
    for number, samples in sequences(operands):
        if rows[number] < 0:
            continue
        one, part = alone(problem, samples.stop - samples.start), (*(slice(None),) * axis, samples)
        given = {**operands, "signal": np.ascontiguousarray(signal[part])}
        if before is not None:
            own = before[number]
            given["before"] = np.ascontiguousarray(own.T if problem.layout is SignalLayout.BTC else own)
        found = reference(one, given)
        expected[part], scale[part] = found.expected, found.scale
    return Reference(expected, scale)


@dataclasses.dataclass(frozen=True, slots=True)
class _Part:
    """Some outputs of some channels that have one filter."""

    filter: int
    rows: slice
    """Numbers of the filter's channels, counted through all signals of the batch."""
    outputs: slice


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _Work:
    """Arrays of a reference, as (batch, channels, time)."""

    problem: Filter1d
    signal: NDArray[Any]
    """Samples, behind `lead` older ones that stand before the signal."""
    lead: int
    taps: NDArray[Any]
    """(filters, taps), float64 or complex128, in the order of a correlation."""
    bias: NDArray[np.float64] | None
    floors: NDArray[np.float64] | None
    """`all_floors` of the problem."""
    expected: NDArray[Any]
    scale: NDArray[np.float64]

    @classmethod
    def of(cls, problem: Filter1d, operands: Operands, expected: NDArray[Any], scale: NDArray[np.float64]) -> _Work:
        taps = correlation_taps(problem, operands["weights"])
        signal, lead = _with_history(problem, operands)
        return cls(
            problem=problem,
            signal=signal,
            lead=lead,
            taps=taps.astype(np.complex128 if np.iscomplexobj(taps) else np.float64),
            bias=operands["bias"].astype(np.float64) if problem.bias else None,
            floors=all_floors(problem, signal, taps),
            expected=by_time(problem, expected, problem.result_length),
            scale=by_time(problem, scale, problem.result_length),
        )

    @property
    def channels(self) -> int:
        """Channels of a signal that have one filter."""
        return self.problem.channels // self.problem.filters

    @property
    def tile(self) -> int:
        """Outputs of a window: fewer if these lie far apart, so that a window stays about twice as long as the taps."""
        return max(1, min(_TILE, min(_TAPS, self.problem.taps) // self.problem.down, self.problem.result_length))

    @property
    def at_once(self) -> int:
        """Outputs that a part has at most, of all its channels."""
        most = max(_RESULTS, 4 * self.problem.taps) if self.is_by_transforms else _RESULTS
        return max(1, min(most, max(_SAMPLES, most) // self.problem.down))

    @property
    def is_by_transforms(self) -> bool:
        return is_long(self.problem)

    @property
    def scratch_bytes(self) -> int:
        """Bytes that a part takes: its samples and which of them are finite, its windows, their magnitudes and sums."""
        wide = self.taps.itemsize * (2 if np.iscomplexobj(self.signal) else 1)
        if self.is_by_transforms:
            # Samples and magnitudes, their spectra, those of the taps, products and inverses, each twice.
            return 2 * 6 * 16 * (self.at_once * self.problem.down + 2 * self.problem.taps)
        taps = min(_TAPS, self.problem.taps)
        rows = self.at_once // min(self.at_once, self.problem.result_length)
        tiles = rows + math.ceil(self.at_once / self.tile)
        window = (self.tile - 1) * self.problem.down + taps
        samples = (self.at_once + rows * self.tile) * self.problem.down + rows * taps
        return (wide + 9) * samples + tiles * (2 * wide * window + 4 * wide * self.tile)

    def parts(self) -> list[_Part]:
        rows, outputs = self.problem.batch * self.channels, self.problem.result_length
        some_outputs = min(self.at_once, outputs)
        some_rows = self.at_once // some_outputs
        return [
            _Part(number, slice(row, min(row + some_rows, rows)), slice(first, min(first + some_outputs, outputs)))
            for number, row, first in itertools.product(
                range(self.problem.filters), range(0, rows, some_rows), range(0, outputs, some_outputs)
            )
        ]

    def compute(self, part: _Part) -> None:
        """Adds all taps of a part, some at once, and finishes its results."""
        numbers = np.arange(part.rows.start, part.rows.stop)
        where = (numbers // self.channels, part.filter * self.channels + numbers % self.channels, part.outputs)
        shape = (len(numbers), part.outputs.stop - part.outputs.start)
        expected, scale = np.zeros(shape, self.expected.dtype), np.zeros(shape)
        if self.is_by_transforms:
            first = self.problem.first_lag + part.outputs.start * self.problem.down
            samples = self._samples(*where[:2], first, shape[1], self.problem.taps)
            add_by_transforms(self.taps[part.filter], samples, self.problem.down, expected, scale)
        for start in () if self.is_by_transforms else range(0, self.problem.taps, _TAPS):
            taps = self.taps[part.filter, start : start + _TAPS]
            first = self.problem.first_lag + part.outputs.start * self.problem.down + start
            if first < self.problem.signal and first + (shape[1] - 1) * self.problem.down + len(taps) > -self.lead:
                self._add(taps, self._samples(where[0], where[1], first, shape[1], len(taps)), expected, scale)
        if self.bias is not None:
            bias = self.bias[where[1], None]
            expected += bias
            scale += np.abs(bias)
        if self.floors is not None:
            np.maximum(scale, self.floors[where[:2]][:, None], out=scale)  # NaN stays: such results are not checked
        self.expected[where], self.scale[where] = activated(self.problem, expected), slope(self.problem) * scale

    def _samples(self, batch: NDArray[Any], channel: NDArray[Any], first: int, outputs: int, taps: int) -> NDArray[Any]:
        """Samples from the first window of a part to its last one, with zeros outside of the signal."""
        whole = math.ceil(outputs / self.tile) * self.tile  # the last tile may have outputs that nobody reads
        length = (whole - 1) * self.problem.down + taps
        stop = first + (outputs - 1) * self.problem.down + taps
        left, right = max(-self.lead, first), min(self.problem.signal, stop)
        samples = np.zeros((len(batch), length), np.complex128 if np.iscomplexobj(self.signal) else np.float64)
        samples[:, left - first : right - first] = self.signal[batch, channel, left + self.lead : right + self.lead]
        return samples

    def _add(
        self, taps: NDArray[Any], samples: NDArray[Any], expected: NDArray[Any], scale: NDArray[np.float64]
    ) -> None:
        """Adds the products of some taps to all outputs of a part."""
        down, outputs = self.problem.down, expected.shape[1]
        bad = ~np.isfinite(samples)
        samples[bad] = 0
        spread = (self.tile - 1) * down + len(taps)
        tiles = np.lib.stride_tricks.sliding_window_view(samples, spread, axis=1)[:, :: self.tile * down]
        band = _band(taps, self.tile, down)
        expected += _product(tiles, band)[:, :outputs]
        scale += _product(np.abs(tiles), np.abs(band))[:, :outputs]
        spoil(bad, len(taps), down, expected, scale)


def _with_history(problem: Filter1d, operands: Operands) -> tuple[NDArray[Any], int]:
    """Signals as (batch, channels, time), behind the samples of their state, and the number of these."""
    signal, before = by_time(problem, operands["signal"], problem.signal), history(problem, operands)
    return (signal, 0) if before is None else (np.concatenate([before, signal], axis=2), problem.taps - 1)


def _band(taps: NDArray[Any], tile: int, down: int) -> NDArray[Any]:
    """Matrix whose column i holds the taps, i * down rows down."""
    band = np.zeros(((tile - 1) * down + len(taps), tile), taps.dtype)
    for i in range(tile):
        band[i * down : i * down + len(taps), i] = taps
    return band


def _product(tiles: NDArray[Any], band: NDArray[Any]) -> NDArray[Any]:
    """Outputs of all tiles, (rows, tiles, window), as products of _PRODUCT_SIZE."""
    rows, count, window = tiles.shape
    some = max(1, _PRODUCT_SIZE // band.size)
    flat = tiles.reshape(rows * count, window)
    even = len(flat) // some * some
    result = np.empty((len(flat), band.shape[1]), np.result_type(flat, band))
    np.matmul(flat[:even].reshape(-1, some, window), band, out=result[:even].reshape(-1, some, band.shape[1]))
    np.matmul(flat[even:], band, out=result[even:])
    return result.reshape(rows, count * band.shape[1])


@np.errstate(invalid="ignore")
def samples(problem: Filter1d, operands: Operands, indices: NDArray[np.int64]) -> Samples:
    """Results with these indices, in C order; for complex results, indices of real and imaginary parts."""
    before = history(problem, operands)
    rows = places(problem, operands) if problem.state_rows is not None else None
    starts = operands["starts"].astype(np.int64) if problem.packed is not None else np.zeros(1, np.int64)
    taps = correlation_taps(problem, operands["weights"])
    parts = 2 if problem.output.dtype is DType.COMPLEX64 else 1
    is_btc = problem.layout is SignalLayout.BTC
    row = (problem.result_length, problem.channels) if is_btc else (problem.channels, problem.result_length)
    biases = operands["bias"].astype(np.float64) if problem.bias else np.zeros(problem.channels)
    gains, channels = gains_of(problem, taps), GatedChannels(problem, operands)

    @functools.cache
    def floor(batch: int, channel: int) -> float:
        there = channels.samples(batch, channel)
        if before is not None:
            there = np.concatenate([before[batch, channel], there])
        return float(gains[channel * problem.filters // problem.channels] * peaks_of(problem, there))

    expected, scale, factor = np.empty(len(indices)), np.empty(len(indices)), np.ones(len(indices))
    for number, place in enumerate(zip(*np.unravel_index(indices, (problem.batch, *row, parts)), strict=True)):
        batch, one, other, part = map(int, place)
        channel, output = (other, one) if is_btc else (one, other)
        own = batch if problem.packed is None else int(np.searchsorted(starts, output, "right")) - 1
        if rows is not None and rows[own] < 0:
            expected[number] = scale[number] = 0.0
            continue
        begin = int(starts[own]) if problem.packed is not None else 0
        there = channels.samples(batch, channel)[begin:]
        factor[number] = channels.gate(batch, channel, output)
        lead = 0 if before is None else problem.taps - 1
        there = there if before is None else np.concatenate([before[own, channel], there])
        products, magnitudes = _terms(problem, there, lead, taps, channel, output - begin)
        total = complex(products.sum() + biases[channel])
        expected[number] = total.imag if part else total.real
        scale[number] = magnitudes.sum() + abs(biases[channel])
        if has_floors(problem):
            scale[number] = np.maximum(scale[number], floor(batch, channel))
    both = gated(activated(problem, expected), slope(problem) * scale, factor)
    return Samples(indices, both.expected, both.scale)


def _terms(
    problem: Filter1d, signal: NDArray[Any], lead: int, taps: NDArray[Any], channel: int, output: int
) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Products of one result, and their magnitudes. `lead` samples stand before the first one of the signal."""
    lag = problem.first_lag + output * problem.down
    left, right = max(-lead, lag), min(problem.signal, lag + problem.taps)
    filters = taps[channel * problem.filters // problem.channels, left - lag : right - lag]
    wide = functools.partial(np.asarray, dtype=np.complex128 if np.iscomplexobj(signal) else np.float64)
    there, weights = wide(signal[left + lead : right + lead]), wide(filters)
    return weights * there, np.abs(weights) * np.abs(there)
