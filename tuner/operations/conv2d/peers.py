"""cuDNN's convolutions through PyTorch on a GPU, and PyTorch's own on the host: all three passes in float32."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from numpy.typing import NDArray

from warpsmith.generator.conv2d import Conv2d, PaddingMode, Pass
from warpsmith.generator.device import DeviceKind
from warpsmith.tuner.operations.array_libraries import torch_stream, torch_with_cudnn
from warpsmith.tuner.operations.peer import Peer, PeerMaker


def makers(
    problem: Conv2d, operands: Mapping[str, NDArray[Any]], kind: DeviceKind, sets: int = 1
) -> tuple[PeerMaker, ...]:
    """The libraries for a problem on this kind of device, each with `sets` sets of buffers."""
    name = "PyTorch on the CPU" if kind is DeviceKind.HOST else "cuDNN through PyTorch"
    return (PeerMaker(name, ("torch",), lambda: torch_peer(problem, operands, kind, sets)),)


def torch_peer(
    problem: Conv2d,
    operands: Mapping[str, NDArray[Any]],
    kind: DeviceKind,
    sets: int = 1,
    *,
    channels_last: bool = False,
) -> Peer:
    """PyTorch's convolution: cuDNN in float32 arithmetic, TF32 off, with its own search on; on the host its CPU
    kernels.

    PyTorch pads each axis alike on both sides, with zeros. Where the sides differ, or pixels stand in the padding, it
    pads in a step of its own, as its own layers do, and a gradient of the image goes back through that step: both are
    part of what is timed.

    Args:
        problem: what is computed.
        operands: the problem's inputs.
        kind: of the device.
        sets: of buffers. PyTorch allocates each output anew: of as many as are kept the oldest is written next.
        channels_last: lay images and weights out with the channels of a pixel side by side, as some of cuDNN's kernels
            want them; the layout is made before, not by a run.

    Raises Unavailable where PyTorch finds no GPU for a problem on one.
    """
    on_gpu = kind is DeviceKind.CUDA
    torch = torch_with_cudnn() if on_gpu else importlib.import_module("torch")
    first = {
        name: _laid_out(_tensor(array, torch, on_gpu=on_gpu), torch, channels_last=channels_last)
        for name, array in operands.items()
    }
    # A copy within the device takes a hundredth of the way to it.
    inputs = [first, *({name: tensor.clone() for name, tensor in first.items()} for _ in range(sets - 1))]
    compute = _computation(problem, torch, channels_last=channels_last)
    outputs: list[Any] = [None] * sets

    def run(index: int = 0, stream: int | None = None, /) -> None:
        with torch_stream(torch, stream):
            outputs[index] = compute(inputs[index])

    def result() -> NDArray[Any]:
        if outputs[0] is None:
            raise RuntimeError("the peer has not run")
        array: NDArray[Any] = outputs[0].cpu().numpy()
        return array

    library = f"cudnn {torch.backends.cudnn.version()} through " if on_gpu else ""
    where = f"{'' if on_gpu else ' on the CPU'}{', channels last' if channels_last else ''}"
    return Peer(f"{library}torch {torch.__version__} conv2d {problem.pass_}{where}", run, result)


_MODES = {PaddingMode.ZEROS: "constant"}
"""Words of torch.nn.functional.pad that are not those of its layers."""


def _folded(problem: Conv2d, torch: Any, padded: Any, pads: list[int]) -> Any:
    """The gradient of images from that of padded ones, by what PyTorch's autograd calls."""
    (above, below), (left, right) = problem.padding
    rows, columns = problem.input[2:]
    aten = {
        PaddingMode.REFLECT: torch.ops.aten.reflection_pad2d_backward,
        PaddingMode.REPLICATE: torch.ops.aten.replication_pad2d_backward,
    }
    if problem.padding_mode in aten:
        return aten[problem.padding_mode](padded, padded.new_empty(1).expand(problem.input), pads)
    inside = padded[..., above : above + rows, :]
    if problem.padding_mode is PaddingMode.CIRCULAR:  # copies of slices, for which there is no function
        inside = inside.clone()
        inside[..., rows - above :, :] += padded[..., :above, :]
        inside[..., :below, :] += padded[..., above + rows :, :]
    dx = inside[..., left : left + columns].clone(memory_format=torch.contiguous_format)
    if problem.padding_mode is PaddingMode.CIRCULAR:
        dx[..., columns - left :] += inside[..., :left]
        dx[..., :right] += inside[..., left + columns :]
    return dx


def _tensor(array: NDArray[Any], torch: Any, *, on_gpu: bool) -> Any:
    """A copy on the device. PyTorch warns of arrays that may not be written to."""
    if on_gpu:
        return torch.from_numpy(array if array.flags.writeable else array.copy()).cuda()
    return torch.from_numpy(array.copy())


def _laid_out(tensor: Any, torch: Any, *, channels_last: bool) -> Any:
    return tensor.contiguous(memory_format=torch.channels_last) if channels_last and tensor.ndim == 4 else tensor


def _placeholder(given: Any, shape: list[int], torch: Any, *, channels_last: bool) -> Any:
    """Stands for the operand whose gradient is wanted: its shape, and in its layout, by which PyTorch chooses the
    gradient's. Of one number where the layout is the usual one.
    """
    if channels_last:
        return given.new_empty(shape).contiguous(memory_format=torch.channels_last)
    return given.new_empty(1).expand(shape)


def _computation(problem: Conv2d, torch: Any, *, channels_last: bool) -> Callable[[Mapping[str, Any]], Any]:
    """What makes the result of the inputs."""
    kept: list[Any] = []

    def placeholder(given: Any, shape: list[int]) -> Any:
        if not kept:
            kept.append(_placeholder(given, shape, torch, channels_last=channels_last))
        return kept[0]

    pads = [side for axis in reversed(problem.padding) for side in axis]  # torch's order: left, right, above, below
    mode = problem.padding_mode
    even = mode is PaddingMode.ZEROS and all(before == after for before, after in problem.padding)
    padding = [before for before, _ in problem.padding] if even else [0, 0]
    options = (list(problem.stride), padding, list(problem.dilation))

    def padded(image: Any) -> Any:
        return image if even else torch.nn.functional.pad(image, pads, _MODES.get(mode, str(mode)))

    def fprop(given: Mapping[str, Any]) -> Any:
        y = torch.nn.functional.conv2d(padded(given["x"]), given["w"], given.get("b"), *options, problem.groups)
        return y.relu_() if problem.relu else y

    def backward(dy: Any, image: Any, weight: Any, wanted: tuple[bool, bool, bool]) -> Any:
        function = torch.ops.aten.convolution_backward
        return function(dy, image, weight, None, *options, False, [0, 0], problem.groups, wanted)

    def dgrad(given: Mapping[str, Any]) -> Any:
        shape = problem.input if even else (*problem.input[:2], *problem.padded_size)
        dx = backward(given["dy"], placeholder(given["dy"], list(shape)), given["w"], (True, False, False))[0]
        return dx if even else _folded(problem, torch, dx, pads)

    def wgrad(given: Mapping[str, Any]) -> Any:
        weight = placeholder(given["x"], list(problem.weight))
        return backward(given["dy"], padded(given["x"]), weight, (False, True, False))[1]

    return {Pass.FPROP: fprop, Pass.DGRAD: dgrad, Pass.WGRAD: wgrad}[problem.pass_]
