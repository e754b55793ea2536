"""Peers of `scipy.signal`, and of CuPy with the same interface: direct sums, transforms, and overlap-add."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.filter1d import Activation, Filter1d, Mode
from warpsmith.generator.problem import DType
from warpsmith.tuner.operations.filter1d.extent import Extent, bias_along, reversed_taps, time_axis
from warpsmith.tuner.operations.filter1d.norm_check import NormCheck
from warpsmith.tuner.operations.judge import Operands
from warpsmith.tuner.operations.peer import Peer, Unavailable
from warpsmith.tuner.operations.scipy_library import ScipyLibrary

DIRECT = "convolve"
"""Name of the function that can add up term by term."""


def scipy_peer(problem: Filter1d, operands: Operands, library: ScipyLibrary, function: str, sets: int) -> Peer:
    """Peer that convolves, and finishes the slice that is the problem's result.

    Real signals that are not float32 are converted first, and results of other types last, in each run.

    Args:
        problem: problem to compute.
        operands: the problem's inputs.
        library: library that filters them.
        function: `convolve`, which adds up term by term, `fftconvolve` or `oaconvolve`.
        sets: number of input and output sets.

    Raises Unavailable if the library does not support the problem.
    """
    arrays, is_direct = library.arrays, function == DIRECT
    if is_direct and problem.filters > 1:
        raise Unavailable("its direct sums have one filter a call")
    if arrays is not np and DType.BFLOAT16 in (problem.dtype, problem.output.dtype):
        raise Unavailable("it has no bfloat16")
    signals = [arrays.asarray(operands["signal"]) for _ in range(sets)]
    taps = arrays.asarray(reversed_taps(problem, operands["weights"]).copy())
    finish = _epilogue(problem, operands, arrays)
    number = np.dtype(np.complex64 if problem.dtype is DType.COMPLEX64 else np.float32)
    tap_number = np.dtype(np.complex64 if problem.weights_dtype is DType.COMPLEX64 else np.float32)
    result_dtype = operands["signal"].dtype if problem.output.dtype is problem.dtype else str(problem.output.dtype)
    extent, axis = Extent.of(problem), time_axis(problem)
    is_valid = is_direct and problem.mode is Mode.VALID
    options = {"method": "direct"} if is_direct else {"axes": axis}
    wanted = slice(0, None, problem.down) if is_valid else extent.results
    is_line = is_direct and problem.rows == 1  # the library has a faster function for one dimension
    kept = (wanted,) if is_line else (slice(None),) * axis + (wanted,)
    outputs: list[Any] = [None] * sets

    def run(index: int = 0, stream: int | None = None, /) -> None:
        with library.stream(stream):
            x = extent.of_signals(problem, signals[index]).astype(number, copy=False)
            w = taps.astype(tap_number, copy=False)
            if is_line:
                x, w = x.reshape(-1), w.reshape(-1)
            y = getattr(library.functions, function)(x, w, mode="valid" if is_valid else "full", **options)
            outputs[index] = finish(y[kept]).astype(result_dtype, copy=False).reshape(problem.output.shape)

    check = None if is_direct else NormCheck.of(problem, operands)

    def result() -> NDArray[Any]:
        array = library.to_host(outputs[0])
        return array if check is None else check.checked(array)

    title = f"{library.name} signal.{function}{' by direct sums' if is_direct else ''}"
    return Peer(title, run, result, tolerance=None if check is None else math.inf)


def _epilogue(problem: Filter1d, operands: Operands, arrays: Any) -> Callable[[Any], Any]:
    """Function that adds the bias to sums and applies the activation, as array expressions."""
    bias = arrays.asarray(bias_along(problem, operands["bias"].astype(np.float32))) if problem.bias else None

    def finish(sums: Any) -> Any:
        y = sums if bias is None else sums + bias
        if problem.activation is not Activation.SILU:
            return y
        with np.errstate(over="ignore"):
            return y / (1 + arrays.exp(-y))

    return finish
