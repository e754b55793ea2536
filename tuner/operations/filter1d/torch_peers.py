"""Peers through PyTorch: `conv1d` by cuDNN or on the host, and transforms by cuFFT."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from warpsmith.generator.device import DeviceKind
from warpsmith.generator.filter1d import Activation, Filter1d, SignalLayout
from warpsmith.generator.problem import DType
from warpsmith.tuner.operations.filter1d.extent import Extent, bias_along, reversed_taps, time_axis
from warpsmith.tuner.operations.filter1d.norm_check import NormCheck
from warpsmith.tuner.operations.filter1d.oracle import correlation_taps
from warpsmith.tuner.operations.judge import Operands
from warpsmith.tuner.operations.peer import Peer, Unavailable, torch_stream, torch_with_cudnn
from warpsmith.tuner.operations.strips import quick_length
from warpsmith.tuner.operations.torch_tensors import (
    HALF_TOLERANCES,
    arithmetic_of,
    array_of,
    convolved_dtype,
    tensor_of,
)

_MOST_EXCESS = 8
"""Divisor of the outputs. Up to so many more are computed and dropped where zeros on both sides would otherwise need a
copy of the signal."""

Compute = Callable[[Any], Any]


def conv1d_peer(problem: Filter1d, operands: Operands, kind: DeviceKind, sets: int) -> Peer:
    """Peer that runs `torch.nn.functional.conv1d`: cuDNN with its benchmark search on and TF32 off, or on the host.

    One filter takes channels as signals of a batch, several are a depthwise convolution. Signals in the layout `btc`
    are transposed views, and their results are transposed back. Integers are converted to float32 first, and float32
    taps and biases of 16-bit signals are rounded to 16 bits. Complex signals with real taps are two real ones. A bias
    is PyTorch's, unless several channels have one filter and are signals of a batch: it is then added after.

    Args:
        problem: problem to compute.
        operands: the problem's inputs.
        kind: kind of the device.
        sets: number of buffer sets. PyTorch allocates each output anew and keeps `sets` of them, so that it reuses the
            oldest.

    Raises Unavailable if PyTorch finds no GPU for a problem on one.
    """
    on_gpu = kind is DeviceKind.CUDA
    torch = torch_with_cudnn() if on_gpu else importlib.import_module("torch")
    filters = correlation_taps(problem, operands["weights"])
    if problem.filters > 1:
        filters = filters.repeat(problem.channels // problem.filters, axis=0)
    weights = tensor_of(filters.copy(), torch, on_gpu=on_gpu)[:, None]
    bias = tensor_of(operands["bias"], torch, on_gpu=on_gpu) if problem.bias else None
    if problem.dtype is not DType.COMPLEX64:
        number = getattr(torch, convolved_dtype(problem.dtype, on_gpu=on_gpu).value)
        weights, bias = weights.to(number), None if bias is None else bias.to(number)
    compute = _convolution(problem, torch, weights, bias)
    library = f"cudnn {torch.backends.cudnn.version()} through " if on_gpu else ""
    name = f"{library}torch {torch.__version__} conv1d{_arithmetic(problem, on_gpu)}{'' if on_gpu else ' on the CPU'}"
    tolerance = HALF_TOLERANCES.get(problem.dtype)
    if on_gpu and tolerance is None:  # cuDNN may choose a transform
        return _peer(problem, operands, torch, sets, compute, name, NormCheck.of(problem, operands), on_gpu=on_gpu)
    return _peer(problem, operands, torch, sets, compute, name, tolerance, on_gpu=on_gpu)


def _arithmetic(problem: Filter1d, on_gpu: bool) -> str:
    if problem.dtype is DType.COMPLEX64:
        return " of real and imaginary parts" if problem.weights_dtype is DType.FLOAT32 else " in complex64"
    return arithmetic_of(problem.dtype, on_gpu=on_gpu)


def _convolution(problem: Filter1d, torch: Any, weights: Any, bias: Any | None) -> Compute:
    """Function from a signal to its result."""
    extent, is_btc = Extent.of(problem), problem.layout is SignalLayout.BTC
    in_parts = problem.dtype is DType.COMPLEX64 and problem.weights_dtype is DType.FLOAT32
    outputs, down = problem.result_length, problem.down
    whole = (extent.samples + 2 * extent.left - problem.taps) // down + 1  # with as many zeros after as before
    pads = not outputs <= whole <= outputs + outputs // _MOST_EXCESS
    groups = problem.channels if problem.filters > 1 else 1
    own_bias, later_bias = (bias, None) if groups == problem.channels else (None, bias)
    result_dtype = getattr(torch, problem.output.dtype.value)
    is_activated = problem.activation is Activation.SILU

    def compute(signals: Any) -> Any:
        x = extent.of_signals(problem, signals)
        x = x.transpose(1, 2) if is_btc else x
        if problem.dtype is not DType.COMPLEX64:
            x = x.to(weights.dtype)
        if in_parts:
            x = torch.view_as_real(x).permute(3, 0, 1, 2)
        x = x.reshape(-1, groups, extent.samples)
        if pads:
            x = torch.nn.functional.pad(x, (extent.left, extent.right))
        padding = 0 if pads else extent.left
        y = torch.nn.functional.conv1d(x, weights, own_bias, down, padding, 1, groups)[..., :outputs]
        if in_parts:
            y = y.reshape(2, problem.batch, problem.channels, outputs).permute(1, 2, 3, 0)
            y = torch.view_as_complex(y.contiguous())
        y = y.reshape(problem.batch, problem.channels, outputs)
        y = y if later_bias is None else y + later_bias[:, None]
        y = (torch.nn.functional.silu(y) if is_activated else y).to(result_dtype)
        y = y.transpose(1, 2).contiguous() if is_btc else y
        return y.reshape(problem.output.shape)

    return compute


def transform_peer(problem: Filter1d, operands: Operands, kind: DeviceKind, sets: int) -> Peer:
    """Peer that multiplies the transforms of padded signals and taps, by cuFFT through `torch.fft` or on the host.

    The transform of the taps is part of a run. It is no longer than it must be: results that are not wanted may wrap
    around. Raises Unavailable if PyTorch finds no GPU for a problem on one.
    """
    on_gpu = kind is DeviceKind.CUDA
    torch = importlib.import_module("torch")
    if on_gpu and not torch.cuda.is_available():
        raise Unavailable("PyTorch finds no GPU")
    extent, axis = Extent.of(problem), time_axis(problem)
    taps = tensor_of(reversed_taps(problem, operands["weights"]).copy(), torch, on_gpu=on_gpu)
    bias = None
    if problem.bias:
        bias = bias_along(problem, tensor_of(operands["bias"], torch, on_gpu=on_gpu).to(torch.float32))
    full, wanted = extent.samples + problem.taps - 1, extent.results
    size = quick_length(max(wanted.stop, full - wanted.start, extent.samples, problem.taps))
    is_complex = problem.dtype is DType.COMPLEX64
    forward, inverse = ("fft", "ifft") if is_complex else ("rfft", "irfft")
    transform, back = getattr(torch.fft, forward), getattr(torch.fft, inverse)
    number, result_dtype = (
        getattr(torch, each) for each in ("complex64" if is_complex else "float32", problem.output.dtype.value)
    )
    kept = (slice(None),) * axis + (wanted,)

    def compute(signals: Any) -> Any:
        x = extent.of_signals(problem, signals)
        spectrum = transform(x.to(number), size, axis) * transform(taps.to(number), size, axis)
        y = back(spectrum, size, axis)[kept]
        y = y if bias is None else y + bias
        y = torch.nn.functional.silu(y) if problem.activation is Activation.SILU else y
        return y.to(result_dtype).reshape(problem.output.shape)

    name = f"torch {torch.__version__} fft.{forward} and {inverse}{' by cufft' if on_gpu else ' on the CPU'}"
    return _peer(problem, operands, torch, sets, compute, name, NormCheck.of(problem, operands), on_gpu=on_gpu)


def _gated(problem: Filter1d, compute: Compute, operands: Operands, torch: Any, *, on_gpu: bool) -> Compute:
    """The function on samples times their gates, whose results are multiplied by theirs. Projections are convolutions
    of each channel before that.
    """
    if problem.gates is None:
        return compute
    names = ("gate_before", "gate_after", "projections")
    before, after, taps = (
        tensor_of(operands[each], torch, on_gpu=on_gpu) if each in operands else None for each in names
    )

    def stream(array: Any, number: int) -> Any:
        if taps is None:
            return array
        return _projected(problem, torch, array, taps.reshape(3, problem.channels, -1)[number])

    def computed(signals: Any) -> Any:
        results = compute(stream(signals, 0) if before is None else stream(signals, 0) * stream(before, 1))
        return results if after is None else results * stream(after, 2)

    return computed


def _projected(problem: Filter1d, torch: Any, array: Any, taps: Any) -> Any:
    """Causal filters of all channels, as long as they are."""
    is_btc, channels = problem.layout is SignalLayout.BTC, problem.channels
    x = array.reshape(problem.batch, -1, channels).transpose(1, 2) if is_btc else array
    x = x.reshape(problem.batch, channels, -1)
    own = (taps.flip(1) if problem.convolve else taps).to(x.dtype)[:, None]
    y = torch.nn.functional.conv1d(x, own, None, 1, own.shape[2] - 1, 1, channels)[..., : x.shape[2]]
    return (y.transpose(1, 2) if is_btc else y).reshape(array.shape)


def _peer(
    problem: Filter1d,
    operands: Operands,
    torch: Any,
    sets: int,
    compute: Compute,
    name: str,
    accuracy: NormCheck | float | None,
    *,
    on_gpu: bool,
) -> Peer:
    """Peer that runs a function on signals of its own; `accuracy` is its tolerance, or what checks its results.

    Gates are products of PyTorch's, before and after it.
    """
    compute = _gated(problem, compute, operands, torch, on_gpu=on_gpu)
    first = tensor_of(operands[problem.inputs[0].name], torch, on_gpu=on_gpu)
    signals = [first, *(first.clone() for _ in range(sets - 1))]
    outputs: list[Any] = [None] * sets

    def run(index: int = 0, stream: int | None = None, /) -> None:
        with torch_stream(torch, stream):
            outputs[index] = compute(signals[index])

    def result() -> NDArray[Any]:
        if outputs[0] is None:
            raise RuntimeError("the peer has not run")
        array = array_of(outputs[0], torch)
        return accuracy.checked(array) if isinstance(accuracy, NormCheck) else array

    return Peer(name, run, result, tolerance=math.inf if isinstance(accuracy, NormCheck) else accuracy)
