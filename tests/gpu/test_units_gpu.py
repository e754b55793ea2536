"""Programs of several steps on a real GPU: workspaces of streams and of graphs, planted faults, calls of cuFFT."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from warpsmith.devices.cuda import cufft
from warpsmith.devices.cuda.runtime import CudaRuntime
from warpsmith.devices.executable import Executable
from warpsmith.devices.select import DeviceRef
from warpsmith.devices.workspaces import Workspaces
from warpsmith.errors import DeviceError
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.fft import Fft
from warpsmith.generator.fft.cufft_family import FftCufft
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.program import ByValue, Launch, Lifetime, Pointer, Program, Unit, Workspace
from warpsmith.generator.space import Config
from warpsmith.store.record import Failure, FailureKind, Measurement
from warpsmith.tuner.evaluate.testbed import Testbed
from warpsmith.tuner.evaluate.timing_policy import Launching, TimingPolicy

pytestmark = pytest.mark.gpu

CUDA = DeviceRef(DeviceKind.CUDA)
CUFFT = FftCufft()
N = 4096

# 5 ms lie between what the first unit writes and what the second one reads.
FIRST = """
__device__ int value(int x) { return x + 1; }
extern "C" __global__ void kernel(const int* x, int* scratch) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    scratch[i] = value(x[i]);
    long long begin, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)); while (now - begin < 5000000);
}
"""
SECOND = """
__device__ int value(int x) { return 2 * x; }
extern "C" __global__ void kernel(const int* scratch, int* y) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    y[i] = value(scratch[i]);
}
"""
GEOMETRY = ((N // 256, 1, 1), (256, 1, 1))
TWO_STEPS = Program(
    "two_steps",
    Config.of({}),
    (Unit("first", FIRST), Unit("second", SECOND)),
    (
        Launch("kernel", *GEOMETRY, (Pointer("x"), Pointer("scratch", 256)), unit="first"),
        Launch("kernel", *GEOMETRY, (Pointer("scratch", 256), Pointer("y")), unit="second"),
    ),
    (Workspace("scratch", 4 * N + 256),),
)


@pytest.fixture(scope="module")
def runtime() -> Iterator[CudaRuntime]:
    opened = CudaRuntime(0)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def executable(runtime: CudaRuntime) -> Iterator[Executable]:
    loaded = Executable.load(runtime, TWO_STEPS, CUDA.compiler().compile_program(TWO_STEPS))
    yield loaded
    loaded.close()


class Streams:
    """Streams that the default stream does not wait for, and graphs captured on them."""

    def __init__(self, count: int) -> None:
        from cuda.bindings import driver

        self.driver = driver
        self.all = [int(self._done(driver.cuStreamCreate(1))) for _ in range(count)]  # CU_STREAM_NON_BLOCKING

    def _done(self, result: tuple[Any, ...]) -> Any:
        assert result[0] == self.driver.CUresult.CUDA_SUCCESS
        return result[1] if len(result) > 1 else None

    @contextlib.contextmanager
    def captured(self, stream: int, into: list[Any]) -> Iterator[None]:
        mode = self.driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL
        self._done(self.driver.cuStreamBeginCapture(stream, mode))
        yield
        graph = self._done(self.driver.cuStreamEndCapture(stream))
        into.append(self._done(self.driver.cuGraphInstantiate(graph, 0)))

    def replay(self, graph: Any, stream: int) -> None:
        self._done(self.driver.cuGraphLaunch(graph, stream))

    def close(self) -> None:
        for stream in self.all:
            self.driver.cuStreamDestroy(stream)


@pytest.fixture
def streams(runtime: CudaRuntime) -> Iterator[Streams]:
    with runtime.current():
        made = Streams(4)
        yield made
        runtime.synchronize()
        made.close()


class Case:
    """One input and one result on the device."""

    def __init__(self, runtime: CudaRuntime, seed: int) -> None:
        self._runtime = runtime
        self.values = np.random.default_rng(seed).integers(0, 1 << 20, N).astype(np.int32)
        self._x, self._y = runtime.allocate(4 * N), runtime.allocate(4 * N)
        runtime.upload(self._x.address, self.values)
        self.clear()

    @property
    def addresses(self) -> dict[str, int]:
        return {"x": self._x.address, "y": self._y.address}

    def clear(self) -> None:
        self._runtime.fill(self._y.address, 0, 4 * N)
        self._runtime.synchronize()

    @property
    def is_right(self) -> bool:
        result = np.empty(N, np.int32)
        self._runtime.synchronize()
        self._runtime.download(result, self._y.address)
        return bool((result == 2 * (self.values + 1)).all())

    def free(self) -> None:
        self._runtime.free(self._x)
        self._runtime.free(self._y)


@pytest.fixture
def cases(runtime: CudaRuntime) -> Iterator[list[Case]]:
    made = [Case(runtime, seed) for seed in range(4)]
    yield made
    for each in made:
        each.free()


def call(executable: Executable, workspaces: Workspaces, case: Case, stream: int | None) -> None:
    with workspaces.borrow(stream) as scratch:
        executable.bind(case.addresses, {}, scratch)(stream)


class TestWorkspaces:
    def test_of_streams_that_overlap_are_apart(
        self, runtime: CudaRuntime, executable: Executable, streams: Streams, cases: list[Case]
    ) -> None:
        workspaces = Workspaces(runtime, executable.workspaces)
        for _ in range(3):
            for case, stream in zip(cases, (None, *streams.all[1:]), strict=True):
                call(executable, workspaces, case, stream)
            assert all(case.is_right for case in cases)
        workspaces.close()

    def test_that_are_shared_would_be_found_out(
        self, executable: Executable, runtime: CudaRuntime, streams: Streams, cases: list[Case]
    ) -> None:
        """Calls on several streams that share a workspace give wrong results, so the test above would notice."""
        memory = runtime.allocate(executable.workspace_bytes)
        for case, stream in zip(cases, streams.all, strict=True):
            executable.bind(case.addresses, {}, {"scratch": memory.address})(stream)
        assert not all(case.is_right for case in cases)
        runtime.free(memory)

    def test_of_graphs_are_their_own(
        self, runtime: CudaRuntime, executable: Executable, streams: Streams, cases: list[Case]
    ) -> None:
        """Two graphs, captured on one stream one after the other, run at once, beside a call on that stream."""
        workspaces, graphs = Workspaces(runtime, executable.workspaces), list[Any]()
        first = streams.all[0]
        for case in cases[:2]:
            with streams.captured(first, graphs):
                call(executable, workspaces, case, first)
        for _ in range(3):
            for case in cases:
                case.clear()
            streams.replay(graphs[0], streams.all[1])
            streams.replay(graphs[1], streams.all[2])
            call(executable, workspaces, cases[2], first)
            call(executable, workspaces, cases[3], streams.all[3])
            assert all(case.is_right for case in cases)

    def test_of_many_streams_do_not_fill_the_memory(
        self, runtime: CudaRuntime, executable: Executable, cases: list[Case]
    ) -> None:
        workspaces = Workspaces(runtime, executable.workspaces)
        for _ in range(20):
            many = Streams(4)
            for case, stream in zip(cases, many.all, strict=True):
                call(executable, workspaces, case, stream)
            many.close()  # while the kernels run; the next ones may have the same handles
        assert all(case.is_right for case in cases)
        workspaces.close()

    def test_are_made_while_a_stream_is_captured(
        self, runtime: CudaRuntime, executable: Executable, streams: Streams, cases: list[Case]
    ) -> None:
        workspaces, graphs = Workspaces(runtime, executable.workspaces), list[Any]()
        with streams.captured(streams.all[0], graphs):
            for case in cases[:2]:
                call(executable, workspaces, case, streams.all[0])
            del case
        streams.replay(graphs[0], streams.all[1])
        assert all(case.is_right for case in cases[:2])


# float: `STORE` is what a fault changes.
PRODUCTS = """
struct Weights { float scale; };
__device__ int runs;
extern "C" __global__ void kernel(float* image, float* scratch, const __grid_constant__ Weights weights) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    const float product = weights.scale * image[min(i, 79999)];
    if (i < 80000) {
        STORE
    }
}
"""
COPIES = """
extern "C" __global__ void kernel(float* scratch, float* result) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < 80000) { result[i] = scratch[i]; }
}
"""
STORE = "scratch[i] = product;"
FILTER = Filter2d(image=(200, 400), filter=(1, 1))


def candidate(store: str = STORE, lifetime: Lifetime = Lifetime.CALL) -> Program:
    both = ((313, 1, 1), (256, 1, 1))
    return Program(
        "test",
        Config.of({}),
        (Unit("products", PRODUCTS.replace("STORE", store)), Unit("copies", COPIES)),
        (
            Launch("kernel", *both, (Pointer("image"), Pointer("scratch"), ByValue("weights")), unit="products"),
            Launch("kernel", *both, (Pointer("scratch"), Pointer("result")), unit="copies"),
        ),
        (Workspace("scratch", 320000, lifetime),),
    )


@pytest.mark.parametrize("launching", Launching)
class TestVerified:
    @pytest.fixture
    def testbed(self, runtime: CudaRuntime, launching: Launching) -> Iterator[Testbed]:
        policy = TimingPolicy.for_kind(DeviceKind.CUDA, launching=launching)
        made = Testbed(runtime, FILTER, 3, policy, guarded=True, compiler=CUDA.compiler())
        yield made
        made.close()

    def outcome(self, testbed: Testbed, launching: Launching, program: Program) -> Measurement | Failure:
        policy = TimingPolicy.for_kind(DeviceKind.CUDA, launching=launching)
        return testbed.evaluate(program, CUDA.compiler().compile_program(program), policy).outcome

    @pytest.mark.parametrize("lifetime", Lifetime)
    def test_a_right_one_is_measured(self, testbed: Testbed, launching: Launching, lifetime: Lifetime) -> None:
        assert isinstance(self.outcome(testbed, launching, candidate(lifetime=lifetime)), Measurement)

    @pytest.mark.parametrize(
        ("store", "kind", "told"),
        [
            ("if (i != 777) " + STORE, FailureKind.WRONG, "elements are wrong"),
            (STORE + " if (i == 0) scratch[80000] = 1.0f;", FailureKind.OUT_OF_BOUNDS, "workspace scratch: 4 bytes"),
            (STORE + " if (i == 0) scratch[-1] = 1.0f;", FailureKind.OUT_OF_BOUNDS, "workspace scratch: 4 bytes"),
            (
                STORE + " if (i == 0 && ++runs > 3) scratch[80000] = 1.0f;",
                FailureKind.OUT_OF_BOUNDS,
                "(timed runs|a replay of the CUDA graph): workspace scratch: 4 bytes",
            ),
        ],
    )
    def test_faults_are_found(
        self, testbed: Testbed, launching: Launching, store: str, kind: FailureKind, told: str
    ) -> None:
        """A faulty candidate follows a right one, whose results are still in the memory that it gets."""
        assert isinstance(self.outcome(testbed, launching, candidate()), Measurement)
        outcome = self.outcome(testbed, launching, candidate(store))
        assert isinstance(outcome, Failure), outcome
        assert outcome.kind is kind
        assert re.search(told, outcome.message)


def refusal(runtime: CudaRuntime, program: Program) -> DeviceError | None:
    """The error with which a program does not load; None if it loads."""
    try:
        Executable.load(runtime, program, {}).close()
    except DeviceError as error:
        return error
    return None


def spectrum(problem: Fft, values: NDArray[Any]) -> NDArray[Any]:
    axes = tuple(range(1, 1 + len(problem.size)))
    return np.asarray(np.fft.rfftn(values.astype(float), axes=axes, norm=problem.norm.value))


@pytest.mark.skipif(cufft.version() == "cufft missing", reason=cufft.MISSING)
class TestCufft:
    """Tests of cuFFT alone; `test_fft_gpu.py` covers it with every family."""

    PROBLEM = Fft((300, 77), 5, norm="ortho")
    """A size that is no power of two, so that cuFFT needs a work area."""

    @pytest.fixture
    def loaded(self, runtime: CudaRuntime) -> Iterator[Executable]:
        program = CUFFT.program(self.PROBLEM, CUFFT.default(self.PROBLEM, runtime.device))
        made = Executable.load(runtime, program, CUDA.compiler().compile_program(program))
        yield made
        made.close()

    def data(self, runtime: CudaRuntime, seed: int) -> tuple[dict[str, int], NDArray[Any]]:
        values = np.random.default_rng(seed).standard_normal(self.PROBLEM.inputs[0].shape, np.float32)
        source, target = (runtime.allocate(each.nbytes) for each in self.PROBLEM.operands)
        runtime.upload(source.address, values)
        runtime.fill(target.address, 0xFF, target.nbytes)
        runtime.synchronize()
        return {"signal": source.address, "spectrum": target.address}, spectrum(self.PROBLEM, values)

    def check(self, runtime: CudaRuntime, addresses: dict[str, int], right: NDArray[Any]) -> None:
        found = np.empty(self.PROBLEM.output.shape, np.complex64)
        runtime.synchronize()
        runtime.download(found, addresses["spectrum"])
        np.testing.assert_allclose(found, right, rtol=0, atol=3e-6 * np.abs(right).max())

    def test_on_several_streams_at_once(self, runtime: CudaRuntime, loaded: Executable, streams: Streams) -> None:
        workspaces = Workspaces(runtime, loaded.workspaces)
        data = [self.data(runtime, seed) for seed in range(4)]
        for _ in range(20):
            for (addresses, _), stream in zip(data, (None, *streams.all[1:]), strict=True):
                with workspaces.borrow(stream) as scratch:
                    loaded.bind(addresses, {}, scratch)(stream)
        for addresses, right in data:
            self.check(runtime, addresses, right)

    def test_in_a_graph_without_a_call_before(self, runtime: CudaRuntime, loaded: Executable, streams: Streams) -> None:
        workspaces, graphs = Workspaces(runtime, loaded.workspaces), list[Any]()
        addresses, right = self.data(runtime, 7)
        with streams.captured(streams.all[0], graphs), workspaces.borrow(streams.all[0]) as scratch:
            loaded.bind(addresses, {}, scratch)(streams.all[0])
        for _ in range(3):
            runtime.fill(addresses["spectrum"], 0xFF, self.PROBLEM.output.nbytes)
            runtime.synchronize()
            streams.replay(graphs[0], streams.all[1])
            self.check(runtime, addresses, right)

    def test_a_call_takes_no_memory(self, runtime: CudaRuntime, loaded: Executable) -> None:
        from cuda.bindings import driver

        workspaces, (addresses, right) = Workspaces(runtime, loaded.workspaces), self.data(runtime, 3)
        with workspaces.borrow(None) as scratch:
            bound = loaded.bind(addresses, {}, scratch)
            bound(None)
            runtime.synchronize()

            def taken() -> int:
                with runtime.current():
                    before = int(driver.cuMemGetInfo()[1])
                    for _ in range(100):
                        bound(None)
                    runtime.synchronize()
                    return before - int(driver.cuMemGetInfo()[1])

            assert 0 in (taken() for _ in range(50))  # other processes take memory of the GPU meanwhile
        self.check(runtime, addresses, right)

    def test_a_size_that_does_not_fit_is_one_line(self, runtime: CudaRuntime) -> None:
        call = CUFFT.program(Fft(16, 8), CUFFT.default(Fft(16, 8), runtime.device)).calls[0]
        huge = dataclasses.replace(call, parameters=dataclasses.replace(call.parameters, batch=2**31 - 1))
        program = Program("test", Config.of({}), (), (huge,))
        told = "" if (error := refusal(runtime, program)) is None else str(error)
        # Some releases take it, and need no memory of their own.
        assert not told or re.fullmatch(r"cuFFT cannot transform \(.*\): [a-z ]+", told)
        runtime.synchronize()
