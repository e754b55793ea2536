"""Problems with several results, and with state that one call leaves for the next: verification and calls of plans."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
import pytest

from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.devices.module import Graph
from warpsmith.devices.select import host_compiler
from warpsmith.errors import BadArgument
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.problem import DType, Operand, Problem, Role
from warpsmith.generator.program import Launch, Pointer, Program
from warpsmith.generator.space import Config
from warpsmith.generator.steps import Workspace
from warpsmith.plans.match import Match, MatchKind
from warpsmith.plans.plan import Plan
from warpsmith.store.record import Failure, FailureKind, Measurement
from warpsmith.tuner.evaluate.testbed import Testbed
from warpsmith.tuner.evaluate.timing_policy import Launching, TimingPolicy
from warpsmith.tuner.operations.judge import Judge, Operands, Reference, References
from warpsmith.tuner.operations.registry import JUDGES

SIZE = 64


@dataclasses.dataclass(frozen=True)
class Differences(Problem):
    """Differences and sums of neighbours in a signal that comes in pieces. The last element waits for more."""

    operation: ClassVar[str] = "differences"

    size: int = SIZE

    @functools.cached_property
    def operands(self) -> tuple[Operand, ...]:
        return (
            Operand("signal", Role.INPUT, (self.size,), DType.FLOAT32),
            Operand("last", Role.STATE, (1,), DType.FLOAT32),
            Operand("differences", Role.OUTPUT, (self.size,), DType.FLOAT32),
            Operand("sums", Role.OUTPUT, (self.size,), DType.FLOAT32),
        )

    @property
    def flops(self) -> int:
        return 2 * self.size

    def key(self) -> str:
        return f"differences size={self.size}"

    def spec(self) -> dict[str, Any]:
        return {"size": self.size}

    @classmethod
    def of(cls, spec: dict[str, Any]) -> Differences:
        return cls(**spec)

    def distance(self, other: Problem) -> float | None:
        return 0.0 if self == other else None


def answer(signal: np.ndarray, last: np.ndarray) -> dict[str, np.ndarray]:
    before = np.concatenate([last, signal[:-1]])
    return {"last": signal[-1:], "differences": signal - before, "sums": signal + before}


class DifferencesJudge(Judge[Differences]):
    def inputs(self, problem: Differences, generator: np.random.Generator) -> Operands:
        return {each.name: generator.standard_normal(each.shape, np.float32) for each in problem.inputs}

    stress_inputs = inputs

    def terms(self, problem: Differences) -> int:  # noqa: ARG002
        return 2

    def references(self, problem: Differences, operands: Operands) -> References:  # noqa: ARG002
        signal, last = (operands[name].astype(np.float64) for name in ("signal", "last"))
        scales = answer(np.abs(signal), -np.abs(last))
        magnitudes = np.abs(signal) + np.abs(np.concatenate([last, signal[:-1]]))
        expected = answer(signal, last)
        return {
            name: Reference(value, np.abs(scales["last"]) if name == "last" else magnitudes)
            for name, value in expected.items()
        }

    def smaller(self, problem: Differences) -> Differences:
        return problem

    def peers(self, *_: object) -> tuple[()]:
        return ()


RIGHT = """
extern "C" __global__ void kernel(const float* signal, float* last, float* differences, float* sums) {
    const int i = threadIdx.x;
    const float before = i == 0 ? *last : signal[i - 1];
    differences[i] = signal[i] - before;
    sums[i] = signal[i] + before;
    __syncthreads();
    if (i == 0) { *last = signal[63]; }
}
"""
ARGUMENTS = tuple(Pointer(name) for name in ("signal", "last", "differences", "sums"))


def program(source: str = RIGHT, workspaces: tuple[Workspace, ...] = ()) -> Program:
    arguments = (*ARGUMENTS, *(Pointer(each.name) for each in workspaces))
    launch = Launch("kernel", (1, 1, 1), (SIZE, 1, 1), arguments)
    return Program.of_source("differences_plain", Config.of({}), source, (launch,), workspaces)


@pytest.fixture(autouse=True)
def judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(JUDGES, Differences.operation, DifferencesJudge())  # type: ignore[arg-type]


@pytest.fixture(params=["on the host", "on the device"])
def bed(request: pytest.FixtureRequest, host: HostRuntime) -> Iterator[Testbed]:
    compiler = host_compiler() if request.param == "on the device" else None
    bed = Testbed(host, Differences(), 3, TimingPolicy.for_kind(DeviceKind.HOST), guarded=True, compiler=compiler)
    yield bed
    bed.close()


def outcome(bed: Testbed, quick: HostCompiler, source: str) -> Measurement | Failure:
    made = program(source)
    policy = TimingPolicy.for_kind(DeviceKind.HOST)
    return bed.evaluate(made, {"": quick.compile(made.compilation())}, policy).outcome


class TestVerified:
    def test_all_results_and_the_state_are_right(self, bed: Testbed, quick: HostCompiler) -> None:
        found = outcome(bed, quick, RIGHT)
        assert isinstance(found, Measurement), found
        assert found.max_error < 1e-6

    @pytest.mark.parametrize(
        ("line", "instead", "told"),
        [
            ("sums[i] = signal[i] + before;", "", "sums: "),
            ("differences[i] = signal[i] - before;", "differences[i] = signal[i] + before;", "differences: "),
            ("if (i == 0) { *last = signal[63]; }", "", "last: "),
            ("i == 0 ? *last : signal[i - 1]", "i == 0 ? 0.0f : signal[i - 1]", "differences: "),
        ],
    )
    def test_each_fault_is_told_by_its_result(
        self, bed: Testbed, quick: HostCompiler, line: str, instead: str, told: str
    ) -> None:
        assert line in RIGHT
        found = outcome(bed, quick, RIGHT.replace(line, instead))
        assert isinstance(found, Failure)
        assert found.kind is FailureKind.WRONG
        assert told in found.message

    def test_state_that_is_lost_after_some_runs_is_found(self, bed: Testbed, quick: HostCompiler) -> None:
        counting = RIGHT.replace('extern "C"', '__device__ int runs;\nextern "C"', 1)
        lost = counting.replace(
            "if (i == 0) { *last", "if (i == 0) { runs = runs + 1; }\n    if (i == 0 && runs < 4) { *last"
        )
        found = outcome(bed, quick, lost)
        assert isinstance(found, Failure)
        assert "last: " in found.message


class RunAgain(Graph):
    """Graph of the host: `launches` of its launches run the captured work, later ones run nothing."""

    def __init__(self, work: Callable[[int], None], launches: int) -> None:
        self._work, self._left = work, launches

    def launch(self) -> None:
        self._left -= 1
        if self._left >= 0:
            self._work(0)

    def close(self) -> None:
        pass


class TestGraphs:
    def graphed(
        self, host: HostRuntime, quick: HostCompiler, monkeypatch: pytest.MonkeyPatch, launches: tuple[int, ...]
    ) -> Measurement | Failure:
        """Outcome with graphs, of which number n runs its work `launches[n]` times."""
        left = iter(launches)
        monkeypatch.setattr(host, "captured", lambda work: RunAgain(work, next(left)), raising=False)
        policy = dataclasses.replace(TimingPolicy.for_kind(DeviceKind.HOST), launching=Launching.GRAPH)
        made = program()
        with contextlib.closing(Testbed(host, Differences(), 3, policy, guarded=True)) as bed:
            return bed.evaluate(made, {"": quick.compile(made.compilation())}, policy).outcome

    def test_state_in_a_graph_is_verified(
        self, host: HostRuntime, quick: HostCompiler, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        found = self.graphed(host, quick, monkeypatch, (10**6, 2))
        assert isinstance(found, Measurement), found

    @pytest.mark.parametrize("launches", [0, 1])
    def test_a_graph_that_runs_less_than_was_captured_is_found(
        self, host: HostRuntime, quick: HostCompiler, monkeypatch: pytest.MonkeyPatch, launches: int
    ) -> None:
        found = self.graphed(host, quick, monkeypatch, (10**6, launches))
        assert isinstance(found, Failure)
        assert "in a replay of the CUDA graph" in found.message


def plan_of(host: HostRuntime, quick: HostCompiler, made: Program) -> Plan:
    binaries = {"": quick.compile(made.compilation())}
    return Plan.load(Differences(), Match(MatchKind.DEFAULT, made, None, ()), binaries, host)


class TestPlans:
    SIGNAL = np.arange(2 * SIZE, dtype=np.float32) ** 2

    def test_a_signal_in_pieces_is_the_signal(self, host: HostRuntime, quick: HostCompiler) -> None:
        plan, last = plan_of(host, quick, program()), np.zeros(1, np.float32)
        pieces = [plan(piece, last) for piece in np.split(self.SIGNAL, 2)]
        assert all(isinstance(each, tuple) for each in pieces)
        differences, sums = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
        whole = answer(self.SIGNAL, np.zeros(1, np.float32))
        assert np.array_equal(differences, whole["differences"])
        assert np.array_equal(sums, whole["sums"])
        assert last == self.SIGNAL[-1]

    def test_writes_to_out(self, host: HostRuntime, quick: HostCompiler) -> None:
        plan, out = plan_of(host, quick, program()), tuple(np.full(SIZE, np.nan, np.float32) for _ in range(2))
        given = self.SIGNAL[:SIZE], np.ones(1, np.float32)
        for _ in range(2):  # the second call is of a known kind
            made = plan(*given, out=out)
            assert all(one is other for one, other in zip(made, out, strict=True))
        assert np.array_equal(out[1][1:], self.SIGNAL[1:SIZE] + self.SIGNAL[: SIZE - 1])

    def test_holds_no_state(self, host: HostRuntime, quick: HostCompiler) -> None:
        plan = plan_of(host, quick, program())
        with pytest.raises(BadArgument, match="last: is written by each call, so that no plan holds it"):
            plan.hold(last=np.zeros(1, np.float32))

    def test_refuses_what_does_not_fit(self, host: HostRuntime, quick: HostCompiler) -> None:
        plan = plan_of(host, quick, program())
        signal, last, other = self.SIGNAL[:SIZE].copy(), np.ones(1, np.float32), np.ones(SIZE, np.float32)
        frozen = last.copy()
        frozen.setflags(write=False)
        for inputs, out, why in (
            ((signal, last), other, "out: this plan has 2 results: give a tuple of arrays for differences, sums"),
            ((signal, last), (other,), "out: this plan has 2 results"),
            ((signal, last), (other, signal), "sums: shares memory with signal; give it memory of its own"),
            ((signal, last), (other, other), "differences: shares memory with sums"),
            ((signal, signal[:1]), None, "last: shares memory with signal"),
            ((signal, frozen), None, "last: .*read-only"),
            ((signal,), None, "a plan of differences takes signal, last; got 1 arrays"),
        ):
            with pytest.raises(BadArgument, match=why):
                plan(*inputs, out=out)


class TestWorkspace:
    SOURCE = RIGHT.replace("float* sums)", "float* sums, float* scratch)").replace(
        "sums[i] = signal[i] + before;", "scratch[i] = signal[i] + before;\n    sums[i] = scratch[i];"
    )
    SCRATCH = (Workspace("scratch", 4 * SIZE),)
    GIVEN = np.arange(SIZE, dtype=np.float32), np.zeros(1, np.float32)

    def test_the_caller_may_give_it(self, host: HostRuntime, quick: HostCompiler) -> None:
        plan = plan_of(host, quick, program(self.SOURCE, self.SCRATCH))
        assert plan.workspace_bytes == 256
        memory = np.zeros(plan.workspace_bytes + 256, np.uint8)
        start = -memory.ctypes.data % 256
        scratch = memory[start : start + plan.workspace_bytes]
        _, sums = plan(*self.GIVEN, workspace=scratch)
        assert np.array_equal(scratch.view(np.float32), sums)
        scratch[:] = 0
        _, again = plan(self.GIVEN[0], np.zeros(1, np.float32))
        assert np.array_equal(again, sums)
        assert not scratch.any()

    @pytest.mark.parametrize(
        ("make", "why"),
        [
            (lambda memory, start: memory[start : start + 255], r"workspace: expected uint8 of shape \(256,\)"),
            (lambda memory, start: memory[start : start + 256].view(np.float32), "workspace: expected uint8"),
            (lambda memory, start: memory[start + 64 : start + 320], "workspace: must have 256 bytes at a multiple"),
        ],
    )
    def test_what_is_too_small_or_crooked_is_refused(
        self, host: HostRuntime, quick: HostCompiler, make: Any, why: str
    ) -> None:
        plan = plan_of(host, quick, program(self.SOURCE, self.SCRATCH))
        memory = np.zeros(1024, np.uint8)
        with pytest.raises(BadArgument, match=why):
            plan(*self.GIVEN, workspace=make(memory, -memory.ctypes.data % 256))

    def test_a_plan_without_any_says_so(self, host: HostRuntime, quick: HostCompiler) -> None:
        plan = plan_of(host, quick, program())
        assert plan.workspace_bytes == 0
        with pytest.raises(BadArgument, match="workspace: this plan needs none"):
            plan(*self.GIVEN, workspace=np.zeros(256, np.uint8))
