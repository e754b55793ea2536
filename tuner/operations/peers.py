"""The vendors' and other libraries on the same problem, where they are installed: what a winner has to beat."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.device import DeviceKind
from warpsmith.generator.fft import Fft
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.problem import Problem
from warpsmith.store.record import LeftOut
from warpsmith.tuner.operations.fft.peers import cufft_peer, scipy_peer
from warpsmith.tuner.operations.filter2d.ndimage_peers import (
    cupy_library,
    ndimage_peer,
    only_term,
    scipy_library,
    separable_ndimage_peer,
)
from warpsmith.tuner.operations.filter2d.npp_peers import DeviceArrays, npp_peer, separable_npp_peer
from warpsmith.tuner.operations.filter2d.torch_peers import cudnn_peer
from warpsmith.tuner.operations.oracle import Operands, random_operands
from warpsmith.tuner.operations.peer import Peer, Unavailable, first_line


def candidates(problem: Problem, operands: Operands, kind: DeviceKind, sets: int = 1) -> tuple[Peer | LeftOut, ...]:
    """The libraries for `problem` on this kind of device, each with `sets` sets of buffers, or why it is left out."""
    return tuple(maker.made() for maker in _makers(problem, operands, kind, sets))


def peers(problem: Problem, operands: Operands, kind: DeviceKind, sets: int = 1) -> tuple[Peer, ...]:
    """Those of `candidates` that are installed and solve the problem."""
    return tuple(each for each in candidates(problem, operands, kind, sets) if isinstance(each, Peer))


@dataclasses.dataclass(frozen=True, slots=True)
class _Maker:
    name: str
    """Of the library, where there is no peer that knows its version."""
    packages: tuple[str, ...]
    """One of them must be installed."""
    make: Callable[[], Peer]

    def made(self) -> Peer | LeftOut:
        if not any(find_spec(package) is not None for package in self.packages):
            return LeftOut(self.name, f"{' or '.join(self.packages)} is not installed")
        try:
            return self.make()
        except Unavailable as error:
            return LeftOut(self.name, str(error))
        except Exception as error:
            return LeftOut(self.name, f"failed: {first_line(error)}")


def _makers(problem: Problem, operands: Operands, kind: DeviceKind, sets: int) -> tuple[_Maker, ...]:
    host = kind is DeviceKind.HOST
    if isinstance(problem, Fft):
        if host:
            return (_Maker("SciPy fft", ("scipy",), lambda: scipy_peer(problem, operands, sets)),)
        return (_Maker("cuFFT through CuPy", ("cupy",), lambda: cufft_peer(problem, operands, sets)),)
    if not isinstance(problem, Filter2d):
        return ()
    return (_scipy_makers if host else _gpu_makers)(problem, operands, sets)


def _scipy_makers(problem: Filter2d, operands: Operands, sets: int) -> tuple[_Maker, ...]:
    packages, term = ("scipy",), only_term(problem)
    whole = _Maker("SciPy ndimage", packages, lambda: ndimage_peer(problem, operands, scipy_library(problem), sets))
    if term is None:
        return (whole,)
    in_two = _Maker(
        "SciPy ndimage.correlate1d twice",
        packages,
        lambda: separable_ndimage_peer(problem, term, operands, scipy_library(problem), sets),
    )
    return whole, in_two


def _gpu_makers(problem: Filter2d, operands: Operands, sets: int) -> tuple[_Maker, ...]:
    taps, term = _taps(problem, operands), only_term(problem)
    # NPP has no arrays of its own: either library's are its memory.
    memory = ("cupy", "torch")
    whole = (
        _Maker("cuDNN through PyTorch", ("torch",), lambda: cudnn_peer(problem, taps, operands, sets)),
        _Maker("CuPy ndimage", ("cupy",), lambda: ndimage_peer(problem, operands, cupy_library(problem), sets)),
        _Maker("NPP", memory, lambda: npp_peer(problem, taps, operands, _device_arrays(), sets)),
    )
    if term is None:
        return whole
    return (
        *whole,
        _Maker(
            "CuPy ndimage.correlate1d twice",
            ("cupy",),
            lambda: separable_ndimage_peer(problem, term, operands, cupy_library(problem), sets),
        ),
        _Maker(
            "NPP by row and column",
            memory,
            lambda: separable_npp_peer(problem, term, operands, _device_arrays(), sets),
        ),
    )


def warm_up(problem: Problem, kind: DeviceKind) -> None:
    """Loads those libraries and lets them compile what they will need, on a problem of a few elements."""
    small: Problem
    if isinstance(problem, Fft):
        small = dataclasses.replace(problem, batch=2)
    elif isinstance(problem, Filter2d):
        rows, columns = (min(size, 4 * taps) for size, taps in zip(problem.image, problem.filter, strict=True))
        small = dataclasses.replace(problem, image=(rows, columns), pitch=None, result_pitch=None)
    else:
        return
    for peer in peers(small, random_operands(small, seed=0), kind):
        with contextlib.suppress(Exception):
            peer.run()
            peer.result()


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
