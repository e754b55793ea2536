"""Programs of two units and workspaces on the CPU: right ones are measured, and each planted fault is found."""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from testbeds import COLUMNS, PROBLEM, ROWS, WIDTH, on_both, opened, outcome
from warpsmith.devices.compiler import Compiler
from warpsmith.devices.executable import Executable
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.devices.select import DeviceRef, host_compiler
from warpsmith.devices.workspaces import Workspaces
from warpsmith.errors import CompileError
from warpsmith.generator.device import Device
from warpsmith.generator.family import Family
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import (
    ByValue,
    Launch,
    Lifetime,
    Pointer,
    Program,
    Unit,
    Workspace,
)
from warpsmith.generator.space import Config, Parameter, Space
from warpsmith.plans.match import Match, MatchKind
from warpsmith.plans.plan import Plan
from warpsmith.store.record import Failure, FailureKind, Measurement
from warpsmith.store.store import Store
from warpsmith.tuner.evaluate.timing_policy import Rotation, TimingPolicy
from warpsmith.tuner.options import TuneOptions
from warpsmith.tuner.progress import SilentProgress
from warpsmith.tuner.run.session import tune

SETS = 3
HALF = 256
"""Bytes of each half of the workspace; 216 of them are used."""

# Both units have a struct, a function, a variable and a kernel of the same names but with different contents.
PRODUCTS = """
struct Weights { float taps[2]; };
__device__ int runs[6];  // of each block: blocks run side by side, and some may end before others begin
__device__ float at(const float* image, int y, int x) { return image[y * 10 + x]; }
extern "C" __global__ void kernel(float* image, float* left, float* right, const __grid_constant__ Weights weights) {
    const int x = threadIdx.x, y = blockIdx.x, i = y * 9 + x;
    const bool first = runs[y] == 0;
    if (x == 8) { runs[y] = runs[y] + 1; }
    const float product = weights.taps[0] * at(image, y, x);
    STORE
    right[i] = weights.taps[1] * at(image, y, x + 1);
}
"""
STORE = "left[i] = product;"
SUMS = """
struct Weights { char unused; };
__device__ float runs;
__device__ float at(const float* left, const float* right, int i) { return left[i] + right[i]; }
extern "C" __global__ void kernel(float* left, float* right, float* result) {
    const int i = blockIdx.x * 9 + threadIdx.x;
    result[i] = at(left, right, i);
}
"""

BOTH = (Pointer("products"), Pointer("products", HALF))
STEPS = (
    Launch("kernel", (ROWS, 1, 1), (WIDTH, 1, 1), (Pointer("image"), *BOTH, ByValue("weights")), unit="products"),
    Launch("kernel", (ROWS, 1, 1), (WIDTH, 1, 1), (*BOTH, Pointer("result")), unit="sums"),
)


def program(store: str = STORE, nbytes: int = 2 * HALF) -> Program:
    units = (Unit("products", PRODUCTS.replace("STORE", store)), Unit("sums", SUMS))
    return Program("two_units", Config.of({"store": store}), units, STEPS, (Workspace("products", nbytes),))


KEEPING = """
struct Weights { float taps[2]; };
struct Kept { int magic; float taps[2]; };
__device__ int runs;
extern "C" __global__ void kernel(float* image, float* result, Kept* kept, const __grid_constant__ Weights weights) {
    if (kept->magic != 1234 && runs == 0) {
        kept->magic = 1234;
        kept->taps[0] = weights.taps[0];
        kept->taps[1] = weights.taps[1];
    }
    runs = runs + 1;
    for (int y = 0; y < 6; ++y) {
        for (int x = 0; x < 9; ++x) {
            result[y * 9 + x] = fmaf(kept->taps[0], image[y * 10 + x], kept->taps[1] * image[y * 10 + x + 1]);
        }
    }
}
"""


def keeping(lifetime: Lifetime) -> Program:
    """Program that reads the weights from a workspace that only its first run fills."""
    arguments = (Pointer("image"), Pointer("result"), Pointer("kept"), ByValue("weights"))
    launch = Launch("kernel", (1, 1, 1), (1, 1, 1), arguments)
    kept = (Workspace("kept", 12, lifetime),)
    return Program.of_source("keeping", Config.of({}), KEEPING, (launch,), kept)


@pytest.fixture
def rotating(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rotates buffers through SETS sets, as on a GPU."""
    monkeypatch.setattr(TimingPolicy, "rotation", lambda *_: Rotation(SETS, cold=True))


@pytest.fixture
def unstressed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uses a single draw of inputs, so that old workspace contents from the run before are right."""
    monkeypatch.setattr("warpsmith.tuner.operations.registry.MAX_STRESS_TERMS", 0)


def failing(host: HostRuntime, compiler: Compiler | None, candidate: Program) -> Failure:
    """Failure of a candidate. Fails unless a right candidate passes before it and after it."""
    with opened(host, compiler) as testbed:
        assert isinstance(outcome(testbed, program()), Measurement)
        found = outcome(testbed, candidate)
        assert isinstance(outcome(testbed, program()), Measurement)
    assert isinstance(found, Failure), found
    return found


@on_both
@pytest.mark.usefixtures("rotating")
class TestVerified:
    def test_a_right_one_is_measured(self, host: HostRuntime, compiler: Compiler | None) -> None:
        with opened(host, compiler) as testbed:
            for _ in range(2):
                assert isinstance(outcome(testbed, program()), Measurement)

    @pytest.mark.parametrize("store", ["if (x != 4) " + STORE, "if (!first) " + STORE, ""])
    def test_a_read_of_what_was_never_written(self, host: HostRuntime, compiler: Compiler | None, store: str) -> None:
        """A right candidate ran before in the memory that this one gets again."""
        found = failing(host, compiler, program(store))
        assert found.kind is FailureKind.WRONG
        assert "elements are wrong" in found.message

    @pytest.mark.usefixtures("unstressed")
    def test_a_read_of_what_an_earlier_run_wrote(self, host: HostRuntime, compiler: Compiler | None) -> None:
        found = failing(host, compiler, program("if (first) " + STORE))
        assert found.kind is FailureKind.WRONG
        assert found.message.startswith("after 6 timed runs, in buffer set 0: ")

    @pytest.mark.parametrize(
        ("store", "told"),
        [
            (STORE + " if (i == 0) right[64] = 1.0f;", "workspace products: 4 bytes written within 65536 bytes after"),
            (STORE + " if (i == 0) left[-1] = 1.0f;", "workspace products: 4 bytes written within 65536 bytes before"),
        ],
    )
    def test_a_write_past_an_end(self, host: HostRuntime, compiler: Compiler | None, store: str, told: str) -> None:
        found = failing(host, compiler, program(store))
        assert found == Failure(FailureKind.OUT_OF_BOUNDS, f"{told} the buffer")

    def test_a_write_past_an_end_in_a_later_run(self, host: HostRuntime, compiler: Compiler | None) -> None:
        found = failing(host, compiler, program(STORE + " if (i == 0 && runs[0] > 3) right[64] = 1.0f;"))
        told = "after 6 timed runs: workspace products: 4 bytes written within 65536 bytes after the buffer"
        assert found == Failure(FailureKind.OUT_OF_BOUNDS, told)

    def test_a_workspace_that_is_too_small(self, host: HostRuntime, compiler: Compiler | None) -> None:
        found = failing(host, compiler, program(nbytes=2 * HALF - 44))
        assert found.kind is FailureKind.OUT_OF_BOUNDS
        assert found.message.startswith("workspace products: 4 bytes written")


@on_both
@pytest.mark.usefixtures("unstressed")
class TestKept:
    def test_stays_from_run_to_run(self, host: HostRuntime, compiler: Compiler | None) -> None:
        with opened(host, compiler) as testbed:
            assert isinstance(outcome(testbed, keeping(Lifetime.KEPT)), Measurement)

    def test_one_that_is_lost_between_calls_is_found(self, host: HostRuntime, compiler: Compiler | None) -> None:
        """A faulty family could request workspace memory for one call and rely on its contents in the next."""
        found = failing(host, compiler, keeping(Lifetime.CALL))
        assert found.kind is FailureKind.WRONG
        assert found.message.startswith("after 6 timed runs, in buffer set 0: 54 of 54 elements are wrong")


def test_texts_of_the_same_names_are_no_single_text() -> None:
    candidate = program()
    as_one = "".join(unit.source for unit in candidate.units)
    launches = tuple(dataclasses.replace(launch, unit="") for launch in candidate.launches)
    with pytest.raises(CompileError):
        host_compiler().compile_program(Program.of_source("one", Config.of({}), as_one, launches, candidate.workspaces))
    assert host_compiler().compile_program(candidate).keys() == {"products", "sums"}


def test_programs_share_the_binary_of_a_unit_that_they_share(tmp_path: Path) -> None:
    compiler = dataclasses.replace(host_compiler(), folder=tmp_path / "binaries")  # type: ignore[type-var]
    first = compiler.compile_program(program())
    other = program("left[i] = product + 0.0f;")
    assert compiler.cached_program(other) is None
    known = {name: compiler.cached(unit) for name, unit in other.compilations().items()}
    assert known == {"products": None, "sums": first["sums"]}
    compiler.compile_program(other)
    assert len(list((tmp_path / "binaries").iterdir())) == 3


def expected(image: NDArray[np.float32], weights: NDArray[np.float32]) -> NDArray[np.float32]:
    return weights[0, 0] * image[:, :-1] + weights[0, 1] * image[:, 1:]


def plan_of(candidate: Program, runtime: HostRuntime) -> Plan:
    match = Match(MatchKind.DEFAULT, candidate, None, ())
    return Plan.load(PROBLEM, match, host_compiler().compile_program(candidate), runtime)


class TestPlans:
    def test_compute_and_give_their_memory_back(self) -> None:
        runtime = HostRuntime()
        plan, rng = plan_of(program(), runtime), np.random.default_rng(0)
        for _ in range(3):
            image, weights = rng.random((ROWS, COLUMNS), np.float32), rng.random((1, 2), np.float32)
            np.testing.assert_allclose(plan(image, weights), expected(image, weights), rtol=1e-6)
        assert len(runtime._live) == 1
        del plan
        assert runtime._live == set()

    def test_of_several_threads_at_a_time_share_nothing(self) -> None:
        plan, rng = plan_of(program(), HostRuntime()), np.random.default_rng(0)
        cases = [(rng.random((ROWS, COLUMNS), np.float32), rng.random((1, 2), np.float32)) for _ in range(8)]
        wrong: list[int] = []

        def call(number: int) -> None:
            image, weights = cases[number]
            for _ in range(50):
                if not np.allclose(plan(image, weights), expected(image, weights), rtol=1e-5):
                    wrong.append(number)

        threads = [threading.Thread(target=call, args=(number,)) for number in range(len(cases))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []

    def test_keep_what_is_kept(self) -> None:
        """A second call with other weights on the same arrays makes a separate bound program."""
        runtime = HostRuntime()
        plan = plan_of(keeping(Lifetime.KEPT), runtime)
        image, out = np.ones((ROWS, COLUMNS), np.float32), np.empty((ROWS, WIDTH), np.float32)
        for _ in range(3):
            assert plan(image, np.full((1, 2), 3, np.float32), out=out).max() == 6
        assert len(runtime._live) == 1
        plan(image, np.full((1, 2), 4, np.float32), out=out)
        assert len(runtime._live) == 2

    def test_give_back_what_the_calls_that_they_forget_have_kept(self) -> None:
        runtime = HostRuntime()
        plan = plan_of(keeping(Lifetime.KEPT), runtime)
        image, out = np.ones((ROWS, COLUMNS), np.float32), np.empty((ROWS, WIDTH), np.float32)
        for weight in range(40):
            plan(image, np.full((1, 2), weight, np.float32), out=out)
        assert len(runtime._live) == 16


def test_bound_programs_have_kept_workspaces_of_their_own(host: HostRuntime) -> None:
    counting = """
    extern "C" __global__ void kernel(int* result, int* kept, int start) { kept[0] += 1; result[0] = start + kept[0]; }
    """
    launch = Launch("kernel", (1, 1, 1), (1, 1, 1), (Pointer("result"), Pointer("kept"), ByValue("start")))
    candidate = Program.of_source("count", Config.of({}), counting, (launch,), (Workspace("kept", 4, Lifetime.KEPT),))
    executable = Executable.load(host, candidate, host_compiler().compile_program(candidate))
    workspaces, memory = Workspaces(host, executable.workspaces), host.allocate(4)
    try:
        calls = []
        for start in (0, 100):
            kept = workspaces.allocate_kept()
            host.fill(kept.addresses["kept"], 0, 4)
            values = {"start": np.int32(start).tobytes()}
            calls.append(executable.bind({"result": memory.address}, values, kept.addresses))
        found = []
        for call in (*calls, *calls, calls[1]):
            call(None)
            result = np.empty(1, np.int32)
            host.download(result, memory.address)
            found.append(int(result[0]))
        assert found == [1, 101, 2, 102, 103]
    finally:
        workspaces.close()
        executable.close()
        host.free(memory)


class TwoUnits(Family):
    """The two-unit program above as a family of one right config and several wrong ones."""

    name = "two_units"
    stores = (STORE, "if (x != 4) " + STORE, STORE + " if (i == 0) right[64] = 1.0f;")

    def why_not(self, problem: Problem, device: Device) -> str | None:  # noqa: ARG002
        return None if problem == PROBLEM else "solves one problem"

    def space(self, problem: Problem, device: Device) -> Space:  # noqa: ARG002
        return Space((Parameter("store", self.stores, "how products are stored"),), ())

    def default(self, problem: Problem, device: Device) -> Config:  # noqa: ARG002
        return Config.of({"store": STORE})

    def program(self, problem: Problem, config: Config) -> Program:  # noqa: ARG002
        return dataclasses.replace(program(config.text("store")), config=config)


def test_a_tuning_run_compiles_verifies_and_stores_them(tmp_path: Path) -> None:
    host = (DeviceRef.parse("host"),)
    with Store.open(str(tmp_path / "a.db"), write=True) as store:
        record = tune(PROBLEM, host, store, TuneOptions(trials=3), SilentProgress(), (TwoUnits(),)).record
        trials = store.trials(PROBLEM, host[0].device())
    assert record is not None
    assert (record.trial.family, record.trial.config) == ("two_units", Config.of({"store": STORE}))
    assert record.trial.fingerprint == program().fingerprint
    kinds = {trial.outcome.kind for trial in trials if isinstance(trial.outcome, Failure)}
    assert (len(trials), kinds) == (3, {FailureKind.WRONG, FailureKind.OUT_OF_BOUNDS})
