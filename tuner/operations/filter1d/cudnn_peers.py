"""cuDNN's causal convolutions of many channels, called through ctypes: sums, transforms of blocks, one transform.

Source: cudnn_subquadratic_ops.h of cuDNN 9.28. The library with them loads without the others.
"""

from __future__ import annotations

import ctypes
import enum
import functools
import importlib
import importlib.metadata
from collections.abc import Callable
from ctypes import byref, c_int, c_size_t, c_void_p
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from warpsmith.devices.elements import numpy_dtype
from warpsmith.generator.filter1d import Filter1d, Filter1dPass, Mode, SignalLayout
from warpsmith.generator.problem import DType
from warpsmith.tuner.operations.filter1d.norm_check import NormCheck
from warpsmith.tuner.operations.filter1d.oracle import correlation_taps
from warpsmith.tuner.operations.judge import Operands
from warpsmith.tuner.operations.peer import Peer, Unavailable, torch_stream
from warpsmith.tuner.operations.torch_tensors import HALF_TOLERANCES, array_of, tensor_of

LIBRARY = "libcudnn_ext.so.9"

_DATA_TYPES = {DType.FLOAT32: 0, DType.FLOAT16: 2, DType.BFLOAT16: 9}
"""`cudnnDataType_t`."""
_DIRECT_TAPS = (*range(2, 9), 16, 32, 64, 128, 256)
_MOST_PROJECTION = 32
_BLOCK_TAPS = tuple(2**power for power in range(7, 15))
_LONG_TAPS = tuple(2**power for power in range(12, 25))


class CausalMethod(enum.StrEnum):
    """Method of cuDNN's causal convolutions."""

    DIRECT = "causal_conv1d"
    BLOCKS = "fft_causal_conv1d"
    """Transforms of blocks as long as the filter."""
    LONG = "long_fft_causal_conv1d"
    """One transform of a signal that is as long as the filter."""


def reason_to_leave_out(problem: Filter1d, method: CausalMethod) -> str | None:
    """Reason why a method does not solve a problem, in one line; None if it does."""
    is_dense = problem.pitch is None and problem.result_pitch is None
    if problem.mode is not Mode.CAUSAL or problem.down > 1:
        return "computes causal convolutions only"
    if not is_dense or problem.output_dtype is not problem.dtype or problem.dtype not in _DATA_TYPES:
        return "has one real element type and no gaps between rows"
    if problem.gates is not None:
        return "multiplies by no gates"
    if problem.filters != problem.channels:
        return "has one filter for each channel"
    taps = {CausalMethod.DIRECT: _DIRECT_TAPS, CausalMethod.BLOCKS: _BLOCK_TAPS, CausalMethod.LONG: _LONG_TAPS}[method]
    if problem.taps not in taps:
        return f"has filters of {', '.join(map(str, taps))} taps"
    if method is CausalMethod.DIRECT:
        return None
    if problem.layout is SignalLayout.BTC or problem.bias or problem.activation is not None:
        return "has the layout bct, no bias and no activation"
    if method is CausalMethod.BLOCKS and problem.signal % problem.taps:
        return "filters multiples of its taps"
    if method is CausalMethod.LONG and problem.signal != problem.taps:
        return "filters signals as long as the filter"
    return None


def gated_reason_to_leave_out(problem: Filter1d) -> str | None:
    """Reason why `gated_peer` does not solve a problem, in one line; None if it does."""
    if problem.projection is None or problem.mode is not Mode.CAUSAL:
        return "computes projections, gates and a causal filter at once"
    if problem.pitch is not None or problem.result_pitch is not None or problem.layout is SignalLayout.BTC:
        return "has the layout bct and no gaps between rows"
    if problem.output_dtype is not problem.dtype or problem.filters != problem.channels:
        return "has one real element type, and one filter for each channel"
    if problem.bias or problem.activation is not None:
        return "has no bias and no activation"
    if not 2 <= problem.projection <= _MOST_PROJECTION or not 2 <= problem.taps <= _DIRECT_TAPS[-1]:
        return f"has projections of 2 to {_MOST_PROJECTION} taps and filters of 2 to {_DIRECT_TAPS[-1]}"
    return None


def gated_peer(problem: Filter1d, operands: Operands, sets: int) -> Peer:
    """Peer of projections, gates and filter, which stores the filter's outputs before the last gate too.

    float32 taps of 16-bit signals are rounded; the three arrays lie side by side in each channel.

    Raises Unavailable if PyTorch finds no GPU or the library is missing.
    """
    torch, library, version = _opened()
    number, shape = getattr(torch, problem.dtype.value), (problem.batch, problem.channels, problem.signal)
    names = ("gate_after", "gate_before", "signal")
    streams = [tensor_of(operands[name], torch, on_gpu=True).reshape(shape) for name in names]
    first = torch.stack(streams, 2).contiguous()
    taps = tensor_of(operands["projections"].reshape(3, problem.channels, -1), torch, on_gpu=True).to(number)
    taps = taps.flip(2) if problem.convolve else taps
    projections = taps.flip(0).transpose(0, 1).contiguous()  # (channels, 3, projection), in the order of the streams
    weights, bias = _learned(problem, operands, torch)
    signals = [first, *(first.clone() for _ in range(sets - 1))]
    made = [torch.empty(2, *shape, dtype=number, device="cuda") for _ in range(sets)]
    sizes = (problem.batch, problem.channels, problem.signal, problem.projection or 0, problem.taps)
    counts = (*map(c_int, sizes), _DATA_TYPES[problem.dtype])

    def run(index: int = 0, stream: int | None = None, /) -> None:
        pointers = (signals[index], projections, weights, bias, *made[index])
        given = (c_void_p(each.data_ptr()) for each in pointers)
        _check(library.cudnnB2BCausalConv1dForward(c_void_p(stream), *given, *counts), "b2b_causal_conv1d")

    def result() -> NDArray[Any]:
        return array_of(made[0][1].reshape(problem.output.shape), torch)

    name = f"cudnn {version} b2b_causal_conv1d in {problem.dtype}"
    return Peer(name, run, result, tolerance=HALF_TOLERANCES.get(problem.dtype))


def backward_reason_to_leave_out(problem: Filter1d) -> str | None:
    """Reason why `backward_peer` does not solve a problem, in one line; None if it does."""
    if problem.pass_ is not Filter1dPass.BACKWARD or problem.convolve:
        return "computes all gradients of a correlation at once"
    return reason_to_leave_out(problem, CausalMethod.DIRECT)


def causal_peer(problem: Filter1d, operands: Operands, method: CausalMethod, sets: int) -> Peer:
    """Peer on PyTorch's tensors, as many as `sets`. float32 taps of 16-bit signals are rounded.

    Raises Unavailable if PyTorch finds no GPU or the library is missing.
    """
    torch, library, version = _opened()
    number = getattr(torch, problem.dtype.value)
    weights, bias = _learned(problem, operands, torch)
    weights = weights if method is CausalMethod.DIRECT else weights.flip(1)  # which has the layout bct
    first = tensor_of(operands["signal"], torch, on_gpu=True)
    signals = [first, *(first.clone() for _ in range(sets - 1))]
    results = [torch.empty(problem.output.shape, dtype=number, device="cuda") for _ in range(sets)]
    sizes = _sizes(problem)
    launch = _launcher(library, problem, method, torch)

    def run(index: int = 0, stream: int | None = None, /) -> None:
        pointers = [each.data_ptr() for each in (signals[index], weights, bias, results[index])]
        _check(launch(c_void_p(stream), tuple(map(c_void_p, pointers)), sizes), method)

    check = None if problem.dtype in HALF_TOLERANCES else NormCheck.of(problem, operands)

    def result() -> NDArray[Any]:
        array = array_of(results[0], torch)
        return array if check is None else check.checked(array)

    name = f"cudnn {version} {method}{'' if check is not None else f' in {problem.dtype}'}"
    return Peer(name, run, result, tolerance=HALF_TOLERANCES.get(problem.dtype, float("inf")))


def backward_peer(problem: Filter1d, operands: Operands, sets: int) -> Peer:
    """Peer of all gradients, which adds up those of the weights and the bias by float32 atomics: they are set to zero
    in each run. float32 taps of 16-bit signals are rounded.

    Raises Unavailable if PyTorch finds no GPU or the library is missing.
    """
    torch, library, version = _opened()
    is_btc = problem.layout is SignalLayout.BTC
    weights, bias = _learned(problem, operands, torch)
    first = [tensor_of(operands[name], torch, on_gpu=True) for name in ("signal", "gradient")]
    given = [first, *([each.clone() for each in first] for _ in range(sets - 1))]
    sums = [torch.zeros(weights.numel() + problem.channels, dtype=torch.float32, device="cuda") for _ in range(sets)]
    made = [torch.empty_like(first[0]) for _ in range(sets)]
    function = library.cudnnCausalConv1dNwhBackward if is_btc else library.cudnnCausalConv1dBackward
    sizes = (*_sizes(problem), _DATA_TYPES[DType.FLOAT32], 0 if problem.activation is None else 1)

    def run(index: int = 0, stream: int | None = None, /) -> None:
        with torch_stream(torch, stream):
            sums[index].zero_()
        signal, gradient = given[index]
        of_weights, of_bias = sums[index][: weights.numel()], sums[index][weights.numel() :]
        pointers = (signal, weights, bias, gradient, made[index], of_weights, of_bias)
        _check(function(c_void_p(stream), *(c_void_p(each.data_ptr()) for each in pointers), *sizes), "backward")

    def result() -> dict[str, NDArray[Any]]:
        of_weights, of_bias = sums[0][: weights.numel()], sums[0][weights.numel() :]
        shaped = of_weights.view(weights.shape)
        found = {
            "signal_gradient": made[0],
            "weights_gradient": shaped.T if is_btc else shaped,
            "bias_gradient": of_bias,
        }
        return {
            each.name: array_of(found[each.name].contiguous(), torch)
            .reshape(each.shape)
            .astype(numpy_dtype(each.dtype))
            for each in problem.outputs
        }

    name = f"cudnn {version} causal_conv1d backward by atomics"
    return Peer(name, run, result, tolerance=HALF_TOLERANCES.get(problem.dtype))


def _opened() -> tuple[Any, ctypes.CDLL, str]:
    """PyTorch, the library and its version. Raises Unavailable if there is no GPU or no library."""
    torch = importlib.import_module("torch")
    if not torch.cuda.is_available():
        raise Unavailable("PyTorch finds no GPU")
    return torch, *_library()


def _learned(problem: Filter1d, operands: Operands, torch: Any) -> tuple[Any, Any]:
    """Taps in the layout's order, and the bias, zeros if there is none."""
    number, taps = getattr(torch, problem.dtype.value), correlation_taps(problem, operands["weights"])
    taps = taps.T if problem.layout is SignalLayout.BTC else taps
    bias = torch.zeros(problem.channels, dtype=number, device="cuda")
    if "bias" in operands:
        bias = tensor_of(operands["bias"], torch, on_gpu=True).to(number)
    return tensor_of(taps.copy(), torch, on_gpu=True).to(number).contiguous(), bias


def _sizes(problem: Filter1d) -> tuple[Any, ...]:
    """Arguments after the pointers: batch, channels, samples, taps and the element type."""
    sizes = (problem.batch, problem.channels, problem.signal, problem.taps)
    return (*map(c_int, sizes), _DATA_TYPES[problem.dtype])


Launch = Callable[[c_void_p, tuple[c_void_p, ...], tuple[Any, ...]], int]
"""Runs a function with a stream, the pointers of signal, taps, bias and result, and sizes with the element type."""


def _launcher(library: ctypes.CDLL, problem: Filter1d, method: CausalMethod, torch: Any) -> Launch:
    match method:
        case CausalMethod.DIRECT:
            is_btc = problem.layout is SignalLayout.BTC
            direct = library.cudnnCausalConv1dNwhForward if is_btc else library.cudnnCausalConv1dForward
            activation = 0 if problem.activation is None else 1
            return lambda stream, pointers, sizes: int(direct(stream, *pointers, *sizes, activation))
        case CausalMethod.BLOCKS:
            blocks = library.cudnnFFTCausalConv1dForward
            return lambda stream, pointers, sizes: int(blocks(stream, *pointers[:2], pointers[3], *sizes))
        case CausalMethod.LONG:
            return _long_launcher(library, problem, torch)


def _long_launcher(library: ctypes.CDLL, problem: Filter1d, torch: Any) -> Launch:
    sizes = _sizes(problem)
    needed = c_size_t(), c_size_t()
    _check(library.cudnnLongFFTCausalConv1dGetBufferSizes(*sizes, *map(byref, needed)), CausalMethod.LONG)
    buffers = [torch.empty(max(16, each.value), dtype=torch.uint8, device="cuda") for each in needed]
    scratch = [item for buffer, size in zip(buffers, needed, strict=True) for item in (buffer, size)]

    def launch(stream: c_void_p, pointers: tuple[c_void_p, ...], sizes: tuple[Any, ...]) -> int:
        given = [c_void_p(each.data_ptr()) if isinstance(each, torch.Tensor) else each for each in scratch]
        return int(library.cudnnLongFFTCausalConv1dForward(stream, *pointers[:2], pointers[3], *sizes, *given))

    return launch


def _check(status: int, method: str) -> None:
    if status:
        raise RuntimeError(f"{method} returned the status {status}")


@functools.cache
def _library() -> tuple[ctypes.CDLL, str]:
    """The library and its version. Raises Unavailable if it is missing."""
    spec = find_spec("nvidia")
    folders = [] if spec is None or spec.submodule_search_locations is None else list(spec.submodule_search_locations)
    installed = [Path(each) / "cudnn" / "lib" / LIBRARY for each in folders]
    for path in (*installed, Path(LIBRARY)):
        try:
            return ctypes.CDLL(str(path)), _version() if path in installed else "9"
        except OSError:
            continue
    raise Unavailable(f"{LIBRARY}, of cuDNN 9.22 and later, is not installed")


def _version() -> str:
    """Version of the package that has the library; 9 if it is no package's."""
    for package in ("nvidia-cudnn-cu13", "nvidia-cudnn-cu12"):
        try:
            return importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "9"
