"""Verification of cgemm: the reference against PyTorch in complex128, the inputs, and PyTorch as a peer."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from warpsmith.generator.cgemm import Cgemm, Op
from warpsmith.generator.device import DeviceKind
from warpsmith.tuner.operations.cgemm.judge import CgemmJudge
from warpsmith.tuner.operations.cgemm.oracle import reference
from warpsmith.tuner.operations.cgemm.peers import makers, torch_peer
from warpsmith.tuner.operations.cgemm.stress import stress_inputs, stress_slack
from warpsmith.tuner.operations.peer import Unavailable
from warpsmith.tuner.operations.registry import random_operands

torch = pytest.importorskip("torch")

JUDGE = CgemmJudge()
OPS = tuple(itertools.product(Op, Op))
every_pair_of_ops = pytest.mark.parametrize(("a", "b"), OPS)


def by_torch(problem: Cgemm, operands: Any) -> NDArray[np.complex128]:
    """PyTorch's result in double precision."""
    views = {Op.N: lambda t: t, Op.T: lambda t: t.mT, Op.C: lambda t: t.mH}
    a, b = (
        views[op](torch.from_numpy(operands[name]).to(torch.complex128))
        for name, op in (("a", problem.a), ("b", problem.b))
    )
    return np.asarray(torch.bmm(a, b).numpy())


class TestReference:
    @every_pair_of_ops
    def test_is_what_pytorch_computes_in_double_precision(self, a: Op, b: Op) -> None:
        for sizes in ((1, 1, 1, 1), (3, 5, 7, 11), (40, 33, 65, 48), (2, 1030, 3, 5)):
            problem = Cgemm(*sizes, a, b)
            operands = random_operands(problem, 1)
            expected, scale = reference(problem, operands)
            assert expected.shape == scale.shape == problem.output.components.shape
            found = np.ascontiguousarray(expected).view(np.complex128)[..., 0]
            np.testing.assert_allclose(found, by_torch(problem, operands), rtol=0, atol=1e-12)

    @every_pair_of_ops
    def test_the_scale_of_both_parts_is_the_sum_of_all_products_of_magnitudes(self, a: Op, b: Op) -> None:
        problem = Cgemm(3, 5, 7, 11, a, b)
        operands = random_operands(problem, 1)
        expected, scale = reference(problem, operands)
        magnitudes, _ = reference(problem, {name: np.abs(values) + 0j for name, values in operands.items()})
        for part in (0, 1):
            np.testing.assert_allclose(scale[..., part], magnitudes[..., 0], rtol=1e-6)
        assert (np.hypot(expected[..., 0], expected[..., 1]) <= scale[..., 0] * (1 + 1e-12)).all()

    def test_the_scale_in_norm_is_twice_the_root_mean_square_of_each_product_or_that_sum(self) -> None:
        problem = Cgemm(3, 5, 7, 11, accuracy="normwise")  # type: ignore[arg-type]
        operands = random_operands(problem, 1)
        operands["a"][1] *= 1e-3  # a product of its own size
        operands["a"][2, :-1] *= 1e-3
        expected, scale = reference(problem, operands)
        _, sums = reference(dataclasses.replace(problem, accuracy="elementwise"), operands)
        peaks = 2 * np.sqrt((expected**2).mean(axis=(1, 2, 3), keepdims=True))
        np.testing.assert_allclose(scale, np.maximum(sums, peaks), rtol=1e-12)
        assert (scale[2, 0] > 2 * sums[2, 0]).all()

    def test_the_scale_of_rows_is_that_of_each_row_by_itself(self) -> None:
        problem = Cgemm(3, 5, 7, 11, accuracy="rowwise")  # type: ignore[arg-type]
        operands = random_operands(problem, 1)
        _, before = reference(problem, operands)
        operands["a"][1, 2] *= np.float32(1e6)
        expected, scale = reference(problem, operands)
        _, sums = reference(dataclasses.replace(problem, accuracy="elementwise"), operands)
        peaks = 2 * np.sqrt((expected**2).mean(axis=(2, 3), keepdims=True))
        np.testing.assert_allclose(scale, np.maximum(sums, peaks), rtol=1e-12)
        assert (scale > before).any(axis=(2, 3)).nonzero()[0].tolist() == [1]

    def test_terms_are_those_of_real_numbers(self) -> None:
        assert JUDGE.terms(Cgemm(3, 5, 7, 11)) == 44


class TestInputs:
    @pytest.mark.parametrize("make", [JUDGE.inputs, stress_inputs], ids=["drawn", "stress"])
    def test_are_dense_and_the_same_in_every_run(self, make: Any) -> None:
        problem = Cgemm(7, 70, 130, 3, "t", "c")  # type: ignore[arg-type]
        first, again, other = (make(problem, np.random.default_rng(seed)) for seed in (1, 1, 2))
        assert list(first) == ["a", "b"]
        for each in problem.inputs:
            values = first[each.name]
            assert values.shape == each.shape
            assert values.dtype == np.complex64
            assert values.flags.c_contiguous
            assert np.isfinite(values).all()
            assert np.array_equal(values, again[each.name])
            assert not np.array_equal(values, other[each.name])

    def test_stress_has_magnitudes_far_apart_and_sums_that_float32_holds(self) -> None:
        problem = Cgemm(6, 64, 48, 80)
        operands = stress_inputs(problem, np.random.default_rng(0))
        for values in operands.values():
            parts = np.abs(values.view(np.float32))
            assert parts[parts > 0].min() < 2**-9
            assert parts.max() > 2**9
        expected, scale = reference(problem, operands)
        assert scale.max() < np.finfo(np.float32).max / 1e6
        assert (np.abs(expected) < 1e-3 * scale).any()
        assert (np.abs(expected) > 0.7 * scale).any()  # both parts of a product have 0.71 of its magnitude at once

    def test_slack_grows_with_the_root_of_the_terms(self) -> None:
        assert stress_slack(Cgemm(1, 8, 8, 3)) == 1
        assert stress_slack(Cgemm(1, 8, 8, 5000)) == pytest.approx(40)

    def test_a_smaller_problem_has_a_smaller_batch(self) -> None:
        assert JUDGE.smaller(Cgemm(100, 5, 6, 7, "c")) == Cgemm(2, 5, 6, 7, "c")  # type: ignore[arg-type]
        assert JUDGE.smaller(Cgemm(1, 5, 6, 7)).batch == 1


@pytest.fixture
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Handles of the streams entered, with a PyTorch whose GPU memory is host memory."""
    streams: list[int] = []

    @contextlib.contextmanager
    def stream(handle: int) -> Iterator[None]:
        streams.append(handle)
        yield

    empty = torch.empty
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "ExternalStream", lambda handle: handle)
    monkeypatch.setattr(torch.cuda, "stream", stream)
    monkeypatch.setattr(torch.Tensor, "to", lambda self, _: self)
    monkeypatch.setattr(torch, "empty", lambda *shape, **options: empty(*shape, **{**options, "device": "cpu"}))
    monkeypatch.setattr(torch.backends.cuda, "matmul", types.SimpleNamespace(allow_tf32=True))
    return streams


class TestPeer:
    @every_pair_of_ops
    def test_is_right_in_every_set(self, a: Op, b: Op) -> None:
        problem = Cgemm(4, 33, 20, 48, a, b)
        operands = random_operands(problem, 1)
        peer = torch_peer(problem, operands, DeviceKind.HOST, sets=2)
        expected, scale = reference(problem, operands)
        for index in (1, 0):
            peer.run(index)
        result = peer.result()
        assert result.shape == problem.output.shape
        assert (np.abs(result.view(np.float32).reshape(expected.shape) - expected) <= 1e-6 * scale).all()

    def test_on_a_gpu_has_no_tf32_and_works_on_the_stream_it_is_given(self, as_on_a_gpu: list[int]) -> None:
        problem = Cgemm(4, 3, 2, 5)
        peer = torch_peer(problem, random_operands(problem, 1), DeviceKind.CUDA)
        assert peer.name == f"torch {torch.__version__} bmm"
        assert torch.backends.cuda.matmul.allow_tf32 is False
        peer.run(0, 77)
        assert as_on_a_gpu == [77]
        assert peer.result().shape == problem.output.shape

    def test_says_where_it_is(self) -> None:
        problem = Cgemm(4, 3, 2, 5)
        operands = random_operands(problem, 1)
        assert torch_peer(problem, operands, DeviceKind.HOST).name.endswith("bmm on the CPU")
        if not torch.cuda.is_available():
            with pytest.raises(Unavailable, match="no GPU"):
                torch_peer(problem, operands, DeviceKind.CUDA)

    @pytest.mark.parametrize("kind", DeviceKind)
    def test_is_the_only_library_and_needs_torch(self, kind: DeviceKind) -> None:
        problem = Cgemm(4, 3, 2, 5)
        (maker,) = makers(problem, random_operands(problem, 1), kind)
        assert maker.packages == ("torch",)
