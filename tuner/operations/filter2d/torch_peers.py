"""cuDNN's convolutions through PyTorch, with the steps that PyTorch needs in addition: a pad, and two conversions for
bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.problem import DType
from warpsmith.tuner.operations.array_libraries import torch_stream, torch_with_cudnn
from warpsmith.tuner.operations.peer import Peer, Unavailable
from warpsmith.tuner.operations.reference import Operands

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
