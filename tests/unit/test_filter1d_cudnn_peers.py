"""cuDNN's causal convolutions as peers: what they refuse, and the arguments that they are called with."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from torch_signals import causal
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.filter1d import Filter1d, SignalLayout
from warpsmith.generator.problem import DType
from warpsmith.store.record import LeftOut
from warpsmith.tuner.evaluate.verify import verify
from warpsmith.tuner.operations.filter1d import cudnn_peers
from warpsmith.tuner.operations.filter1d.cudnn_peers import CausalMethod, reason_to_leave_out
from warpsmith.tuner.operations.registry import Peer, candidates, random_operands, reference, references

torch = pytest.importorskip("torch")

CAUSAL: dict[str, Any] = {"mode": "causal", "channels": 6, "filters": 6}
PROBLEM = Filter1d(64, 4, 2, **CAUSAL)


@pytest.mark.parametrize(
    ("problem", "method", "reason"),
    [
        (PROBLEM, "causal_conv1d", None),
        (Filter1d(64, 4, layout="btc", bias=True, activation="silu", **CAUSAL), "causal_conv1d", None),
        (Filter1d(64, 9, **CAUSAL), "causal_conv1d", "has filters of 2, 3, 4, 5, 6, 7, 8, 16, 32, 64, 128, 256 taps"),
        (Filter1d(64, 4), "causal_conv1d", "computes causal convolutions only"),
        (Filter1d(64, 4, down=2, **CAUSAL), "causal_conv1d", "computes causal convolutions only"),
        (Filter1d(64, 4, mode="causal", channels=6), "causal_conv1d", "has one filter for each channel"),
        (Filter1d(64, 4, pitch=512, **CAUSAL), "causal_conv1d", "has one real element type and no gaps between rows"),
        (
            Filter1d(64, 4, dtype="int16", **CAUSAL),
            "causal_conv1d",
            "has one real element type and no gaps between rows",
        ),
        (Filter1d(512, 128, **CAUSAL), "fft_causal_conv1d", None),
        (Filter1d(500, 128, **CAUSAL), "fft_causal_conv1d", "filters multiples of its taps"),
        (Filter1d(512, 128, bias=True, **CAUSAL), "fft_causal_conv1d", "has the layout bct, no bias and no activation"),
        (Filter1d(4096, 4096, **CAUSAL), "long_fft_causal_conv1d", None),
        (Filter1d(8192, 4096, **CAUSAL), "long_fft_causal_conv1d", "filters signals as long as the filter"),
    ],
    ids=str,
)
def test_problems_are_refused_with_a_reason(problem: Filter1d, method: str, reason: str | None) -> None:
    assert reason_to_leave_out(problem, CausalMethod(method)) == reason


def test_are_asked_for_causal_problems_only() -> None:
    def names(problem: Filter1d) -> list[str]:
        found = candidates(problem, random_operands(problem, 0), DeviceKind.CUDA)
        return [each.name for each in found if each.name.endswith(tuple(CausalMethod))]

    assert names(Filter1d(64, 4)) == []
    assert names(PROBLEM) == [f"cuDNN {method}" for method in CausalMethod]


class Library:
    """The library with the functions of its header, on the host."""

    def cudnnCausalConv1dForward(self, *given: Any) -> int:  # noqa: N802
        return self._direct(*given, is_btc=False)

    def cudnnCausalConv1dNwhForward(self, *given: Any) -> int:  # noqa: N802
        return self._direct(*given, is_btc=True)

    def _direct(self, stream: Any, *given: Any, is_btc: bool) -> int:
        assert stream.value is None
        x, weight, bias, y = (each.value for each in given[:4])
        batch, channels, samples, taps = (each.value for each in given[4:8])
        assert given[8:] == (0, 1)  # float32, SiLU

        def array(address: int, *shape: int) -> Any:
            pointer = ctypes.cast(address, ctypes.POINTER(ctypes.c_float))
            return np.ctypeslib.as_array(pointer, shape)

        shape = (batch, samples, channels) if is_btc else (batch, channels, samples)
        signal, result = (array(each, *shape) for each in (x, y))
        filters = array(weight, taps, channels).T if is_btc else array(weight, channels, taps)
        for b in range(batch):
            for c in range(channels):
                at = (b, slice(None), c) if is_btc else (b, c)
                sums = np.convolve(signal[at], filters[c, ::-1])[:samples] + array(bias, channels)[c]
                result[at] = sums / (1 + np.exp(-sums))
        return 0

    def cudnnCausalConv1dBackward(self, *given: Any) -> int:  # noqa: N802
        return self._backward(*given, is_btc=False)

    def cudnnCausalConv1dNwhBackward(self, *given: Any) -> int:  # noqa: N802
        return self._backward(*given, is_btc=True)

    def _backward(self, stream: Any, *given: Any, is_btc: bool) -> int:
        """Gradients by PyTorch, added to those of the weights and the bias."""
        assert stream.value is None
        batch, channels, samples, taps = (each.value for each in given[7:11])
        assert given[11:] == (0, 0, 1)  # float32 twice, SiLU
        rows = (batch, samples, channels) if is_btc else (batch, channels, samples)
        filters = (taps, channels) if is_btc else (channels, taps)
        shapes = (rows, filters, (channels,), rows, rows, filters, (channels,))
        x, w, b, dy, dx, dw, db = (
            torch.from_numpy(np.ctypeslib.as_array(ctypes.cast(each.value, ctypes.POINTER(ctypes.c_float)), shape))
            for each, shape in zip(given[:7], shapes, strict=True)
        )
        wanted = [each.clone().requires_grad_() for each in (x, w, b)]
        signal, weights = (each.mT if is_btc and each.dim() > 1 else each for each in wanted[:2])
        y = causal(signal, weights, wanted[2], "silu")
        found = torch.autograd.grad(y, wanted, dy.mT if is_btc else dy)
        dx.copy_(found[0])
        dw.add_(found[1])
        db.add_(found[2])
        return 0

    def cudnnFFTCausalConv1dForward(self, *given: Any) -> int:  # noqa: N802, ARG002
        return 3000


@pytest.fixture
def on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.Tensor, "cuda", lambda self: self.clone())
    monkeypatch.setattr(cudnn_peers, "_library", lambda: (Library(), "9.28"))
    for name in ("zeros", "empty"):
        make = getattr(torch, name)
        monkeypatch.setattr(torch, name, lambda *given, make=make, **kind: make(*given, **{**kind, "device": "cpu"}))


@pytest.mark.usefixtures("on_the_host")
@pytest.mark.parametrize("layout", SignalLayout)
@pytest.mark.parametrize("bias", [False, True])
def test_the_library_computes_the_problem(layout: SignalLayout, bias: bool) -> None:
    problem = Filter1d(64, 4, 2, layout=layout, bias=bias, activation="silu", **CAUSAL)
    peer = cudnn_peers.causal_peer(problem, random_operands(problem, 0), CausalMethod.DIRECT, 2)
    peer.run(1)
    peer.run()
    assert peer.name == "cudnn 9.28 causal_conv1d"
    assert verify(peer.result(), reference(problem, random_operands(problem, 0)), problem.output.dtype, 1e-6).right


@pytest.mark.usefixtures("on_the_host")
@pytest.mark.parametrize("layout", SignalLayout)
def test_the_library_computes_all_gradients(layout: SignalLayout) -> None:
    problem = Filter1d(64, 4, 2, layout=layout, bias=True, activation="silu", pass_="backward", **CAUSAL)
    operands = random_operands(problem, 0)
    peer = cudnn_peers.backward_peer(problem, operands, 2)
    for index in (0, 1, 0):
        peer.run(index)
    found = peer.result()
    for name, expected in references(problem, operands).items():
        assert verify(found[name], expected, DType.FLOAT32, 1e-6).right, name


def test_one_gradient_alone_is_left_out() -> None:
    for pass_ in ("wgrad", "backward"):
        problem = Filter1d(64, 4, pass_=pass_, **CAUSAL)
        names = [each.name for each in candidates(problem, random_operands(problem, 0), DeviceKind.CUDA)]
        assert "cuDNN causal backward" in names
        reason = cudnn_peers.backward_reason_to_leave_out(problem)
        assert (reason is None) == (pass_ == "backward")


@pytest.mark.usefixtures("on_the_host")
def test_a_refusal_is_an_error() -> None:
    problem = Filter1d(512, 128, **CAUSAL)
    peer = cudnn_peers.causal_peer(problem, random_operands(problem, 0), CausalMethod.BLOCKS, 1)
    assert isinstance(peer, Peer)
    with pytest.raises(RuntimeError, match="fft_causal_conv1d returned the status 3000"):
        peer.run()


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(cudnn_peers, "LIBRARY", "libmissing.so.9")
    cudnn_peers._library.cache_clear()
    found = candidates(PROBLEM, random_operands(PROBLEM, 0), DeviceKind.CUDA)
    reason = "libmissing.so.9, of cuDNN 9.22 and later, is not installed"
    assert LeftOut("cuDNN causal_conv1d", reason) in found
    cudnn_peers._library.cache_clear()
