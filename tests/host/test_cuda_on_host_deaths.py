"""Kernels that cannot go on: errors for deadlocks and traps, and the end of the process on a sanitizer finding."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import exhaustive
import foreseen
import forking
from warpsmith.devices.host.compiler import SANITIZER_EXIT_CODES, HostCompiler
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.errors import DeviceError, LaunchError
from warpsmith.generator.program import Pointer

ADDRESS, UNDEFINED = SANITIZER_EXIT_CODES

# Buffers of 64 floats, filled with 1.0; every by-value argument is a 4-byte integer.
CHILD = """
import pickle, sys
import numpy as np
from warpsmith.devices.host.runtime import HostRuntime
with open(sys.argv[1], "rb") as file:
    binary, launch, pointers, values = pickle.load(file)
runtime = HostRuntime(workers=2)
module = runtime.load(binary)
addresses = {}
for name in pointers:
    addresses[name] = runtime.allocate(256).address
    runtime.upload(addresses[name], np.ones(64, np.float32))
module.bind(launch, addresses, values)(None)
module.close()
print("ran to its end")
"""


@pytest.fixture
def run_apart(make_program, tmp_path):
    def run(source, arguments="p", *, value=0, sanitize=False, **geometry) -> subprocess.CompletedProcess[str]:
        program = make_program(source, arguments, **geometry)
        compiler = HostCompiler(sanitize=sanitize)
        (launch,) = program.launches
        pointers = [argument.buffer for argument in launch.arguments if isinstance(argument, Pointer)]
        values = {f"a{i}": np.int32(value).tobytes() for i in range(len(arguments))}
        job = tmp_path / "job"
        job.write_bytes(pickle.dumps((compiler.compile(program.compilation()), launch, pointers, values)))
        environment = {**os.environ, **(compiler.sanitizer_environment() if sanitize else {})}
        return forking.run([sys.executable, "-c", CHILD, str(job)], env=environment, text=True, timeout=60, check=False)

    return run


@pytest.fixture
def stopped(make_program, host):
    """Runs a kernel on 64 floats that the device must stop, and returns the message that the caller gets."""

    def run(source, **geometry) -> str:
        program = make_program(source, "p", **geometry)
        (launch,) = program.launches
        module = host.load(HostCompiler().compile(program.compilation()))
        memory = host.allocate(256)
        host.upload(memory.address, np.ones(64, np.float32))
        try:
            with pytest.raises(DeviceError, match="kernel kernel was stopped on the host device: block") as raised:
                module.bind(launch, {each.buffer: memory.address for each in launch.arguments}, {})(None)
            return str(raised.value)
        finally:
            host.free(memory)
            module.close()

    return run


def test_deadlock_at_a_warp_operation_is_reported(stopped):
    told = stopped(
        """
        extern "C" __global__ void kernel(float* x) {
            if (threadIdx.x < 16) x[threadIdx.x] = __shfl_down_sync(0xffffffffu, x[threadIdx.x], 1);
            __syncthreads();
        }
        """,
        block=(32, 1, 1),
    )
    assert "block (0,0,0): deadlock: 16 threads wait at __syncthreads, thread (16,0,0) first" in told
    assert "16 threads wait at warp operations, thread (0,0,0) first, at __shfl_down_sync" in told
    assert "for lanes 0xffffffff" in told
    assert "\n" not in told


FAULTS = [
    ("__trap();", "__trap()"),
    ("assert(x[0] == 2.0f);", "program.cu:2: assertion fails: x[0] == 2.0f"),
    ("__ballot_sync(2u, 1);", "a mask that leaves the thread itself out"),
    ("__shfl_sync(1u, 1, 0, 33);", "a shuffle's width must be 1, 2, 4, 8, 16 or 32"),
    ("__pipeline_memcpy_async(x, x + 1, 8);", "an address is not aligned to the size of the copy"),
    ("cp_async<8>(x, x + 1);", "cp_async: an address is not aligned to the size of the copy"),
    ("bulk_load_begin(x, x + 4, 20, x + 32);", "a bulk copy has a multiple of 16 bytes, between multiples of 16"),
    ("bulk_store(x, x + 2, 16);", "a bulk copy has a multiple of 16 bytes, between multiples of 16"),
    ("bulk_store(x, x + 4, 0);", "bulk_store copies some bytes"),
    ("bulk_load_wait(x);", "bulk_load_wait: no copy has begun"),
    ("cp_async<16>(x + 2, x);", "cp_async: an address is not aligned to the size of the copy"),
]


@pytest.mark.parametrize(("statement", "message"), FAULTS)
def test_what_a_gpu_would_fault_on_is_an_error(stopped, statement, message):
    assert message in stopped(f'extern "C" __global__ void kernel(float* x)\n{{ {statement} x[1] = 0; }}')


@pytest.mark.parametrize("waiting", ["", "__syncthreads();"])
def test_a_stopped_launch_ends_on_all_cores_and_the_next_one_runs(make_program, host, waiting):
    text = f'extern "C" __global__ void kernel(float* x) {{ {waiting} if (x[blockIdx.x] == 7) __trap(); x[0] = 3; }}'
    program = make_program(text, "p", grid=(64, 1, 1), block=(96, 1, 1))
    (launch,) = program.launches
    module = host.load(HostCompiler().compile(program.compilation()))
    memory = host.allocate(256)
    data = np.ones(64, np.float32)
    run = module.bind(launch, {each.buffer: memory.address for each in launch.arguments}, {})
    for faulty in (63, 0, None):
        data[:] = 1
        if faulty is not None:
            data[faulty] = 7
        host.upload(memory.address, data)
        with pytest.raises(DeviceError, match="__trap") if faulty is not None else contextlib.nullcontext():
            run(None)
    host.download(data, memory.address)
    assert data[0] == 3
    host.free(memory)
    module.close()


def test_a_sanitized_process_ends_by_itself(run_apart):
    done = run_apart('extern "C" __global__ void kernel(float* x) { __trap(); }', sanitize=True)
    assert done.returncode == -signal.SIGABRT
    assert "warpsmith host device: block (0,0,0): __trap()" in done.stderr


def test_stack_overflow_is_a_crash_of_that_process(run_apart):
    done = run_apart(
        """
        __device__ __noinline__ float deep(volatile float* x, int n) {
            volatile float mine[256];
            mine[n % 256] = x[0];
            return n == 0 ? x[0] : mine[n % 256] + deep(mine, n - 1);
        }
        extern "C" __global__ void kernel(float* x, int n) { __syncthreads(); x[threadIdx.x] = deep(x, n); }
        """,
        "pv",
        value=1000,
        block=(2, 1, 1),
    )
    assert done.returncode == -signal.SIGSEGV


HEAP = 'extern "C" __global__ void kernel(float* x, float* y, int i) {{ {} }}'
STATIC = """extern "C" __global__ void kernel(float* x, float* y, int i) {{
    __shared__ float tile[64];
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    {}
}}"""
DYNAMIC = STATIC.replace("__shared__ float tile[64]", "extern __shared__ float tile[]")
# Volatile pointers, because UndefinedBehaviorSanitizer checks the size first of an object that it can see.
LOCAL = """extern "C" __global__ void kernel(float* x, float* y, int i) {{
    float mine[8] = {{1, 2, 3, 4, 5, 6, 7, 8}};
    float* volatile p = mine;
    __syncthreads();
    {}
}}"""

BAD = {
    "heap write past the end": (HEAP, "x[64 + i] = 1;", ADDRESS, "heap-buffer-overflow"),
    "heap write before the start": (HEAP, "x[-1 - i] = 1;", ADDRESS, "heap-buffer-overflow"),
    "heap read past the end": (HEAP, "y[0] = x[64 + i];", ADDRESS, "heap-buffer-overflow"),
    "heap vector read half past the end": (
        HEAP,
        "const float2 v = __ldg(reinterpret_cast<const float2*>(x) + 32 + i); y[0] = v.x + v.y;",
        ADDRESS,
        "heap-buffer-overflow",
    ),
    "far outside": (HEAP, "x[(1ll << 44) + i] = 1;", ADDRESS, "SEGV"),
    "static shared by index": (STATIC, "y[0] = tile[64 + i];", UNDEFINED, "index 64 out of bounds"),
    "static shared by pointer": (
        STATIC,
        "float* volatile p = tile; y[0] = p[64 + i];",
        ADDRESS,
        "global-buffer-overflow",
    ),
    "dynamic shared read": (DYNAMIC, "y[0] = tile[64 + i];", ADDRESS, "use-after-poison"),
    "dynamic shared write": (DYNAMIC, "tile[64 + i] = 1;", ADDRESS, "use-after-poison"),
    "local array": (LOCAL, "y[0] = p[8 + i];", ADDRESS, "stack-buffer-overflow"),
    "misaligned float4": (
        HEAP,
        "const float4 v = *reinterpret_cast<const float4*>(x + 1 + i); y[0] = v.x + v.w;",
        UNDEFINED,
        "misaligned address",
    ),
    "misaligned float4 store": (
        HEAP,
        "__stcs(reinterpret_cast<float4*>(y + 2 + i), make_float4(1, 2, 3, 4));",
        UNDEFINED,
        "misaligned address",
    ),
    "signed overflow": (HEAP, "y[0] = float(2147483647 + (i + 1));", UNDEFINED, "signed integer overflow"),
}


@exhaustive.one_in(2)
@pytest.mark.parametrize("name", BAD)
def test_sanitizers_end_a_wrong_kernel(run_apart, name):
    template, statement, exit_code, message = BAD[name]
    clang = HostCompiler().name.startswith("clang")
    if clang and name.startswith("misaligned"):
        pytest.skip("clang checks the alignment of members, not of a whole vector that is copied")
    launch = {"block": (64, 1, 1), "shared_bytes": 256 if template is DYNAMIC else 0}
    done = run_apart(template.format(statement), "ppv", sanitize=True, **launch)
    assert message in done.stderr
    if clang:  # one library for both sanitizers, and with it one exit code; its copies hide the caller
        assert done.returncode == ADDRESS, done.stderr
    else:
        assert done.returncode == exit_code, done.stderr
        assert "program.cu:" in done.stderr, "the report names the line"
        assert "in kernel" in done.stderr


def test_right_kernels_run_clean_under_the_sanitizers():
    # The tests of results again: in a process with sanitizers, the fixtures build for the sanitizers.
    names = ("blocks", "warps", "textures", "values", "ptx", "programs")
    files = [str(Path(__file__).with_name(f"test_cuda_on_host_{name}.py")) for name in names]
    # The fault handlers of Python and AddressSanitizer would conflict.
    options = ["-q", "-x", "-p", "no:faulthandler", "-p", "no:cacheprovider", "--import-mode=importlib"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "foreseen", *options, *files],
        env={**os.environ, **HostCompiler().sanitizer_environment(), "PYTHONPATH": str(Path(foreseen.__file__).parent)},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped" not in done.stdout


def test_sanitized_library_in_a_plain_process_is_refused(make_program):
    binary = HostCompiler(sanitize=True).compile(make_program('extern "C" __global__ void kernel() {}').compilation())
    with pytest.raises(LaunchError, match="sanitizer_environment"):
        HostRuntime().load(binary)
