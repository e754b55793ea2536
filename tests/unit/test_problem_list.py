"""Many problems under one time limit: shares of it, and refusal of bad lists."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest

from builders import timing, trial
from short_turns import shorten
from warpsmith.cli.app import run
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import BadArgument, CompileError, DeviceError, OutOfMemory, StoreError
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.problem import Problem
from warpsmith.store.record import FailureKind, Trial
from warpsmith.tuner.finals.choose import TuningFailed
from warpsmith.tuner.options import TuneOptions
from warpsmith.tuner.progress import SilentProgress
from warpsmith.tuner.run import problem_list
from warpsmith.tuner.run.problem_list import LEAST_S, gain_of, read_problems, tune_all

HOST = (DeviceRef(DeviceKind.HOST),)
PROBLEMS = [Filter2d(image=(32, 32 + n), filter=(3, 3)) for n in range(4)]
WRONG = FailureKind.WRONG


class Land:
    """A tuner whose trials take 1 s, a store for them, and a clock that only they advance."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.apart_s = 0.0
        """Seconds of each turn that its time limit does not count."""
        self.turns: list[tuple[int, float]] = []
        self.kept: dict[Problem, list[Trial]] = {problem: [] for problem in PROBLEMS}
        self.gains = dict.fromkeys(PROBLEMS, 0.0)
        self.failing: dict[Problem, Exception] = {}
        self.database = self
        self.server_url: str | None = None

    def monotonic(self) -> float:
        return self.now

    def trials(self, problem: Problem, _: object) -> tuple[Trial, ...]:
        # One under other conditions, which says nothing of what is gained under those of the turns.
        other = trial(0, timing(1e-3, policy="median, 1 runs a sample, CUDA graph, cold L2"))
        return (other, *self.kept[problem])

    def tune(self, problem: Problem, _devices: object, _store: object, options: TuneOptions, _: object) -> Any:
        assert options.time_limit_s is not None
        self.turns.append((PROBLEMS.index(problem), options.time_limit_s))
        self.now += options.time_limit_s + self.apart_s
        if problem in self.failing:
            raise self.failing[problem]
        count, kept = int(options.time_limit_s), self.kept[problem]
        best = min((each.median_ns or math.inf for each in kept), default=1000.0)
        # Each turn's last trial is faster than all before it, by the problem's own gain.
        times = [best] * (count - 1) + [best * math.exp(-self.gains[problem])]
        kept += [trial(len(kept) + n, WRONG if ns is None else ns) for n, ns in enumerate(times)]
        record = type("Record", (), {"trial": kept[-1], "conditions": "unknown"})
        return type("Report", (), {"record": record, "tried": count, "interrupted": False})


@pytest.fixture
def land(monkeypatch: pytest.MonkeyPatch) -> Land:
    land = Land()
    monkeypatch.setattr(problem_list, "tune", land.tune)
    monkeypatch.setattr(problem_list.time, "monotonic", land.monotonic)
    return land


def go(land: Land, limit_s: float, problems: list[Filter2d] = PROBLEMS) -> list[tuple[int, float]]:
    tune_all(problems, HOST, land, TuneOptions(time_limit_s=limit_s), SilentProgress())  # type: ignore[arg-type]
    return land.turns


class TestTurns:
    def test_half_the_time_to_all_then_half_of_the_rest_to_the_better_half(self, land: Land) -> None:
        land.gains = dict(zip(PROBLEMS, (0.1, 0.3, 0.0, 0.2), strict=True))
        assert go(land, 1600) == [
            *((n, 200.0) for n in range(4)),
            *((n, 200.0) for n in (1, 3)),
            (1, 400.0),
        ]

    def test_what_a_limit_does_not_count_is_taken_off_the_next_turn(self, land: Land) -> None:
        """The first of four turns of 200 s takes 20 s more, so that 580 s are left for three."""
        land.apart_s = 20.0
        turns = go(land, 1600)
        assert turns[:4] == [(0, 200.0), *((n, pytest.approx(580 / 3 - 20)) for n in (1, 2, 3))]
        assert land.now <= 1000 + 1600 + land.apart_s

    def test_one_problem_gets_it_all(self, land: Land) -> None:
        assert go(land, 300, PROBLEMS[:1]) == [(0, 300.0)]

    def test_none_is_shorter_than_it_takes_to_begin(self, land: Land) -> None:
        assert go(land, 2.5 * LEAST_S) == [(0, LEAST_S), (1, LEAST_S), (2, LEAST_S / 2)]

    def test_one_that_fails_leaves_its_time_to_the_others(self, land: Land) -> None:
        land.failing[PROBLEMS[0]] = TuningFailed("none is right")
        land.gains[PROBLEMS[0]] = 5.0
        standings = tune_all(PROBLEMS[:2], HOST, land, TuneOptions(time_limit_s=400), SilentProgress())  # type: ignore[arg-type]
        assert land.turns == [(0, 100.0), (1, 100.0), (1, 200.0)]
        assert [standing.failure for standing in standings] == ["none is right", None]
        assert standings[1].best_ns == 1000

    @pytest.mark.parametrize(
        ("error", "told"),
        [
            (OutOfMemory("the reference takes 34 GB"), "the reference takes 34 GB"),
            (BadArgument("no kernel family solves it"), "no kernel family solves it"),
            (DeviceError("the device could not be prepared"), "the device could not be prepared"),
            (ZeroDivisionError("planted"), "ZeroDivisionError: planted"),
        ],
    )
    def test_whatever_makes_one_fail(self, land: Land, error: Exception, told: str) -> None:
        land.failing[PROBLEMS[0]] = error
        standings = tune_all(PROBLEMS[:2], HOST, land, TuneOptions(time_limit_s=400), SilentProgress())  # type: ignore[arg-type]
        assert [standing.failure for standing in standings] == [told, None]
        assert standings[1].best_ns == 1000

    @pytest.mark.parametrize("error", [CompileError("nvrtc is missing"), StoreError("the disk is full")])
    def test_what_would_fail_for_all_ends_it(self, land: Land, error: Exception) -> None:
        land.failing[PROBLEMS[1]] = error
        with pytest.raises(type(error), match=str(error)):
            go(land, 400)

    def test_a_device_that_is_not_there_ends_it(self, land: Land) -> None:
        with pytest.raises(DeviceError):
            tune_all(PROBLEMS, (DeviceRef(DeviceKind.CUDA, 99),), land, TuneOptions(time_limit_s=4), SilentProgress())  # type: ignore[arg-type]
        assert land.turns == []

    def test_machines_that_share_a_server_begin_at_different_problems(self, land: Land) -> None:
        land.server_url = "postgresql+psycopg://host/database"
        first = set()
        for _ in range(50):
            land.turns.clear()
            turns = go(land, 4 * LEAST_S)
            assert sorted(problem for problem, _ in turns[:4]) == [0, 1, 2, 3]
            first.add(turns[0][0])
        assert first == {0, 1, 2, 3}

    def test_needs_a_time_limit(self, land: Land) -> None:
        with pytest.raises(BadArgument, match="needs a time limit"):
            tune_all(PROBLEMS, HOST, land, TuneOptions(), SilentProgress())  # type: ignore[arg-type]


class TestGain:
    def test_is_what_the_second_half_of_the_last_turn_improved(self) -> None:
        times = [100.0, 50.0, 40.0, 40.0, 20.0, 30.0]
        trials = [trial(n, WRONG if ns is None else ns) for n, ns in enumerate(times)]
        assert gain_of(trials, 4) == pytest.approx(math.log(2))  # 40 before, 20 after
        assert gain_of(trials, 2) == 0  # 30 is no better than 20

    def test_of_failures_is_none_and_of_a_first_success_without_bound(self) -> None:
        assert gain_of([trial(0, WRONG), trial(1, WRONG)], 2) == 0
        assert gain_of([trial(0, WRONG), trial(1, 5.0)], 2) == math.inf


class TestProblems:
    def read(self, tmp_path: Path, content: Any) -> tuple[Problem, ...]:
        file = tmp_path / "problems.json"
        file.write_text(content if isinstance(content, str) else json.dumps(content))
        return read_problems(file)

    def test_are_read_once_each_with_what_is_usual_left_out(self, tmp_path: Path) -> None:
        one = {"operation": "filter2d", "image": [8, 9], "filter": [3, 3]}
        assert self.read(tmp_path, [one, {**one, "border": "wrap"}, one]) == (
            Filter2d(image=(8, 9), filter=(3, 3)),
            Filter2d(image=(8, 9), filter=(3, 3), border="wrap"),  # type: ignore[arg-type]
        )

    def test_as_stored_are_read_too(self, tmp_path: Path) -> None:
        problem = dataclasses.replace(PROBLEMS[0], channels=3)
        assert self.read(tmp_path, [{"operation": "filter2d", **problem.spec()}]) == (problem,)

    @pytest.mark.parametrize(
        ("content", "told"),
        [
            ("[", "is not valid JSON"),
            ([], "must hold a list of problems"),
            ({"operation": "filter2d"}, "must hold a list of problems"),
            ([3], "problem 1: it must be an object that names its operation"),
            (
                [{"operation": "filter2d", "image": [8, 8], "filter": [3, 3]}, {"image": [8, 8]}],
                "problem 2: it must be",
            ),
            ([{"operation": "sort"}], "problem 1: .*sort"),
            ([{"operation": "filter2d", "image": [8, 8]}], "problem 1: .*filter"),
            ([{"operation": "filter2d", "image": [8, 8], "filter": [9, 9]}], "problem 1: "),
            ([{"operation": "filter2d", "image": [8, 8], "filter": [3, 3], "size": 3}], "problem 1: .*size"),
        ],
    )
    def test_that_are_none_are_told_with_their_number(self, tmp_path: Path, content: Any, told: str) -> None:
        with pytest.raises(BadArgument, match=told):
            self.read(tmp_path, content)


class TestCommand:
    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            (["--from", "none.json", "--time-limit", "9s"], "cannot read none.json"),
            (["--from", "list.json"], "needs a time limit"),
            (["--from", "list.json", "--replay", "list.json"], "name an operation, or give one of"),
            (["--device", "host"], "name an operation, or give one of"),
            (["--from", "list.json", "filter2d", "--image", "8x8", "--filter", "3x3"], "take no operation"),
            (["--replay", "list.json"], "is not a readable recording"),
            (["--replay", "none"], "there is no recording none"),
        ],
    )
    def test_bad_arguments_are_one_line_and_2(
        self,
        arguments: list[str],
        told: str,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "list.json").write_text('[{"operation": "filter2d", "image": [8, 8], "filter": [3, 3]}]')
        assert run(["tune", *arguments]) == 2
        error = capsys.readouterr().err
        assert told in error
        assert len(error.splitlines()) == 1

    @pytest.mark.usefixtures("compile_unoptimised")
    def test_tunes_a_list(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shorten(monkeypatch.setattr)
        shapes = [{"operation": "filter2d", "image": [24, size], "filter": [3, 3]} for size in (24, 32)]
        (tmp_path / "list.json").write_text(json.dumps(shapes))
        options = ["--from", str(tmp_path / "list.json"), "--time-limit", "20s", "--device", "host"]
        assert run(["tune", *options, "--store", str(tmp_path / "s.db"), "--json"]) == 0
        told = json.loads(capsys.readouterr().out)["problems"]
        assert [each["problem"]["image"] for each in told] == [[24, 24], [24, 32]]
        assert all(each["best_ns"] > 0 and each["trials"] == 3 for each in told)
        assert sorted(each["turns"] for each in told) == [1, 2]
