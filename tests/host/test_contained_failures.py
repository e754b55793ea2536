"""Parts of a tuning run fail. The run still stores a winner, and its report names each failed part in one line."""

# ruff: noqa: ARG002 - methods that raise take what those of families do

from __future__ import annotations

import dataclasses
import os
import types
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import exhaustive
from warpsmith.cli import tune as command
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import OutOfMemory
from warpsmith.generator import registry
from warpsmith.generator.conv2d import Conv2d
from warpsmith.generator.conv2d.plain_family import Conv2dPlain
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.family import Family, Work
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.filter2d.plain_family import Filter2dPlain
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config, Constraint, Space
from warpsmith.store.store import Store
from warpsmith.tuner.evaluate import evaluator
from warpsmith.tuner.evaluate.bench import Bench
from warpsmith.tuner.faults import Part
from warpsmith.tuner.finals.choose import TuningFailed
from warpsmith.tuner.operations.judge import Judge
from warpsmith.tuner.options import TuneOptions
from warpsmith.tuner.progress import SilentProgress
from warpsmith.tuner.report import TuneReport
from warpsmith.tuner.run import session
from warpsmith.tuner.run.session import tune
from warpsmith.tuner.workers.deadlines import Deadlines

pytestmark = pytest.mark.usefixtures("compile_quickest")

HOST = DeviceRef(DeviceKind.HOST)
PROBLEM = Filter2d(image=(24, 32), filter=(3, 3))
STAGE = Filter2d(image=(16, 16), filter=(2, 2))
LAYER = Conv2d((1, 3, 9, 9), (4, 3, 3, 3))
QUICK = Deadlines(compile_s=60, first_run_s=60, least_run_s=10, run_factor=5)


def tuned(folder: Path, *families: Family, problem: Problem = PROBLEM, trials: int = 4) -> TuneReport:
    options = TuneOptions(trials=trials, deadlines=QUICK)
    with Store.open(str(folder / "store.db"), write=True) as opened:
        report = tune(problem, (HOST,), opened, options, SilentProgress(), families or None)
        assert opened.winner(problem.key(), HOST.device().key()) is not None
    return report


def told(report: TuneReport, part: Part, name: str) -> str:
    """Report line of a failed part. It must be the same in the facts and in the JSON document."""
    (failed,) = [each for each in report.part_failures if (each.part, each.name) == (part, name)]
    assert "\n" not in failed.message
    assert ("failed", failed.message) in command._facts(report, "store.db")
    spec = {"part": str(part), "name": name, "kind": str(failed.failure.kind), "reason": failed.failure.message}
    assert spec in command._document(report, "store.db")["part_failures"]
    return failed.message


class Failing(Filter2dPlain):
    """The plain family under another name, with one method that raises an exception."""

    name = "failing"

    def program(self, problem: Problem, config: Config) -> Program:
        made = Filter2dPlain().program(problem, config)  # by its own name, which its kernel has too
        return Program(self.name, config, made.units, made.steps, made.workspaces)


class WhyNotRaises(Failing):
    def why_not(self, problem: Problem, device: Device) -> str | None:
        raise ZeroDivisionError("planted why_not")


class SpaceRaises(Failing):
    def space(self, problem: Problem, device: Device) -> Space:
        raise KeyError("planted space")


class SpaceIsEmpty(Failing):
    def space(self, problem: Problem, device: Device) -> Space:
        space = super().space(problem, device)
        never = Constraint("planted: nothing is legal", lambda block_rows: block_rows < 0)
        return Space(space.parameters, (*space.constraints, never))

    def default(self, problem: Problem, device: Device) -> Config:
        raise ValueError(f"planted: the space of {problem.key()} is empty")


class DefaultRaises(Failing):
    def default(self, problem: Problem, device: Device) -> Config:
        raise RuntimeError("planted default")


class DefaultIsIllegal(Failing):
    def default(self, problem: Problem, device: Device) -> Config:
        return Config.of(super().default(problem, device).values() | {"block_rows": -1})


class StartsRaise(Failing):
    def starts(self, problem: Problem, device: Device) -> tuple[Config, ...]:
        raise IndexError("planted starts")


class LikelyRaises(Failing):
    def is_likely(self, problem: Problem, device: Device) -> bool:
        raise OverflowError("planted is_likely")


class RuleRaisesLater(Failing):
    """A rule that answers for the default, and fails while the search asks for more."""

    def space(self, problem: Problem, device: Device) -> Space:
        space, default = super().space(problem, device), self.default(problem, device)

        def rule(block_rows: int) -> bool:
            if block_rows != default.integer("block_rows"):
                raise LookupError("planted rule")
            return True

        return Space(space.parameters, (*space.constraints, Constraint("planted", rule)))


class ProgramRaises(Failing):
    def program(self, problem: Problem, config: Config) -> Program:
        raise AssertionError("planted program")


@pytest.mark.parametrize(
    ("family", "reason"),
    [
        (WhyNotRaises, "ZeroDivisionError: planted why_not"),
        (SpaceRaises, "planted space"),
        (SpaceIsEmpty, "planted: the space of"),
        (DefaultRaises, "planted default"),
        (DefaultIsIllegal, "block_rows=-1 is not one of"),
        (StartsRaise, "IndexError: planted starts"),
        (LikelyRaises, "OverflowError: planted is_likely"),
        (RuleRaisesLater, "LookupError: planted rule"),
        (ProgramRaises, "planted program"),
    ],
)
def test_a_family_that_raises_leaves_the_search_to_the_others(
    family: type[Failing], reason: str, tmp_path: Path
) -> None:
    report = tuned(tmp_path, family(), Filter2dPlain(), trials=2)
    assert report.record is not None
    assert reason in told(report, Part.FAMILY, "failing")


def test_a_family_whose_default_raises_is_searched_from_its_starts(tmp_path: Path) -> None:
    class Starting(DefaultRaises):
        def starts(self, problem: Problem, device: Device) -> tuple[Config, ...]:
            return (Filter2dPlain().default(problem, device),)

    report = tuned(tmp_path, Starting(), Filter2dPlain(), trials=6)
    assert "planted default" in told(report, Part.FAMILY, "failing")
    standing = next(each for each in report.standings if each.family == "failing")
    assert standing.best_ns is not None


def test_a_family_that_cannot_tell_its_work_is_searched_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class WorkRaises(Failing):
        def work(self, problem: Problem, config: Config) -> Work | None:
            raise TypeError("planted work")

    from warpsmith.tuner.run.screen import Screen

    made = Screen.__init__

    def dropping(self: Screen, *given: Any, **options: Any) -> None:
        made(self, *given, **options)
        self._drops = True  # as on a GPU

    monkeypatch.setattr(Screen, "__init__", dropping)
    report = tuned(tmp_path, WorkRaises(), trials=3)
    assert report.record is not None
    assert "TypeError: planted work" in told(report, Part.FAMILY, "failing")


def test_where_every_family_fails_the_reasons_are_told_by_family(tmp_path: Path, planted: Any) -> None:
    class Other(ProgramRaises):
        name = "other"

    with pytest.raises(TuningFailed) as caught:
        tuned(tmp_path, planted("wrong", "does-not-compile"), Other(), trials=12)
    message = str(caught.value)
    assert "\n" not in message
    assert "planted: " in message
    assert "1 wrong" in message
    assert "other: " in message
    assert "planted program" in message


@pytest.fixture
def staged(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Gives PROBLEM a stage, for which these families of its operation are searched."""

    def make(*families: Family) -> None:
        fake = types.SimpleNamespace(families=families, simplest=families[0], named=lambda _: None)
        patched = {**registry.OPERATIONS, STAGE.operation: fake}
        monkeypatch.setattr(registry, "OPERATIONS", patched)
        budget = session.budget_of_parts

        def with_stage(problem: Problem, device: Device, able: Any, store: Store, options: TuneOptions) -> Any:
            if problem == PROBLEM:
                return ((STAGE, dataclasses.replace(options, trials=2)),), options
            return budget(problem, device, able, store, options)

        monkeypatch.setattr(session, "budget_of_parts", with_stage)

    return make


def test_a_stage_whose_candidates_are_all_wrong_does_not_end_the_whole(
    tmp_path: Path, staged: Callable[..., None], planted: Any
) -> None:
    staged(planted("wrong"))
    report = tuned(tmp_path, Filter2dPlain(), trials=2)
    assert report.record is not None
    line = told(report, Part.STAGE, STAGE.key())
    assert "none of 1 candidates" in line
    assert "1 wrong" in line


def test_a_stage_that_no_family_solves_does_not_end_the_whole(tmp_path: Path, staged: Callable[..., None]) -> None:
    staged(WhyNotRaises())
    report = tuned(tmp_path, Filter2dPlain(), trials=2)
    assert "planted why_not" in told(report, Part.STAGE, STAGE.key())


def test_a_pipeline_that_cannot_name_its_stages_does_not_end_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raising(*_: object) -> Any:
        raise LookupError("planted stages")

    monkeypatch.setattr(session, "budget_of_parts", raising)
    report = tuned(tmp_path, Filter2dPlain(), trials=2)
    assert "planted stages" in told(report, Part.STAGE, f"of {PROBLEM.key()}")


JUDGES = """
import os
import types

from warpsmith.errors import OutOfMemory
from warpsmith.tuner.operations.conv2d.judge import Conv2dJudge
from warpsmith.tuner.operations.peer import Peer, PeerMaker


class TooLarge(Conv2dJudge):
    def references(self, problem, operands):
        raise MemoryError


class Refuses(Conv2dJudge):
    def references(self, problem, operands):
        raise OutOfMemory("planted: the reference takes 34 GB")


class StressFails(Conv2dJudge):
    def stress_slack(self, problem):
        raise ArithmeticError("planted stress")


class PeerRaises(Conv2dJudge):
    def peers(self, problem, operands, kind, sets):
        def make():
            raise RuntimeError("planted peer")

        def run(index=0, stream=None, /):
            raise RuntimeError("planted run")

        return (
            PeerMaker("raises", ("numpy",), make),
            PeerMaker("runs badly", ("numpy",), lambda: Peer("runs badly", run, lambda: None)),
        )


class PeersKill(Conv2dJudge):
    def peers(self, problem, operands, kind, sets):
        os._exit(3)
"""


@pytest.fixture(scope="module")
def judges(importable: Callable[[str, str], ModuleType]) -> ModuleType:
    return importable("judges_that_fail", JUDGES)


@pytest.fixture
def judged(judges: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes all benches use this judge, in their workers too."""
    paths = (str(Path(str(judges.__file__)).parent), os.environ.get("PYTHONPATH", ""))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))

    def make(name: str) -> None:
        judge: Judge[Conv2d] = getattr(judges, name)()

        def bench(*given: Any, **options: Any) -> Bench:
            return Bench(*given, **options, judge=judge)

        monkeypatch.setattr(evaluator, "Bench", bench)

    return make


@exhaustive.one_in(2)
@pytest.mark.parametrize(
    ("judge", "reason"), [("TooLarge", "out-of-memory: MemoryError"), ("Refuses", "planted: the reference takes 34 GB")]
)
def test_a_reference_that_the_host_cannot_make_is_made_by_kernels(
    judge: str, reason: str, judged: Callable[[str], None], tmp_path: Path
) -> None:
    judged(judge)
    report = tuned(tmp_path, Conv2dPlain(), problem=LAYER, trials=2)
    assert report.record is not None
    outcome = report.record.trial.outcome
    assert 0 < outcome.max_error < 1e-6  # type: ignore[union-attr]
    assert reason in told(report, Part.REFERENCE, "on the host")


def test_stress_data_that_cannot_be_made_are_left_out(judged: Callable[[str], None], tmp_path: Path) -> None:
    judged("StressFails")
    report = tuned(tmp_path, Conv2dPlain(), problem=LAYER, trials=2)
    assert "planted stress" in told(report, Part.REFERENCE, "of stress data")


def test_a_library_that_raises_is_left_out_with_its_reason(judged: Callable[[str], None], tmp_path: Path) -> None:
    judged("PeerRaises")
    report = tuned(tmp_path, Conv2dPlain(), problem=LAYER, trials=2)
    assert report.record is not None
    assert {each.name: each.reason for each in report.record.left_out} == {
        "raises": "failed: RuntimeError: planted peer",
        "runs badly": "failed: RuntimeError: planted run",
    }
    assert {each.name for each in report.record.baselines} >= {"copy"}


@pytest.mark.filterwarnings("ignore:the other libraries could not be timed")
def test_libraries_that_kill_the_process_leave_the_winner_and_the_copy(
    judged: Callable[[str], None], tmp_path: Path
) -> None:
    judged("PeersKill")
    report = tuned(tmp_path, Conv2dPlain(), problem=LAYER, trials=2)
    assert report.record is not None
    assert "exit code 3" in told(report, Part.PEER, "libraries beside the winner")
    assert {each.name for each in report.record.baselines} >= {"copy"}


def test_a_worker_that_dies_of_every_candidate_of_a_family_leaves_the_others(tmp_path: Path, planted: Any) -> None:
    report = tuned(tmp_path, planted("crashes"), Filter2dPlain(), trials=4)
    assert report.record is not None
    assert report.record.trial.family == "filter2d_plain"
    assert {str(kind) for kind in report.failures} == {"crash"}


def test_a_worker_that_cannot_be_opened_again_leaves_what_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search ends after the third candidate whose worker cannot be opened, and the best result so far wins."""
    evaluate, runs = Bench.evaluate, []

    def evaluated(self: Bench, *given: Any, **options: Any) -> Any:
        runs.append(given)
        if 2 <= len(runs) <= 4:
            raise OutOfMemory("planted: no memory for the process")
        return evaluate(self, *given, **options)

    monkeypatch.setattr(Bench, "evaluate", evaluated)
    report = tuned(tmp_path, Filter2dPlain(), trials=12)
    assert report.record is not None
    assert report.tried < 12
    assert "planted: no memory for the process" in told(report, Part.WORKER, "of the search")


def test_a_compiler_process_that_fails_costs_its_candidate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from warpsmith.tuner.workers.compile_pool import CompilePool

    compile_, asked = CompilePool._compile, []

    def compiled(self: CompilePool, program: Program) -> Any:
        asked.append(program)
        if len(asked) == 2:
            raise OSError("planted: the cache is not readable")
        return compile_(self, program)

    monkeypatch.setattr(CompilePool, "_compile", compiled)
    report = tuned(tmp_path, Filter2dPlain(), trials=4)
    assert report.record is not None
    assert sum(report.failures.values()) == 1
