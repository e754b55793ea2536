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
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.problem import Problem
from warpsmith.tuner.oracle import Operands

PEER_ERRORS = (ImportError, RuntimeError, MemoryError)
"""What a library raises that is installed and cannot run here, by its driver, its memory or its own needs."""


@dataclasses.dataclass(frozen=True, slots=True)
class Peer:
    """One library, ready to run on inputs and an output of its own."""

    name: str
    """Library, version, function."""
    run: Callable[[], None]
    """Does the work once, on the device's default stream; does not wait."""
    result: Callable[[], NDArray[Any]]
    """The output of the last run."""


def peers(problem: Problem, operands: Operands, kind: DeviceKind) -> tuple[Peer, ...]:
    """The libraries that solve `problem` on this kind of device and are installed here."""
    if not isinstance(problem, Filter2d):
        return ()
    makers = {"scipy": _scipy} if kind is DeviceKind.HOST else {"torch": _cudnn, "cupy": _cupy}
    found: list[Peer | None] = []
    for package, make in makers.items():
        if find_spec(package) is not None:
            with contextlib.suppress(*PEER_ERRORS):
                found.append(make(problem, operands))
    return tuple(peer for peer in found if peer is not None)


def _ndimage_mode(border: Border) -> str:
    # Border `valid` is the inside of a same-size result, whatever surrounds it: the library has no cheaper way.
    return "constant" if border is Border.VALID else str(border)


def _inside(problem: Filter2d, result: NDArray[Any]) -> NDArray[Any]:
    """The part of a same-size result that the problem asks for."""
    if problem.border is not Border.VALID:
        return result
    r, s = problem.filter
    rows, columns = problem.output_shape
    return result[..., r // 2 : r // 2 + rows, s // 2 : s // 2 + columns]


def _scipy(problem: Filter2d, operands: Operands) -> Peer:
    ndimage = importlib.import_module("scipy.ndimage")
    image = operands["image"]
    weights = operands["weights"] if problem.planes == 1 else operands["weights"][None]
    output = np.empty_like(image)

    def run() -> None:
        ndimage.correlate(image, weights, output=output, mode=_ndimage_mode(problem.border), cval=problem.cval)

    return Peer(f"scipy {version('scipy')} ndimage.correlate", run, lambda: _inside(problem, output))


def _cupy(problem: Filter2d, operands: Operands) -> Peer:
    cupy = importlib.import_module("cupy")
    ndimage = importlib.import_module("cupyx.scipy.ndimage")
    image = cupy.asarray(operands["image"])
    weights = cupy.asarray(operands["weights"] if problem.planes == 1 else operands["weights"][None])
    output = cupy.empty_like(image)

    def run() -> None:
        ndimage.correlate(image, weights, output=output, mode=_ndimage_mode(problem.border), cval=problem.cval)

    return Peer(f"cupy {cupy.__version__} ndimage.correlate", run, lambda: _inside(problem, cupy.asnumpy(output)))


_TORCH_MODES = {
    Border.CONSTANT: "constant",
    Border.NEAREST: "replicate",
    Border.MIRROR: "reflect",
    Border.WRAP: "circular",
}


def _cudnn(problem: Filter2d, operands: Operands) -> Peer | None:
    """cuDNN through PyTorch, in float32 arithmetic and with its own search on; None for a border it does not have."""
    torch = importlib.import_module("torch")
    if not torch.cuda.is_available() or problem.border not in (Border.VALID, *_TORCH_MODES):
        return None
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    image = torch.from_numpy(operands["image"]).cuda().reshape(problem.planes, 1, *problem.image)
    weights = torch.from_numpy(operands["weights"]).cuda()[None, None]
    (top, left), (r, s) = problem.anchor, problem.filter
    pads = (left, s - 1 - left, top, r - 1 - top)
    output = None

    def run() -> None:
        nonlocal output
        padded = image
        if problem.border is not Border.VALID:
            value = problem.cval if problem.border is Border.CONSTANT else None
            padded = torch.nn.functional.pad(image, pads, _TORCH_MODES[problem.border], value)
        output = torch.nn.functional.conv2d(padded, weights)

    def result() -> NDArray[Any]:
        if output is None:
            raise RuntimeError("the peer has not run")
        array: NDArray[Any] = output.cpu().numpy().reshape(problem.output.shape)
        return array

    return Peer(f"cudnn {torch.backends.cudnn.version()} through torch {torch.__version__}", run, result)
