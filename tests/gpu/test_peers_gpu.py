"""Other libraries on a GPU: timed like our kernels, in graphs and on rotating buffers, and right in each buffer set."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from warpsmith.devices.runtime import Runtime
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.fft import Fft
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.problem import DType, Problem
from warpsmith.store.conditions import Launched
from warpsmith.store.record import COPY
from warpsmith.tuner.evaluate.testbed import Testbed
from warpsmith.tuner.evaluate.timing import measure_sustained
from warpsmith.tuner.evaluate.timing_policy import Launching, Rotation, TimingPolicy
from warpsmith.tuner.evaluate.verify import verify
from warpsmith.tuner.operations.judge import FLOAT32_BOUND
from warpsmith.tuner.operations.registry import peers, random_operands, reference

pytestmark = pytest.mark.gpu

GAUSSIAN = tuple(float(a * b) for a in (1, 4, 6, 4, 1) for b in (1, 4, 6, 4, 1))
PROBLEMS: list[Problem] = [
    Filter2d((300, 400), (5, 5)),
    Filter2d((300, 400), (5, 5), border=Border.NEAREST, weights=GAUSSIAN),
    Filter2d((300, 400), (3, 3), border=Border.MIRROR, dtype=DType.FLOAT16),
    Filter2d((300, 400), (5, 5), dtype=DType.UINT8),
    Filter1d(100_000, 33),
    Filter1d(4000, 4, 4, channels=96, filters=96, mode="causal", dtype="bfloat16", taps_dtype="bfloat16"),
    Filter1d(4000, 7, 4, channels=96, filters=96, mode="same", layout="btc"),
    Filter1d(100_000, 129, dtype="complex64", mode="valid", down=8),
    Filter1d(100_000, 17, dtype="int16", convolve=True),
    Fft((64,), 1000),
    Fft((64,), 1000, kind="c2r"),
    Fft((32, 32), 200, valid=(27, 27)),
]
MUST_BE_CAPTURED = ("cufft", "npp", COPY)
"""Peers that only launch kernels or copies. The others allocate memory too, which a library may refuse in a capture."""


@pytest.fixture(scope="module")
def runtime() -> Iterator[Runtime]:
    opened = DeviceRef(DeviceKind.CUDA).open()
    yield opened
    opened.close()


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.key())
@pytest.mark.parametrize("launching", Launching)
def test_are_timed_as_ours_or_say_why_not(runtime: Runtime, problem: Problem, launching: Launching) -> None:
    policy = TimingPolicy.for_kind(DeviceKind.CUDA, launching=launching)
    quick = dataclasses.replace(policy, min_samples=3, max_samples=3)
    testbed = Testbed(runtime, problem, 0, policy, guarded=True)
    try:
        beside = testbed.side_by_side((), quick)
    finally:
        testbed.close()
    is_cold = policy.rotation(problem.bytes, runtime.device.l2_bytes).cold
    for baseline in beside.baselines:
        told = baseline.timing.conditions
        assert told.endswith("cold L2" if is_cold else "warm caches")
        is_graph = told.startswith(Launched.GRAPH)
        assert is_graph == (launching is Launching.GRAPH) or baseline.note is not None
        if baseline.name.startswith(MUST_BE_CAPTURED):
            assert is_graph == (launching is Launching.GRAPH), baseline
    assert COPY in {baseline.name for baseline in beside.baselines}


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.key())
def test_a_graph_computes_the_problem_again(runtime: Runtime, problem: Problem) -> None:
    operands, dtype = random_operands(problem, 0), problem.output.dtype
    expected = reference(problem, operands)

    def is_right(result: Any, tolerance: float | None) -> bool:
        return verify(np.array(result), expected, dtype).max_error <= (tolerance or 20 * FLOAT32_BOUND)

    found = peers(problem, operands, DeviceKind.CUDA, 3)
    if not found:
        pytest.skip("no other library is installed")
    for peer in found:
        run, renew = peer.run, peer.renew
        run(0)
        runtime.synchronize()
        if not is_right(peer.result(), peer.tolerance):
            continue  # what the testbed leaves out

        def all_sets(stream: int, run: Any = run) -> None:
            for index in (1, 2, 0):
                run(index, stream)

        renew()
        try:
            graph = runtime.captured(all_sets, rehearse=True)
        except Exception:
            assert not peer.name.startswith(MUST_BE_CAPTURED)
            continue
        renew()
        graph.launch()
        runtime.synchronize()
        assert is_right(peer.result(), peer.tolerance), peer.name
        graph.close()


def test_a_copy_is_captured(runtime: Runtime) -> None:
    source, target = runtime.allocate(4096), runtime.allocate(4096)
    content = np.arange(1024, dtype=np.float32)
    runtime.upload(source.address, content)
    runtime.fill(target.address, 0, 4096)
    graph = runtime.captured(lambda stream: runtime.copy(target.address, source.address, 4096, stream))
    graph.launch()
    runtime.synchronize()
    result = np.empty_like(content)
    runtime.download(result, target.address)
    graph.close()
    for each in (source, target):
        runtime.free(each)
    assert np.array_equal(result, content)


def test_a_sustained_time_has_clocks_and_lies_near_that_of_a_burst(runtime: Runtime) -> None:
    nbytes = 64 << 20
    source, target = runtime.allocate(nbytes), runtime.allocate(nbytes)

    def run(_index: int, /, stream: int | None = None) -> None:
        runtime.copy(target.address, source.address, nbytes, stream)

    found = measure_sustained(runtime, run, Rotation(1, cold=True), 2.0)
    for each in (source, target):
        runtime.free(each)
    assert 2 <= found.seconds < 4
    assert found.clock_mhz is None or 100 < found.clock_mhz[0] <= found.clock_mhz[1] < 10_000
    assert found.first_ns / 2 < found.median_ns < 2 * found.first_ns
