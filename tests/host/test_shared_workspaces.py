"""Fourier layers on the CPU that share workspaces: fifty plans hold the largest, and each gives its own results."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from joined import compiled
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.devices.module import Allocation
from warpsmith.generator.conv2d import Conv2d
from warpsmith.generator.conv2d.fourier.variants import FOURIER
from warpsmith.generator.program import Program
from warpsmith.plans.match import Match, MatchKind
from warpsmith.plans.plan import Plan

FAMILY = FOURIER["conv2d_fft"]
LAYERS = tuple(
    Conv2d(images, weights, padding=1)  # type: ignore[arg-type]
    for images, weights in (
        ((1, 2, 6, 6), (2, 2, 3, 3)),
        ((1, 2, 9, 7), (3, 2, 3, 2)),
        ((2, 3, 12, 10), (3, 3, 5, 4)),
    )
)
PLANS, THREADS = 50, 4


class Counted(HostRuntime):
    """The host device, which counts the bytes that are allocated."""

    def __init__(self) -> None:
        super().__init__(workers=2)
        self.held: dict[int, int] = {}

    def allocate(self, nbytes: int) -> Allocation:
        allocation = super().allocate(nbytes)
        self.held[allocation.address] = nbytes
        return allocation

    def free(self, allocation: Allocation) -> None:
        super().free(allocation)
        del self.held[allocation.address]


class Layer:
    """A plan with operands of its own, and their exact result."""

    def __init__(self, plan: Plan, seed: int) -> None:
        draw = np.random.default_rng(seed)
        self.plan = plan
        self.operands = [draw.standard_normal(each.shape, dtype=np.float32) for each in plan.problem.inputs]
        self._expected = exact(*self.operands)

    def check(self) -> None:
        y = self.plan(*self.operands)
        np.testing.assert_allclose(y, self._expected, rtol=0, atol=1e-5 * np.abs(self._expected).max())


def exact(x: NDArray[Any], w: NDArray[Any]) -> NDArray[Any]:
    """The layer in float64: a sum over windows."""
    padded = np.pad(x.astype(float), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, w.shape[2:], (2, 3))  # type: ignore[arg-type]
    result: NDArray[Any] = np.einsum("ncyxrs,kcrs->nkyx", windows, w.astype(float))
    return result


@pytest.fixture
def runtime() -> Iterator[Counted]:
    opened = Counted()
    yield opened
    opened.close()


@pytest.fixture
def layers(runtime: Counted, quickest: HostCompiler) -> list[Layer]:
    """Fifty plans of three programs."""
    programs: list[Program] = [FAMILY.program(each, FAMILY.default(each, runtime.device)) for each in LAYERS]
    made = compiled(quickest, programs)

    def layer(number: int) -> Layer:
        problem, (program, binaries) = LAYERS[number % len(LAYERS)], made[number % len(LAYERS)]
        return Layer(Plan.load(problem, Match(MatchKind.DEFAULT, program, None, ()), binaries, runtime), number)

    return [layer(number) for number in range(PLANS)]


def test_hold_the_largest_workspace(layers: list[Layer], runtime: Counted) -> None:
    order = layers * 2
    random.Random(0).shuffle(order)
    for each in order:
        each.check()
    sizes = [each.plan.workspace_bytes for each in layers]
    assert list(runtime.held.values()) == [max(sizes)]
    assert max(sizes) < sum(sizes) / 20
    layers.clear()
    order.clear()
    del each
    assert runtime.held == {}


def test_are_right_from_four_threads(layers: list[Layer], runtime: Counted) -> None:
    failed: list[BaseException] = []

    def work(index: int) -> None:
        draw = random.Random(index)
        try:
            for _ in range(25):
                draw.choice(layers).check()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed[0]
    assert len(runtime.held) == 1


def test_bound_weights_stay_what_they_are(layers: list[Layer], runtime: Counted) -> None:
    """What was made of them lies in memory of its own, which no larger layer gets."""
    small, large = layers[0], layers[2]
    held = small.plan.hold(w=small.operands[1])
    before = held(small.operands[0]).copy()
    for _ in range(3):
        large.check()
        np.testing.assert_array_equal(held(small.operands[0]), before)
    small.check()
    assert len(runtime.held) == 2
    del held
    assert list(runtime.held.values()) == [large.plan.workspace_bytes]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_goes_on(layers: list[Layer]) -> None:
    layers[0].check()
    child = os.fork()
    if child == 0:
        try:
            for each in layers[:3]:
                each.check()
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert status == 0
    layers[2].check()
