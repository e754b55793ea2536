"""PyTorch's backward pass beside gradients of filters: all results of a problem, and reasons to leave it out."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from filter1d_gradient_problems import SPREAD
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.filter1d import Filter1d
from warpsmith.store.record import LeftOut
from warpsmith.tuner.evaluate.verify import verify
from warpsmith.tuner.operations.filter1d import gradient_peers
from warpsmith.tuner.operations.registry import Peer, candidates, random_operands, references
from warpsmith.tuner.operations.torch_tensors import HALF_TOLERANCES

torch = pytest.importorskip("torch")

CAUSAL = Filter1d(40, 5, 2, channels=4, filters=2, mode="causal", pass_="backward", bias=True, activation="silu")  # type: ignore[arg-type]


def peer_of(problem: Filter1d, sets: int = 1) -> Peer | LeftOut:
    (found,) = candidates(problem, random_operands(problem, 0), DeviceKind.HOST, sets)
    return found


@pytest.mark.parametrize("problem", SPREAD[::2], ids=lambda problem: problem.key())
def test_it_computes_the_gradients(problem: Filter1d) -> None:
    peer = peer_of(problem)
    if problem.mode is None and isinstance(peer, LeftOut):
        assert peer.reason == "its padding reads other samples than these outputs"
        return
    assert isinstance(peer, Peer), peer
    peer.run()
    results, right = peer.result(), references(problem, random_operands(problem, 0))
    assert isinstance(results, Mapping)
    for output in problem.outputs:
        result = results[output.name]
        assert (result.shape, result.dtype.name) == (output.shape, output.dtype.value)
        verdict = verify(result, right[output.name], output.dtype, peer.tolerance or 2e-5)
        assert verdict.right, f"{output.name}: {verdict.message}"
    assert peer.tolerance == HALF_TOLERANCES.get(problem.dtype)


def test_it_is_named() -> None:
    peer = peer_of(CAUSAL)
    assert peer.name == f"torch {torch.__version__} convolution_backward on the CPU"


def test_each_set_has_results_of_its_own() -> None:
    peer = peer_of(CAUSAL, sets=2)
    assert isinstance(peer, Peer)
    with pytest.raises(RuntimeError, match="the peer has not run"):
        peer.result()
    peer.run(1)
    with pytest.raises(RuntimeError, match="the peer has not run"):
        peer.result()


def test_what_takes_seconds_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(gradient_peers._MOST, DeviceKind.HOST, 100)
    found = peer_of(CAUSAL)
    assert isinstance(found, LeftOut)
    assert found.reason == "adds up term by term: 5e+03 multiply-adds"
