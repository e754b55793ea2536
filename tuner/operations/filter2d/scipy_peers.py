"""Peers of SciPy and CuPy: `ndimage` with all taps at once or a column and a row, and `signal.fftconvolve`."""

from __future__ import annotations

import contextlib
import importlib
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.filter2d.separable import Term, separable_terms
from warpsmith.generator.problem import DType
from warpsmith.tuner.operations.judge import Operands
from warpsmith.tuner.operations.peer import Peer, Unavailable, cupy_stream
from warpsmith.tuner.operations.scipy_library import ScipyLibrary


def scipy_library(problem: Filter2d) -> ScipyLibrary:
    """SciPy's ndimage. Raises Unavailable if it does not support the problem."""
    _require_ndimage(problem)
    if DType.FLOAT16 in (problem.dtype, problem.output.dtype):
        raise Unavailable("its ndimage knows no float16")
    ndimage = importlib.import_module("scipy.ndimage")
    return ScipyLibrary(f"scipy {version('scipy')}", ndimage, np, np.asarray, lambda _: contextlib.nullcontext())


def cupy_library(problem: Filter2d) -> ScipyLibrary:
    """CuPy's ndimage. Raises Unavailable if it does not support the problem."""
    _require_ndimage(problem)
    cupy, ndimage = importlib.import_module("cupy"), importlib.import_module("cupyx.scipy.ndimage")
    return ScipyLibrary(
        f"cupy {cupy.__version__}", ndimage, cupy, cupy.asnumpy, lambda stream: cupy_stream(cupy, stream)
    )


def _require_ndimage(problem: Filter2d) -> None:
    if problem.filters > 1:
        raise Unavailable("its ndimage has one filter a call")
    if problem.output.dtype is DType.UINT8:
        raise Unavailable("its ndimage truncates to an integer instead of rounding")


def ndimage_peer(problem: Filter2d, operands: Operands, library: ScipyLibrary, sets: int) -> Peer:
    """Peer that runs `correlate` or `convolve` with all taps at once."""
    function = "convolve" if problem.convolve else "correlate"
    ahead, behind = (0,) * (problem.planes > 1), (0,) * (problem.channels > 1)
    centre = tuple(size // 2 for size in problem.filter)
    origin = (at - middle for at, middle in zip(problem.anchor or centre, centre, strict=True))
    # Border `valid` is the inside of a same-size result with any border: the library has no cheaper way.
    keywords = {"mode": _mode(problem), "cval": problem.cval, "origin": (*ahead, *origin, *behind)}
    arrays = library.arrays
    images = [arrays.asarray(operands["image"]) for _ in range(sets)]
    weights = arrays.asarray(operands["weights"].reshape((1,) * len(ahead) + problem.filter + (1,) * len(behind)))
    outputs = [arrays.empty(images[0].shape, dtype=str(problem.output.dtype)) for _ in range(sets)]
    inside = _inside(problem, rotated=problem.convolve)

    def run(index: int = 0, stream: int | None = None, /) -> None:
        with library.stream(stream):
            getattr(library.functions, function)(images[index], weights, output=outputs[index], **keywords)

    return Peer(f"{library.name} ndimage.{function}", run, lambda: library.to_host(outputs[0][inside]))


def only_term(problem: Filter2d) -> Term | None:
    """Column and row whose product a known filter is; None if it is no such product, or not known."""
    terms = separable_terms(problem) if problem.weights is not None and problem.filters == 1 else ()
    return terms[0] if len(terms) == 1 else None


def separable_ndimage_peer(problem: Filter2d, term: Term, operands: Operands, library: ScipyLibrary, sets: int) -> Peer:
    """Peer that runs `correlate1d` along the columns, then along the rows, with a float32 image between them."""
    arrays, axis = library.arrays, int(problem.planes > 1)
    images = [arrays.asarray(operands["image"]) for _ in range(sets)]
    outputs = [arrays.empty(images[0].shape, dtype=str(problem.output.dtype)) for _ in range(sets)]
    between = [arrays.empty(images[0].shape, dtype="float32") for _ in range(sets)]
    column, row = (arrays.asarray(np.array(values, np.float32)) for values in (term.column, term.row))
    # Outside the intermediate image lies what the first pass computes from the constant.
    passes = ((column, problem.cval), (row, problem.cval * sum(term.column)))
    origins = [0, 0]
    if problem.border is not Border.VALID:
        origins = [at - size // 2 for at, size in zip(problem.before, problem.filter, strict=True)]
    mode, inside = _mode(problem), _inside(problem, rotated=False)

    def run(index: int = 0, stream: int | None = None, /) -> None:
        steps = ((images[index], between[index]), (between[index], outputs[index]))
        with library.stream(stream):
            for at, ((source, target), (taps, cval)) in enumerate(zip(steps, passes, strict=True)):
                library.functions.correlate1d(
                    source, taps, axis=axis + at, output=target, mode=mode, cval=cval, origin=origins[at]
                )

    return Peer(f"{library.name} ndimage.correlate1d twice", run, lambda: library.to_host(outputs[0][inside]))


def _mode(problem: Filter2d) -> str:
    return "constant" if problem.border is Border.VALID else str(problem.border)


def _inside(problem: Filter2d, *, rotated: bool) -> tuple[Any, ...]:
    """Part of ndimage's image-sized result that the problem needs."""
    if problem.border is not Border.VALID:
        return (...,)
    # A convolution's window reaches as far ahead as a correlation's window reaches behind.
    first = [(size - 1) // 2 if rotated else size // 2 for size in problem.filter]
    rows, columns = (slice(at, at + size) for at, size in zip(first, problem.output_shape, strict=True))
    return (..., rows, columns, *[slice(None)] * (problem.channels > 1))


def fftconvolve_peer(
    problem: Filter2d, taps: NDArray[np.float32], operands: Operands, library: ScipyLibrary, sets: int
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
    rotated = np.ascontiguousarray(taps[0, ::-1, ::-1]).reshape((1,) * (problem.planes > 1) + problem.filter)
    weights = arrays.asarray(rotated)
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
            outputs[index] = library.functions.fftconvolve(images[index], weights, mode=mode, axes=(-2, -1))

    return Peer(f"{library.name} signal.fftconvolve", run, lambda: library.to_host(outputs[0][inside]))
