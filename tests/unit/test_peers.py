"""The other libraries: each computes what the problem says, and none is asked for that is not installed."""

from __future__ import annotations

import dataclasses
from importlib.machinery import ModuleSpec
from importlib.metadata import version

import numpy as np
import pytest

from warpsmith.generator.device import DeviceKind
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.problem import DType
from warpsmith.tuner.oracle import random_operands, reference
from warpsmith.tuner.peers import Peer, peers
from warpsmith.tuner.verify import verify

pytest.importorskip("scipy")

PROBLEM = Filter2d(image=(24, 31), filter=(3, 3))


def scipy_peer(problem: Filter2d, seed: int = 0) -> Peer:
    (peer,) = peers(problem, random_operands(problem, seed), DeviceKind.HOST)
    return peer


@pytest.fixture
def asked_for(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Nothing is installed; gives the packages that were looked for."""
    names: list[str] = []

    def find_none(name: str) -> ModuleSpec | None:
        names.append(name)
        return None

    monkeypatch.setattr("warpsmith.tuner.peers.find_spec", find_none)
    return names


class TestScipy:
    @pytest.mark.parametrize("planes", [1, 3])
    @pytest.mark.parametrize("filter_shape", [(3, 3), (2, 4), (1, 5), (24, 31)])
    @pytest.mark.parametrize("border", Border)
    def test_computes_the_problem(self, border: Border, filter_shape: tuple[int, int], planes: int) -> None:
        problem = dataclasses.replace(PROBLEM, border=border, filter=filter_shape, planes=planes, cval=-1.5)
        operands = random_operands(problem, 0)
        (peer,) = peers(problem, operands, DeviceKind.HOST)
        peer.run()
        result = peer.result()
        assert result.shape == problem.output.shape
        assert result.dtype == np.float32
        verdict = verify(result, reference(problem, operands), DType.FLOAT32)
        assert verdict.right, verdict.message

    def test_uses_the_weights_that_the_problem_knows(self) -> None:
        problem = dataclasses.replace(PROBLEM, filter=(1, 2), weights=(0.0, 2.0))
        operands = random_operands(problem, 0)
        (peer,) = peers(problem, operands, DeviceKind.HOST)
        peer.run()
        assert np.array_equal(peer.result(), 2 * operands["image"][:, 1:])

    def test_is_named_with_its_version_and_function(self) -> None:
        assert scipy_peer(PROBLEM).name == f"scipy {version('scipy')} ndimage.correlate"

    def test_runs_again_to_the_same_result_in_the_same_memory(self) -> None:
        peer = scipy_peer(PROBLEM)
        peer.run()
        first = peer.result()
        kept = first.copy()
        peer.run()
        assert np.shares_memory(peer.result(), first)
        assert np.array_equal(peer.result(), kept)

    def test_leaves_its_inputs_alone(self) -> None:
        operands, again = random_operands(PROBLEM, 0), random_operands(PROBLEM, 0)
        (peer,) = peers(PROBLEM, operands, DeviceKind.HOST)
        peer.run()
        assert all(np.array_equal(operands[name], again[name]) for name in again)


class TestInstalled:
    def test_the_host_has_scipy_or_nothing(self, asked_for: list[str]) -> None:
        assert peers(PROBLEM, random_operands(PROBLEM, 0), DeviceKind.HOST) == ()
        assert asked_for == ["scipy"]

    def test_a_gpu_has_torch_and_cupy_or_nothing(self, asked_for: list[str]) -> None:
        assert peers(PROBLEM, random_operands(PROBLEM, 0), DeviceKind.CUDA) == ()
        assert sorted(asked_for) == ["cupy", "torch"]
