"""Other libraries: each computes the problem, and one that is not installed is not called."""

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

import exhaustive
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.fft import Fft, Order
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.problem import DType
from warpsmith.store.record import LeftOut
from warpsmith.tuner.evaluate.verify import verify
from warpsmith.tuner.operations.filter2d.judge import Filter2dJudge
from warpsmith.tuner.operations.peer import PeerMaker
from warpsmith.tuner.operations.registry import Peer, candidates, import_ahead, peers, random_operands, reference

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
    """Packages that were looked for; none is installed."""
    names: list[str] = []

    def find_none(name: str) -> ModuleSpec | None:
        names.append(name)
        return None

    monkeypatch.setattr("warpsmith.tuner.operations.peer.find_spec", find_none)
    monkeypatch.setattr("warpsmith.tuner.operations.filter2d.peers.find_spec", find_none)
    return names


def test_libraries_are_imported_ahead_where_they_are_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Libraries(Filter2dJudge):
        def peers(self, *_: object) -> tuple[PeerMaker, ...]:
            def make() -> Peer:
                raise AssertionError

            return tuple(PeerMaker("library", names, make) for names in (("no_such_module", "colorsys"), ("no_such",)))

    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    import_ahead(PROBLEM, DeviceKind.HOST, Libraries())
    assert "colorsys" in sys.modules
    assert "no_such_module" not in sys.modules


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
    @pytest.mark.parametrize("border", [Border.VALID, Border.CONSTANT])
    @pytest.mark.parametrize(("size", "anchor"), [((7, 8), None), ((8, 5), (7, 0)), ((24, 31), None)])
    def test_computes_it_by_transforms(
        self, size: tuple[int, int], anchor: tuple[int, int] | None, border: Border, convolve: bool
    ) -> None:
        anchor = None if border is Border.VALID else anchor
        for planes in (1, 3):
            problem = Filter2d(
                (24, 31), size, planes, border=border, convolve=convolve, anchor=anchor, accuracy="imagewise"
            )
            operands = random_operands(problem, 0)
            by_taps, by_transforms = peers(problem, operands, DeviceKind.HOST)
            assert by_transforms.name.endswith("signal.fftconvolve")
            for peer in (by_taps, by_transforms):
                peer.run()
                assert peer.result().shape == problem.output.shape
                verdict = verify(peer.result(), reference(problem, operands), DType.FLOAT32)
                assert verdict.right, verdict.message

    @pytest.mark.parametrize(
        ("fields", "told"),
        [
            ({"border": "reflect"}, "zeros outside"),
            ({"border": "constant", "cval": 1.0}, "zeros outside"),
            ({"filters": 2}, "one filter and one channel"),
            ({"channels": 3}, "one filter and one channel"),
            ({"dtype": "uint8"}, "float32"),
        ],
    )
    def test_says_what_it_has_no_transforms_for(self, fields: dict[str, Any], told: str) -> None:
        problem = dataclasses.replace(PROBLEM, accuracy="imagewise", **fields)
        left_out = candidates(problem, random_operands(problem, 0), DeviceKind.HOST)[1]
        assert isinstance(left_out, LeftOut)
        assert told in left_out.reason

    def test_sums_over_no_more_taps_than_take_a_second(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("warpsmith.tuner.operations.filter2d.peers._MOST_MULTIPLY_ADDS", 1000)
        (left_out,) = candidates(PROBLEM, random_operands(PROBLEM, 0), DeviceKind.HOST)
        assert left_out == LeftOut("SciPy ndimage", "sums over taps: 6e+03 multiply-adds")

    def test_hardly_work_to_be_warmed_up_for_the_largest_filters(self) -> None:
        small = Filter2dJudge().smaller(Filter2d((2048, 2048), (255, 255), accuracy="imagewise", nonfinite="any"))
        assert (small.image, small.filter) == ((287, 287), (255, 255))
        assert Filter2dJudge().smaller(PROBLEM).image == (12, 12)

    def test_sums_over_fewer_taps_where_transforms_solve_it_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("warpsmith.tuner.operations.filter2d.peers._MOST_BESIDE_TRANSFORMS", 1000)
        problem = dataclasses.replace(PROBLEM, accuracy="imagewise")
        by_taps, by_transforms = candidates(problem, random_operands(problem, 0), DeviceKind.HOST)
        assert isinstance(by_taps, LeftOut)
        assert by_taps.reason == "sums over taps: 6e+03 multiply-adds"
        assert isinstance(by_transforms, Peer)

    @pytest.mark.parametrize("convolve", [False, True])
    @pytest.mark.parametrize("border", Border)
    @pytest.mark.parametrize(("planes", "channels"), [(1, 1), (1, 3), (2, 1), (2, 4)])
    @exhaustive.meeting(2)
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
    """NumPy and SciPy under CuPy's names; notes the calls, not the results."""

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
        monkeypatch.setattr("warpsmith.tuner.operations.peer.find_spec", {"cupy": ModuleSpec("cupy", None)}.get)
        monkeypatch.setattr(
            "warpsmith.tuner.operations.filter2d.peers.find_spec", {"cupy": ModuleSpec("cupy", None)}.get
        )
        monkeypatch.setitem(sys.modules, "cupy", cupy)
        monkeypatch.setitem(sys.modules, "cupyx.scipy.ndimage", importlib.import_module("scipy.ndimage"))
        operands = random_operands(problem, 0)
        (peer,) = peers(problem, operands, DeviceKind.CUDA)
        assert peer.name == f"cupy 0.1 ndimage.{'convolve' if problem.convolve else 'correlate'}"
        peer.run()
        assert verify(peer.result(), reference(problem, operands), problem.output.dtype).right


GAUSSIAN = tuple(float(a * b) for a in (1, 4, 6, 4, 1) for b in (1, 2, 1))
"""Five rows and three columns, the product of a column and a row."""
SKEWED = tuple(float(a * b) for a in (1, 2, 5, -3, 0.5) for b in (3, -1, 7))


def candidate_names(problem: Filter2d, kind: DeviceKind = DeviceKind.HOST) -> list[str]:
    return [each.name for each in candidates(problem, random_operands(problem, 0), kind)]


class TestSeparable:
    @exhaustive.meeting(2)
    @pytest.mark.parametrize("convolve", [False, True])
    @pytest.mark.parametrize("border", Border)
    @pytest.mark.parametrize(("planes", "channels"), [(1, 1), (2, 1), (1, 3)])
    @pytest.mark.parametrize("weights", [GAUSSIAN, SKEWED])
    def test_computes_the_problem(
        self, border: Border, planes: int, channels: int, convolve: bool, weights: tuple[float, ...]
    ) -> None:
        problem = Filter2d(
            (13, 11), (5, 3), planes, border=border, channels=channels, cval=-1.5, convolve=convolve, weights=weights
        )
        problems = [problem]
        if border is not Border.VALID:
            problems.append(dataclasses.replace(problem, anchor=(0, 2)))
        for each in problems:
            operands = random_operands(each, 0)
            _, peer = peers(each, operands, DeviceKind.HOST)
            assert peer.name == f"scipy {version('scipy')} ndimage.correlate1d twice"
            peer.run()
            verdict = verify(peer.result(), reference(each, operands), DType.FLOAT32)
            assert verdict.max_error < 2e-5, f"{each.key()}: {verdict.message}"

    @pytest.mark.parametrize(
        "fields",
        [{"weights": None}, {"weights": (*GAUSSIAN[:-1], 9.0)}, {"weights": (*GAUSSIAN, *GAUSSIAN), "filters": 2}],
    )
    def test_is_not_asked_for_unless_the_filter_is_a_known_product(self, fields: dict[str, Any]) -> None:
        problem = dataclasses.replace(Filter2d((13, 11), (5, 3), weights=GAUSSIAN), **fields)
        assert candidate_names(problem) == candidate_names(dataclasses.replace(problem, weights=None))

    def test_stands_beside_each_library_of_a_gpu(self) -> None:
        whole = ["cuDNN through PyTorch", "CuPy ndimage", "NPP"]
        names = candidate_names(Filter2d((13, 11), (5, 3), weights=GAUSSIAN), DeviceKind.CUDA)
        assert names == [*whole, "CuPy ndimage.correlate1d twice", "NPP by row and column"]


class TestSets:
    @pytest.mark.parametrize("weights", [None, GAUSSIAN])
    def test_each_has_inputs_and_an_output_of_its_own(self, weights: tuple[float, ...] | None) -> None:
        problem = Filter2d((13, 11), (5, 3), weights=weights, border=Border.WRAP)
        operands = random_operands(problem, 0)
        for peer in peers(problem, operands, DeviceKind.HOST, sets=3):
            peer.run(1)
            peer.run(2, None)
            peer.run(0)
            assert verify(peer.result(), reference(problem, operands), DType.FLOAT32).right
            kept = peer.result().copy()
            peer.result()[...] = 0
            peer.run(2)
            assert not peer.result().any()
            peer.run(0)
            assert np.array_equal(peer.result(), kept)


class TestLeftOut:
    def reasons(self, problem: Filter2d | Fft, kind: DeviceKind) -> dict[str, str]:
        found = candidates(problem, random_operands(problem, 0), kind)
        return {each.name: each.reason for each in found if isinstance(each, LeftOut)}

    def test_what_is_not_installed_is_named(self, asked_for: list[str]) -> None:
        assert self.reasons(PROBLEM, DeviceKind.HOST) == {"SciPy ndimage": "scipy is not installed"}
        assert self.reasons(PROBLEM, DeviceKind.CUDA) == {
            "cuDNN through PyTorch": "torch is not installed",
            "CuPy ndimage": "cupy is not installed",
            "NPP": "cupy or torch is not installed",
        }
        assert self.reasons(Fft((8,), 3), DeviceKind.CUDA) == {"cuFFT through CuPy": "cupy is not installed"}
        assert asked_for

    @pytest.mark.parametrize(
        ("problem", "reason"),
        [
            (dataclasses.replace(PROBLEM, filters=2), "its ndimage has one filter a call"),
            (dataclasses.replace(PROBLEM, dtype=DType.FLOAT16), "its ndimage knows no float16"),
            (
                dataclasses.replace(PROBLEM, dtype=DType.UINT8),
                "its ndimage truncates to an integer instead of rounding",
            ),
            (Fft((8,), 3, order=Order.REVERSED), "it has no bit-reversed order"),
            (Fft((8,), 3, valid=5, border="reflect:1"), "it takes signals without a border"),  # type: ignore[arg-type]
        ],
    )
    def test_what_does_not_have_this_is_named(self, problem: Filter2d | Fft, reason: str) -> None:
        assert list(self.reasons(problem, DeviceKind.HOST).values()) == [reason]

    def test_what_fails_is_named_with_the_first_line(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: Any) -> None:
            raise RuntimeError("no driver\nand much more")

        monkeypatch.setattr("warpsmith.tuner.operations.filter2d.peers.ndimage_peer", fail)
        assert self.reasons(PROBLEM, DeviceKind.HOST) == {"SciPy ndimage": "failed: RuntimeError: no driver"}


class TestInstalled:
    def test_the_host_has_scipy_or_nothing(self, asked_for: list[str]) -> None:
        assert peers(PROBLEM, random_operands(PROBLEM, 0), DeviceKind.HOST) == ()
        assert asked_for == ["scipy"]

    def test_a_gpu_has_torch_and_cupy_or_nothing(self, asked_for: list[str]) -> None:
        assert peers(PROBLEM, random_operands(PROBLEM, 0), DeviceKind.CUDA) == ()
        assert set(asked_for) == {"cupy", "torch"}
