"""`__constant__` variables and threads, against a driver that queues work and runs it in any order CUDA allows."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import itertools
import random
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from builders import launch as made_launch
from warpsmith.devices.cuda import constants, descriptors, module, status
from warpsmith.devices.cuda.module import CudaModule
from warpsmith.devices.module import BoundLaunch
from warpsmith.generator.presets import H200
from warpsmith.generator.program import Constant

REAL = constants.cu
OK = REAL.CUresult.CUDA_SUCCESS
MODES = REAL.CUstreamCaptureStatus
LAUNCH = made_launch(constants=[Constant("taps", "weights")])
SIZE = 4


@dataclasses.dataclass
class Work:
    """Queued work: it runs after earlier work on its stream and after the events it waits for."""

    stream: int
    run: Callable[[], None]
    after: list[Work]
    done: bool = False


class QueuingDriver:
    """The driver's functions that a module calls. Nothing runs before `drain`, and then in a random order."""

    def __init__(self) -> None:
        self.queues: dict[int, list[Work]] = {}
        self.memory: dict[int, bytes] = {}
        """Constant memory, by the module's number."""
        self.seen: list[tuple[int, bytes]] = []
        """Number and constant memory that each launch read."""
        self.graphs: dict[int, list[Callable[[], None]]] = {}
        """Work given to captured streams."""
        self.modules = itertools.count(1)
        self.events: dict[object, list[Work]] = {}
        self.numbers = threading.local()
        self._recording = threading.Lock()  # the driver itself is thread-safe

    def __getattr__(self, name: str) -> Any:
        return getattr(REAL, name)

    def queue(self, stream: int, run: Callable[[], None], after: list[Work]) -> tuple[Any, ...]:
        with self._recording:
            if stream in self.graphs:
                self.graphs[stream].append(run)
            else:
                self.queues.setdefault(stream, []).append(Work(stream, run, after))
        return (OK,)

    def cuModuleLoadData(self, _image: bytes) -> tuple[Any, ...]:  # noqa: N802
        return (OK, next(self.modules))

    def cuModuleUnload(self, _module: int) -> tuple[Any, ...]:  # noqa: N802
        return (OK,)

    def cuModuleGetFunction(self, number: int, _name: bytes) -> tuple[Any, ...]:  # noqa: N802
        return (OK, number)

    def cuModuleGetGlobal(self, number: int, _name: bytes) -> tuple[Any, ...]:  # noqa: N802
        return (OK, number, SIZE)

    def cuFuncGetAttribute(self, _attribute: Any, _function: int) -> tuple[Any, ...]:  # noqa: N802
        return (OK, 0 if "SHARED" in str(_attribute) else 1024)

    def cuFuncGetParamInfo(self, _function: int, _index: int) -> tuple[Any, ...]:  # noqa: N802
        return (REAL.CUresult.CUDA_ERROR_INVALID_VALUE, 0, 0)

    def cuStreamIsCapturing(self, stream: int) -> tuple[Any, ...]:  # noqa: N802
        active = MODES.CU_STREAM_CAPTURE_STATUS_ACTIVE
        return (OK, active if stream in self.graphs else MODES.CU_STREAM_CAPTURE_STATUS_NONE)

    def cuThreadExchangeStreamCaptureMode(self, mode: Any) -> tuple[Any, ...]:  # noqa: N802
        return (OK, mode)

    def cuStreamCreate(self, _flags: Any) -> tuple[Any, ...]:  # noqa: N802
        return (OK, -threading.get_ident())

    def cuStreamDestroy(self, _stream: int) -> tuple[Any, ...]:  # noqa: N802
        return (OK,)

    def cuStreamSynchronize(self, stream: int) -> tuple[Any, ...]:  # noqa: N802
        for work in self.queues.pop(stream):
            work.run()
        return (OK,)

    def cuMemcpyHtoDAsync(self, address: int, source: int, nbytes: int, stream: int) -> tuple[Any, ...]:  # noqa: N802
        content = ctypes.string_at(source, nbytes)

        def write() -> None:
            self.memory[address] = content

        return self.queue(stream, write, [])

    def cuLaunchKernel(self, function: int, *geometry_and_stream: Any) -> tuple[Any, ...]:  # noqa: N802
        number: int = self.numbers.current

        def read() -> None:
            self.seen.append((number, self.memory[function]))

        return self.queue(geometry_and_stream[7], read, [])

    def cuEventCreate(self, _flags: Any) -> tuple[Any, ...]:  # noqa: N802
        return (OK, object())

    def cuEventDestroy(self, _event: object) -> tuple[Any, ...]:  # noqa: N802
        return (OK,)

    def cuCtxSynchronize(self) -> tuple[Any, ...]:  # noqa: N802
        return (OK,)

    def cuEventRecord(self, event: object, stream: int) -> tuple[Any, ...]:  # noqa: N802
        with self._recording:
            self.events[event] = self.queues.get(stream, [])[-1:]
        return (OK,)

    def cuStreamWaitEvent(self, stream: int, event: object, _flags: int) -> tuple[Any, ...]:  # noqa: N802
        return self.queue(stream, lambda: None, list(self.events.get(event, [])))

    def cuEventSynchronize(self, _event: object) -> tuple[Any, ...]:  # noqa: N802
        return (OK,)

    def drain(self, rng: random.Random) -> None:
        """Runs all that is queued, streams taking turns at random."""
        queues = [list(queue) for queue in self.queues.values()]
        while queues := [queue for queue in queues if queue]:
            ready = [queue for queue in queues if all(each.done for each in queue[0].after)]
            work = rng.choice(ready).pop(0)
            work.run()
            work.done = True


class OnPaper:
    """A context that is always current."""

    @contextlib.contextmanager
    def active(self, _doing: str) -> Iterator[None]:
        yield


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> QueuingDriver:
    made = QueuingDriver()
    for each in (constants, descriptors, module, status):
        monkeypatch.setattr(each, "cu", made)
    return made


@pytest.fixture
def loaded(driver: QueuingDriver) -> Iterator[CudaModule]:  # noqa: ARG001
    made = CudaModule(OnPaper(), H200, b"image")  # type: ignore[arg-type]
    yield made
    made.close()


@pytest.fixture
def eager_switches() -> Iterator[None]:
    """Threads take turns after every few bytecodes."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def content(number: int) -> bytes:
    return number.to_bytes(SIZE, "little")


THREADS, CALLS = 6, 40


def run_threads(work: Callable[[int], None]) -> None:
    """Runs work(0), work(1), ... concurrently; raises what one of them raises."""
    barrier, failed = threading.Barrier(THREADS), list[BaseException]()

    def run(index: int) -> None:
        try:
            barrier.wait(60)
            work(index)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    if failed:
        raise failed[0]


@pytest.mark.usefixtures("eager_switches")
@pytest.mark.parametrize("streams", [1, 2, THREADS], ids=["one stream", "two streams", "a stream each"])
@pytest.mark.parametrize("seed", range(5))
def test_every_launch_reads_its_own_weights(driver: QueuingDriver, loaded: CudaModule, streams: int, seed: int) -> None:
    bound: list[BoundLaunch] = [loaded.bind(LAUNCH, {}, {"weights": content(weight)}) for weight in range(4)]

    def work(index: int) -> None:
        rng = random.Random(100 * seed + index)
        for _ in range(CALLS):
            driver.numbers.current = weight = rng.randrange(4)
            bound[weight](index % streams)  # among them 0, the default stream

    run_threads(work)
    driver.drain(random.Random(seed))
    assert len(driver.seen) == THREADS * CALLS
    assert [read for _, read in driver.seen] == [content(weight) for weight, _ in driver.seen]


@pytest.mark.usefixtures("eager_switches")
def test_threads_bind_while_others_launch(driver: QueuingDriver, loaded: CudaModule) -> None:
    def work(index: int) -> None:
        for call in range(CALLS):
            driver.numbers.current = CALLS * index + call
            loaded.bind(LAUNCH, {}, {"weights": content(CALLS * index + call)})(index)

    run_threads(work)
    driver.drain(random.Random(0))
    assert sorted(driver.seen) == [(number, content(number)) for number in range(THREADS * CALLS)]


def test_graphs_run_beside_other_calls_and_keep_their_weights(driver: QueuingDriver, loaded: CudaModule) -> None:
    bound = [loaded.bind(LAUNCH, {}, {"weights": content(weight)}) for weight in range(3)]
    for stream, weights in ((7, (0, 1, 0)), (8, (2,))):
        driver.graphs[stream] = []
        for weight in weights:
            driver.numbers.current = weight
            bound[weight](stream)
    graphs, driver.graphs = driver.graphs, {}
    assert [len(graph) for graph in graphs.values()] == [3, 1]  # kernels alone: nothing is copied when a graph runs
    for turn in range(12):  # on streams that wait for nobody, while the plan is called on others
        for work in graphs[7 + turn % 2]:
            driver.queue(20 + turn % 3, work, [])
        driver.numbers.current = weight = turn % 3
        bound[weight](turn % 4)
    driver.drain(random.Random(1))
    assert len(driver.seen) == 12 + 6 * 3 + 6
    assert [read for _, read in driver.seen] == [content(weight) for weight, _ in driver.seen]
