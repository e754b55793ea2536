"""Reference kernels of `filter1d`."""

from __future__ import annotations

from warpsmith.generator.filter1d.problem import Filter1d, SignalLayout
from warpsmith.generator.first_use.reference import Reference, Scale, packed, reference_program
from warpsmith.generator.problem import DType


def filter1d_reference(problem: Filter1d, threads: int) -> Reference:
    """Reference whose sums are one window of a channel times its filter, for all types, layouts and slices."""
    (signal, weights, *_), result = problem.inputs, problem.output
    is_btc, is_complex = problem.layout is SignalLayout.BTC, signal.dtype is DType.COMPLEX64
    row = (problem.pitch or 0) // signal.dtype.itemsize or (problem.channels if is_btc else problem.signal)
    integers = {
        "is_btc": int(is_btc),
        "convolves": int(problem.convolve),
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
    types = (DType.FLOAT32, DType.FLOAT32) if is_complex else (signal.dtype, result.dtype)
    return Reference(
        program=reference_program("filter1d", threads, integers, {}, *types, parts=2 if is_complex else 1),
        values=packed(integers, {}),
        inputs=(signal.name, weights.name, weights.name),
        terms=problem.taps,
        term_cost=4 if is_complex else 1,
        scale=Scale.TERMS,
        from_host=frozenset({weights.name}),
    )
