"""Other libraries' Fourier transforms: cuFFT through a plan that is made once, and SciPy's on the host."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from warpsmith.devices.host.machine import cores
from warpsmith.generator.fft import Fft, Kind, Layout, Order
from warpsmith.tuner.fft_oracle import by_transform
from warpsmith.tuner.oracle import Operands
from warpsmith.tuner.peer import Peer


def cufft_peer(problem: Fft, operands: Operands) -> Peer | None:
    """cuFFT with whatever it needs besides: a copy that pads or clips, one that transposes, a product that scales.

    None for bit-reversed order, which it does not have.
    """
    if problem.order is Order.REVERSED:
        return None
    cupy, cufft = importlib.import_module("cupy"), importlib.import_module("cupy.cuda.cufft")
    source = cupy.asarray(operands[problem.inputs[0].name])
    plan = cufft_plan(problem, cufft)
    output = cupy.empty(problem.output.shape, str(problem.output.dtype))
    inner = (slice(None), *map(slice, problem.signal_size))
    pads, transposes = problem.valid is not None, problem.layout is Layout.TRANSPOSED
    whole = (problem.batch, *problem.size)
    signal: Any = cupy.zeros(whole, "float32" if problem.is_real else "complex64") if pads else None
    natural: Any = cupy.empty((problem.batch, *problem.spectrum_size), "complex64") if transposes else None
    inverse = problem.inverse is True
    direction = cufft.CUFFT_INVERSE if inverse else cufft.CUFFT_FORWARD

    def run() -> None:
        given, result = source, output
        if pads and not inverse:
            signal[inner] = source
            given = signal
        if transposes and inverse:
            natural[...] = source.swapaxes(1, 2)
            given = natural
        if pads and inverse:
            result = signal
        if transposes and not inverse:
            result = natural
        plan.fft(given, result, direction)
        if problem.scale != 1:
            cupy.multiply(result, np.float32(problem.scale), out=result)
        if result is not output:
            output[...] = result[inner] if inverse else result.swapaxes(1, 2)

    name = f"cufft {cufft.getVersion()} through cupy {cupy.__version__}"
    if problem.kind is not Kind.C2R or transposes:
        return Peer(name, run, lambda: cupy.asnumpy(output))
    # Its plans to real numbers use their input as scratch memory, of two dimensions always.
    kept = source.copy()
    return Peer(name, run, lambda: cupy.asnumpy(output), lambda: cupy.copyto(source, kept))


def cufft_plan(problem: Fft, cufft: Any) -> Any:
    """CuPy's plan of all the transforms; `cufft` is its module. Padding and transposing are not its business."""
    kind = {Kind.R2C: cufft.CUFFT_R2C, Kind.C2R: cufft.CUFFT_C2R, Kind.C2C: cufft.CUFFT_C2C}[problem.kind]
    if len(problem.size) == 1 and problem.layout is Layout.BATCH:
        return cufft.Plan1d(problem.size[0], kind, problem.batch)
    signal = (problem.size, 1, problem.points)
    spectrum = (problem.spectrum_size, 1, prod(problem.spectrum_size))
    if problem.layout is Layout.FREQUENCY:
        spectrum = (problem.spectrum_size, problem.batch, 1)
    both = (*spectrum, *signal) if problem.inverse else (*signal, *spectrum)
    return cufft.PlanNd(problem.size, *both, kind, problem.batch, "C", len(problem.size) - 1, problem.size[-1])


def scipy_peer(problem: Fft, operands: Operands) -> Peer | None:
    """`scipy.fft` on all cores, with the copies that other layouts need."""
    if problem.order is Order.REVERSED:
        return None
    fft, scipy = importlib.import_module("scipy.fft"), importlib.import_module("scipy")
    name = {
        (Kind.R2C, False): "rfftn",
        (Kind.C2R, True): "irfftn",
        (Kind.C2C, False): "fftn",
        (Kind.C2C, True): "ifftn",
    }[problem.kind, problem.inverse is True]
    transform: Callable[..., Any] = getattr(fft, name)
    source = operands[problem.inputs[0].name]
    axes = tuple(range(1, len(problem.size) + 1))
    output = np.empty(problem.output.shape, str(problem.output.dtype))

    def run() -> None:
        given = by_transform(problem, source) if problem.inverse else source
        result = transform(given, s=problem.size, axes=axes, norm=str(problem.norm), workers=cores())
        if problem.inverse:
            output[...] = result[(slice(None), *map(slice, problem.signal_size))]
        else:
            by_transform(problem, output)[...] = result

    return Peer(f"scipy {scipy.__version__} fft.{name}", run, lambda: output)
