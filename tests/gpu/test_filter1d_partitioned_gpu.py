"""`filter1d_partitioned` on a GPU: configs against float64 sums, compute-sanitizer, streams in and out of graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import warpsmith as ws
from random_configs import some, some_configs
from warpsmith.devices.cuda.runtime import cuda_device
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter1d.partitioned_family import Filter1dPartitioned

pytestmark = pytest.mark.gpu

torch = pytest.importorskip("torch")
FAMILY = Filter1dPartitioned()


def ring(signal: int, taps: int, **fields: Any) -> Filter1d:
    return Filter1d(signal, taps, **{"mode": "causal", "state": "carried", "circular": True, **fields})


SMALL = (
    ring(480, 1000, state_width=2048),
    ring(33, 300, batch=2, channels=6, filters=2, bias=True, activation="silu", dtype="float16"),
    ring(64, 700, dtype="complex64", taps_dtype="complex64", state_width=1000),
    Filter1d(48, 999, batch=3, channels=2, mode="causal", state="carried", down=2, dtype="bfloat16"),
)
LARGE = (
    ring(480, 16384, channels=64, filters=64, state_width=1 << 15),
    ring(32, 401_310, state_width=1 << 19),
    ring(4096, 16384, channels=3, nonfinite="any"),
)


def test_configs(check_configs: Callable[..., None]) -> None:
    check_configs((*SMALL, *LARGE), some(3), families=(FAMILY,))


@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_under_compute_sanitizer(check_under_sanitizer: Callable[..., None], tool: str) -> None:
    device = cuda_device(0)
    cases = [(each, FAMILY.program(each, config)) for each in SMALL for config in some_configs(FAMILY, each, device, 3)]
    check_under_sanitizer(tool, device, cases)


def drawn(channels: int, samples: int, taps: int) -> tuple[Any, Any]:
    generator = torch.Generator("cuda").manual_seed(3)
    signal = torch.randn(channels, samples, device="cuda", generator=generator)
    return signal, torch.randn(channels, taps, device="cuda", generator=generator)


def whole(signal: Any, weights: Any) -> Any:
    """Outputs of the whole signal in float64, by transforms."""
    size = signal.shape[1] + weights.shape[1]
    spectra = torch.fft.rfft(signal.double(), size) * torch.fft.rfft(weights.flip(1).double(), size)
    return torch.fft.irfft(spectra, size)[:, : signal.shape[1]]


@pytest.mark.parametrize("kind", [{}, {"circular": True}, {"circular": True, "state_width": 1 << 14}], ids=str)
def test_a_stream_of_mixed_chunks_gives_the_whole(kind: dict[str, Any]) -> None:
    chunks = (1, 7, 480, 4096, 480, 480, 9000, 480)
    signal, weights = drawn(3, sum(chunks), 5000)
    problem = Filter1d(480, 5000, channels=3, filters=3, mode="causal", state="carried", **kind)
    plan = ws.plan(problem, "cuda:0", verify="first")
    assert plan.match.program.family == FAMILY.name
    stream = plan.hold(weights=weights).stream()
    found = torch.cat([stream(each) for each in torch.split(signal, chunks, 1)], 1)
    expected = whole(signal, weights)
    assert (found - expected).abs().max() < 1e-5 * expected.abs().max()


def test_a_graph_of_chunks_goes_on_with_the_signal() -> None:
    signal, weights = drawn(3, 480 * 40, 5000)
    problem = ring(480, 5000, channels=3, filters=3, state_width=1 << 13)
    stream = ws.plan(problem, "cuda:0").hold(weights=weights).stream()
    chunks = torch.split(signal, 480, 1)
    found, chunk = [stream(each.contiguous()) for each in chunks[:5]], torch.empty_like(chunks[0])
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        out = stream(chunk)
    for each in chunks[5:]:
        chunk.copy_(each)
        graph.replay()
        found.append(out.clone())
    expected = whole(signal, weights)
    assert (torch.cat(found, 1) - expected).abs().max() < 1e-5 * expected.abs().max()


def test_a_sample_that_is_not_finite_reaches_its_windows_alone() -> None:
    signal, weights = drawn(3, 480 * 16, 5000)
    signal[1, 700], signal[2, 1000] = float("nan"), float("inf")
    problem = ring(480, 5000, channels=3, filters=3, state_width=1 << 13)
    stream = ws.plan(problem, "cuda:0").hold(weights=weights).stream()
    found = torch.cat([stream(each.contiguous()) for each in torch.split(signal, 480, 1)], 1)
    clean = torch.nan_to_num(signal, 0, 0, 0)
    expected = whole(clean, weights)
    reached = torch.zeros_like(found, dtype=torch.bool)
    reached[1, 700:5700], reached[2, 1000:6000] = True, True
    assert not torch.isfinite(found[reached]).any()
    assert (found - expected)[~reached].abs().max() < 1e-5 * expected.abs().max()
