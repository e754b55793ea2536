"""The CUDA device on a real GPU: memory, launches, faults, and arrays of other libraries on their own streams."""

from __future__ import annotations

import dataclasses
import functools
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from builders import launch as made_launch
from builders import program
from paths import TESTS, python_path
from warpsmith.devices.arrays import device_view, empty_like_caller, stream_handle
from warpsmith.devices.cuda.available import cuda_device_count
from warpsmith.devices.cuda.driver_choice import DriverChoice
from warpsmith.devices.cuda.interop import launch_stream
from warpsmith.devices.cuda.runtime import CudaRuntime
from warpsmith.devices.module import Module
from warpsmith.devices.runtime import Runtime
from warpsmith.devices.select import CompilerChoice, DeviceRef
from warpsmith.devices.signature import weights_bytes
from warpsmith.errors import CompileError, DeviceError, LaunchError, OutOfMemory
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.problem import DType, Operand, Role
from warpsmith.generator.program import ByValue, Launch, Pointer

pytestmark = pytest.mark.gpu

N = 1 << 20

SOURCE = """
struct Scale { float a; };
struct Table { float values[1021]; };  // 4084 bytes, the odd one out of alignment

extern "C" __global__ void saxpy(const float* x, float* y, Scale scale) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = scale.a * x[i] + y[i];
}

extern "C" __global__ void look_up(Table table, float* y, Scale scale) {
    if (threadIdx.x < 1021) y[threadIdx.x] = scale.a * table.values[threadIdx.x];
}

extern "C" __global__ void reversed(const float* x, float* y) {
    extern __shared__ float tile[];
    for (unsigned i = threadIdx.x; i < 40000; i += blockDim.x) tile[i] = x[i];
    __syncthreads();
    for (unsigned i = threadIdx.x; i < 40000; i += blockDim.x) y[i] = tile[39999 - i];
}

extern "C" __global__ void linger(float* y, unsigned long long ns) {
    unsigned long long begin, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)); while (now - begin < ns);
    if (threadIdx.x == 0) y[0] = 42.0f;
}

extern "C" __global__ void fault(float* y) { y[(1ull << 40) + threadIdx.x] = 1.0f; }
"""

X_Y_SCALE = (Pointer("x"), Pointer("y"), ByValue("scale"))
saxpy_of = functools.partial(made_launch, entry="saxpy", block=(32, 1, 1))
SAXPY = saxpy_of(*X_Y_SCALE, grid=(N // 256, 1, 1), block=(256, 1, 1))
PROGRAM = program(SOURCE, SAXPY)
VECTOR = Operand("x", Role.INPUT, (N,), DType.FLOAT32)
SCALE_BY_3 = {"scale": np.float32(3).tobytes()}


@pytest.fixture(scope="module", params=list(DriverChoice))
def runtime(request: pytest.FixtureRequest) -> Iterator[CudaRuntime]:
    """A runtime with each of the libraries for contexts, memory and events."""
    if request.param is DriverChoice.PYCUDA:
        pytest.importorskip("pycuda")
    opened = CudaRuntime(0, request.param)
    yield opened
    opened.close()


@pytest.fixture(scope="module", params=[CompilerChoice.NVRTC, CompilerChoice.NVCC, CompilerChoice.PYCUDA])
def module(request: pytest.FixtureRequest, runtime: Runtime) -> Iterator[Module]:
    try:
        binary = DeviceRef(DeviceKind.CUDA).compiler(request.param).compile(PROGRAM.compilation())
    except CompileError as error:
        if " is missing: " not in str(error):
            raise
        pytest.skip(str(error))
    loaded = runtime.load(binary)
    yield loaded
    loaded.close()


class Vectors:
    """x = 0, 1, 2, ... and y = 1 on the device."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._x, self._y = runtime.allocate(4 * N), runtime.allocate(4 * N)
        self.addresses = {"x": self._x.address, "y": self._y.address}
        self.host = np.arange(N, dtype=np.float32)
        runtime.upload(self._x.address, self.host)
        runtime.upload(self._y.address, np.ones(N, np.float32))

    def y(self) -> np.ndarray[Any, Any]:
        result = np.empty(N, np.float32)
        self._runtime.download(result, self._y.address)
        return result

    def free(self) -> None:
        self._runtime.free(self._x)
        self._runtime.free(self._y)


@pytest.fixture
def vectors(runtime: Runtime) -> Iterator[Vectors]:
    made = Vectors(runtime)
    yield made
    made.free()


def test_what_is_known_of_it(runtime: Runtime) -> None:
    device = DeviceRef.parse("auto").device()
    assert device == runtime.device
    assert device.kind is DeviceKind.CUDA
    assert device.arch.startswith("sm_")
    assert device.multiprocessors > 0
    assert device.l2_bytes > 2**20
    assert device.memory_bytes > 2**30
    assert 48 * 1024 < device.shared_per_block_bytes <= device.shared_per_multiprocessor_bytes
    assert device.registers_per_multiprocessor >= 32768
    assert device.threads_per_multiprocessor >= 1024
    assert 500 < device.clock_mhz < 5000
    assert device.memory_clock_mhz > 500
    assert Device.from_spec(device.spec()) == device


def test_facts_of_the_machine(runtime: CudaRuntime) -> None:
    facts = runtime.environment()
    assert {"driver", "toolkit", "cuda", "system"} <= facts.keys()
    assert ("pycuda" in facts) != ("cuda-bindings" in facts)
    assert all(isinstance(value, str) and value for value in facts.values())
    clock = runtime.clock_mhz()
    assert clock is None or 100 < clock < 5000
    assert runtime.throttled() in (False, True)


def test_memory(runtime: Runtime) -> None:
    first, second = runtime.allocate(4096), runtime.allocate(4096)
    assert first.address % 256 == second.address % 256 == 0
    source, target = np.arange(1024, dtype=np.int32), np.zeros(1024, np.int32)
    runtime.upload(first.address, source)
    runtime.copy(second.address, first.address, 4096)
    runtime.fill(second.address + 4, 0xFF, 8)
    runtime.download(target, second.address)
    assert target[:4].tolist() == [0, -1, -1, 3]
    assert (target[3:] == source[3:]).all()
    runtime.free(first)
    runtime.free(second)
    with pytest.raises(DeviceError, match="there is no allocation at"):
        runtime.free(first)


def test_more_memory_than_there_is(runtime: Runtime) -> None:
    with pytest.raises(OutOfMemory, match=r"cannot allocate 10,000,000,000,000 bytes on the GPU"):
        runtime.allocate(10 * 10**12)
    runtime.free(runtime.allocate(256))


def test_a_launch(module: Module, runtime: Runtime, vectors: Vectors) -> None:
    module.bind(SAXPY, vectors.addresses, SCALE_BY_3)(None)
    runtime.synchronize()
    assert (vectors.y() == np.float32(3) * vectors.host + 1).all()


def test_structs_by_value(module: Module, vectors: Vectors) -> None:
    arguments = (ByValue("table"), Pointer("y"), ByValue("scale"))
    launch = made_launch(*arguments, entry="look_up", block=(1024, 1, 1))
    table = np.random.default_rng(0).random(1021, np.float32)
    module.bind(launch, vectors.addresses, SCALE_BY_3 | {"table": table.tobytes()})(None)
    y = vectors.y()
    assert (y[:1021] == np.float32(3) * table).all()
    assert (y[1021:] == 1).all()


def test_more_shared_memory_than_48_kib(module: Module, runtime: Runtime, vectors: Vectors) -> None:
    if runtime.device.shared_per_block_bytes < 160_000:
        pytest.skip("this GPU has too little shared memory")
    launch = made_launch(Pointer("x"), Pointer("y"), entry="reversed", block=(512, 1, 1), shared_bytes=160_000)
    module.bind(launch, vectors.addresses, {})(None)
    assert (vectors.y()[:40000] == vectors.host[:40000][::-1]).all()


@pytest.mark.parametrize(
    ("launch", "message"),
    [
        (saxpy_of(*X_Y_SCALE, block=(2048, 1, 1)), "a block of .* does not lie within"),
        (saxpy_of(*X_Y_SCALE, block=(1024, 2, 1)), "2048 threads a block"),
        (saxpy_of(*X_Y_SCALE, grid=(1, 65536, 1)), "a grid of .* does not lie within"),
        (saxpy_of(*X_Y_SCALE, shared_bytes=2**20), "of shared memory a block"),
        (saxpy_of(*X_Y_SCALE[:2]), r"takes arguments of \[8, 8, 4\] bytes"),
        (saxpy_of(*X_Y_SCALE[:2], Pointer("x")), r"gives \[8, 8, 8\]"),
        (made_launch(entry="no_such"), "cannot bind kernel no_such"),
        (saxpy_of(*X_Y_SCALE, Pointer("z")), "needs 'z', which was not given"),
    ],
)
def test_launches_that_are_refused(module: Module, vectors: Vectors, launch: Launch, message: str) -> None:
    with pytest.raises(LaunchError, match=message):
        module.bind(launch, vectors.addresses, SCALE_BY_3)
    module.bind(SAXPY, vectors.addresses, SCALE_BY_3)(None)
    assert vectors.y()[1] == 4


def test_a_binary_of_another_architecture(runtime: Runtime) -> None:
    from warpsmith.devices.select import cuda_compiler

    # Code runs on later chips of its generation, so another generation is needed.
    other = "sm_90" if runtime.device.compute_capability[0] == 8 else "sm_80"
    with pytest.raises(LaunchError, match="cannot load a binary on"):
        runtime.load(cuda_compiler(other).compile(PROGRAM.compilation()))


def test_a_closed_module_binds_no_more(runtime: Runtime, vectors: Vectors) -> None:
    loaded = runtime.load(DeviceRef(DeviceKind.CUDA).compiler().compile(PROGRAM.compilation()))
    loaded.close()
    loaded.close()
    with pytest.raises(LaunchError, match="after its module was closed"):
        loaded.bind(SAXPY, vectors.addresses, SCALE_BY_3)


def test_the_clock(module: Module, runtime: Runtime, vectors: Vectors) -> None:
    launch = made_launch(Pointer("y"), ByValue("ns"), entry="linger", block=(32, 1, 1))
    linger = module.bind(launch, vectors.addresses, {"ns": np.uint64(5_000_000).tobytes()})

    def work() -> None:
        linger(None)
        linger(None)

    def best(timed: Callable[[], None]) -> float:
        """Nanoseconds of the fastest of ten runs: other processes may use the GPU between them."""
        return min(runtime.elapsed_ns(timed) for _ in range(10))

    once = best(lambda: linger(None))
    assert 4.9e6 < once < 8e6
    assert 1.8 < best(work) / once < 2.4


def test_launching_costs_no_time(module: Module, runtime: Runtime, vectors: Vectors) -> None:
    small = module.bind(dataclasses.replace(SAXPY, grid=(1, 1, 1)), vectors.addresses, SCALE_BY_3)
    host_ns: list[int] = []

    def work() -> None:
        begin = time.perf_counter_ns()
        for _ in range(200):
            small(None)
        host_ns.append(time.perf_counter_ns() - begin)

    assert runtime.queues_work
    # Python takes about 5 us to launch one, the GPU about 2 us to run it.
    assert min(runtime.elapsed_ns(work) for _ in range(5)) < 0.8 * min(host_ns)


def test_a_captured_graph_does_its_launches_each_time(runtime: Runtime, module: Module, vectors: Vectors) -> None:
    saxpy = module.bind(SAXPY, vectors.addresses, SCALE_BY_3)

    def twice(stream: int) -> None:
        saxpy(stream)
        saxpy(stream)

    graph = runtime.captured(twice)
    for _ in range(3):
        graph.launch()
    runtime.synchronize()
    graph.close()
    assert np.allclose(vectors.y(), 1 + 6 * 3 * vectors.host, rtol=1e-6)


def test_what_cannot_be_captured_raises_and_the_device_goes_on(
    runtime: Runtime, module: Module, vectors: Vectors
) -> None:
    with pytest.raises(ValueError, match="no"):
        runtime.captured(_raises)
    module.bind(SAXPY, vectors.addresses, SCALE_BY_3)(None)
    runtime.synchronize()
    assert np.allclose(vectors.y(), 1 + 3 * vectors.host, rtol=1e-6)


def _raises(_: int) -> None:
    raise ValueError("no")


def test_work_that_waits_for_the_gpu_does_not_hang(runtime: Runtime) -> None:
    assert runtime.elapsed_ns(runtime.synchronize) < 1e9


def test_a_context_of_nobody_is_found_again(module: Module, runtime: Runtime, vectors: Vectors) -> None:
    from cuda.bindings import driver

    _, before = driver.cuCtxGetCurrent()
    driver.cuCtxSetCurrent(0)
    try:
        module.bind(SAXPY, vectors.addresses, SCALE_BY_3)(None)
        runtime.synchronize()
        assert vectors.y()[1] == 4
    finally:
        driver.cuCtxSetCurrent(before)


def test_a_second_gpu_beside_the_first(module: Module, vectors: Vectors) -> None:
    if cuda_device_count() < 2:
        pytest.skip("one GPU here")
    second = CudaRuntime(1)
    try:
        other = Vectors(second)
        loaded = second.load(DeviceRef(DeviceKind.CUDA, 1).compiler().compile(PROGRAM.compilation()))
        first_launch = module.bind(SAXPY, vectors.addresses, SCALE_BY_3)
        second_launch = loaded.bind(SAXPY, other.addresses, SCALE_BY_3)
        for launch in (first_launch, second_launch, first_launch, second_launch):
            launch(None)
        second.synchronize()
        assert vectors.y()[1] == other.y()[1] == 7
    finally:
        second.close()


def run_alone(code: str) -> subprocess.CompletedProcess[str]:
    """Runs code in a separate process, since it may lose its context."""
    text = "\n".join((f"SOURCE = {SOURCE!r}", textwrap.dedent(code)))
    environment = os.environ | {"PYTHONPATH": python_path(TESTS)}
    command = [sys.executable, "-c", text]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


OPEN = """
from builders import launch as made_launch, program as made_program
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import DeviceError, LaunchError
from warpsmith.generator.program import Pointer
ref = DeviceRef.parse("cuda:0")
runtime = ref.open()
y = runtime.allocate(4096)
launch = made_launch(Pointer("y"), entry="fault", block=(32, 1, 1))
program = made_program(SOURCE, launch)
module = runtime.load(ref.compiler().compile(program.compilation()))
"""


def test_an_illegal_address_is_a_device_error() -> None:
    run = run_alone(
        OPEN
        + """
module.bind(launch, {"y": y.address}, {})(None)
for work in (runtime.synchronize, lambda: runtime.allocate(256), module.close, runtime.close):
    try:
        work()
        print("done")
    except DeviceError as error:
        print(type(error).__name__, error)
"""
    )
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert lines[0].startswith("DeviceError cannot finish the work on the GPU")
    assert "illegal" in lines[0]
    assert lines[1].startswith("DeviceError cannot allocate 256 bytes")
    assert lines[2:] == ["done", "done"]


def test_a_process_that_never_closes_ends_well() -> None:
    run = run_alone(OPEN + "print('end')")
    assert (run.returncode, run.stdout, run.stderr) == (0, "end\n", "")


def test_closing_and_opening_again() -> None:
    run = run_alone(
        OPEN
        + """
runtime.close()
runtime.close()
again = ref.open()
print(again.allocate(256).nbytes)
try:
    runtime.allocate(256)
except DeviceError as error:
    print(error)
"""
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout == "256\ncannot allocate 256 bytes on the GPU: the device is closed\n"


def saxpy_on(x: Any, module: Module, runtime: Runtime, stream: object = None) -> Any:
    """Computes y = 3 x + y with y = 0, as a plan does: y is an array of x's library, on x's stream or the given one."""
    y = empty_like_caller(x, VECTOR, runtime)
    requested = stream_handle(stream)
    views = {"x": device_view(x, VECTOR, stream=requested), "y": device_view(y, VECTOR, True, requested)}
    chosen = launch_stream(requested, [view.stream for view in views.values()])
    addresses = {name: view.address for name, view in views.items()}
    from cuda.bindings import driver

    driver.cuMemsetD8Async(addresses["y"], 0, 4 * N, chosen or 0)
    module.bind(SAXPY, addresses, SCALE_BY_3)(chosen)
    return y


def test_cupy_on_its_own_stream(module: Module, runtime: Runtime) -> None:
    cupy = pytest.importorskip("cupy")
    with cupy.cuda.Stream(non_blocking=True) as stream:
        big = cupy.ones((4096, 4096), cupy.float32)
        for _ in range(20):  # the stream is busy for a while before x is written
            big = big @ big * cupy.float32(1e-4)
        x = cupy.arange(N, dtype=cupy.float32) + big[0, 0] * 0
        assert device_view(x, VECTOR).stream == stream.ptr
        y = saxpy_on(x, module, runtime)
        assert isinstance(y, cupy.ndarray)
        assert (cupy.asnumpy(y) == 3 * np.arange(N, dtype=np.float32)).all()


def test_torch_on_its_own_stream(module: Module, runtime: Runtime) -> None:
    torch = pytest.importorskip("torch")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        big = torch.ones((4096, 4096), device="cuda")
        for _ in range(20):
            big = big @ big * 1e-4
        x = torch.arange(N, dtype=torch.float32, device="cuda") + big[0, 0] * 0
        assert device_view(x, VECTOR).stream == stream.cuda_stream
        y = saxpy_on(x, module, runtime)
        assert isinstance(y, torch.Tensor)
        assert y.device == x.device
        assert (y.cpu().numpy() == 3 * np.arange(N, dtype=np.float32)).all()


def test_a_stream_that_was_asked_for_waits_for_the_owners(module: Module, runtime: Runtime) -> None:
    torch = pytest.importorskip("torch")
    owner, asked = torch.cuda.Stream(), torch.cuda.Stream()
    with torch.cuda.stream(owner):
        big = torch.ones((4096, 4096), device="cuda")
        for _ in range(20):
            big = big @ big * 1e-4
        x = torch.arange(N, dtype=torch.float32, device="cuda") + big[0, 0] * 0
        y = saxpy_on(x, module, runtime, stream=asked)
    asked.synchronize()
    assert (y.cpu().numpy() == 3 * np.arange(N, dtype=np.float32)).all()


def test_dlpack_alone(module: Module, runtime: Runtime) -> None:
    torch = pytest.importorskip("torch")

    class OverDlpack:
        def __init__(self, tensor: Any) -> None:
            self._tensor = tensor

        def __dlpack__(self, **options: Any) -> Any:
            return self._tensor.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return self._tensor.__dlpack_device__()

    x = OverDlpack(torch.arange(N, dtype=torch.float32, device="cuda"))
    y = saxpy_on(x, module, runtime)
    assert type(y).__name__ in ("DeviceArray", "GPUArray")
    assert (y.get() == 3 * np.arange(N, dtype=np.float32)).all()


def test_one_context_with_torch(module: Module, runtime: Runtime) -> None:
    torch = pytest.importorskip("torch")
    from cuda.bindings import driver

    x = torch.arange(N, dtype=torch.float32, device="cuda")
    _, context = driver.cuCtxGetCurrent()
    _, primary = driver.cuDevicePrimaryCtxRetain(0)
    try:
        assert int(context) == int(primary)
    finally:
        driver.cuDevicePrimaryCtxRelease(0)
    saxpy_on(x, module, runtime)
    runtime.synchronize()
    assert float((x + 1)[1]) == 2.0


def test_torch_goes_on_after_we_close() -> None:
    pytest.importorskip("torch")
    run = run_alone(
        "import torch\nx = torch.ones(8, device='cuda')\n" + OPEN + "runtime.close()\nprint(float((x + 1).sum()))"
    )
    assert (run.returncode, run.stdout) == (0, "16.0\n"), run.stderr


def test_weights_from_a_gpu() -> None:
    torch, cupy = pytest.importorskip("torch"), pytest.importorskip("cupy")
    operand = Operand("weights", Role.INPUT, (2, 3), DType.FLOAT32)
    expected = np.arange(6, dtype=np.float32).tobytes()
    tensor = torch.arange(6, dtype=torch.float64, device="cuda").reshape(2, 3)
    assert weights_bytes(tensor, operand) == expected
    with torch.no_grad():
        assert weights_bytes(tensor.requires_grad_(), operand) == expected
    assert weights_bytes(cupy.arange(6).reshape(2, 3), operand) == expected


def test_arrays_of_pycuda_come_back_as_such(module: Module, runtime: Runtime) -> None:
    gpuarray = pytest.importorskip("pycuda.gpuarray")
    import pycuda.driver

    context = pycuda.driver.Device(0).retain_primary_context()
    context.push()
    try:
        y = saxpy_on(gpuarray.to_gpu(np.arange(N, dtype=np.float32)), module, runtime)
        assert isinstance(y, gpuarray.GPUArray)
        assert (y.get() == 3 * np.arange(N, dtype=np.float32)).all()
    finally:
        pycuda.driver.Context.pop()
        context.detach()


def test_memory_of_an_array_goes_with_it(runtime: Runtime) -> None:
    from cuda.bindings import driver

    def free() -> int:
        runtime.synchronize()
        return int(driver.cuMemGetInfo()[1])

    operand = Operand("y", Role.OUTPUT, (1 << 28,), DType.FLOAT32)
    before = free()
    made = empty_like_caller(object(), operand, runtime)
    assert free() < before - (1 << 29)
    del made
    assert free() > before - (1 << 29)


def test_pycudas_compiler_makes_what_nvcc_makes() -> None:
    pytest.importorskip("pycuda")
    ref = DeviceRef(DeviceKind.CUDA)
    try:
        of_nvcc = ref.compiler(CompilerChoice.NVCC).compile(PROGRAM.compilation())
    except CompileError as error:
        pytest.skip(str(error))
    of_pycuda = ref.compiler(CompilerChoice.PYCUDA).compile(PROGRAM.compilation())
    assert of_pycuda.compiler.startswith("pycuda ")
    assert of_nvcc.compiler in of_pycuda.compiler
    assert of_pycuda.kernels == of_nvcc.kernels
