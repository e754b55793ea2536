"""The libraries that filter images: cuDNN, CuPy and NPP on a GPU, SciPy on the host."""

from __future__ import annotations

import importlib
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.filter2d import Filter2d
from warpsmith.tuner.operations.filter2d.ndimage_peers import (
    cupy_library,
    ndimage_peer,
    only_term,
    scipy_library,
    separable_ndimage_peer,
)
from warpsmith.tuner.operations.filter2d.npp_peers import DeviceArrays, npp_peer, separable_npp_peer
from warpsmith.tuner.operations.filter2d.torch_peers import cudnn_peer
from warpsmith.tuner.operations.peer import PeerMaker
from warpsmith.tuner.operations.reference import Operands


def scipy_makers(problem: Filter2d, operands: Operands, sets: int) -> tuple[PeerMaker, ...]:
    """The libraries of the host."""
    packages, term = ("scipy",), only_term(problem)
    whole = PeerMaker("SciPy ndimage", packages, lambda: ndimage_peer(problem, operands, scipy_library(problem), sets))
    if term is None:
        return (whole,)
    in_two = PeerMaker(
        "SciPy ndimage.correlate1d twice",
        packages,
        lambda: separable_ndimage_peer(problem, term, operands, scipy_library(problem), sets),
    )
    return whole, in_two


def gpu_makers(problem: Filter2d, operands: Operands, sets: int) -> tuple[PeerMaker, ...]:
    """The libraries of a GPU."""
    taps, term = _taps(problem, operands), only_term(problem)
    # NPP has no arrays of its own: either library's are its memory.
    memory = ("cupy", "torch")
    whole = (
        PeerMaker("cuDNN through PyTorch", ("torch",), lambda: cudnn_peer(problem, taps, operands, sets)),
        PeerMaker("CuPy ndimage", ("cupy",), lambda: ndimage_peer(problem, operands, cupy_library(problem), sets)),
        PeerMaker("NPP", memory, lambda: npp_peer(problem, taps, operands, _device_arrays(), sets)),
    )
    if term is None:
        return whole
    return (
        *whole,
        PeerMaker(
            "CuPy ndimage.correlate1d twice",
            ("cupy",),
            lambda: separable_ndimage_peer(problem, term, operands, cupy_library(problem), sets),
        ),
        PeerMaker(
            "NPP by row and column",
            memory,
            lambda: separable_npp_peer(problem, term, operands, _device_arrays(), sets),
        ),
    )


def _taps(problem: Filter2d, operands: Operands) -> NDArray[np.float32]:
    """The weights as (filters, R, S), turned so that a correlation applies them."""
    filters = operands["weights"].reshape(problem.filters, *problem.filter)
    return np.ascontiguousarray(filters[:, ::-1, ::-1] if problem.convolve else filters)


def _device_arrays() -> DeviceArrays:
    """What copies an array to the device, and back."""
    if find_spec("cupy") is not None:
        cupy = importlib.import_module("cupy")
        return cupy.asarray, cupy.asnumpy
    torch = importlib.import_module("torch")
    return lambda array: torch.from_numpy(array).cuda(), lambda tensor: tensor.cpu().numpy()
