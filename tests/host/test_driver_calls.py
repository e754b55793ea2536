"""Calls of plans through the real cuda-bindings, over a driver without a GPU: which calls reach the driver, and how
often.

The driver, `tests/fakes/libcuda`, is a library that a process finds through LD_LIBRARY_PATH. One process runs all
cases.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from warpsmith.devices.cuda.available import cuda_device_count
from warpsmith.devices.native import native

pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(cuda_device_count() > 0, reason="the GPU tests make such calls of the real driver")

FAKE = Path(__file__).parents[1] / "fakes" / "libcuda" / "libcuda.cpp"

HEAD = """
import ctypes, threading
import numpy as np
import torch
from warpsmith.devices.compiler import Binary, BinaryKind
from warpsmith.devices.cuda import runtime as cuda_runtime
from warpsmith.devices.cuda.compiled_launches import CompiledLaunches
from warpsmith.devices.cuda.runtime import CudaRuntime
from warpsmith.devices.fast_calls import calls_of
from warpsmith.devices.launches import BoundLaunches
from warpsmith.devices.module import Allocation
from warpsmith.devices.native import native
from warpsmith.devices.torch_access import torch_access
from warpsmith.errors import BadArgument, DeviceError, LaunchError
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.problem import DType
from warpsmith.generator.program import (
    ByValue, Constant, Launch, Lifetime, Pointer, Program, TensorMap, Transformed, Unit, Workspace,
)
from warpsmith.generator.space import Config
from warpsmith.plans.match import Match, MatchKind
from warpsmith.plans.plan import Plan

DRIVER = ctypes.CDLL("libcuda.so.1")

class Note(ctypes.Structure):
    _fields_ = [("count", ctypes.c_uint64), ("geometry", ctypes.c_uint64 * 7), ("stream", ctypes.c_uint64),
                ("function", ctypes.c_uint64), ("begins_early", ctypes.c_uint64),
                ("arguments", (ctypes.c_ubyte * 1024) * 8)]
    def pointer(self, place): return int.from_bytes(bytes(self.arguments[place])[:8], "little")
    def floats(self, place, count): return np.frombuffer(bytes(self.arguments[place])[:4 * count], np.float32).tolist()

DRIVER.warpsmith_note.restype = DRIVER.warpsmith_note_before.restype = ctypes.POINTER(Note)
note, note_before = DRIVER.warpsmith_note().contents, DRIVER.warpsmith_note_before().contents

def takes(*sizes): DRIVER.warpsmith_sizes((ctypes.c_size_t * len(sizes))(*sizes), ctypes.c_size_t(len(sizes)))

PROBLEM = Filter2d(image=(6, 8), filter=(1, 2))
IMAGE, RESULT, WEIGHTS = Pointer("image"), Pointer("result"), ByValue("weights")
stream = 0x70

def plan_of(*launches):
    return plan_from(Program.of_source("test", Config.of({}), "", launches))

def plan_from(program, runtime=None):
    binaries = {unit.name: Binary(BinaryKind.CUBIN, bytes([number]), "sm_90", "-")
                for number, unit in enumerate(program.units)}
    made = Plan.load(PROBLEM, Match(MatchKind.DEFAULT, program, None, ()), binaries, runtime or CudaRuntime(0))
    signature, launches, calls = made.loaded.signature, made.loaded.launches, []
    access = torch_access(torch, signature, torch.device("cpu"), native(), lambda: stream)
    def fast(*given):
        if not calls:
            values = tuple(bytes(each.operand.nbytes) for each in signature.by_value)
            calls.append(calls_of(access, signature, launches, values, native()))
        return calls[0](*given)
    made.fast[torch.Tensor] = fast
    return made

def two_units(*launches):
    return Program("test", Config.of({}), (Unit("one", ""), Unit("two", "")), launches,
                   (Workspace("halves", 1000), Workspace("partial", 500)))

def launch(*arguments, **more): return Launch("kernel", (2, 3, 4), (5, 6, 7), arguments, 8, **more)

def refused(call, *given):
    try: call(*given)
    except (BadArgument, DeviceError, LaunchError) as error: return f"{type(error).__name__}: {error}"
    raise AssertionError("it was accepted")

"""


@pytest.fixture(scope="module")
def driver_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the driver without a GPU."""
    if shutil.which("g++") is None:
        pytest.skip("no g++ here")
    folder = tmp_path_factory.mktemp("libcuda")
    command = ["g++", "-std=c++17", "-O1", "-shared", "-fPIC", "-o", str(folder / "libcuda.so.1"), str(FAKE)]
    subprocess.run(command, check=True)
    return folder


CASES = {
    "each_call_brings_its_own_arguments": """
takes(8, 8, 8)
plan = plan_of(launch(IMAGE, RESULT, WEIGHTS))
assert isinstance(plan.loaded.launches, LAUNCHES)
other = torch.ones(6, 8)
for image, weights, at in ((x, w, 0x70), (x, w, 0x70), (other, w, 0x80), (other, 2 * w, 0), (x, 3 * w, 0x70)):
    stream, before = at, note.count
    assert plan(image, weights, out=out) is out
    assert note.count == before + 1
    assert (note.pointer(0), note.pointer(1)) == (image.data_ptr(), out.data_ptr())
    assert note.floats(2, 2) == weights[0].tolist()
    assert (note.stream, note.function, list(note.geometry)) == (at, 0xF0, [2, 3, 4, 5, 6, 7, 8])
w[0, 1] = 9  # in place: the same array with other values
plan(x, w, out=out)
assert note.floats(2, 2) == [1, 9]
made = plan(x, torch.tensor([[4.0, 5.0]]))
assert (tuple(made.shape), note.pointer(1), note.floats(2, 2)) == ((6, 7), made.data_ptr(), [4, 5])
""",
    "several_launches_and_transformed_weights_stand_where_the_kernel_reads_them": """
takes(8, 8, 12)
half = Transformed("weights", ((1.0, 0.0), (0.0, 1.0), (0.5, 0.5)))
plan = plan_of(launch(IMAGE, RESULT, half), launch(RESULT, IMAGE, half))
for weights in (w, 2 * w):
    before = note.count
    plan(x, weights, out=out)
    assert note.count == before + 2
    assert note.floats(2, 3) == [weights[0, 0], weights[0, 1], weights.mean()]
    assert (note.pointer(0), note.pointer(1)) == (out.data_ptr(), x.data_ptr())
""",
    "a_launch_that_begins_early_is_launched_so": """
takes(8, 8)
plan = plan_from(two_units(launch(IMAGE, RESULT, unit="one"), launch(IMAGE, RESULT, unit="two", begins_early=True)))
assert isinstance(plan.loaded.launches, LAUNCHES)
for at in (0x70, 0x80):
    stream = at
    plan(x, w, out=out)
    assert (note_before.begins_early, note.begins_early) == (0, 1)
    assert (note_before.function, note.function) == (0xF0, 0xF1)
    assert (note.stream, list(note.geometry)) == (at, [2, 3, 4, 5, 6, 7, 8])
    assert (note.pointer(0), note.pointer(1)) == (x.data_ptr(), out.data_ptr())
""",
    "several_units_share_scratch_memory_of_the_caller_s_or_of_the_plan_s": """
takes(8, 8)
halves, partial = Pointer("halves", 16), Pointer("partial", 4)
plan = plan_from(two_units(launch(IMAGE, halves, unit="one"), launch(partial, RESULT, unit="two")))
assert isinstance(plan.loaded.launches, LAUNCHES)
assert plan.workspace_bytes == 1536
block = torch.empty(4096, dtype=torch.uint8)
given = block.data_ptr() + -block.data_ptr() % 256
for scratch in (None, Allocation(given, 1536), None, Allocation(given + 256, 2048)):
    before = note.count
    for stream in (0x70, 0x70):
        y = plan(x, w, out=out) if scratch is None else plan.call_on(scratch, x, w)
    assert note.count == before + 4
    assert (note_before.function, note.function) == (0xF0, 0xF1)
    assert (note_before.pointer(0), note.pointer(1)) == (x.data_ptr(), y.data_ptr())
    base = note_before.pointer(1) - 16
    assert note.pointer(0) == base + 1024 + 4
    assert base % 256 == 0
    assert scratch is None or base == scratch.address
    assert scratch is not None or base not in (given, given + 256)
""",
    "maps_are_of_what_each_call_brings": """
takes(128, 128, 8)
def map_of(buffer): return TensorMap(buffer, DType.FLOAT16, (1, 6, 4, 64), (0, 0), (6, 4), (1, 1), 64, 8)
plan = plan_of(launch(map_of("image"), map_of("result"), RESULT))
assert isinstance(plan.loaded.launches, LAUNCHES)
for image in (x, torch.ones(6, 8), x):
    before = note.count
    y = plan(image, w)
    assert note.count == before + 1
    assert (note.pointer(0), note.pointer(1), note.pointer(2)) == (image.data_ptr(), y.data_ptr(), y.data_ptr())
    assert [int.from_bytes(bytes(note.arguments[place])[8:16], "little") for place in (0, 1)] == [64, 64]
""",
    "what_was_made_once_is_read_by_each_call": """
from warpsmith.devices.executable import Executable
from warpsmith.devices.module import CallArguments
from warpsmith.devices.launches import launches_of
takes(8, 8, 128)
kept_map = TensorMap("state", DType.FLOAT16, (1, 6, 4, 64), (0, 0), (6, 4), (1, 1), 64, 8)
first = launch(IMAGE, Pointer("state", 32), kept_map, unit="one")
steps = (first, launch(Pointer("halves"), RESULT, kept_map, unit="two"))
workspaces = (Workspace("state", 4096, Lifetime.KEPT), Workspace("halves", 256))
program = Program("test", Config.of({}), (Unit("one", ""), Unit("two", "")), steps, workspaces)
runtime, binaries = CudaRuntime(0), {name: Binary(BinaryKind.CUBIN, b"", "sm_90", "-") for name in ("one", "two")}
executable = Executable.load(runtime, program, binaries)
own = CallArguments(("image", "result"), ())
assert isinstance(launches_of(executable, runtime, own), BoundLaunches)  # each bound call has a state of its own
launches = launches_of(executable, runtime, CallArguments(("image", "result"), (), {"state": 0x5000}))
assert isinstance(launches, LAUNCHES)
for image, result in ((0x1000, 0x2000), (0x3000, 0x2000)):
    launches.launch((image, result), (), 0x70, Allocation(0x8000, 256))
    assert [note_before.pointer(place) for place in range(3)] == [image, 0x5020, 0x5000]
    assert [note.pointer(place) for place in range(3)] == [0x8000, result, 0x5000]
""",
    "plans_share_scratch_memory_that_grows_and_moves": """
takes(8, 8)
def layer(nbytes):
    steps = launch(IMAGE, Pointer("scratch"), unit="one"), launch(Pointer("scratch"), RESULT, unit="two")
    units, workspaces = (Unit("one", ""), Unit("two", "")), (Workspace("scratch", nbytes),)
    return plan_from(Program("test", Config.of({}), units, steps, workspaces), runtime)

def scratch_of(plan):
    plan(x, w, out=out)
    assert (note_before.pointer(0), note.pointer(1), note.stream) == (x.data_ptr(), out.data_ptr(), stream)
    assert note.pointer(0) == note_before.pointer(1)
    return note.pointer(0)

runtime = CudaRuntime(0)
small, large, held = layer(1000), layer(1 << 20), runtime._context._taken
assert isinstance(small.loaded.launches, LAUNCHES)
before = [scratch_of(small) for _ in range(3)]
assert before == [before[0]] * 3 and held == {before[0]}
moved = scratch_of(large)
assert held == {moved}
assert [scratch_of(each) for each in (small, large, small)] == [moved] * 3
assert DRIVER.warpsmith_finished() == 0x70
stream = 0x80
elsewhere = scratch_of(small)
assert held == {moved, elsewhere} and moved != elsewhere
del large
assert held == {elsewhere}
stream = 0x70
assert held == {elsewhere, scratch_of(small)} and len(held) == 2
del small
assert held == set()
""",
    "too_little_scratch_memory_is_refused": """
takes(8, 8)
halves, partial = Pointer("halves"), Pointer("partial")
plan = plan_from(two_units(launch(IMAGE, halves, unit="one"), launch(partial, RESULT, unit="two")))
for scratch in (Allocation(4096, 1535), Allocation(4096 + 128, 4096)):
    before = note.count
    told = f"workspace: must have 1536 bytes at a multiple of 256; got {scratch.nbytes} bytes at {scratch.address:#x}"
    for _ in range(2):
        assert refused(plan.call_on, scratch, x, w) == f"BadArgument: {told}"
    assert note.count == before
plan(x, w, out=out)
assert note.count == before + 2
""",
    "what_does_not_fit_is_refused_at_the_first_call": """
takes(8, 8, 12)
plan = plan_of(launch(IMAGE, RESULT, WEIGHTS))
told = "LaunchError: kernel kernel takes arguments of [8, 8, 12] bytes; the launch gives [8, 8, 8]"
assert refused(plan, x, w) == told
takes(8, 8, 8)
plan(x, w)
wide = plan_of(Launch("kernel", (1, 1, 1), (2048, 1, 1), (IMAGE, RESULT, WEIGHTS)))
assert "a block of (2048, 1, 1) does not lie within" in refused(wide, x, w)
closed = plan_of(launch(IMAGE, RESULT, WEIGHTS))
closed.loaded.executable.close()
assert refused(closed, x, w) == "LaunchError: kernel kernel was bound after its module was closed"
""",
    "a_thread_without_a_context_launches_in_the_plans_own": """
takes(8, 8, 8)
plan = plan_of(launch(IMAGE, RESULT, WEIGHTS))
plan(x, w)
before = note.count
DRIVER.warpsmith_answer(201)  # CUDA_ERROR_INVALID_CONTEXT, unless one is pushed
plan(x, 5 * w, out=out)
assert (note.count, note.floats(2, 2), note.pointer(1)) == (before + 1, [5, 10], out.data_ptr())
DRIVER.warpsmith_answer(700)
assert refused(plan, x, w) == "DeviceError: cannot launch kernel kernel: refused"
DRIVER.warpsmith_answer(0)
plan(x, w, out=out)
assert note.floats(2, 2) == [1, 2]
""",
    "many_streams": """
takes(8, 8, 8)
plan = plan_of(launch(IMAGE, RESULT, WEIGHTS))
for at in [*range(200), *range(200)]:
    stream = at
    plan(x, w, out=out)
    assert note.stream == at
""",
    "threads_have_arguments_of_their_own": """
# Each thread has weights of its own, and looks at what the driver was given before another thread may run.
import sys
takes(8, 8, 8)
plan = plan_of(launch(IMAGE, RESULT, WEIGHTS))
launches, failed, local = plan.loaded.launches, [], threading.local()
if LAUNCHES is CompiledLaunches: real = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)(launches._launch_kernel)

@ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)
def launching(configuration, function, arguments, null):
    table = ctypes.cast(arguments, ctypes.POINTER(ctypes.c_void_p))
    for _ in range(3):
        content = np.frombuffer(ctypes.string_at(table[2], 8), np.float32)
        if content.tolist() != local.expected: failed.append((content, local.expected))
    return real(*map(ctypes.c_void_p, (configuration, function, arguments, null)))

if LAUNCHES is CompiledLaunches: launches._launch_kernel = ctypes.cast(launching, ctypes.c_void_p).value
sys.setswitchinterval(1e-6)

def work(index):
    mine = np.array([[index, index + 0.5]], np.float32)
    target = torch.zeros(6, 7)
    for _ in range(300):
        mine += 16
        local.expected = mine[0].tolist()
        plan(x, mine, out=target)

threads = [threading.Thread(target=work, args=(index,)) for index in range(6)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert not failed, failed[0]
""",
    "a_call_that_is_checked_launches_the_same_way": """
takes(8, 8, 8)
plan = plan_of(launch(IMAGE, RESULT, WEIGHTS))
for image, weights in ((0x1000, w), (0x2000, 3 * w)):
    plan.loaded.launches.launch((image, 0x3000), (weights.astype(np.float32).tobytes(),), 0x80)
    assert (note.pointer(0), note.pointer(1), note.stream) == (image, 0x3000, 0x80)
    assert note.floats(2, 2) == weights[0].tolist()
""",
    "only_refused_kernels_are_launched_again": """
takes(8, 8)
first, last = launch(IMAGE, RESULT, unit="one"), Launch("last", (2, 3, 4), (5, 6, 7), (IMAGE, RESULT), 8, unit="two")
plan = plan_from(two_units(first, last))
plan(x, w, out=out)
if LAUNCHES is CompiledLaunches:
    launcher, before = plan.loaded.launches.launcher(()), note.count
    assert launcher.queue((1, 2, 0x4000), (), 0, 1) is None
    assert note.count == before + 1
    DRIVER.warpsmith_answer(700)
    assert launcher.queue((1, 2, 0x4000), (), 0, 1) == (700, 1)
    DRIVER.warpsmith_answer(0)
""",
    "what_needs_more_than_code_is_bound": """
takes(8, 8)
plan = plan_of(launch(IMAGE, RESULT, constants=(Constant("taps", "weights"),)))
assert isinstance(plan.loaded.launches, BoundLaunches)
""",
}

TAIL = """
import json, sys, traceback
failures = {}
for name, text in json.load(sys.stdin).items():
    for way, LAUNCHES in {"bound": BoundLaunches, "compiled": CompiledLaunches}.items():
        cuda_runtime.native = native if way == "compiled" else lambda: None
        stream, x, out, w = 0x70, torch.zeros(6, 8), torch.zeros(6, 7), np.array([[1, 2]], np.float32)
        try: exec(text, globals())
        except BaseException: failures[f"{name} {way}"] = traceback.format_exc()
print(json.dumps(failures))
"""


@pytest.fixture(scope="module")
def failures(driver_folder: Path) -> dict[str, str]:
    """Runs all cases over that driver in both ways, and returns the exceptions of those that fail."""
    environment = {**os.environ, "LD_LIBRARY_PATH": str(driver_folder)}
    command = [sys.executable, "-c", HEAD + TAIL]
    text = json.dumps(CASES)
    done = subprocess.run(command, input=text, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    told: dict[str, str] = json.loads(done.stdout)
    return told


@pytest.mark.parametrize("way", ["bound", "compiled"])
@pytest.mark.parametrize("case", CASES)
def test_calls(failures: dict[str, str], case: str, way: str) -> None:
    assert native() is not None
    assert f"{case} {way}" not in failures, failures[f"{case} {way}"]
