"""The other libraries: each computes what the problem says, and none is asked for that is not installed."""

from __future__ import annotations

import dataclasses
import importlib
import sys
import types
from importlib.machinery import ModuleSpec
from importlib.metadata import version
from typing import Any

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


def assert_right(problem: Filter2d) -> None:
    operands = random_operands(problem, 0)
    (peer,) = peers(problem, operands, DeviceKind.HOST)
    peer.run()
    assert peer.result().shape == problem.output.shape
    verdict = verify(peer.result(), reference(problem, operands), problem.output.dtype)
    assert verdict.right, f"{problem.key()}: {verdict.message}"


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

    @pytest.mark.parametrize("convolve", [False, True])
    @pytest.mark.parametrize("border", Border)
    @pytest.mark.parametrize(("planes", "channels"), [(1, 1), (1, 3), (2, 1), (2, 4)])
    def test_computes_every_layout(self, border: Border, planes: int, channels: int, convolve: bool) -> None:
        for size in ((3, 4), (4, 3)):
            problem = Filter2d((11, 9), size, planes, border=border, cval=-1.5, channels=channels, convolve=convolve)
            assert_right(problem)
            if border is not Border.VALID:
                assert_right(dataclasses.replace(problem, anchor=(0, 2)))

    @pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.UINT8])
    def test_computes_float32_of_bytes(self, dtype: DType) -> None:
        assert_right(dataclasses.replace(PROBLEM, dtype=dtype, result_dtype=DType.FLOAT32))

    def test_computes_on_dense_arrays_what_has_gaps_between_rows(self) -> None:
        assert_right(dataclasses.replace(PROBLEM, pitch=256, result_pitch=512))

    @pytest.mark.parametrize(
        "fields",
        [
            {"dtype": DType.FLOAT16},
            {"result_dtype": DType.FLOAT16},
            {"dtype": DType.FLOAT16, "result_dtype": DType.FLOAT32},
            {"dtype": DType.UINT8},
            {"result_dtype": DType.UINT8},
            {"filters": 2},
        ],
        ids=str,
    )
    def test_has_no_half_precision_no_rounding_and_no_banks(self, fields: dict[str, Any]) -> None:
        problem = dataclasses.replace(PROBLEM, **fields)
        assert peers(problem, random_operands(problem, 0), DeviceKind.HOST) == ()

    def test_uses_the_weights_that_the_problem_knows(self) -> None:
        problem = dataclasses.replace(PROBLEM, filter=(1, 2), weights=(0.0, 2.0))
        operands = random_operands(problem, 0)
        (peer,) = peers(problem, operands, DeviceKind.HOST)
        peer.run()
        assert np.array_equal(peer.result(), 2 * operands["image"][:, 1:])

    def test_is_named_with_its_version_and_function(self) -> None:
        assert scipy_peer(PROBLEM).name == f"scipy {version('scipy')} ndimage.correlate"
        turned = dataclasses.replace(PROBLEM, convolve=True)
        assert scipy_peer(turned).name == f"scipy {version('scipy')} ndimage.convolve"

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


class TestCupy:
    """NumPy and SciPy under CuPy's names: what CuPy is asked for, not what it computes."""

    @pytest.mark.parametrize(
        "problem",
        [
            PROBLEM,
            Filter2d((9, 8), (4, 3), 2, border=Border.MIRROR, channels=3, convolve=True, anchor=(0, 1)),
            Filter2d((9, 8), (2, 2), dtype=DType.UINT8, result_dtype=DType.FLOAT32, channels=4, convolve=True),
        ],
    )
    def test_is_asked_for_the_problem(self, problem: Filter2d, monkeypatch: pytest.MonkeyPatch) -> None:
        cupy = types.ModuleType("cupy")
        cupy.__dict__.update(__version__="0.1", asarray=np.array, empty=np.empty, asnumpy=np.asarray)
        monkeypatch.setattr("warpsmith.tuner.peers.find_spec", {"cupy": ModuleSpec("cupy", None)}.get)
        monkeypatch.setitem(sys.modules, "cupy", cupy)
        monkeypatch.setitem(sys.modules, "cupyx.scipy.ndimage", importlib.import_module("scipy.ndimage"))
        operands = random_operands(problem, 0)
        (peer,) = peers(problem, operands, DeviceKind.CUDA)
        assert peer.name == f"cupy 0.1 ndimage.{'convolve' if problem.convolve else 'correlate'}"
        peer.run()
        assert verify(peer.result(), reference(problem, operands), problem.output.dtype).right


class TestInstalled:
    def test_the_host_has_scipy_or_nothing(self, asked_for: list[str]) -> None:
        assert peers(PROBLEM, random_operands(PROBLEM, 0), DeviceKind.HOST) == ()
        assert asked_for == ["scipy"]

    def test_a_gpu_has_torch_and_cupy_or_nothing(self, asked_for: list[str]) -> None:
        assert peers(PROBLEM, random_operands(PROBLEM, 0), DeviceKind.CUDA) == ()
        assert set(asked_for) == {"cupy", "torch"}
