"""Programs that are right at first. Verification finds faults that only further runs, other buffer sets or other data
show.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

import exhaustive
from builders import launch
from builders import program as made_program
from testbeds import PROBLEM, QUICK, ROWS, WIDTH, on_both, opened, outcome
from warpsmith.devices.compiler import Compiler
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.devices.module import Graph
from warpsmith.generator.family import Family
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.filter2d.plain_family import Filter2dPlain
from warpsmith.generator.filter2d.window_family import Filter2dWindow
from warpsmith.generator.filter2d.window_geometry import Method
from warpsmith.generator.problem import Accuracy
from warpsmith.generator.program import ByValue, Pointer, Program
from warpsmith.generator.space import Config
from warpsmith.store.record import Failure, FailureKind, Measurement
from warpsmith.tuner.evaluate.testbed import Testbed
from warpsmith.tuner.evaluate.timing_policy import Launching, Rotation, TimingPolicy

SETS = 5
SOURCE = """
struct Weights { float taps[2]; };
STATE
extern "C" __global__ void kernel(float* image, float* result, const __grid_constant__ Weights weights) {
    const int x = threadIdx.x, y = blockIdx.x;
    const float left = image[y * 10 + x], right = image[y * 10 + x + 1];
    const float value = fmaf(weights.taps[0], left, weights.taps[1] * right);
    float* out = result + y * 9 + x;
    STORE
}
"""
RIGHT = "*out = value;"
COUNTER = "__device__ int runs;"


def program(store: str = RIGHT, state: str = "") -> Program:
    source = SOURCE.replace("STATE", state).replace("STORE", store)
    arguments = (Pointer("image"), Pointer("result"), ByValue("weights"))
    return made_program(source, launch(*arguments, grid=(ROWS, 1, 1), block=(WIDTH, 1, 1)))


class Replay(Graph):
    """A graph on the host: it repeats the work on the one set of buffers."""

    def __init__(self, work: Callable[[int], None]) -> None:
        self._work = work

    def launch(self) -> None:
        self._work(1)

    def close(self) -> None:
        """Releases nothing."""


@pytest.fixture
def rotating(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rotates buffers through SETS sets, as on a GPU."""
    monkeypatch.setattr(TimingPolicy, "rotation", lambda *_: Rotation(SETS, cold=True))


def failing(host: HostRuntime, compiler: Compiler | None, candidate: Program) -> Failure:
    """Failure of a candidate. Fails unless a right candidate passes after it."""
    with opened(host, compiler) as testbed:
        found = outcome(testbed, candidate)
        assert isinstance(outcome(testbed, program()), Measurement)
    assert isinstance(found, Failure), found
    return found


@on_both
@pytest.mark.usefixtures("rotating")
def test_a_right_one_is_measured(host: HostRuntime, compiler: Compiler | None) -> None:
    with opened(host, compiler) as testbed:
        for samples in (1, 2, 4, 20):
            policy = dataclasses.replace(QUICK, min_samples=samples, max_samples=samples)
            assert isinstance(outcome(testbed, program(), policy), Measurement)


@on_both
def test_adding_to_what_lies_in_the_result(host: HostRuntime, compiler: Compiler | None) -> None:
    """The first run is right, because it finds a NaN in the result."""
    found = failing(host, compiler, program("*out = *out == *out ? *out + value : value;"))
    assert found.kind is FailureKind.WRONG
    assert found.message.startswith("after 6 timed runs, in buffer set 0: 54 of 54 elements are wrong")


@on_both
@pytest.mark.usefixtures("rotating")
def test_a_counter_that_runs_out(host: HostRuntime, compiler: Compiler | None) -> None:
    """Only the eighth and last run is wrong. Before it come one run on each kind of data and two warm-up runs."""
    store = "const int number = atomicAdd(&runs, 1); *out = number >= 54 * 7 ? value + 1 : value;"
    found = failing(host, compiler, program(store, COUNTER))
    assert found.kind is FailureKind.WRONG
    assert found.message.startswith("after 6 timed runs, in buffer set 0: ")


@on_both
@pytest.mark.usefixtures("rotating")
def test_a_run_that_writes_nothing(host: HostRuntime, compiler: Compiler | None) -> None:
    """The results of an earlier candidate would look right in the same memory."""
    store = "const int number = atomicAdd(&runs, 1); if (number < 54 * 4 || number >= 54 * 5) *out = value;"
    with opened(host, compiler) as testbed:
        assert isinstance(outcome(testbed, program()), Measurement)
        policy = dataclasses.replace(QUICK, min_samples=3, max_samples=3)  # five runs, one per set
        found = outcome(testbed, program(store, COUNTER), policy)
    assert isinstance(found, Failure)
    assert found.message.startswith("after 5 timed runs, in buffer set 2: 54 of 54 elements are wrong")
    assert "is nan" in found.message


@on_both
@pytest.mark.usefixtures("rotating")
def test_one_that_is_right_on_the_first_set_alone(host: HostRuntime, compiler: Compiler | None) -> None:
    state = "__device__ float* first;"
    store = "if (first == nullptr) first = result; *out = result == first || x != 3 ? value : 0.0f;"
    with opened(host, compiler) as testbed:
        testbed._stress = None  # stress results lie in other buffers too
        found = outcome(testbed, program(store, state))
    assert isinstance(found, Failure)
    assert found.kind is FailureKind.WRONG
    assert found.message.startswith("after 6 timed runs, in buffer set 1: 6 of 54 elements are wrong")


@on_both
@pytest.mark.usefixtures("rotating")
def test_one_that_changes_its_input(host: HostRuntime, compiler: Compiler | None) -> None:
    """Each run flips a bit of one byte after reading it. Each buffer set runs an odd number of times, so the last
    result in it is right and only the input shows the fault.
    """
    store = "*out = value; __syncthreads(); if (x == 8 && y == 5) reinterpret_cast<unsigned char*>(image)[239] ^= 1;"
    found = failing(host, compiler, program(store))
    message = "after 6 timed runs, in buffer set 0: changed its input image: 1 bytes changed"
    assert found == Failure(FailureKind.WRONG, message)


@on_both
@pytest.mark.usefixtures("rotating")
def test_one_that_writes_the_same_input_back_in_another_order(host: HostRuntime, compiler: Compiler | None) -> None:
    """The kernel swaps two pixels that do not affect any result. A checksum without positions would stay the same."""
    store = """*out = value;
    const int number = atomicAdd(&runs, 1);
    if (number == 54 * 7 - 1) {  // the last thread of the last run
        const float kept = image[1];
        image[1] = image[2];
        image[2] = kept;
    }"""
    found = failing(host, compiler, program(store, COUNTER))
    assert found.kind is FailureKind.WRONG
    assert "changed its input image: " in found.message


@on_both
@pytest.mark.usefixtures("rotating")
def test_one_that_writes_beside_a_later_result(host: HostRuntime, compiler: Compiler | None) -> None:
    store = "*out = value; if (atomicAdd(&runs, 1) >= 54 * 3 && y == 5 && x == 8) out[1] = 1.0f;"
    found = failing(host, compiler, program(store, COUNTER))
    assert found.kind is FailureKind.OUT_OF_BOUNDS
    assert found.message.endswith("result: 4 bytes written within 65536 bytes after the buffer")
    assert found.message.startswith("after 6 timed runs, in buffer set ")


@on_both
def test_one_that_is_right_for_deviates_alone(host: HostRuntime, compiler: Compiler | None) -> None:
    """Normal deviates never reach 100, but pixels of stress data do."""
    found = failing(host, compiler, program("*out = fabsf(left) > 100.0f ? 0.0f : value;"))
    assert found.kind is FailureKind.WRONG
    assert found.message.startswith("on stress data: ")


@pytest.mark.parametrize("size", [(3, 3), (4, 7)], ids=str)
def test_sums_of_pixels_are_wrong_where_errors_are_small_elementwise(host: HostRuntime, size: tuple[int, int]) -> None:
    """A problem must allow Winograd's pairs of outputs. Normal deviates alone do not show their larger elementwise
    error.
    """
    elementwise = Filter2d((40, 170), size)
    normwise = dataclasses.replace(elementwise, accuracy=Accuracy.NORMWISE)
    family = Filter2dWindow()
    default = family.default(normwise, host.device)
    pairs = Config.of({**default.values(), "method": Method.WINOGRAD.value, "order": "taps"})
    assert family.space(normwise, host.device).why_not(pairs) is None
    candidate = family.program(normwise, pairs)
    with opened(host, None, normwise) as testbed:
        assert isinstance(outcome(testbed, candidate), Measurement)
    with opened(host, None, elementwise) as testbed:
        found = outcome(testbed, candidate)
        assert isinstance(found, Failure)
        assert found.message.startswith("on stress data: ")
        assert isinstance(outcome(testbed, family.program(elementwise, default)), Measurement)
        testbed._stress = None
        assert isinstance(outcome(testbed, candidate), Measurement)


@pytest.mark.usefixtures("compile_quickly")  # without optimisation a sum of 961 terms takes ten times as long
@exhaustive.meeting()
@pytest.mark.parametrize("taps", [5, 9, 15, 31])
@pytest.mark.parametrize("family", [Filter2dPlain(), Filter2dWindow()], ids=lambda family: family.name)
def test_right_kernels_of_large_filters_pass(host: HostRuntime, family: Family, taps: int) -> None:
    """Sums of equal signs round the same way. Without room for that, no filter larger than 11x11 would pass."""
    problem = Filter2d(image=(300, 400), filter=(taps, taps), border="nearest")
    candidate = family.program(problem, family.default(problem, host.device))
    with opened(host, None, problem) as testbed:
        assert isinstance(outcome(testbed, candidate), Measurement)


@on_both
def test_a_replay_that_goes_wrong(
    host: HostRuntime, compiler: Compiler | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the ninth run, the first graph replay, is wrong. The eight runs before it use no graph."""
    monkeypatch.setattr(host, "captured", Replay)
    policy = dataclasses.replace(QUICK, launching=Launching.GRAPH)
    with opened(host, compiler) as testbed:
        assert isinstance(outcome(testbed, program(), policy), Measurement)
        store = "if (atomicAdd(&runs, 1) < 54 * 8) *out = value;"
        found = outcome(testbed, program(store, COUNTER), policy)
    assert isinstance(found, Failure)
    assert found.kind is FailureKind.WRONG
    assert found.message.startswith("in a replay of the CUDA graph, in buffer set 0: 54 of 54 elements are wrong")


def test_a_large_problem_meets_them_in_its_finals(host: HostRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warpsmith.tuner.operations.registry.MAX_STRESS_TERMS", 100)
    with opened(host, None) as testbed:
        assert testbed._stress is None
        testbed.renew(4)
        assert testbed._stress is not None
    finals = Testbed(host, PROBLEM, 3, QUICK, guarded=True, finals=True)
    assert finals._stress is not None
    finals.close()
