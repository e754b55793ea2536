"""Other libraries' filters of signals: each gives the problem's result, and is left out where it would take long."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import math
import sys
import types
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from importlib.metadata import version
from typing import Any

import numpy as np
import pytest

from filter1d_problems import SPREAD
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.problem import DType
from warpsmith.store.record import LeftOut
from warpsmith.tuner.evaluate.verify import verify
from warpsmith.tuner.operations.filter1d import norm_check, peers, torch_peers
from warpsmith.tuner.operations.filter1d.cudnn_peers import CausalMethod
from warpsmith.tuner.operations.filter1d.extent import Extent
from warpsmith.tuner.operations.filter1d.norm_check import NORM_TOLERANCE, NormCheck
from warpsmith.tuner.operations.registry import Peer, candidates, random_operands, reference
from warpsmith.tuner.operations.torch_tensors import HALF_TOLERANCES

torch = pytest.importorskip("torch")
pytest.importorskip("scipy")

TYPES: tuple[dict[str, str], ...] = (
    {"dtype": "float32"},
    {"dtype": "float16", "taps_dtype": "float16"},
    {"dtype": "float16", "result_dtype": "float32"},
    {"dtype": "bfloat16"},
    {"dtype": "complex64"},
    {"dtype": "complex64", "taps_dtype": "complex64"},
    {"dtype": "int16"},
    {"dtype": "uint8", "result_dtype": "float16"},
)
every_problem = pytest.mark.parametrize("problem", SPREAD, ids=lambda problem: problem.key())
PROBLEM = Filter1d(50, 7)
BANK = Filter1d(40, 5, 2, channels=4, filters=2)


def found_of(problem: Filter1d, kind: DeviceKind, sets: int = 1) -> dict[str, Peer | LeftOut]:
    """Peers, and those left out, by the names of their makers without the library. Those of cuDNN's causal convolutions
    have tests of their own.
    """
    found = candidates(problem, random_operands(problem, 0), kind, sets)
    found = [each for each in found if not each.name.endswith(tuple(CausalMethod))]
    names = ["torch", *(["torch.fft"] if kind is DeviceKind.CUDA else []), "convolve", "oaconvolve", "fftconvolve"]
    return dict(zip(names, found, strict=True))


def assert_right(problem: Filter1d, peer: Peer | LeftOut) -> Peer:
    assert isinstance(peer, Peer), peer
    operands = random_operands(problem, 0)
    peer.run()
    result = peer.result()
    assert (result.shape, result.dtype.name) == (problem.output.shape, problem.output.dtype.value)
    allowed = peer.tolerance or 2e-5
    if math.isinf(allowed):  # errors relative to the norm, besides those of rounding to 16 bits
        rounding = {"float16": 2.0**-10, "bfloat16": 2.0**-7}.get(problem.output.dtype.value, 0.0)
        largest = np.abs(operands["signal"].astype(np.complex128)).max()
        norm = largest * np.abs(operands["weights"].astype(np.complex128)).sum()
        if problem.bias:
            norm += np.abs(operands["bias"].astype(np.float64)).max()
        norm *= 1.1 if problem.activation else 1
        numbers = np.ascontiguousarray(result).reshape(-1)
        numbers = numbers.view(np.float32) if np.iscomplexobj(numbers) else numbers.astype(np.float64)
        expected = reference(problem, operands).expected.reshape(-1)
        assert (np.abs(numbers - expected) <= rounding * np.abs(expected) + 1e-6 * norm).all(), problem.key()
    else:
        verdict = verify(result, reference(problem, operands), problem.output.dtype, allowed)
        assert verdict.right, f"{problem.key()}: {verdict.message}"
    return peer


class TestHost:
    @every_problem
    def test_each_library_computes_the_problem(self, problem: Filter1d) -> None:
        for name, peer in found_of(problem, DeviceKind.HOST).items():
            if name == "convolve" and problem.filters > 1:
                assert peer == LeftOut("SciPy signal.convolve", "its direct sums have one filter a call")
            else:
                assert_right(problem, peer)

    def test_libraries_are_named_with_versions_and_functions(self) -> None:
        scipy, pytorch = version("scipy"), torch.__version__
        assert [each.name for each in found_of(PROBLEM, DeviceKind.HOST).values()] == [
            f"torch {pytorch} conv1d on the CPU",
            f"scipy {scipy} signal.convolve by direct sums",
            f"scipy {scipy} signal.oaconvolve",
            f"scipy {scipy} signal.fftconvolve",
        ]

    @pytest.mark.parametrize(
        ("types", "told"),
        [
            (TYPES[0], ""),
            (TYPES[1], ", converted to float32"),
            (TYPES[2], ", converted to float32"),
            (TYPES[3], " in bfloat16"),
            (TYPES[4], " of real and imaginary parts"),
            (TYPES[5], " in complex64"),
            (TYPES[6], ", converted to float32"),
            (TYPES[7], ", converted to float32"),
        ],
    )
    def test_pytorch_names_its_arithmetic(self, types: dict[str, str], told: str) -> None:
        peer = found_of(Filter1d(50, 7, **types), DeviceKind.HOST)["torch"]
        assert peer.name == f"torch {torch.__version__} conv1d{told} on the CPU"
        assert isinstance(peer, Peer)
        assert peer.tolerance == HALF_TOLERANCES.get(DType(types["dtype"]))

    @pytest.mark.parametrize("problem", [PROBLEM, BANK])
    def test_each_set_has_inputs_and_an_output_of_its_own(self, problem: Filter1d) -> None:
        for peer in found_of(problem, DeviceKind.HOST, sets=3).values():
            if isinstance(peer, Peer):
                peer.run(1)
                peer.run(2, None)
                assert_right(problem, peer)
                kept = peer.result().copy()
                peer.run(2)
                assert np.array_equal(peer.result(), kept)

    def test_inputs_are_left_alone(self) -> None:
        operands, again = random_operands(BANK, 0), random_operands(BANK, 0)
        for peer in candidates(BANK, operands, DeviceKind.HOST):
            if isinstance(peer, Peer):
                peer.run()
        assert all(np.array_equal(operands[name], again[name]) for name in again)

    def test_known_weights_are_used(self) -> None:
        problem = Filter1d(50, 3, mode="valid", weights=(0.0, 0.0, 2.0))
        for peer in found_of(problem, DeviceKind.HOST).values():
            assert_right(problem, peer)

    def test_what_has_gaps_between_rows_is_computed_on_dense_arrays(self) -> None:
        assert_right(BANK, found_of(dataclasses.replace(BANK, pitch=256, result_pitch=512), DeviceKind.HOST)["torch"])

    def test_direct_sums_are_left_out_where_they_take_seconds(self) -> None:
        whole = found_of(Filter1d(2**20, 2**14), DeviceKind.HOST)
        for name in ("torch", "convolve"):
            left_out = whole[name]
            assert isinstance(left_out, LeftOut) == (name == "convolve")
        assert whole["convolve"].reason == "adds up term by term: 2e+10 multiply-adds"  # type: ignore[union-attr]


@pytest.fixture
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Handles of the streams entered, with host memory as a GPU's memory, and SciPy under CuPy's names."""
    streams: list[int] = []

    @contextlib.contextmanager
    def stream(handle: int) -> Iterator[None]:
        streams.append(handle)
        yield

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "ExternalStream", lambda handle: handle)
    monkeypatch.setattr(torch.cuda, "stream", stream)
    monkeypatch.setattr(torch.Tensor, "cuda", lambda self: self.clone())
    # What a peer sets for its whole process.
    monkeypatch.setattr(torch.backends, "cudnn", types.SimpleNamespace(version=lambda: 92801))
    cupy = types.ModuleType("cupy")
    cupy.__dict__.update(__version__="0.1", asarray=np.array, asnumpy=np.asarray, exp=np.exp)
    cupy.__dict__.update(cuda=types.SimpleNamespace(ExternalStream=stream))
    installed = {name: ModuleSpec(name, None) for name in ("cupy", "torch")}
    monkeypatch.setattr("warpsmith.tuner.operations.peer.find_spec", installed.get)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setitem(sys.modules, "cupyx.scipy.signal", importlib.import_module("scipy.signal"))
    return streams


class TestGpu:
    @every_problem
    def test_each_library_is_asked_for_the_problem(self, problem: Filter1d, as_on_a_gpu: list[int]) -> None:
        for name, peer in found_of(problem, DeviceKind.CUDA).items():
            if "convolve" in name and isinstance(peer, LeftOut):
                is_bank = problem.filters > 1 and name == "convolve"
                reason = "its direct sums have one filter a call" if is_bank else "it has no bfloat16"
                assert peer == LeftOut(f"CuPy signal.{name}", reason)
            else:
                assert_right(problem, peer)
        assert as_on_a_gpu == []

    def test_libraries_work_on_the_stream_that_they_are_given(self, as_on_a_gpu: list[int]) -> None:
        found = found_of(PROBLEM, DeviceKind.CUDA)
        for peer in found.values():
            assert isinstance(peer, Peer)
            peer.run(0, 77)
        assert as_on_a_gpu == [77] * len(found)

    def test_libraries_are_named_with_versions_and_functions(self, as_on_a_gpu: list[int]) -> None:
        assert [each.name for each in found_of(PROBLEM, DeviceKind.CUDA).values()] == [
            f"cudnn 92801 through torch {torch.__version__} conv1d",
            f"torch {torch.__version__} fft.rfft and irfft by cufft",
            "cupy 0.1 signal.convolve by direct sums",
            "cupy 0.1 signal.oaconvolve",
            "cupy 0.1 signal.fftconvolve",
        ]
        assert torch.backends.cudnn.allow_tf32 is False
        assert torch.backends.cudnn.benchmark is True
        assert not as_on_a_gpu

    @pytest.mark.usefixtures("as_on_a_gpu")
    @pytest.mark.parametrize(
        ("problem", "padding", "pads"),
        [
            (Filter1d(64, 7, mode="same"), 3, None),  # equal zeros on both sides
            (Filter1d(64, 7), 6, None),
            (Filter1d(64, 7, mode="valid"), 0, None),
            (Filter1d(64, 8, mode="same"), 4, None),  # one output more, which is dropped
            (Filter1d(640, 4, mode="causal"), 3, None),
            (Filter1d(64, 17, mode="causal"), 0, (16, 0)),
            (Filter1d(64, 7, lags=(-2, 61)), 0, (2, 4)),
            (Filter1d(64, 7, lags=(3, 40)), 0, None),  # a part of the signal
        ],
        ids=str,
    )
    def test_zeros_are_copied_only_where_cudnn_has_none(
        self, problem: Filter1d, padding: int, pads: tuple[int, int] | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen: dict[str, Any] = {}
        functional = torch.nn.functional
        conv1d, pad = functional.conv1d, functional.pad
        monkeypatch.setattr(functional, "conv1d", lambda *given: seen.update(padding=given[4]) or conv1d(*given))
        monkeypatch.setattr(functional, "pad", lambda x, zeros: seen.update(pads=zeros) or pad(x, zeros))
        assert_right(problem, found_of(problem, DeviceKind.CUDA)["torch"])
        assert (seen["padding"], seen.get("pads")) == (padding, pads)

    @pytest.mark.usefixtures("as_on_a_gpu")
    @pytest.mark.parametrize(
        ("problem", "size"),
        [
            (Filter1d(100, 29, mode="valid"), 100),  # what wraps around is not wanted
            (Filter1d(100, 29), 128),
            (Filter1d(100, 29, mode="causal"), 128),
            (Filter1d(100, 29, mode="same"), 120),
        ],
        ids=str,
    )
    def test_transforms_are_no_longer_than_they_must_be(
        self, problem: Filter1d, size: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen: list[int] = []
        rfft = torch.fft.rfft
        monkeypatch.setattr(torch.fft, "rfft", lambda x, n, dim: seen.append(n) or rfft(x, n, dim))
        assert_right(problem, found_of(problem, DeviceKind.CUDA)["torch.fft"])
        assert seen == [size, size]

    @pytest.mark.usefixtures("as_on_a_gpu")
    def test_sums_that_take_too_long_are_left_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(peers, "_MOST_OF_CUDNN", 100)
        monkeypatch.setattr(peers, "_MOST_OF_CUPY", 100)
        found = found_of(PROBLEM, DeviceKind.CUDA)
        told = "adds up term by term: 4e+02 multiply-adds"
        assert found["torch"] == LeftOut("cuDNN through PyTorch", told)
        assert found["convolve"] == LeftOut("CuPy signal.convolve", told)
        assert all(isinstance(found[name], Peer) for name in ("torch.fft", "oaconvolve", "fftconvolve"))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_what_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = found_of(PROBLEM, DeviceKind.CUDA)
    assert found["torch"] == LeftOut("cuDNN through PyTorch", "PyTorch finds no GPU")
    assert found["torch.fft"] == LeftOut("cuFFT through PyTorch", "PyTorch finds no GPU")
    monkeypatch.setattr("warpsmith.tuner.operations.peer.find_spec", lambda _: None)
    assert [each.reason for each in found_of(PROBLEM, DeviceKind.HOST).values() if isinstance(each, LeftOut)] == [
        "torch is not installed",
        *["scipy is not installed"] * 3,
    ]


class TestNormCheck:
    PROBLEM = Filter1d(3000, 33, dtype="complex64")

    def numbers(self) -> tuple[NormCheck, Any]:
        operands = random_operands(self.PROBLEM, 0)
        exact = reference(self.PROBLEM, operands).expected
        return NormCheck.of(self.PROBLEM, operands), np.ascontiguousarray(exact).view(np.complex128)[..., 0]

    def test_right_results_pass(self) -> None:
        check, exact = self.numbers()
        right = exact.astype(np.complex64)
        assert check.checked(right) is right

    @pytest.mark.parametrize(
        "spoil",
        [
            lambda exact: np.roll(exact, 1),
            lambda exact: exact.conj(),
            lambda exact: exact * (1 + 1e-3),
            lambda exact: np.where(np.arange(len(exact)) == 0, np.nan, exact),
        ],
    )
    def test_wrong_ones_do_not(self, spoil: Any) -> None:
        check, exact = self.numbers()
        with pytest.raises(RuntimeError, match=f"norm of the results, is over the bound of {NORM_TOLERANCE:.0e}"):
            check.checked(spoil(exact).astype(np.complex64))

    @pytest.mark.parametrize("activation", [None, "silu"])
    def test_the_norm_is_that_of_the_sums_with_their_bias(self, activation: str | None) -> None:
        problem = Filter1d(3000, 30, channels=3, bias=True, activation=activation)
        operands = {**random_operands(problem, 0), "bias": np.full(3, -1000, np.float32)}
        slope = 1.1 if activation else 1
        check = NormCheck.of(problem, operands)
        assert check.norm == pytest.approx(slope * 2 * 1000, rel=0.01)
        right = reference(problem, operands).expected.astype(np.float32)
        assert check.checked(right) is right
        with pytest.raises(RuntimeError, match="norm of the results"):
            check.checked(right + np.float32(0.1))

    def test_samples_are_few_where_sums_are_long(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(norm_check, "_MOST_TERMS", 1000)
        check = NormCheck.of(Filter1d(3000, 900), random_operands(Filter1d(3000, 900), 0))
        assert len(check.expected.indices) <= 18


def test_an_extent_is_the_part_that_windows_read() -> None:
    assert Extent.of(Filter1d(100, 5)) == Extent(slice(0, 100), 4, 4, slice(0, 104, 1))
    assert Extent.of(Filter1d(100, 5, mode="causal")) == Extent(slice(0, 100), 4, 0, slice(0, 100, 1))
    assert Extent.of(Filter1d(100, 5, lags=(10, 20), down=4)) == Extent(slice(10, 23), 0, 0, slice(4, 13, 4))
    assert Extent.of(Filter1d(3, 8, lags=(-1, 2))) == Extent(slice(0, 3), 1, 7, slice(6, 10, 1))


def test_the_cpu_has_no_check_by_the_norm() -> None:
    peer = torch_peers.conv1d_peer(PROBLEM, random_operands(PROBLEM, 0), DeviceKind.HOST, 1)
    assert peer.tolerance is None
