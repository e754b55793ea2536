"""Peer libraries for image filters: cuDNN, CuPy and NPP on a GPU, SciPy on the host.

Libraries that sum over taps are left out if that takes a second or more, or far longer than transforms.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.problem import Accuracy
from warpsmith.tuner.operations.filter2d.fft_peers import cupy_signal, fftconvolve_peer, scipy_signal
from warpsmith.tuner.operations.filter2d.ndimage_peers import (
    cupy_library,
    ndimage_peer,
    only_term,
    scipy_library,
    separable_ndimage_peer,
)
from warpsmith.tuner.operations.filter2d.npp_peers import DeviceArrays, npp_peer, separable_npp_peer
from warpsmith.tuner.operations.filter2d.torch_peers import cudnn_peer
from warpsmith.tuner.operations.peer import Peer, PeerMaker
from warpsmith.tuner.operations.reference import Operands

_MOST_MULTIPLY_ADDS = 2e12
"""Largest number of multiply-adds for a library that sums over taps; the fastest does 4e12 per second on an H200 (NPP,
15x15 taps).
"""
_MOST_BESIDE_TRANSFORMS = 1e11
"""Largest number of multiply-adds if transforms solve the problem, which take less than 1 ms for 9216x9216 pixels.
cuDNN needs at least a tenth of a second for so many (2e12 per second with 15x15 taps, 4e11 with 31x31), and it tries
several algorithms.
"""


def scipy_makers(problem: Filter2d, operands: Operands, sets: int) -> tuple[PeerMaker, ...]:
    """Peer libraries on the host."""
    packages, term, direct = ("scipy",), only_term(problem), partial(_direct, problem)
    makers = [
        direct("SciPy ndimage", packages, lambda: ndimage_peer(problem, operands, scipy_library(problem), sets)),
    ]
    if problem.accuracy is Accuracy.IMAGEWISE:
        taps = _taps(problem, operands)
        makers.append(
            PeerMaker(
                "SciPy signal.fftconvolve",
                packages,
                lambda: fftconvolve_peer(problem, taps, operands, scipy_signal(), sets),
            )
        )
    if term is not None:
        makers.append(
            PeerMaker(
                "SciPy ndimage.correlate1d twice",
                packages,
                lambda: separable_ndimage_peer(problem, term, operands, scipy_library(problem), sets),
            )
        )
    return tuple(makers)


def gpu_makers(problem: Filter2d, operands: Operands, sets: int) -> tuple[PeerMaker, ...]:
    """Peer libraries on a GPU."""
    taps, term, direct = _taps(problem, operands), only_term(problem), partial(_direct, problem)
    # NPP has no arrays of its own, so it uses the memory of either library.
    memory, cupy = ("cupy", "torch"), ("cupy",)
    makers = [
        direct("cuDNN through PyTorch", ("torch",), lambda: cudnn_peer(problem, taps, operands, sets)),
        direct("CuPy ndimage", cupy, lambda: ndimage_peer(problem, operands, cupy_library(problem), sets)),
        direct("NPP", memory, lambda: npp_peer(problem, taps, operands, _device_arrays(), sets)),
    ]
    if problem.accuracy is Accuracy.IMAGEWISE:
        makers.append(
            PeerMaker(
                "CuPy signal.fftconvolve",
                cupy,
                lambda: fftconvolve_peer(problem, taps, operands, cupy_signal(), sets),
            )
        )
    if term is not None:
        makers += [
            PeerMaker(
                "CuPy ndimage.correlate1d twice",
                cupy,
                lambda: separable_ndimage_peer(problem, term, operands, cupy_library(problem), sets),
            ),
            PeerMaker(
                "NPP by row and column",
                memory,
                lambda: separable_npp_peer(problem, term, operands, _device_arrays(), sets),
            ),
        ]
    return tuple(makers)


def _direct(problem: Filter2d, name: str, packages: tuple[str, ...], make: Callable[[], Peer]) -> PeerMaker:
    """A library that sums over all taps, left out if there are too many."""
    is_image = problem.accuracy is Accuracy.IMAGEWISE
    most, sums = _MOST_BESIDE_TRANSFORMS if is_image else _MOST_MULTIPLY_ADDS, problem.flops / 2
    why_not = f"sums over taps: {sums:.0e} multiply-adds" if sums > most else None
    return PeerMaker(name, packages, make, why_not)


def _taps(problem: Filter2d, operands: Operands) -> NDArray[np.float32]:
    """Weights as (filters, R, S), rotated so that a correlation applies them."""
    filters = operands["weights"].reshape(problem.filters, *problem.filter)
    return np.ascontiguousarray(filters[:, ::-1, ::-1] if problem.convolve else filters)


def _device_arrays() -> DeviceArrays:
    """Functions that copy an array to the device, and back."""
    if find_spec("cupy") is not None:
        cupy = importlib.import_module("cupy")
        return cupy.asarray, cupy.asnumpy
    torch = importlib.import_module("torch")
    return lambda array: torch.from_numpy(array).cuda(), lambda tensor: tensor.cpu().numpy()
