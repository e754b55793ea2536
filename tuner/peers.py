"""The vendors' and other libraries on the same problem, where they are installed: what a winner has to beat."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.device import DeviceKind
from warpsmith.generator.fft import Fft
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.problem import DType, Problem
from warpsmith.tuner import npp
from warpsmith.tuner.fft_peers import cufft_peer, scipy_peer
from warpsmith.tuner.oracle import Operands, random_operands
from warpsmith.tuner.peer import Peer


def peers(problem: Problem, operands: Operands, kind: DeviceKind) -> tuple[Peer, ...]:
    """The libraries that solve `problem` on this kind of device and are installed here."""
    found: list[Peer | None] = []
    for packages, make in _makers(problem, operands, kind):
        if any(find_spec(package) is not None for package in packages):
            # Installed, it may still not run here, by its driver, its memory or its own needs.
            with contextlib.suppress(Exception):
                found.append(make())
    return tuple(peer for peer in found if peer is not None)


_Maker = tuple[tuple[str, ...], Callable[[], Peer | None]]
"""Packages of which one must be installed, and what makes the peer then."""


def _makers(problem: Problem, operands: Operands, kind: DeviceKind) -> tuple[_Maker, ...]:
    if isinstance(problem, Fft):
        if kind is DeviceKind.HOST:
            return ((("scipy",), lambda: scipy_peer(problem, operands)),)
        return ((("cupy",), lambda: cufft_peer(problem, operands)),)
    if not isinstance(problem, Filter2d):
        return ()
    if kind is DeviceKind.HOST:
        return ((("scipy",), lambda: _scipy(problem, operands)),)
    return (
        (("torch",), lambda: _cudnn(problem, operands)),
        (("cupy",), lambda: _cupy(problem, operands)),
        # NPP has no arrays of its own: either library's are its memory.
        (("cupy", "torch"), lambda: _npp(problem, operands)),
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


def _has_ndimage(problem: Filter2d) -> bool:
    """Whether ndimage can: it has one filter a call, and it truncates to an integer instead of rounding."""
    return problem.filters == 1 and problem.output.dtype is not DType.UINT8


def _ndimage(
    problem: Filter2d, operands: Operands, name: str, module: Any, arrays: Any, to_host: Callable[[Any], NDArray[Any]]
) -> Peer:
    """SciPy's function or CuPy's of the same name, in arrays that `arrays` makes as NumPy does."""
    function = "convolve" if problem.convolve else "correlate"
    ahead, behind = (0,) * (problem.planes > 1), (0,) * (problem.channels > 1)
    centre = tuple(size // 2 for size in problem.filter)
    origin = (at - middle for at, middle in zip(problem.anchor or centre, centre, strict=True))
    # Border `valid` is the inside of a same-size result, whatever surrounds it: the library has no cheaper way.
    keywords = {
        "mode": "constant" if problem.border is Border.VALID else str(problem.border),
        "cval": problem.cval,
        "origin": (*ahead, *origin, *behind),
    }
    image = arrays.asarray(operands["image"])
    weights = arrays.asarray(operands["weights"].reshape((1,) * len(ahead) + problem.filter + (1,) * len(behind)))
    output = arrays.empty(image.shape, dtype=str(problem.output.dtype))

    def run() -> None:
        getattr(module, function)(image, weights, output=output, **keywords)

    return Peer(f"{name} ndimage.{function}", run, lambda: to_host(output[_inside(problem)]))


def _inside(problem: Filter2d) -> tuple[Any, ...]:
    """The part of ndimage's result, of the image's size, that the problem asks for."""
    if problem.border is not Border.VALID:
        return (...,)
    # The window of a convolution reaches as far ahead as that of a correlation reaches behind.
    first = [(size - 1) // 2 if problem.convolve else size // 2 for size in problem.filter]
    rows, columns = (slice(at, at + size) for at, size in zip(first, problem.output_shape, strict=True))
    return (..., rows, columns, *[slice(None)] * (problem.channels > 1))


def _scipy(problem: Filter2d, operands: Operands) -> Peer | None:
    # SciPy's ndimage knows no float16.
    if not _has_ndimage(problem) or DType.FLOAT16 in (problem.dtype, problem.output.dtype):
        return None
    ndimage = importlib.import_module("scipy.ndimage")
    return _ndimage(problem, operands, f"scipy {version('scipy')}", ndimage, np, np.asarray)


def _cupy(problem: Filter2d, operands: Operands) -> Peer | None:
    if not _has_ndimage(problem):
        return None
    cupy, ndimage = importlib.import_module("cupy"), importlib.import_module("cupyx.scipy.ndimage")
    return _ndimage(problem, operands, f"cupy {cupy.__version__}", ndimage, cupy, cupy.asnumpy)


_TORCH_MODES = {
    Border.CONSTANT: "constant",
    Border.NEAREST: "replicate",
    Border.MIRROR: "reflect",
    Border.WRAP: "circular",
}


def _cudnn(problem: Filter2d, operands: Operands) -> Peer | None:
    """cuDNN through PyTorch, in float32 arithmetic and with its own search on; None for what it does not have."""
    if problem.border not in (Border.VALID, *_TORCH_MODES):
        return None
    if problem.channels > 1:
        return None  # a depthwise convolution of interleaved float32 copies the image first, in PyTorch
    if problem.result_dtype is not None or problem.dtype is DType.UINT8:
        return None  # one type for image, weights and result, and no convolution of bytes
    torch = importlib.import_module("torch")
    if not torch.cuda.is_available():
        return None
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    image = torch.from_numpy(operands["image"]).cuda().reshape(problem.planes, 1, *problem.image)
    # In float16 these are rounded too: where that shows, the testbed leaves the peer out.
    weights = torch.from_numpy(_taps(problem, operands)).cuda()[:, None].to(image.dtype)
    (top, left), (r, s) = problem.before, problem.filter
    pads = (left, s - 1 - left, top, r - 1 - top)
    # Zeros all round, as many on each side, are part of the convolution itself.
    own = problem.border is Border.CONSTANT and problem.cval == 0 and pads[0] == pads[1] and pads[2] == pads[3]
    output = None

    def run() -> None:
        nonlocal output
        padded = image
        if problem.border is not Border.VALID and not own:
            value = problem.cval if problem.border is Border.CONSTANT else None
            padded = torch.nn.functional.pad(image, pads, _TORCH_MODES[problem.border], value)
        output = torch.nn.functional.conv2d(padded, weights, padding=(top, left) if own else 0)

    def result() -> NDArray[Any]:
        if output is None:
            raise RuntimeError("the peer has not run")
        array: NDArray[Any] = output.cpu().numpy().reshape(problem.output.shape)
        return array

    return Peer(f"cudnn {torch.backends.cudnn.version()} through torch {torch.__version__}", run, result)


_NPP_FILTERS = {DType.FLOAT32: "nppiFilterBorder_32f", DType.UINT8: "nppiFilterBorder32f_8u"}
"""By element type of image and result. The weights are float32 in both."""


def _npp(problem: Filter2d, operands: Operands) -> Peer | None:
    """NPP's filter on dense arrays; None for what it does not have."""
    if problem.border not in (Border.VALID, Border.NEAREST):
        return None  # what its filter is known to have: it replicates at the edge
    if problem.result_dtype is not None or problem.dtype not in _NPP_FILTERS:
        return None
    if problem.planes > 1 or problem.filters > 1:
        return None  # one image and one filter a call
    name = f"{_NPP_FILTERS[problem.dtype]}_C{problem.channels}R"
    filter_image = npp.FilterBorder(name)
    to_device, to_host = _device_arrays()
    pixel_bytes = problem.channels * problem.dtype.itemsize
    valid = problem.border is Border.VALID
    # With border `valid`, the inside of the image, around the filter's centre, where a library may be at its fastest.
    above, left = (size // 2 for size in problem.filter) if valid else problem.before
    # NPP's filters are convolutions: their mask is turned, and so is where its anchor lies.
    turned = to_device(np.ascontiguousarray(_taps(problem, operands)[0, ::-1, ::-1]))
    mask = npp.Mask(turned, *problem.filter, (problem.filter[0] - 1 - above, problem.filter[1] - 1 - left))
    output = to_device(np.zeros(problem.output.shape, str(problem.output.dtype)))
    source = npp.Image(to_device(operands["image"]), *problem.image, pixel_bytes)
    target = npp.Image(output, *problem.output_shape, pixel_bytes)

    def run() -> None:
        filter_image(source, (above, left) if valid else (0, 0), target, mask)

    return Peer(f"npp {npp.version()} {name}", run, lambda: to_host(output))


def _device_arrays() -> tuple[Callable[[NDArray[Any]], Any], Callable[[Any], NDArray[Any]]]:
    """What copies an array to the device, and back."""
    if find_spec("cupy") is not None:
        cupy = importlib.import_module("cupy")
        return cupy.asarray, cupy.asnumpy
    torch = importlib.import_module("torch")
    return lambda array: torch.from_numpy(array).cuda(), lambda tensor: tensor.cpu().numpy()
