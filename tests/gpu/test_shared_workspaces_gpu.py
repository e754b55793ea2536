"""Fifty Fourier layers in one process hold the largest of their workspaces, whatever thread, stream or graph calls."""

from __future__ import annotations

import dataclasses
import gc
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from warpsmith.devices.call_memory import CallMemory
from warpsmith.devices.cuda.runtime import CudaRuntime
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.conv2d import Conv2d
from warpsmith.generator.conv2d.fourier.variants import FOURIER
from warpsmith.generator.device import DeviceKind
from warpsmith.plans.match import Match, MatchKind
from warpsmith.plans.plan import Plan

pytestmark = pytest.mark.gpu

CUDA = DeviceRef(DeviceKind.CUDA)
FAMILY = FOURIER["conv2d_fft"]
SHAPES, COPIES = 10, 5
"""Layers of different shapes, whose workspaces take 2 to 110 MB, and plans of each."""
THREADS, CALLS = 4, 100
MIB = 1 << 20
LEAST_MEASURED = 64 * MIB
"""Memory that the driver may take beside the workspaces, such as for code of kernels that run for the first time."""
TOLERANCE = 1e-5


@dataclasses.dataclass(frozen=True)
class Layer:
    """A plan, its operands, and its result in float64."""

    plan: Plan
    x: Any
    w: Any
    expected: Any

    def new_result(self) -> Any:
        return self.x.new_empty(self.expected.shape)

    def error(self, y: Any) -> Any:
        """Largest error, relative to the largest result, as a tensor on the device."""
        return (y - self.expected).abs().max() / self.expected.abs().max()


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.fixture(scope="module")
def compiled() -> list[tuple[Conv2d, Any, Any]]:
    """Each layer with its program and its binaries."""
    device, compiler = CUDA.device(), CUDA.compiler()
    problems = [
        Conv2d((4, 8 * n, 40 + 8 * n, 40 + 8 * n), (16, 8 * n, 7, 7), padding=3)  # type: ignore[arg-type]
        for n in range(1, SHAPES + 1)
    ]
    programs = [FAMILY.program(each, FAMILY.default(each, device)) for each in problems]
    with ThreadPoolExecutor() as pool:
        return list(zip(problems, programs, pool.map(compiler.compile_program, programs), strict=True))


@pytest.fixture
def runtime() -> Iterator[CudaRuntime]:
    """A runtime of its own: other tests' plans share no memory with these."""
    opened = CudaRuntime(0)
    yield opened
    opened.close()


@pytest.fixture
def layers(torch: Any, compiled: list[tuple[Conv2d, Any, Any]], runtime: CudaRuntime) -> Iterator[list[Layer]]:
    made = []
    torch.manual_seed(0)
    for problem, program, binaries in compiled:
        x, w = (torch.randn(each.shape, device="cuda") for each in problem.inputs)
        expected = torch.nn.functional.conv2d(x.double(), w.double(), padding=problem.padding[0][0])
        for _ in range(COPIES):
            answer = Match(MatchKind.DEFAULT, program, None, ())
            made.append(Layer(Plan.load(problem, answer, binaries, runtime), x, w, expected))  # nothing else holds it
    torch.cuda.synchronize()
    yield made
    torch.cuda.synchronize()


def blocks(runtime: CudaRuntime) -> dict[int, int]:
    """Bytes of each block that plans hold, by address."""
    return {each.address: each.nbytes for each in CallMemory.shared(runtime)._allocations.values()}


def held(runtime: CudaRuntime) -> list[int]:
    return list(blocks(runtime).values())


def largest(layers: list[Layer]) -> int:
    return max(each.plan.workspace_bytes for each in layers)


def test_hold_the_largest_workspace(torch: Any, layers: list[Layer], runtime: CudaRuntime) -> None:
    outs = [each.new_result() for each in layers]
    sizes = [each.plan.workspace_bytes for each in layers]
    order = list(range(len(layers)))
    random.Random(0).shuffle(order)
    torch.cuda.synchronize()
    before, _ = torch.cuda.mem_get_info()
    for _ in range(3):
        for number in order:
            layer = layers[number]
            layer.plan(layer.x, layer.w, out=outs[number])
    torch.cuda.synchronize()
    after, _ = torch.cuda.mem_get_info()
    assert all(float(layer.error(out)) < TOLERANCE for layer, out in zip(layers, outs, strict=True))
    assert held(runtime) == [max(sizes)]
    assert before - after < max(sizes) + LEAST_MEASURED < sum(sizes) / 4


def test_are_right_in_random_order_from_four_threads(torch: Any, layers: list[Layer], runtime: CudaRuntime) -> None:
    barrier, failed, errors = threading.Barrier(THREADS), list[BaseException](), dict[int, float]()

    def work(index: int) -> None:
        try:
            draw, stream = random.Random(index), torch.cuda.Stream()
            outs = [each.new_result() for each in layers]
            torch.cuda.synchronize()
            barrier.wait(120)
            with torch.cuda.stream(stream):
                worst = torch.zeros((), device="cuda", dtype=torch.float64)
                for _ in range(CALLS):
                    number = draw.randrange(len(layers))
                    layer = layers[number]
                    layer.plan(layer.x, layer.w, out=outs[number])
                    worst = torch.maximum(worst, layer.error(outs[number]))
                stream.synchronize()
            errors[index] = float(worst)
        except BaseException as error:
            failed.append(error)
            barrier.abort()

    threads = [threading.Thread(target=work, args=(index,)) for index in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed[0]
    assert max(errors.values()) < TOLERANCE
    assert len(held(runtime)) == THREADS
    assert max(held(runtime)) <= largest(layers)


def test_are_right_from_four_threads_on_one_stream(torch: Any, layers: list[Layer], runtime: CudaRuntime) -> None:
    """Steps of calls must not interleave: all of them write to one block."""
    stream, failed = torch.cuda.Stream(), list[BaseException]()
    outs = [each.new_result() for each in layers]
    torch.cuda.synchronize()

    def work(index: int) -> None:
        try:
            own = list(range(index, len(layers), THREADS))
            for _ in range(10):
                for number in own:
                    layer = layers[number]
                    layer.plan(layer.x, layer.w, out=outs[number], stream=stream)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed[0]
    torch.cuda.synchronize()
    assert max(float(layer.error(out)) for layer, out in zip(layers, outs, strict=True)) < TOLERANCE
    assert max(held(runtime)) <= largest(layers)


def test_are_right_in_a_graph_after_others_have_grown_the_block(
    torch: Any, layers: list[Layer], runtime: CudaRuntime
) -> None:
    """The graph contains a small layer, then a larger one, for which the first one's memory is too small."""
    captured, others = [layers[0], layers[4 * COPIES]], layers[1:]
    outs, graph, stream = [each.new_result() for each in captured], torch.cuda.CUDAGraph(), torch.cuda.Stream()
    results = [each.new_result() for each in others]
    for layer, result in zip(layers, [outs[0], *results], strict=True):
        layer.plan(layer.x, layer.w, out=result)  # the driver loads code at its first launch, not within a capture
    torch.cuda.synchronize()
    layers[1].plan(layers[1].x, layers[1].w, out=results[0], stream=stream)
    before = set(blocks(runtime))
    with torch.cuda.graph(graph, stream=stream):
        for layer, out in zip(captured, outs, strict=True):
            layer.plan(layer.x, layer.w, out=out)
    of_graph = set(blocks(runtime)) - before
    assert len(of_graph) == len(captured)
    beside = torch.cuda.Stream()
    for turn in range(5):
        for out in outs:
            out.fill_(torch.nan)
        torch.cuda.synchronize()
        for layer, result in zip(others, results, strict=True):  # while they run, the graph runs too
            layer.plan(layer.x, layer.w, out=result, stream=stream)
        with torch.cuda.stream(beside):
            graph.replay()
        torch.cuda.synchronize()
        assert max(float(layer.error(out)) for layer, out in zip(captured, outs, strict=True)) < TOLERANCE, turn
        assert max(float(layer.error(out)) for layer, out in zip(others, results, strict=True)) < TOLERANCE, turn
    assert of_graph < set(blocks(runtime))
    assert sorted(held(runtime))[-2:] == [largest(layers)] * 2  # of the default stream, and of the one that has grown


def test_a_dropped_layer_leaves_what_the_others_need(torch: Any, layers: list[Layer], runtime: CudaRuntime) -> None:
    out, last = layers[0].new_result(), layers[-1].new_result()
    layers[-1].plan(layers[-1].x, layers[-1].w, out=last)
    layers[0].plan(layers[0].x, layers[0].w, out=out)
    assert held(runtime) == [largest(layers)]
    del layers[1:]
    gc.collect()
    layers[0].plan(layers[0].x, layers[0].w, out=out)
    torch.cuda.synchronize()
    assert held(runtime) == [layers[0].plan.workspace_bytes]
    assert float(layers[0].error(out)) < TOLERANCE
