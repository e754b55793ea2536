"""Convolution peers through PyTorch, for every pass, dtype and layout: cuDNN on a GPU, PyTorch's own kernels on the
host.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from numpy.typing import NDArray

from warpsmith.generator.conv2d import Conv2d, ImageLayout, PaddingMode, Precision
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.problem import DType
from warpsmith.tuner.operations.peer import Peer, PeerMaker, torch_stream, torch_with_cudnn
from warpsmith.tuner.operations.torch_tensors import HALF_TOLERANCES, array_of, tensor_of

TF32_TOLERANCE = 2e-3
"""Scaled error allowed for cuDNN's TF32 kernels: they may truncate factors to 10 bits, which moves a term by up to
2^-9.
"""


def makers(
    problem: Conv2d, operands: Mapping[str, NDArray[Any]], kind: DeviceKind, sets: int = 1
) -> tuple[PeerMaker, ...]:
    """Libraries for a problem on this kind of device, each with `sets` sets of buffers.

    On a GPU this is cuDNN in both layouts, the problem's own first: either may be faster, and a caller may have either.
    On the host it is PyTorch in the problem's layout only.
    """
    name = "PyTorch on the CPU" if kind is DeviceKind.HOST else "cuDNN through PyTorch"
    own = problem.layout is ImageLayout.NHWC
    layouts = (own, not own) if kind is DeviceKind.CUDA else (own,)

    def maker(channels_last: bool) -> PeerMaker:
        title = f"{name}{', channels last' if channels_last else ''}"
        make = functools.partial(torch_peer, problem, operands, kind, sets, channels_last=channels_last)
        return PeerMaker(title, ("torch",), make)

    return tuple(map(maker, layouts))


def torch_peer(
    problem: Conv2d,
    operands: Mapping[str, NDArray[Any]],
    kind: DeviceKind,
    sets: int = 1,
    *,
    channels_last: bool | None = None,
) -> Peer:
    """Peer that runs PyTorch's convolution: cuDNN with its benchmark search on, or PyTorch's CPU kernels on the host.

    It computes in the data's own type. float32 data use float32 arithmetic with TF32 off if the problem's precision is
    `ieee`, and TF32 otherwise, because PyTorch has no other one for them.

    PyTorch's convolution pads an axis equally on both sides, with zeros. If the sides differ, or the padding repeats
    pixels, it pads in a separate step, as PyTorch's own layers do, and a gradient of the image goes back through that
    step. Both are part of the timed work. A gradient behind a ReLU, of results `y`, is masked in a separate step too.

    Args:
        problem: problem to compute.
        operands: the problem's inputs, and for dgrad behind a ReLU its results `y`.
        kind: kind of the device.
        sets: number of buffer sets. PyTorch allocates each output anew and keeps `sets` of them, so that it reuses the
            oldest.
        channels_last: store images and weights channels-last, which some of cuDNN's kernels need; inputs are converted
            beforehand, not in a run. None for the problem's own layout.

    Raises Unavailable if PyTorch finds no GPU for a problem on one.
    """
    on_gpu = kind is DeviceKind.CUDA
    torch = torch_with_cudnn() if on_gpu else importlib.import_module("torch")
    is_last = problem.layout is ImageLayout.NHWC if channels_last is None else channels_last
    inputs = _inputs(operands, torch, sets, on_gpu=on_gpu, channels_last=is_last)
    compute = _computation(problem, torch, channels_last=is_last)
    outputs: list[Any] = [None] * sets
    is_tf32 = on_gpu and problem.dtype is DType.FLOAT32 and problem.precision is not Precision.IEEE

    def run(index: int = 0, stream: int | None = None, /) -> None:
        with torch_stream(torch, stream), _with_tf32(torch) if is_tf32 else contextlib.nullcontext():
            outputs[index] = compute(inputs[index])

    def result() -> NDArray[Any]:
        if outputs[0] is None:
            raise RuntimeError("the peer has not run")
        return array_of(outputs[0], torch)

    arithmetic = " in tf32" if is_tf32 else "" if problem.dtype is DType.FLOAT32 else f" in {problem.dtype}"
    behind = " behind a ReLU" if "y" in operands else ""
    name = _name(torch, f"conv2d {problem.pass_}{behind}{arithmetic}", on_gpu=on_gpu, channels_last=is_last)
    return Peer(name, run, result, tolerance=TF32_TOLERANCE if is_tf32 else HALF_TOLERANCES.get(problem.dtype))


def _name(torch: Any, what: str, *, on_gpu: bool, channels_last: bool) -> str:
    """Name of a peer that computes `what`."""
    library = f"cudnn {torch.backends.cudnn.version()} through " if on_gpu else ""
    where = f"{'' if on_gpu else ' on the CPU'}{', channels last' if channels_last else ''}"
    return f"{library}torch {torch.__version__} {what}{where}"


@contextlib.contextmanager
def _with_tf32(torch: Any) -> Iterator[None]:
    """Turns cuDNN's TF32 on inside the block only, because other peers are timed without it."""
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = True
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32 = before


def _inputs(
    operands: Mapping[str, NDArray[Any]], torch: Any, sets: int, *, on_gpu: bool, channels_last: bool
) -> list[dict[str, Any]]:
    """Sets of inputs on the device. Copying a set within the device takes a hundredth of the time of an upload."""
    first = {
        name: _laid_out(tensor_of(array, torch, on_gpu=on_gpu), torch, channels_last=channels_last)
        for name, array in operands.items()
    }
    return [first, *({name: tensor.clone() for name, tensor in first.items()} for _ in range(sets - 1))]


_MODES = {PaddingMode.ZEROS: "constant"}
"""Mode names of torch.nn.functional.pad that differ from those of PyTorch's layers."""


def _folded(problem: Conv2d, torch: Any, padded: Any, pads: list[int]) -> Any:
    """Gradient of the images from that of the padded ones, by the functions that PyTorch's autograd calls."""
    (above, below), (left, right) = problem.padding
    rows, columns = problem.input[2:]
    aten = {
        PaddingMode.REFLECT: torch.ops.aten.reflection_pad2d_backward,
        PaddingMode.REPLICATE: torch.ops.aten.replication_pad2d_backward,
    }
    if problem.padding_mode in aten:
        return aten[problem.padding_mode](padded, padded.new_empty(1).expand(problem.input), pads)
    inside = padded[..., above : above + rows, :]
    if problem.padding_mode is PaddingMode.CIRCULAR:  # copied slices; no backward function
        inside = inside.clone()
        inside[..., rows - above :, :] += padded[..., :above, :]
        inside[..., :below, :] += padded[..., above + rows :, :]
    dx = inside[..., left : left + columns].clone(memory_format=torch.contiguous_format)
    if problem.padding_mode is PaddingMode.CIRCULAR:
        dx[..., columns - left :] += inside[..., :left]
        dx[..., :right] += inside[..., left + columns :]
    return dx


def _laid_out(tensor: Any, torch: Any, *, channels_last: bool) -> Any:
    return tensor.contiguous(memory_format=torch.channels_last) if channels_last and tensor.ndim == 4 else tensor


def _placeholder(given: Any, shape: list[int], torch: Any, *, channels_last: bool) -> Any:
    """Placeholder for the operand whose gradient is computed: its shape and layout decide the gradient's layout. In the
    default layout it holds only one number.
    """
    if channels_last:
        return given.new_empty(shape).contiguous(memory_format=torch.channels_last)
    return given.new_empty(1).expand(shape)


def _computation(problem: Conv2d, torch: Any, *, channels_last: bool) -> Callable[[Mapping[str, Any]], Any]:
    """Function that computes the result from the inputs."""
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
        dy = torch.ops.aten.threshold_backward(given["dy"], given["y"], 0) if "y" in given else given["dy"]
        dx = backward(dy, placeholder(dy, list(shape)), given["w"], (True, False, False))[0]
        dx = dx if even else _folded(problem, torch, dx, pads)
        if problem.bias:
            dx = dx.add_(given["b"][:, None, None])
        return dx.relu_() if problem.relu else dx

    def wgrad(given: Mapping[str, Any]) -> Any:
        weight = placeholder(given["x"], list(problem.weight))
        return backward(given["dy"], padded(given["x"]), weight, (False, True, False))[1]

    return problem.pass_.select(fprop, dgrad, wgrad)
