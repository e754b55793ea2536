"""Peer libraries for image filters: cuDNN, CuPy and NPP on a GPU, SciPy on the host.

PyTorch needs steps in addition to cuDNN's convolutions: a pad, and two conversions for bytes. Libraries that sum over
taps are left out if that takes a second or more, or far longer than transforms.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.problem import Accuracy, DType
from warpsmith.tuner.operations.filter2d.npp_peers import DeviceArrays, npp_peer, separable_npp_peer
from warpsmith.tuner.operations.filter2d.scipy_peers import (
    cupy_library,
    fftconvolve_peer,
    ndimage_peer,
    only_term,
    scipy_library,
    separable_ndimage_peer,
)
from warpsmith.tuner.operations.judge import Operands
from warpsmith.tuner.operations.peer import Peer, PeerMaker, Unavailable, torch_stream, torch_with_cudnn
from warpsmith.tuner.operations.scipy_library import cupy_signal, scipy_signal

MODES = {
    Border.CONSTANT: "constant",
    Border.NEAREST: "replicate",
    Border.MIRROR: "reflect",
    Border.WRAP: "circular",
}
"""PyTorch's names of the borders that it can pad."""

FLOAT16_TOLERANCE = 1e-3
"""Scaled error allowed for float16 weights: rounding moves a term by up to 4.9e-4 of itself; cuDNN adds up in
float32.
"""

_ARITHMETIC = {
    DType.FLOAT32: "",
    DType.FLOAT16: ", weights rounded to float16",
    DType.UINT8: ", converted to float32 and back",
}
"""Suffix of a peer's name: how its arithmetic differs from a plain float32 convolution."""


def cudnn_peer(problem: Filter2d, taps: NDArray[np.float32], operands: Operands, sets: int) -> Peer:
    """Peer that runs cuDNN in float32 arithmetic, TF32 off, with its benchmark search on.

    For float16 it is PyTorch's float16 convolution, whose weights are float16 too. PyTorch has none for bytes: they are
    converted, convolved, rounded, clamped and converted back.

    Args:
        problem: filter problem.
        taps: weights as (filters, R, S), rotated so that a correlation applies them.
        operands: the problem's inputs.
        sets: number of buffer sets. PyTorch allocates each output anew and keeps `sets` of them, so that it reuses the
            oldest.

    Raises:
        Unavailable: cuDNN or PyTorch does not support the problem.
    """
    if problem.border not in (Border.VALID, *MODES):
        raise Unavailable(f"PyTorch pads no border {problem.border}")
    if problem.channels > 1:
        # PyTorch copies the image before a depthwise convolution of interleaved pixels.
        raise Unavailable("its channels are planes, not interleaved")
    if problem.result_dtype is not None:
        raise Unavailable("image and result are of one type")
    torch = torch_with_cudnn()
    is_bytes = problem.dtype is DType.UINT8
    planes = (problem.planes, 1, *problem.image)
    images = [torch.from_numpy(operands["image"].copy()).cuda().reshape(planes) for _ in range(sets)]
    weights = torch.from_numpy(taps).cuda()[:, None].to(torch.float32 if is_bytes else images[0].dtype)
    convolve = _convolution(problem, torch, weights)
    outputs: list[Any] = [None] * sets

    def run(index: int = 0, stream: int | None = None, /) -> None:
        with torch_stream(torch, stream):
            if is_bytes:
                rounded = convolve(images[index].to(torch.float32)).round_().clamp_(0, 255)
                outputs[index] = rounded.to(torch.uint8)
            else:
                outputs[index] = convolve(images[index])

    def result() -> NDArray[Any]:
        if outputs[0] is None:
            raise RuntimeError("the peer has not run")
        array: NDArray[Any] = outputs[0].cpu().numpy().reshape(problem.output.shape)
        return array

    name = f"cudnn {torch.backends.cudnn.version()} through torch {torch.__version__}{_ARITHMETIC[problem.dtype]}"
    tolerance = FLOAT16_TOLERANCE if problem.dtype is DType.FLOAT16 else None
    return Peer(name, run, result, tolerance=tolerance)


def _convolution(problem: Filter2d, torch: Any, weights: Any) -> Any:
    """Function that filters a float image, with a separate pad for borders that cuDNN does not support."""
    (top, left), (r, s) = problem.before, problem.filter
    pads = (left, s - 1 - left, top, r - 1 - top)
    # Zeros on all sides, equally many on opposite ones, are part of the convolution itself.
    own = problem.border is Border.CONSTANT and problem.cval == 0 and pads[0] == pads[1] and pads[2] == pads[3]
    value = problem.cval if problem.border is Border.CONSTANT else None

    def convolve(image: Any) -> Any:
        if problem.border is not Border.VALID and not own:
            image = torch.nn.functional.pad(image, pads, MODES[problem.border], value)
        return torch.nn.functional.conv2d(image, weights, padding=(top, left) if own else 0)

    return convolve


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
