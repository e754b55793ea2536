"""Peers of gradients: PyTorch's backward pass of `conv1d`, by cuDNN or on the host."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from numpy.typing import NDArray

from warpsmith.generator.device import DeviceKind
from warpsmith.generator.filter1d import Filter1d, Mode, SignalLayout
from warpsmith.tuner.operations.filter1d.cudnn_peers import backward_peer, backward_reason_to_leave_out
from warpsmith.tuner.operations.filter1d.extent import Extent
from warpsmith.tuner.operations.judge import Operands
from warpsmith.tuner.operations.peer import Peer, PeerMaker, torch_stream, torch_with_cudnn
from warpsmith.tuner.operations.torch_tensors import (
    HALF_TOLERANCES,
    arithmetic_of,
    array_of,
    convolved_dtype,
    tensor_of,
)

_MOST = {DeviceKind.CUDA: 2e12, DeviceKind.HOST: 2e10}
"""Most multiply-adds; see `peers.py`."""
Tensors = Mapping[str, Any]
Compute = Callable[[Tensors], dict[str, Any]]


def gradient_makers(problem: Filter1d, operands: Operands, kind: DeviceKind, sets: int) -> tuple[PeerMaker, ...]:
    """PyTorch, left out if that takes seconds or reads zeros on one side of the signal more than on the other."""
    name = "PyTorch on the CPU" if kind is DeviceKind.HOST else "cuDNN through PyTorch"
    why_not = None
    if problem.multiply_adds > _MOST[kind]:
        why_not = f"adds up term by term: {problem.multiply_adds:.0e} multiply-adds"
    elif _excess(problem) is None:
        why_not = "its padding reads other samples than these outputs"
    by_torch = PeerMaker(name, ("torch",), lambda: gradient_peer(problem, operands, kind, sets), why_not)
    if kind is DeviceKind.HOST or problem.mode is not Mode.CAUSAL:
        return (by_torch,)
    reason = backward_reason_to_leave_out(problem)
    by_cudnn = PeerMaker("cuDNN causal backward", ("torch",), lambda: backward_peer(problem, operands, sets), reason)
    return (by_torch, by_cudnn)


def _excess(problem: Filter1d) -> int | None:
    """Outputs after the last that `conv1d` computes with as many zeros after the signal as before it; None if it has
    too few, or reads only a part of the signal.
    """
    extent = Extent.of(problem)
    more = problem.signal + 2 * extent.left - problem.taps + 1 - problem.result_length
    return more if more >= 0 and extent.samples == problem.signal else None


def gradient_peer(problem: Filter1d, operands: Operands, kind: DeviceKind, sets: int) -> Peer:
    """Peer that runs `aten::convolution_backward`, after `aten::silu_backward` of sums that a forward pass left.

    That forward pass is not part of a run, nor is the transposition of signals in the layout `btc`, which are views;
    PyTorch itself copies them. 16-bit weights are those of the signal's type.
    """
    on_gpu = kind is DeviceKind.CUDA
    torch = torch_with_cudnn() if on_gpu else importlib.import_module("torch")
    given = {name: tensor_of(array, torch, on_gpu=on_gpu) for name, array in operands.items()}
    number = convolved_dtype(problem.dtype, on_gpu=on_gpu)
    compute = _gradients(problem, torch, given, getattr(torch, number.value))
    variable = [each.name for each in problem.inputs if each.name in ("signal", "gradient")]
    inputs = [given, *({**given, **{name: given[name].clone() for name in variable}} for _ in range(sets - 1))]
    outputs: list[dict[str, Any] | None] = [None] * sets

    def run(index: int = 0, stream: int | None = None, /) -> None:
        with torch_stream(torch, stream):
            outputs[index] = compute(inputs[index])

    def result() -> dict[str, NDArray[Any]]:
        made = outputs[0]
        if made is None:
            raise RuntimeError("the peer has not run")
        return {each.name: array_of(made[each.name], torch).reshape(each.shape) for each in problem.outputs}

    library = f"cudnn {torch.backends.cudnn.version()} through " if on_gpu else ""
    arithmetic = arithmetic_of(problem.dtype, on_gpu=on_gpu)
    name = f"{library}torch {torch.__version__} convolution_backward{arithmetic}{'' if on_gpu else ' on the CPU'}"
    return Peer(name, run, result, tolerance=HALF_TOLERANCES.get(problem.dtype))


def _gradients(problem: Filter1d, torch: Any, given: Tensors, number: Any) -> Compute:
    """Function from operands to gradients by name, which convolves numbers of that type."""
    is_btc, own, left = problem.layout is SignalLayout.BTC, problem.filters > 1, Extent.of(problem).left
    groups, group = problem.channels if own else 1, problem.channels // problem.filters
    weights = torch.zeros(problem.filters, problem.taps, dtype=number)
    if "weights" in given:
        weights = given["weights"].reshape(problem.filters, problem.taps).to(number)
        weights = weights.flip(1) if problem.convolve else weights
    weights = weights.to(given["gradient"].device).repeat_interleave(group if own else 1, 0)[:, None].contiguous()
    excess = _excess(problem)
    types = {each.name: getattr(torch, each.dtype.value) for each in problem.outputs}
    mask = [problem.pass_.gives_signal, problem.pass_.gives_weights, False]

    def rows(tensor: Any) -> Any:
        return tensor.reshape(-1, groups, tensor.shape[-1])

    sums = None
    if problem.activation is not None:
        sums = torch.nn.functional.conv1d(
            rows(_by_channel(problem, given["signal"], problem.signal).to(number)), weights, None, 1, left, 1, groups
        )[..., : problem.result_length].reshape(problem.batch, problem.channels, problem.result_length)
        sums = sums + given["bias"].to(number)[:, None] if problem.bias else sums

    def compute(operands: Tensors) -> dict[str, Any]:
        gradient = _by_channel(problem, operands["gradient"], problem.result_length).to(number)
        if sums is not None:
            gradient = torch.ops.aten.silu_backward(gradient, sums)
        whole = rows(torch.nn.functional.pad(gradient, (0, excess)) if excess else gradient)
        shape = (problem.batch * problem.channels // groups, groups, problem.signal)
        signal = (
            rows(_by_channel(problem, operands["signal"], problem.signal).to(number))
            if "signal" in operands
            else whole.new_empty(shape)
        )
        of_signal, of_weights, _ = torch.ops.aten.convolution_backward(
            whole, signal, weights, None, [1], [left], [1], False, [0], groups, mask
        )
        made = {}
        if of_signal is not None:
            of_signal = of_signal.reshape(problem.batch, problem.channels, problem.signal)
            made["signal_gradient"] = of_signal.transpose(1, 2).contiguous() if is_btc else of_signal
        if of_weights is not None:
            of_weights = of_weights.reshape(problem.filters, -1, problem.taps).sum(1)
            made["weights_gradient"] = of_weights.flip(1) if problem.convolve else of_weights
        if "bias_gradient" in types:
            made["bias_gradient"] = gradient.sum((0, 2))
        return {name: value.to(types[name]) for name, value in made.items()}

    return compute


def _by_channel(problem: Filter1d, tensor: Any, times: int) -> Any:
    """View of a signal or of a gradient as (batch, channels, time)."""
    if problem.layout is SignalLayout.BTC:
        return tensor.reshape(problem.batch, times, problem.channels).transpose(1, 2)
    return tensor.reshape(problem.batch, problem.channels, times)
