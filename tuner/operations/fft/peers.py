"""Fourier transform peers: cuFFT with a plan that is made once, and SciPy on the host."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.devices.host.machine import cores
from warpsmith.generator.fft import Fft, Kind, Layout, Order
from warpsmith.tuner.operations.fft.oracle import by_transform
from warpsmith.tuner.operations.judge import Operands
from warpsmith.tuner.operations.peer import Peer, Unavailable, cupy_stream

NO_REVERSED_ORDER = "it has no bit-reversed order"
NO_START = "it takes signals that begin at the first point"
NO_TILES = "it takes whole signals, no tiles of planes"
NO_BORDER = "it takes signals without a border"
NO_PRODUCT = "it takes spectra, not what they are the product of"


def cufft_peer(problem: Fft, operands: Operands, sets: int = 1) -> Peer:
    """Peer that runs cuFFT with the steps that the problem needs in addition: padding or clipping, transposing,
    scaling.

    Raises Unavailable for bit-reversed order, for signals that begin elsewhere or have a border, for tiles and for
    products of spectra: cuFFT has none of these.
    """
    _check_order(problem)
    cupy, cufft = importlib.import_module("cupy"), importlib.import_module("cupy.cuda.cufft")
    given = operands[problem.inputs[0].name]
    plan = cufft_plan(problem, cufft)
    buffers = [_CufftBuffers.of(problem, given, cupy) for _ in range(sets)]
    inner = (slice(None), *map(slice, problem.signal_size))
    inverse = problem.inverse is True
    direction = cufft.CUFFT_INVERSE if inverse else cufft.CUFFT_FORWARD

    def run(index: int = 0, stream: int | None = None, /) -> None:
        with cupy_stream(cupy, stream):
            work(buffers[index])

    def work(own: _CufftBuffers) -> None:
        source, result = own.source, own.output
        if own.signal is not None and not inverse:
            own.signal[inner] = source
            source = own.signal
        if own.natural is not None and inverse:
            own.natural[...] = source.swapaxes(1, 2)
            source = own.natural
        if own.signal is not None and inverse:
            result = own.signal
        if own.natural is not None and not inverse:
            result = own.natural
        plan.fft(source, result, direction)
        if problem.scale != 1:
            cupy.multiply(result, np.float32(problem.scale), out=result)
        if result is not own.output:
            own.output[...] = result[inner] if inverse else result.swapaxes(1, 2)

    name = f"cufft {cufft.getVersion()} through cupy {cupy.__version__}"
    if problem.kind is not Kind.C2R or problem.layout is Layout.TRANSPOSED:
        return Peer(name, run, lambda: cupy.asnumpy(buffers[0].output))
    # Complex-to-real plans use their input as scratch memory, always in two dimensions.
    kept = buffers[0].source.copy()

    def renew() -> None:
        for own in buffers:
            cupy.copyto(own.source, kept)

    return Peer(name, run, lambda: cupy.asnumpy(buffers[0].output), renew)


def _check_order(problem: Fft) -> None:
    if problem.order is Order.REVERSED:
        raise Unavailable(NO_REVERSED_ORDER)
    if problem.start is not None:
        raise Unavailable(NO_START)
    if problem.tiling is not None:
        raise Unavailable(NO_TILES)
    if problem.border is not None:
        raise Unavailable(NO_BORDER)
    if problem.product is not None:
        raise Unavailable(NO_PRODUCT)


@dataclasses.dataclass(frozen=True, slots=True)
class _CufftBuffers:
    """One set of arrays on the device."""

    source: Any
    output: Any
    signal: Any
    """Zero-padded signal; None if the signal is not padded."""
    natural: Any
    """Spectrum in cuFFT's layout; None if the problem has that layout."""

    @classmethod
    def of(cls, problem: Fft, given: NDArray[Any], cupy: Any) -> _CufftBuffers:
        pads, transposes = problem.valid is not None, problem.layout is Layout.TRANSPOSED
        whole = (problem.batch, *problem.size)
        return cls(
            source=cupy.asarray(given),
            output=cupy.empty(problem.output.shape, str(problem.output.dtype)),
            signal=cupy.zeros(whole, "float32" if problem.is_real else "complex64") if pads else None,
            natural=cupy.empty((problem.batch, *problem.spectrum_size), "complex64") if transposes else None,
        )


def cufft_plan(problem: Fft, cufft: Any) -> Any:
    """CuPy's plan of all transforms; `cufft` is its module. It covers neither padding nor transposing."""
    kind = {Kind.R2C: cufft.CUFFT_R2C, Kind.C2R: cufft.CUFFT_C2R, Kind.C2C: cufft.CUFFT_C2C}[problem.kind]
    if len(problem.size) == 1 and problem.layout is Layout.BATCH:
        return cufft.Plan1d(problem.size[0], kind, problem.batch)
    signal = (problem.size, 1, problem.points)
    spectrum = (problem.spectrum_size, 1, prod(problem.spectrum_size))
    if problem.layout is Layout.FREQUENCY:
        spectrum = (problem.spectrum_size, problem.batch, 1)
    both = (*spectrum, *signal) if problem.inverse else (*signal, *spectrum)
    return cufft.PlanNd(problem.size, *both, kind, problem.batch, "C", len(problem.size) - 1, problem.size[-1])


def scipy_peer(problem: Fft, operands: Operands, sets: int = 1) -> Peer:
    """Peer that runs `scipy.fft` on all cores, with the copies that other layouts need. Raises Unavailable as
    `cufft_peer` does.
    """
    _check_order(problem)
    fft, scipy = importlib.import_module("scipy.fft"), importlib.import_module("scipy")
    name = {
        (Kind.R2C, False): "rfftn",
        (Kind.C2R, True): "irfftn",
        (Kind.C2C, False): "fftn",
        (Kind.C2C, True): "ifftn",
    }[problem.kind, problem.inverse is True]
    transform: Callable[..., Any] = getattr(fft, name)
    given = operands[problem.inputs[0].name]
    sources = [given, *(given.copy() for _ in range(sets - 1))]
    axes = tuple(range(1, len(problem.size) + 1))
    outputs = [np.empty(problem.output.shape, str(problem.output.dtype)) for _ in range(sets)]

    def run(index: int = 0, stream: int | None = None, /) -> None:  # noqa: ARG001 - the host has no streams
        source, output = sources[index], outputs[index]
        given = by_transform(problem, source) if problem.inverse else source
        result = transform(given, s=problem.size, axes=axes, norm=str(problem.norm), workers=cores())
        if problem.inverse:
            output[...] = result[(slice(None), *map(slice, problem.signal_size))]
        else:
            by_transform(problem, output)[...] = result

    return Peer(f"scipy {scipy.__version__} fft.{name}", run, lambda: outputs[0])
