"""Reference kernels of `filter1d`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

from warpsmith.generator.filter1d.fields import Activation, SignalLayout
from warpsmith.generator.filter1d.gates import GATES
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.filter1d.text import pitches
from warpsmith.generator.first_use.filter1d_states import StatesReference
from warpsmith.generator.first_use.reference import (
    ChannelPlanes,
    Reference,
    ResultFunction,
    Scale,
    packed,
    reference_program,
)
from warpsmith.generator.problem import Accuracy, DType

_ROOT_MEAN_SQUARES = {DType.INT16: 4096 / math.sqrt(3), DType.UINT8: 255 / math.sqrt(3)}
"""Root mean squares of the random samples that first_use/common.cu.jinja draws; they are 1 for other types."""
_ACTIVATED_DEVIATION, _MOST_DEVIATION = 4.0, 4096.0
"""Standard deviation of the random sums that reach an activation, and the largest one of a bias, which may be float16.
"""


def filter1d_reference(problem: Filter1d, threads: int) -> Reference:
    """Reference whose sums are one window of a channel times its filter, and its bias, for all types, layouts and
    slices.
    """
    signal, weights, result = *problem.inputs[:2], problem.output
    is_btc, is_complex = problem.layout is SignalLayout.BTC, signal.dtype is DType.COMPLEX64
    row, _ = pitches(problem)
    integers = {
        "is_btc": int(is_btc),
        "convolves": int(problem.convolve),
        "has_bias": int(problem.bias),
        "has_own_taps": int(weights.dtype is signal.dtype),
        "signal": problem.signal,
        "taps": problem.taps,
        "channels": problem.channels,
        "group": problem.channels // problem.filters,
        "outputs": problem.result_length,
        "first_lag": problem.first_lag,
        "down": problem.down,
        "batch_step": row * (problem.signal if is_btc else problem.channels),
        "channel_step": 1 if is_btc else row,
        "sample_step": row if is_btc else 1,
    }
    states = StatesReference.of(problem)
    if states is not None:
        integers |= states.integers
    gates = [each.name for each in problem.inputs if each.name in GATES]
    others = () if states is None else states.inputs
    if gates:
        integers |= _gate_integers(problem)
        others = tuple(each if each in gates else signal.name for each in GATES)
    bias = "bias" if problem.bias else weights.name
    planes = channel_planes(problem, signal.dtype, problem.signal, row, problem.result_length)
    types = (DType.FLOAT32, DType.FLOAT32) if is_complex else (signal.dtype, result.dtype)
    return Reference(
        program=reference_program("filter1d", threads, integers, {}, *types, 2 if is_complex else 1, 3 + len(others)),
        values=packed(integers, {}),
        inputs=(signal.name, weights.name, bias, *others),
        terms=problem.taps,
        term_cost=4 if is_complex else 1,
        scale=Scale.PLANE if problem.accuracy is Accuracy.SIGNALWISE and states is None else Scale.TERMS,
        function=ResultFunction.SILU if problem.activation is Activation.SILU else ResultFunction.IDENTITY,
        slope=1.0 if problem.activation is None else problem.activation.slope,
        from_host=_from_host(problem),
        deviations=deviations_of(problem),
        planes=dataclasses.replace(planes, gate="gate_before" if "gate_before" in gates else None),
        given={} if states is None else states.given,
        unchecked=frozenset() if states is None else states.unchecked,
        has_factor="gate_after" in gates,
    )


def _gate_integers(problem: Filter1d) -> dict[str, int]:
    names = {each.name for each in problem.inputs}
    return {
        "gates_samples": int("gate_before" in names),
        "gates_outputs": int("gate_after" in names),
        "result_row": pitches(problem)[1],
        "projection": problem.projection or 0,
    }


def _from_host(problem: Filter1d) -> frozenset[str]:
    """Operands that the host draws: those that a scale needs, or that have another type than the signal."""
    gate = () if problem.output_dtype is problem.dtype else ("gate_after",)
    return frozenset({problem.inputs[1].name, "bias", "projections", *gate})


def channel_planes(problem: Filter1d, dtype: DType, length: int, pitch: int, outputs: int) -> ChannelPlanes:
    """Channels of a signal of so many samples, `pitch` elements from row to row, that become `outputs` results each."""
    is_btc, row_bytes = problem.layout is SignalLayout.BTC, pitch * dtype.itemsize
    return ChannelPlanes(
        rows=length if is_btc else 1,
        row_elements=(1 if is_btc else length) * (2 if dtype is DType.COMPLEX64 else 1),
        row_bytes=row_bytes,
        filters=problem.filters,
        filter=(1, problem.taps),
        channels=problem.channels,
        outputs=outputs,
        is_btc=is_btc,
        batch_bytes=row_bytes * (length if is_btc else problem.channels),
        channel_bytes=dtype.itemsize if is_btc else row_bytes,
    )


def deviations_of(problem: Filter1d) -> Mapping[str, float]:
    """Standard deviations with which an activation bends the sums, and a bias is as large as they are."""
    sums = _ROOT_MEAN_SQUARES.get(problem.dtype, 1.0) * math.sqrt(problem.taps)
    weights = 1.0 if problem.activation is None else min(1.0, _ACTIVATED_DEVIATION / sums)
    return {"weights": weights, "bias": min(sums * weights, _MOST_DEVIATION)}
