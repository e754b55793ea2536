"""Peers with one large transform of a zero-padded image: `fftconvolve` of SciPy and of CuPy."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.problem import DType
from warpsmith.tuner.operations.array_libraries import cupy_stream
from warpsmith.tuner.operations.peer import Peer, Unavailable
from warpsmith.tuner.operations.reference import Operands


@dataclasses.dataclass(frozen=True, slots=True)
class SignalLibrary:
    """A `signal` module and the array library that it works on."""

    name: str
    """Library name with its version."""
    signal: Any
    arrays: Any
    """Array module with NumPy's interface."""
    to_host: Callable[[Any], NDArray[Any]]
    stream: Callable[[int | None], contextlib.AbstractContextManager[Any]]
    """Makes the work inside the block run on a stream; None is the default one."""


def scipy_signal() -> SignalLibrary:
    """SciPy's `signal`, on the host."""
    signal = importlib.import_module("scipy.signal")
    return SignalLibrary(f"scipy {version('scipy')}", signal, np, np.asarray, lambda _: contextlib.nullcontext())


def cupy_signal() -> SignalLibrary:
    """CuPy's `signal`, on a GPU."""
    cupy, signal = importlib.import_module("cupy"), importlib.import_module("cupyx.scipy.signal")
    return SignalLibrary(
        f"cupy {cupy.__version__}", signal, cupy, cupy.asnumpy, lambda stream: cupy_stream(cupy, stream)
    )


def fftconvolve_peer(
    problem: Filter2d, taps: NDArray[np.float32], operands: Operands, library: SignalLibrary, sets: int
) -> Peer:
    """Peer that convolves with the rotated filter and returns the part that is the problem's result.

    Args:
        problem: filter problem.
        taps: weights as (filters, R, S), rotated so that a correlation applies them.
        operands: the image.
        library: library that filters it.
        sets: number of input and output sets.

    Raises:
        Unavailable: the library does not support the problem.
    """
    if problem.border is not Border.VALID and (problem.border is not Border.CONSTANT or problem.cval):
        raise Unavailable("its fftconvolve has zeros outside the image")
    if problem.filters > 1 or problem.channels > 1:
        raise Unavailable("its fftconvolve has one filter and one channel a call")
    if {problem.dtype, problem.output.dtype} != {DType.FLOAT32}:
        raise Unavailable("its fftconvolve is compared in float32")
    arrays = library.arrays
    images = [arrays.asarray(operands["image"]) for _ in range(sets)]
    turned = np.ascontiguousarray(taps[0, ::-1, ::-1]).reshape((1,) * (problem.planes > 1) + problem.filter)
    weights = arrays.asarray(turned)
    outputs: list[Any] = [None] * sets
    mode = "valid" if problem.border is Border.VALID else "full"
    inside: tuple[Any, ...] = (...,)
    if mode == "full":
        # The window of the first result begins `before` pixels ahead of the image; that of the full convolution, R-1
        # pixels ahead.
        first = [size - 1 - before for size, before in zip(problem.filter, problem.before, strict=True)]
        inside = (..., *(slice(at, at + size) for at, size in zip(first, problem.output_shape, strict=True)))

    def run(index: int = 0, stream: int | None = None, /) -> None:
        with library.stream(stream):
            outputs[index] = library.signal.fftconvolve(images[index], weights, mode=mode, axes=(-2, -1))

    return Peer(f"{library.name} signal.fftconvolve", run, lambda: library.to_host(outputs[0][inside]))
