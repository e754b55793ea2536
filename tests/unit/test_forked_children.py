"""Forked children of a process that opened a GPU; the driver only counts which process calls it."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from builders import binary, launch, program
from warpsmith.devices.cuda import available
from warpsmith.devices.cuda.available import cuda_device_count, gpu_count
from warpsmith.devices.cuda.interop import launch_stream
from warpsmith.devices.cuda.runtime import CudaRuntime
from warpsmith.devices.module import BoundLaunch
from warpsmith.devices.process import ForkLock, HomeTable
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import DeviceError, WarpsmithError
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.presets import H200
from warpsmith.generator.program import Pointer
from warpsmith.plans import plan as plans
from warpsmith.plans.match import Match, MatchKind
from warpsmith.plans.plan import Plan

REMEDY = "cannot be used in a forked child; start processes with the spawn method"
PROBLEM = Filter2d(image=(4, 8), filter=(1, 1))
PROGRAM = program("", launch(Pointer("image")))
BINARIES = {"": binary()}


class Context:
    """A primary context that records in which process it was called."""

    asked: list[int]

    def __init__(self, _ordinal: int) -> None:
        self.asked = []

    def active(self, _doing: str) -> AbstractContextManager[None]:
        self.asked.append(os.getpid())
        return nullcontext()

    def close(self) -> None:
        self.asked.append(os.getpid())


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    fake = SimpleNamespace(
        count=lambda: 2,
        describe=lambda _: H200,
        cuda_version=lambda: "13.0",
        pci_bus_id=lambda _: "0000:00:00.0",
        open_context=lambda ordinal, _: Context(ordinal),
    )
    monkeypatch.setitem(sys.modules, "warpsmith.devices.cuda.driver", fake)  # type: ignore[arg-type]
    monkeypatch.setattr("warpsmith.devices.cuda.driver", fake, raising=False)
    available._first_caller.cache_clear()
    yield
    available._first_caller.cache_clear()


def in_a_fork(work: Callable[[], object]) -> str:
    """Result of `work`, or the error that it raises, in a forked child."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        try:
            told = str(work())
        except WarpsmithError as error:
            told = f"{type(error).__name__}: {error}"
        except BaseException as error:
            told = repr(error)
        os.write(writing, told.encode())
        os._exit(0)
    os.close(writing)
    os.wait()
    with os.fdopen(reading) as file:
        return file.read()


def test_a_gpu_that_was_opened_before_the_fork(driver: None) -> None:  # noqa: ARG001
    runtime = CudaRuntime(1)
    assert (runtime.ordinal, runtime.check_process()) == (1, None)  # type: ignore[func-returns-value]
    assert in_a_fork(runtime.check_process) == f"DeviceError: cuda:1 {REMEDY}"
    context: Any = runtime._context

    def close() -> bool:
        runtime.close()
        return os.getpid() in context.asked

    assert in_a_fork(close) == "False"
    runtime.close()
    assert os.getpid() in context.asked


def test_a_plan_in_a_forked_child_asks_the_driver_for_nothing(
    driver: None,  # noqa: ARG001
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    launched: list[int | None] = []

    def bind(*_: object) -> BoundLaunch:
        return launched.append

    monkeypatch.setattr(CudaRuntime, "load", lambda *_: SimpleNamespace(bind=bind, close=lambda: None))
    monkeypatch.setattr(CudaRuntime, "compiled_launches", lambda *_: None)
    plan = Plan.load(PROBLEM, Match(MatchKind.DEFAULT, PROGRAM, None, ()), BINARIES, CudaRuntime(0))
    image, weights = np.zeros((4, 8), np.float32), np.ones((1, 1), np.float32)
    plan.fast[np.ndarray] = lambda *_: "a fast call"
    assert in_a_fork(lambda: plan(image, weights)) == f"DeviceError: cuda:0 {REMEDY}"
    assert plan(image, weights) == "a fast call"
    array = {"shape": (4, 8), "typestr": "<f4", "strides": None, "version": 3}
    x, out = (SimpleNamespace(__cuda_array_interface__={**array, "data": (at, False)}) for at in (0x10000, 0x20000))
    assert plan(x, weights, out=out) is out
    assert launched == [None]


@pytest.mark.parametrize("ask", [gpu_count, cuda_device_count, lambda: DeviceRef.parse("auto")])
def test_a_driver_that_was_started_before_the_fork(driver: None, ask: Callable[[], object]) -> None:  # noqa: ARG001
    told = str(ask())
    assert in_a_fork(ask) == f"DeviceError: CUDA {REMEDY}"
    assert str(ask()) == told


def test_a_driver_that_nobody_started_may_be_started_in_a_child(driver: None) -> None:  # noqa: ARG001
    assert in_a_fork(gpu_count) == "2"


def test_without_a_driver_a_child_takes_the_host_as_its_parent_did(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> int:
        raise DeviceError("no driver")

    fake = SimpleNamespace(count=missing)
    monkeypatch.setitem(sys.modules, "warpsmith.devices.cuda.driver", fake)  # type: ignore[arg-type]
    monkeypatch.setattr("warpsmith.devices.cuda.driver", fake, raising=False)
    assert str(DeviceRef.parse("auto")) == "host"
    assert in_a_fork(lambda: DeviceRef.parse("auto")) == "host"


def test_a_lock_excludes_and_is_open_in_a_forked_child() -> None:
    lock = ForkLock()
    order: list[str] = []

    def enter() -> None:
        with lock:
            order.append("other")

    with lock:
        thread = threading.Thread(target=enter)
        thread.start()
        thread.join(0.05)
        assert thread.is_alive()
        order.append("first")
        assert in_a_fork(enter) == "None"
    thread.join(60)
    assert order == ["first", "other"]


def test_a_table_is_empty_in_a_forked_child() -> None:
    tables = [HomeTable[str, int]() for _ in range(3)]
    for table in tables:
        table["key"] = 1
    del tables[1], table
    assert in_a_fork(lambda: [len(table) for table in tables]) == "[0, 0]"
    assert [table["key"] for table in tables] == [1, 1]


def test_threads_open_a_device_once(monkeypatch: pytest.MonkeyPatch) -> None:
    opened, barrier = list[object](), threading.Barrier(4)
    ref = DeviceRef.parse("host")

    def open_slowly(_: DeviceRef) -> object:
        opened.append(threading.Event().wait(0.02))
        return object()

    monkeypatch.setattr(DeviceRef, "open", open_slowly)
    plans._opened.cache_clear()
    found: list[object] = []

    def work() -> None:
        barrier.wait(60)
        found.append(plans.open_runtime(ref))

    threads = [threading.Thread(target=work) for _ in range(4)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    finally:
        plans._opened.cache_clear()
    assert len(opened) == 1
    assert len(set(map(id, found))) == 1


def test_streams_wait_for_each_other_in_the_device_s_context(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread without CUDA calls has no current context, and events need one."""
    log: list[object] = []

    class Current:
        def __enter__(self) -> None:
            log.append("current")

        def __exit__(self, *_: object) -> None:
            log.append("as before")

    monkeypatch.setattr("warpsmith.devices.cuda.interop._wait", lambda *streams: log.append(streams))
    assert launch_stream(5, [7, 5, None], Current) == 5
    assert log == ["current", (5, 7), "as before"]
    log.clear()
    assert launch_stream(5, [5, None], Current) == 5
    assert log == []
