"""One plan called by many threads with different images and weights, and in forked children."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import ndimage

from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.devices.process import HomeProcess
from warpsmith.errors import DeviceError
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.filter2d.plain_family import Filter2dPlain
from warpsmith.generator.filter2d.window_family import Filter2dWindow
from warpsmith.plans.match import Match, MatchKind
from warpsmith.plans.plan import Plan

PROBLEM = Filter2d(image=(61, 90), filter=(5, 3), border=Border.REFLECT)
PLAIN, WINDOW = Filter2dPlain(), Filter2dWindow()
CHOICES: dict[str, tuple[Any, dict[str, str]]] = {
    "constant": (PLAIN, {"weights": "constant"}),
    "argument": (PLAIN, {"weights": "argument"}),
    "texture": (PLAIN, {"path": "texture", "weights": "constant"}),
    "fibers": (WINDOW, {"path": "shuffle", "weights": "constant"}),
}
THREADS, CALLS = 8, 25
PATIENCE_S = 60

PlanOf = Callable[..., Plan]


@pytest.fixture
def plan_of(host: HostRuntime, compile_once: Any) -> PlanOf:
    """Makes a plan of one of the choices, on the session's runtime or on another one."""

    def make(choice: str, runtime: HostRuntime = host) -> Plan:
        family, wanted = CHOICES[choice]
        values = {**family.default(PROBLEM, host.device).values(), **wanted}
        config = family.space(PROBLEM, host.device).like(values)
        assert config is not None
        assert {name: config.values()[name] for name in wanted} == wanted
        program = family.program(PROBLEM, config)
        return Plan.load(PROBLEM, Match(MatchKind.DEFAULT, program, None, ()), {"": compile_once(program)}, runtime)

    return make


@pytest.fixture
def eager_switches() -> Iterator[None]:
    """Makes threads switch after every few bytecodes."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def check(plan: Plan, rng: np.random.Generator) -> None:
    """Calls the plan once and compares the result with SciPy's."""
    image = rng.standard_normal(PROBLEM.image, dtype=np.float32)
    weights = rng.standard_normal(PROBLEM.filter, dtype=np.float32)
    np.testing.assert_allclose(plan(image, weights), expected(image, weights), atol=2e-5)


def expected(image: NDArray[Any], weights: NDArray[Any]) -> NDArray[Any]:
    correlated: NDArray[Any] = ndimage.correlate(image.astype(float), weights.astype(float), mode="reflect")
    return correlated


@pytest.mark.usefixtures("eager_switches")
@pytest.mark.parametrize("choice", CHOICES)
def test_every_thread_gets_its_own_result(plan_of: PlanOf, choice: str) -> None:
    plan, barrier, failed = plan_of(choice), threading.Barrier(THREADS), list[BaseException]()

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        try:
            for _ in range(CALLS):
                barrier.wait(PATIENCE_S)  # all threads call at once, each time
                check(plan, rng)
        except BaseException as error:
            failed.append(error)
            barrier.abort()

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed[0]
    assert len(plan.loaded.launches._bound) <= 16  # type: ignore[attr-defined]


def in_a_fork(work: Callable[[], None]) -> str:
    """Runs `work` in a forked child and returns "done" or its exception. Fails if the child does not end."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        told = "done"
        try:
            work()
        except BaseException as error:
            told = f"{type(error).__name__}: {error}"
        os.write(writing, told.encode())
        os._exit(0)
    os.close(writing)
    deadline = time.monotonic() + PATIENCE_S
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            pytest.fail("the forked child hangs")
        time.sleep(0.01)
    with os.fdopen(reading) as told_by:
        return told_by.read()


@pytest.mark.parametrize("choice", CHOICES)
def test_a_forked_child_goes_on_working_on_the_host(plan_of: PlanOf, choice: str) -> None:
    plan = plan_of(choice)
    check(plan, np.random.default_rng(0))
    assert in_a_fork(lambda: check(plan, np.random.default_rng(1))) == "done"


def test_a_lock_that_another_thread_holds_is_open_in_a_forked_child(plan_of: PlanOf) -> None:
    plan = plan_of("constant")
    held, over = threading.Event(), threading.Event()

    def hold() -> None:
        (module,) = plan.loaded.executable._modules.values()
        with plan.loaded.launches._binding, module._in_turn:  # type: ignore[attr-defined]
            held.set()
            over.wait(PATIENCE_S)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(PATIENCE_S)
    try:
        assert in_a_fork(lambda: check(plan, np.random.default_rng(1))) == "done"
    finally:
        over.set()
        thread.join()
    check(plan, np.random.default_rng(2))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forks_while_threads_launch(plan_of: PlanOf) -> None:
    """A child must not wait for any lock held at the fork, such as the lock of the list of fiber stacks."""
    plan, over = plan_of("fibers"), threading.Event()

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        while not over.is_set():
            check(plan, rng)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    try:
        told = {in_a_fork(lambda: check(plan, np.random.default_rng(9))) for _ in range(10)}
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert told == {"done"}


def test_a_fork_after_a_module_was_closed(plan_of: PlanOf) -> None:
    """Closing a library also removes the functions that it registered to run at a fork."""
    plan = plan_of("fibers")
    check(plan, np.random.default_rng(0))
    plan.loaded.executable.close()
    assert in_a_fork(lambda: None) == "done"


class LikeAGpu(HostRuntime):
    """A device that works only in the process that opened it, as a GPU does."""

    def __init__(self) -> None:
        super().__init__()
        self._home = HomeProcess("cuda:0")

    def check_process(self) -> None:
        self._home.check()


def test_a_gpu_s_plan_says_so_in_a_forked_child(plan_of: PlanOf) -> None:
    plan = plan_of("argument", LikeAGpu())
    check(plan, np.random.default_rng(0))
    told = "cuda:0 cannot be used in a forked child; start processes with the spawn method"
    assert in_a_fork(lambda: check(plan, np.random.default_rng(1))) == f"{DeviceError.__name__}: {told}"
    check(plan, np.random.default_rng(2))
