"""Matrix products on a GPU: every family and op, random configs, plans, cuBLAS as a candidate and as a peer."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import warpsmith as ws
from random_configs import some, some_configs
from warpsmith.devices.cuda import cublas
from warpsmith.devices.cuda.runtime import CudaRuntime, cuda_device
from warpsmith.devices.select import CompilerChoice
from warpsmith.generator.cgemm import Cgemm, Op
from warpsmith.generator.cgemm.cublas_family import CgemmCublas
from warpsmith.generator.cgemm.plain_family import CgemmPlain
from warpsmith.generator.cgemm.tensor_family import CgemmTensor
from warpsmith.generator.cgemm.thin_family import CgemmThin
from warpsmith.generator.cgemm.tiled_family import CgemmTiled
from warpsmith.generator.cgemm.warpgroup_family import CgemmWarpgroup
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.problem import Accuracy
from warpsmith.generator.space import Config
from warpsmith.plans.match import Match, MatchKind
from warpsmith.plans.plan import Plan
from warpsmith.tuner.operations.cgemm.oracle import reference
from warpsmith.tuner.operations.cgemm.peers import torch_peer
from warpsmith.tuner.operations.registry import random_operands

pytestmark = pytest.mark.gpu

TILED, TENSOR, WARPGROUP, CUBLAS = CgemmTiled(), CgemmTensor(), CgemmWarpgroup(), CgemmCublas()
FAMILIES: tuple[Family, ...] = (TILED, TENSOR, CgemmPlain(), CgemmThin())
OPS = tuple(itertools.product(Op, Op))
every_pair_of_ops = pytest.mark.parametrize(("a", "b"), OPS)
needs_cublas = pytest.mark.skipif(cublas.version() == "cublas missing", reason=cublas.MISSING)
CheckConfigs = Callable[..., None]

SIZES: dict[str, tuple[int, int, int, int]] = {
    "layer": (200, 128, 64, 64),
    "first": (300, 128, 96, 3),
    "wide": (9, 128, 384, 384),
    "odd": (33, 121, 95, 37),
    "small": (501, 16, 16, 16),
    "tiny": (1000, 3, 5, 2),
    "long": (7, 64, 48, 5000),
    "one": (1, 300, 260, 150),
    "thin": (300, 130, 1, 96),
    "thin_rows": (41, 3, 201, 1300),
}
every_size = pytest.mark.parametrize("name", SIZES)


def in_norm(problem: Cgemm) -> Cgemm:
    """Problems that `cgemm_warpgroup` solves too."""
    return dataclasses.replace(problem, accuracy=Accuracy.NORMWISE)


@every_pair_of_ops
def test_every_op(a: Op, b: Op, check_configs: CheckConfigs) -> None:
    problems = [Cgemm(*sizes, a, b) for sizes in ((5, 33, 40, 18), (3, 40, 33, 19), (70, 7, 6, 5), (2, 128, 130, 64))]
    check_configs(problems, some(1, starts=2))
    check_configs(map(in_norm, problems), some(1, starts=2))


@every_size
@pytest.mark.parametrize("ops", ["nc", "nn", "cn"])
def test_random_configs_of_every_family(name: str, ops: str, check_configs: CheckConfigs) -> None:
    check_configs([Cgemm(*SIZES[name], *ops)], some(4, starts=2))  # type: ignore[arg-type]


@every_size
@pytest.mark.parametrize("ops", ["nc", "nn", "cn", "tt"])
def test_random_configs_in_norm(name: str, ops: str, check_configs: CheckConfigs) -> None:
    def of_warpgroups(family: Family, problem: Cgemm, device: Device) -> list[Config]:
        return some_configs(family, problem, device, 6, starts=2) if family.name == WARPGROUP.name else []

    check_configs([in_norm(Cgemm(*SIZES[name], *ops))], of_warpgroups)  # type: ignore[arg-type]


def test_nvcc_compiles_the_same_text(check_configs: CheckConfigs) -> None:
    check_configs([Cgemm(*SIZES["odd"], "n", "c")], some(3, starts=None), CompilerChoice.NVCC)  # type: ignore[arg-type]


@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "synccheck"])
def test_every_family_under_compute_sanitizer(check_under_sanitizer: Callable[..., None], tool: str) -> None:
    device = cuda_device(0)
    sizes = ((5, 33, 40, 18), (3, 35, 29, 13), (70, 7, 6, 5), (2, 20, 20, 1100), (9, 33, 3, 70))
    problems = [Cgemm(*each, *ops) for each, ops in itertools.product(sizes, ("nc", "cn"))]  # type: ignore[arg-type]
    asked = [*itertools.product(problems, FAMILIES), *((in_norm(problem), WARPGROUP) for problem in problems)]
    cases = [
        (problem, family.program(problem, config))
        for problem, family in asked
        if family.why_not(problem, device) is None
        for config in some_configs(family, problem, device, 3, starts=None)
    ]
    check_under_sanitizer(tool, device, cases)


def error_of(problem: Cgemm, operands: Any, result: NDArray[Any]) -> float:
    """The largest error, relative to the sum of |a| |b|."""
    expected, scale = reference(problem, operands)
    return float((np.abs(result.view(np.float32).reshape(expected.shape) - expected) / scale).max())


@every_size
@pytest.mark.parametrize("accuracy", ["elementwise", "normwise"])
def test_a_plan_is_right_and_has_the_same_bits_each_time(name: str, accuracy: str) -> None:
    torch = pytest.importorskip("torch")
    problem = Cgemm(*SIZES[name], "n", "c", accuracy)  # type: ignore[arg-type]
    operands = random_operands(problem, 1)
    plan = ws.plan(problem, "cuda:0")
    given = [torch.from_numpy(operands[each.name]).cuda() for each in problem.inputs]
    first, again = (plan(*given).cpu().numpy() for _ in range(2))
    assert error_of(problem, operands, first) <= 1e-6
    assert np.array_equal(first.view(np.uint64), again.view(np.uint64))


def test_operands_of_more_than_2_to_31_elements_are_reached() -> None:
    """The last product of a batch is right. Only the result exceeds 2^31 elements, so 17 GB suffice."""
    torch = pytest.importorskip("torch")
    problem = Cgemm(2**15 + 3, 256, 256, 2)
    if torch.cuda.mem_get_info()[0] < 2 * problem.bytes:
        pytest.skip("the GPU has too little memory left")
    plan = ws.plan(problem, "cuda:0")
    a, b = (torch.zeros(each.shape, dtype=torch.complex64, device="cuda") for each in problem.inputs)
    ends = (0, problem.batch - 1)
    for number in ends:
        a[number], b[number] = (torch.randn(each[number].shape, dtype=torch.complex64) for each in (a, b))
    c = plan(a, b)
    for number in ends:
        right = a[number].to(torch.complex128) @ b[number].to(torch.complex128)
        assert (c[number] - right).abs().max() < 1e-5
    assert not c[1:-1:4096].any()


@every_pair_of_ops
def test_pytorch_computes_the_same(a: Op, b: Op) -> None:
    pytest.importorskip("torch")
    problem = Cgemm(*SIZES["odd"], a, b)
    operands = random_operands(problem, 1)
    peer = torch_peer(problem, operands, DeviceKind.CUDA, sets=2)
    for index in (1, 0):
        peer.run(index)
    assert error_of(problem, operands, peer.result()) <= 1e-6


@needs_cublas
class TestCublas:
    """Tests of cuBLAS alone; the tests above cover it with every family."""

    PROBLEM = Cgemm(8, 190, 70, 300, "n", "c")  # type: ignore[arg-type]

    def plan(self, runtime: CudaRuntime, config: Config) -> Plan:
        program = CUBLAS.program(self.PROBLEM, config)
        return Plan.load(self.PROBLEM, Match(MatchKind.DEFAULT, program, None, ()), {}, runtime)

    def test_on_several_streams_and_in_a_graph_without_a_call_before(self) -> None:
        torch = pytest.importorskip("torch")
        drawn = [random_operands(self.PROBLEM, seed) for seed in range(4)]
        given = [[torch.from_numpy(each[name]).cuda() for name in ("a", "b")] for each in drawn]
        with contextlib.closing(CudaRuntime(0)) as runtime:
            for config in CUBLAS.space(self.PROBLEM, runtime.device).configs():
                self._check(torch, self.plan(runtime, config), drawn, given)

    @pytest.mark.parametrize("function", ["cgemm", "cgemm3m"])
    def test_products_over_streams_have_the_bits_of_those_on_one(self, function: str) -> None:
        """The plan runs on torch's stream, on the default one, and in a graph that is replayed twice."""
        torch = pytest.importorskip("torch")
        given, (one, called, default, replayed) = self._operands(torch, 4)
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        with contextlib.closing(CudaRuntime(0)) as runtime:
            looped, spread = (
                self.plan(runtime, Config.of({"function": function, "calls": calls}))
                for calls in ("looped", "four_streams")
            )
            looped(*given, out=one)
            torch.cuda.synchronize()
            with torch.cuda.graph(graph):
                spread(*given, out=replayed, stream=torch.cuda.current_stream().cuda_stream)
            with torch.cuda.stream(stream):
                spread(*given, out=called)
                # Later work on the caller's stream runs after all products.
                copied = called.clone()
            spread(*given, out=default, stream=0)
            for _ in range(2):
                torch.cuda.synchronize()
                replayed.zero_()
                graph.replay()
                torch.cuda.synchronize()
                assert torch.equal(torch.view_as_real(replayed), torch.view_as_real(one))
            for found in (called, copied, default):
                assert torch.equal(torch.view_as_real(found), torch.view_as_real(one))
        assert error_of(self.PROBLEM, random_operands(self.PROBLEM, 1), one.cpu().numpy()) <= 1e-6

    def _operands(self, torch: Any, results: int) -> tuple[list[Any], list[Any]]:
        """Operands of seed 1 on the GPU, and `results` arrays for results."""
        drawn = random_operands(self.PROBLEM, 1)
        shape = self.PROBLEM.output.shape
        outs = [torch.zeros(shape, dtype=torch.complex64, device="cuda") for _ in range(results)]
        return [torch.from_numpy(drawn[name]).cuda() for name in ("a", "b")], outs

    def _check(self, torch: Any, plan: Plan, drawn: list[Any], given: list[list[Any]]) -> None:
        results = [torch.empty(self.PROBLEM.output.shape, dtype=torch.complex64, device="cuda") for _ in given]
        graph, streams = torch.cuda.CUDAGraph(), [torch.cuda.Stream() for _ in given]
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            plan(*given[0], out=results[0], stream=torch.cuda.current_stream().cuda_stream)
        for _ in range(10):
            for (a, b), result, stream in zip(given[1:], results[1:], streams[1:], strict=True):
                plan(a, b, out=result, stream=stream.cuda_stream)
            graph.replay()
        torch.cuda.synchronize()
        for operands, result in zip(drawn, results, strict=True):
            assert error_of(self.PROBLEM, operands, result.cpu().numpy()) <= 1e-6
