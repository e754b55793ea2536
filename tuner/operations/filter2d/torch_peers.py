"""cuDNN's convolutions through PyTorch, with what PyTorch needs besides: a pad, and for bytes two conversions."""

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
"""Rounding a weight to float16 moves a term by up to 4.9e-4 of itself; sums of cuDNN's are of float32."""

_ARITHMETIC = {
    DType.FLOAT32: "",
    DType.FLOAT16: ", weights rounded to float16",
    DType.UINT8: ", converted to float32 and back",
}
"""What a peer's name tells of how it differs from a plain convolution of float32."""


def cudnn_peer(problem: Filter2d, taps: NDArray[np.float32], operands: Operands, sets: int) -> Peer:
    """cuDNN in float32 arithmetic, TF32 off, with its own search on.

    float16 is PyTorch's own convolution of that type, which has weights of it too. There is none of bytes: they are
    converted, convolved, rounded, clamped and converted back.

    Args:
        problem: what is filtered.
        taps: the weights as (filters, R, S), turned so that a correlation applies them.
        operands: the problem's inputs.
        sets: of buffers. PyTorch allocates each output anew: of as many as are kept the oldest is written next.

    Raises Unavailable for what it does not have.
    """
    if problem.border not in (Border.VALID, *MODES):
        raise Unavailable(f"PyTorch pads no border {problem.border}")
    if problem.channels > 1:
        # A depthwise convolution of interleaved pixels copies the image first, in PyTorch.
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
    """What filters an image of float numbers, with the border's pad where cuDNN has none of its own."""
    (top, left), (r, s) = problem.before, problem.filter
    pads = (left, s - 1 - left, top, r - 1 - top)
    # Zeros all round, as many on each side, are part of the convolution itself.
    own = problem.border is Border.CONSTANT and problem.cval == 0 and pads[0] == pads[1] and pads[2] == pads[3]
    value = problem.cval if problem.border is Border.CONSTANT else None

    def convolve(image: Any) -> Any:
        if problem.border is not Border.VALID and not own:
            image = torch.nn.functional.pad(image, pads, MODES[problem.border], value)
        return torch.nn.functional.conv2d(image, weights, padding=(top, left) if own else 0)

    return convolve
