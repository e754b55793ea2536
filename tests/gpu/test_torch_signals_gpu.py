"""Filters of signals as PyTorch's operators on a GPU: results, gradients, graphs, compiled functions, decoding."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import warpsmith.torch as wt
from torch_signals import assert_close, causal, seeded, signals
from warpsmith.store import location
from warpsmith.torch import signal_layer
from warpsmith.torch.signal_layer import Needed

pytestmark = pytest.mark.gpu

BOUNDS = {torch.float32: 1e-5, torch.float16: 2.0**-9, torch.bfloat16: 2.0**-6}
"""Bounds of the largest error, relative to the largest number of a result, by type."""
every_layout = pytest.mark.parametrize("layout", ["bct", "btc"])
every_dtype = pytest.mark.parametrize("dtype", BOUNDS, ids=str)


@pytest.fixture(autouse=True)
def nothing_stored(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(location, "shipped_store", lambda: Path("/none/cache.db"))
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        yield


def operands(layout: str, dtype: Any, taps: int = 4) -> list[Any]:
    """x, w and b on the GPU, each with a gradient."""
    given = signals(layout, 2, 96, 1000), seeded(96, taps), seeded(96)
    return [each.to("cuda", dtype).requires_grad_() for each in given]


def exact(given: list[Any]) -> list[Any]:
    return [each.detach().double().requires_grad_() for each in given]


@every_layout
@every_dtype
@pytest.mark.parametrize("taps", [2, 4, 9, 33])
@pytest.mark.parametrize("activation", [None, "silu"])
def test_results_and_gradients(layout: str, dtype: Any, taps: int, activation: str | None) -> None:
    given = operands(layout, dtype, taps)
    wide = exact(given)
    y, expected = wt.causal_conv1d_fn(*given, activation=activation), causal(*wide, activation)
    assert y.stride() == given[0].stride()
    assert_close(y.double(), expected, BOUNDS[dtype])
    dy = signals(layout, 2, 96, 1000).to("cuda", dtype)
    gradients = torch.autograd.grad(expected, wide, dy.double())
    for found, gradient in zip(torch.autograd.grad(y, given, dy), gradients, strict=True):
        assert_close(found.double(), gradient, 4 * BOUNDS[dtype])


@every_layout
def test_gradients_have_equal_bits(layout: str) -> None:
    given = operands(layout, torch.bfloat16)
    dy = signals(layout, 2, 96, 1000).to("cuda", torch.bfloat16)
    first, second = (torch.autograd.grad(wt.causal_conv1d_fn(*given, activation="silu"), given, dy) for _ in range(2))
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


@every_layout
def test_a_training_step_is_captured_in_a_graph(layout: str) -> None:
    given = operands(layout, torch.float32)

    def step() -> list[Any]:
        y = wt.causal_conv1d_fn(*given, activation="silu")
        return [y, *torch.autograd.grad(y.square().sum(), given)]

    expected = [each.detach().clone() for each in step()]  # a graph kept alive would tie the leaves to this stream
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = step()
    with torch.no_grad():
        for each in results:
            each.zero_()
    graph.replay()
    torch.cuda.synchronize()
    for found, one in zip(results, expected, strict=True):
        assert_close(found.detach(), one, 1e-6)


def test_compiled_functions_have_gradients() -> None:
    given = operands("btc", torch.float32)
    compiled = torch.compile(lambda x, w, b: wt.causal_conv1d_fn(x, w, b, activation="silu") * 2, fullgraph=True)
    wide = exact(given)
    y, expected = compiled(*given), causal(*wide, "silu") * 2
    assert_close(y.double(), expected, 1e-5)
    gradients = torch.autograd.grad(expected.square().sum(), wide)
    for found, gradient in zip(torch.autograd.grad(y.square().sum(), given), gradients, strict=True):
        assert_close(found.double(), gradient, 4e-5)


@every_layout
def test_steps_are_the_whole_signal(layout: str) -> None:
    x, w, b = (each.detach() for each in operands(layout, torch.bfloat16))
    expected = causal(*(each.double() for each in (x, w, b)), "silu")
    y, state = wt.causal_conv1d_fn(x[..., :900], w, b, None, None, True, activation="silu")
    assert_close(y.double(), expected[..., :900], BOUNDS[torch.bfloat16])
    for n in range(900, 910):
        y = wt.causal_conv1d_update(x[..., n], state, w, b, "silu")
        assert_close(y.double(), expected[..., n], BOUNDS[torch.bfloat16])
    assert torch.equal(state, x[..., 907:910])


@every_layout
def test_packed_sequences_are_filtered_apart(layout: str) -> None:
    starts = torch.tensor([0, 5, 6, 6, 700, 1000], dtype=torch.int32, device="cuda")
    x, w, b = (each.detach() for each in operands(layout, torch.float32))
    x = x[:1].mT.contiguous().mT if layout == "btc" else x[:1].contiguous()
    y = wt.causal_conv1d_fn(x, w, b, activation="silu", cu_seqlens=starts)
    for begin, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        if end > begin:
            own = [each.double() for each in (x[..., begin:end], w, b)]
            assert_close(y[..., begin:end].double(), causal(*own, "silu"), 1e-5)


def test_long_filters_are_convolved() -> None:
    x, w = seeded(100_000).cuda(), seeded(1025)
    whole = torch.fft.irfft(torch.fft.rfft(x.double(), 131072) * torch.fft.rfft(w.cuda().double(), 131072), 131072)
    assert_close(wt.convolve(x, w).double(), whole[: 100_000 + 1024], 1e-5)


def test_factors_of_float16_are_asked_for() -> None:
    x, w = signals("bct", 3, 6, 5000).to("cuda", torch.bfloat16), seeded(6, 1, 5000).to("cuda", torch.bfloat16)
    y = wt.conv1d(x, w, padding=4999, groups=6, precision="f16")
    spectra = [torch.fft.rfft(each.double(), 10_000) for each in (x, w[:, 0].flip(-1))]
    assert_close(y.double(), torch.fft.irfft(spectra[0] * spectra[1], 10_000)[..., :9999], BOUNDS[torch.bfloat16])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("has_bias", [False, True])
def test_gradients_of_filters_as_long_as_their_signals(
    dtype: Any, has_bias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plans compute all of them."""
    by_torch: list[Needed] = []
    usual = signal_layer.composed_gradients

    def recorded(*arguments: Any) -> Any:
        by_torch.append(arguments[-1])
        return usual(*arguments)

    monkeypatch.setattr(signal_layer, "composed_gradients", recorded)
    given = [signals("bct", 3, 6, 2500), seeded(6, 2500), *([seeded(6)] if has_bias else [])]
    given = [each.to("cuda", dtype).requires_grad_() for each in given]
    wide = exact(given)
    y = wt.causal_conv1d_fn(*given)
    size = 5000
    spectra = [torch.fft.rfft(each, size) for each in (wide[0], wide[1].flip(-1))]
    expected = torch.fft.irfft(spectra[0] * spectra[1], size)[..., :2500]
    expected = expected + wide[2][:, None] if has_bias else expected
    assert_close(y.double(), expected, BOUNDS[dtype])
    dy = signals("bct", 3, 6, 2500).to("cuda", dtype)
    gradients = torch.autograd.grad(expected, wide, dy.double())
    for found, gradient in zip(torch.autograd.grad(y, given, dy), gradients, strict=True):
        assert_close(found.double(), gradient, 4 * BOUNDS[dtype])
    assert by_torch == []
