"""The host runtime: memory, refused launches, and the machine as a device."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
from pathlib import Path

import numpy as np
import pytest

from builders import binary as made_binary
from builders import launch as made_launch
from builders import program
from warpsmith.devices.compiler import BinaryKind
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.host.machine import host_device
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.devices.module import Allocation
from warpsmith.errors import DeviceError, LaunchError, OutOfMemory
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.program import ByValue, Launch, Pointer, Transformed

WAITING = """
extern "C" __global__ void kernel(float* x, int n) {
    __shared__ float turned[1024];
    turned[threadIdx.x] = n;
    __syncthreads();
    x[1024 * blockIdx.x + threadIdx.x] = turned[1023 - threadIdx.x];
}
"""
LIBRARIES = 300
GUARDED = 2 * 1024 * 4
"""Most new memory areas: stacks of four OS threads with guard pages. Each thread maps its stacks when it first runs."""
SOURCE = 'extern "C" __global__ void kernel(float* x, int n) { x[blockIdx.x * blockDim.x + threadIdx.x] = n; }'


@pytest.fixture(scope="module")
def binary():
    return HostCompiler().compile(program(SOURCE, made_launch()).compilation())


@pytest.fixture
def module(host, binary):
    loaded = host.load(binary)
    yield loaded
    loaded.close()


def launch_of(grid=(1, 1, 1), block=(1, 1, 1), **changes) -> Launch:
    return dataclasses.replace(made_launch(Pointer("x"), ByValue("n"), grid=grid, block=block), **changes)


def bind(module, launch, address=0):
    return module.bind(launch, {"x": address}, {"n": np.int32(7).tobytes()})


def test_the_machine_as_a_device():
    device = host_device()
    assert device.kind is DeviceKind.HOST
    assert device.arch == "host"
    assert device.multiprocessors == len(os.sched_getaffinity(0))
    assert device.l2_bytes >= 2**16
    assert device.memory_bytes > 2**28
    assert Device.from_spec(device.spec()) == device


def test_environment_names_the_machine(host):
    facts = host.environment()
    assert facts["cpu"] == host.device.name
    assert facts["compiler"] == HostCompiler().name
    assert all(isinstance(value, str) and value for value in facts.values())


def test_memory_goes_round(host):
    first, second = host.allocate(1000), host.allocate(1000)
    assert first.address % 256 == second.address % 256 == 0
    data = np.random.default_rng(3).random(125)
    host.upload(first.address, data)
    host.copy(second.address, first.address, 1000)
    host.fill(first.address + 8, 0xFF, 16)
    back, filled = np.empty(125), np.empty(125)
    host.download(back, second.address)
    host.download(filled, first.address)
    np.testing.assert_array_equal(back, data)
    assert np.isnan(filled[1:3]).all()
    np.testing.assert_array_equal(filled[3:], data[3:])
    host.free(first)
    host.free(second)
    with pytest.raises(DeviceError, match="freed twice"):
        host.free(first)


def test_arrays_must_be_contiguous(host):
    allocation = host.allocate(64)
    with pytest.raises(ValueError, match="C-contiguous"):
        host.upload(allocation.address, np.zeros((4, 4), np.float32)[:, ::2])
    with pytest.raises(ValueError, match="C-contiguous"):
        host.download(np.zeros((4, 4), np.float32)[:, ::2], allocation.address)
    host.free(allocation)


def test_more_memory_than_there_is(host):
    for nbytes in (host.device.memory_bytes, 2**62):
        with pytest.raises(OutOfMemory, match="choose a smaller problem"):
            host.allocate(nbytes)


def test_close_gives_everything_back():
    runtime = HostRuntime()
    allocation = runtime.allocate(10)
    runtime.close()
    with pytest.raises(DeviceError):
        runtime.free(allocation)


def test_elapsed_time_is_that_of_the_work(host, module):
    buffer = host.allocate(4 * 1024 * 256)
    run = bind(module, launch_of((1024, 1, 1), (256, 1, 1)), buffer.address)
    once = min(host.elapsed_ns(lambda: run(None)) for _ in range(5))
    many = min(host.elapsed_ns(lambda: [run(None) for _ in range(20)]) for _ in range(5))
    assert 0 < once < many
    host.synchronize()
    result = np.zeros(1024 * 256, np.float32)
    host.download(result, buffer.address)
    assert set(result) == {7.0}
    host.free(buffer)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"block": (1025, 1, 1)}, "at most 1024 threads"),
        ({"block": (32, 33, 1)}, "at most 1024 threads"),
        ({"block": (1, 1, 65)}, "at most 1024 threads"),
        ({"block": (0, 1, 1)}, "empty"),
        ({"grid": (1, 0, 1)}, "empty"),
        ({"grid": (2**31, 1, 1)}, "at most 2147483647"),
        ({"grid": (1, 65536, 1)}, "at most 2147483647"),
        ({"shared_bytes": 4}, "more dynamic shared memory than the program was compiled for"),
        ({"shared_bytes": 2**20}, "1048576 B of shared memory, the limit is 232448 B"),
        ({"entry": "absent"}, "no kernel absent"),
        ({"arguments": (Pointer("x"),)}, r"takes arguments of \[8, 4\] bytes; the launch gives \[8\]"),
        ({"arguments": (Pointer("x"), Pointer("x"))}, r"gives \[8, 8\]"),
        ({"arguments": (Pointer("y"), ByValue("n"))}, "needs 'y'"),
        ({"arguments": (Pointer("x"), ByValue("m"))}, "needs 'm'"),
    ],
)
def test_refused_launches(module, changes, message):
    with pytest.raises(LaunchError, match=message):
        bind(module, launch_of(**changes))


def test_a_transformed_argument_has_its_rows_multiplied(host, make_program):
    source = (
        "struct Rows { float values[2][3]; };\n"
        'extern "C" __global__ void kernel(float* out, Rows rows) {'
        " out[threadIdx.x] = (&rows.values[0][0])[threadIdx.x]; }"
    )
    matrix = ((1.0, 0.0), (0.5, 0.5), (0.0, -1.0))
    program = make_program(source, "pv", block=(6, 1, 1))
    launch = dataclasses.replace(program.launches[0], arguments=(Pointer("out"), Transformed("rows", matrix)))
    module = host.load(HostCompiler().compile(dataclasses.replace(program, steps=(launch,)).compilation()))
    out = host.allocate(24)
    given = np.array([[1, 2], [3, 5]], np.float32)
    module.bind(launch, {"out": out.address}, {"rows": given.tobytes()})(None)
    result = np.empty((2, 3), np.float32)
    host.download(result, out.address)
    np.testing.assert_array_equal(result, [[1, 1.5, -2], [3, 4, -5]])


def test_closed_module_launches_nothing(host, binary):
    buffer = host.allocate(4)
    module = host.load(binary)
    run = bind(module, launch_of(), buffer.address)
    module.close()
    module.close()
    with pytest.raises(LaunchError, match="closed"):
        run(None)
    with pytest.raises(LaunchError, match="closed"):
        bind(module, launch_of(), buffer.address)
    host.free(buffer)


def test_modules_leave_nothing_open(host, binary):
    def held() -> tuple[int, int]:
        process = Path("/proc/self")
        return len(list((process / "fd").iterdir())), (process / "maps").read_text().count("memfd:warpsmith")

    before, buffer = held(), host.allocate(4)
    for _ in range(20):
        host.load(binary).close()
    for _ in range(20):
        run = bind(host.load(binary), launch_of(), buffer.address)
        assert held() > before  # what is bound keeps it
        run(None)
        del run
    assert held() == before
    host.free(buffer)


@pytest.mark.parametrize("image", [b"", b"not a library", b"\x7fELF" + bytes(100)])
def test_foreign_libraries_are_refused(host, image):
    with pytest.raises(LaunchError, match="cannot load the library"):
        host.load(made_binary(image, BinaryKind.LIBRARY))


def test_cubins_are_refused(host):
    with pytest.raises(LaunchError, match="not a cubin"):
        host.load(made_binary())


def test_two_modules_keep_their_own_code(host, make_program):
    sources = [SOURCE.replace("= n", f"= n + {i}") for i in range(2)]
    binaries = [HostCompiler().compile(make_program(source).compilation()) for source in sources]
    modules = [host.load(binary) for binary in binaries]
    buffer: Allocation = host.allocate(4)
    results = np.zeros(1, np.float32)
    for i, module in enumerate(modules):
        bind(module, launch_of(), buffer.address)(None)
        host.download(results, buffer.address)
        assert results[0] == 7 + i
        module.close()
    host.free(buffer)


def test_a_process_holds_many_libraries(host):
    binary = HostCompiler().compile(program(WAITING, made_launch()).compilation())
    memory = host.allocate(4 * 1024 * 8)
    launch = launch_of((8, 1, 1), (1024, 1, 1))
    modules = [host.load(binary)]
    bind(modules[0], launch, memory.address)(None)
    before = kept_by_process()
    for _ in range(LIBRARIES):
        modules.append(host.load(binary))
        bind(modules[-1], launch, memory.address)(None)
    mappings, files, threads = (now - then for now, then in zip(kept_by_process(), before, strict=True))
    assert mappings < 12 * LIBRARIES + GUARDED
    assert files == threads == 0
    result = np.zeros(8 * 1024, np.float32)
    host.download(result, memory.address)
    assert set(result) == {7.0}
    for module in modules:
        module.close()
    assert kept_by_process()[0] < before[0] + GUARDED + 100
    host.free(memory)


def kept_by_process() -> tuple[int, int, int]:
    """Numbers of memory areas, open files and threads of this process."""
    own = Path("/proc/self")
    mappings = len((own / "maps").read_text().splitlines())
    return mappings, len(list((own / "fd").iterdir())), len(list((own / "task").iterdir()))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="has no fork")
def test_a_forked_child_finds_stacks_that_a_thread_of_its_parent_uses(host):
    binary = HostCompiler().compile(program(WAITING, made_launch()).compilation())
    memory = host.allocate(4 * 1024 * 4096)
    with contextlib.closing(host.load(binary)) as module:
        long = bind(module, launch_of((4096, 1, 1), (1024, 1, 1)), memory.address)
        short = bind(module, launch_of((1, 1, 1), (1024, 1, 1)), memory.address)
        thread = threading.Thread(target=long, args=(None,))
        thread.start()
        child = os.fork()
        if child == 0:
            short(None)
            os._exit(0)
        thread.join()
        _, status = os.waitpid(child, 0)
        assert status == 0
    host.free(memory)
