"""Recordings and replays: no data are lost through a file, and a replay counts correctly."""

from __future__ import annotations

import gzip
import itertools
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from warpsmith.errors import BadArgument
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.filter2d.plain_family import Filter2dPlain
from warpsmith.generator.presets import H200
from warpsmith.generator.space import Config
from warpsmith.store.record import FailureKind
from warpsmith.tuner.spaces import replay as replay_module
from warpsmith.tuner.spaces.recording import Outcome, Recording, record
from warpsmith.tuner.spaces.replay import Replayed, by_luck, replay, replay_report

PROBLEM = Filter2d(image=(512, 512), filter=(3, 3))
FAMILY = Filter2dPlain()
SPACE = FAMILY.space(PROBLEM, H200).narrowed({"path": ["global"], "block_rows": [2, 4, 8], "block_columns": [32, 64]})
SIZE = sum(1 for _ in SPACE.configs())


def outcome(config: Config) -> Outcome:
    """Fastest with 4 columns, 2 rows and 128 threads; blocks of 64x8 with constant weights fail."""
    if config.integer("block_columns") * config.integer("block_rows") == 512 and config.text("weights") == "constant":
        return FailureKind.LAUNCH
    threads = abs(config.integer("block_columns") * config.integer("block_rows") - 128) / 64
    shape = abs(config.integer("rows") - 2) + 4 - config.integer("columns")
    return 1e5 * (1 + 0.01 * threads + 0.05 * shape + 0.001 * config.integer("min_blocks"))


FAILED = sum(outcome(config) is FailureKind.LAUNCH for config in SPACE.configs())


def outcomes() -> Iterator[tuple[Config, Outcome]]:
    return ((config, outcome(config)) for config in SPACE.configs())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "plain.jsonl.gz"


@pytest.fixture
def recording(path: Path) -> Recording:
    return record(path, PROBLEM, H200, FAMILY, SPACE, outcomes(), {"driver": "580.1"})


class TestFile:
    def test_gives_back_what_was_recorded(self, recording: Recording, path: Path) -> None:
        assert Recording.read(path) == recording
        assert dict(recording.outcomes) == {
            config: each if isinstance(each, FailureKind) else round(each, 1) for config, each in outcomes()
        }
        assert (recording.problem, recording.device, recording.family) == (PROBLEM, H200, "filter2d_plain")
        assert recording.parameters == SPACE.parameters
        assert recording.environment == {"driver": "580.1"}

    def test_is_small_and_the_same_for_the_same_content(self, recording: Recording, path: Path, tmp_path: Path) -> None:
        recording.write(tmp_path / "again.jsonl.gz")
        assert (tmp_path / "again.jsonl.gz").read_bytes() == path.read_bytes()
        assert path.stat().st_size < 30 * len(recording.outcomes)

    def test_its_lines_are_values_in_the_order_of_the_parameters(self, recording: Recording, path: Path) -> None:
        header, *lines = map(json.loads, gzip.decompress(path.read_bytes()).splitlines())
        assert (header["format"], header["version"]) == ("warpsmith recording", 1)
        assert header["configs"] == len(lines) == len(recording.outcomes) == SIZE
        names = [parameter["name"] for parameter in header["parameters"]]
        first = next(SPACE.configs())
        assert lines[0] == [*(first.values()[name] for name in names), recording.outcomes[first]]
        assert sum(line[-1] == "launch" for line in lines) == FAILED

    def test_its_space_is_what_was_recorded(self, recording: Recording) -> None:
        assert list(recording.space.configs()) == list(SPACE.configs())
        outside = FAMILY.space(PROBLEM, H200).narrowed({"path": ["texture"]})
        assert not any(map(recording.space.contains, itertools.islice(outside.configs(), 100)))

    def test_a_part_of_a_space_is_a_space(self, path: Path) -> None:
        part = [(config, each) for number, (config, each) in enumerate(outcomes()) if number % 3]
        recording = record(path, PROBLEM, H200, FAMILY, SPACE, part, {})
        assert list(Recording.read(path).space.configs()) == [config for config, _ in part]
        assert recording.default in dict(part)

    def test_its_default_is_the_familys(self, recording: Recording) -> None:
        assert recording.default == FAMILY.default(PROBLEM, H200)

    def test_without_the_default_the_most_like_it_stands_for_it(self, path: Path) -> None:
        part = [(config, each) for config, each in outcomes() if config.integer("block_columns") != 32]
        recording = record(path, PROBLEM, H200, FAMILY, SPACE, part, {})
        default = FAMILY.default(PROBLEM, H200).values()
        assert recording.default == Config.of({**default, "block_columns": 64})

    @pytest.mark.parametrize(
        ("wrong", "reason"),
        [
            ([(Config.of({"path": "global"}), 1.0)], "not in the recorded space: parameters"),
            ([(next(SPACE.configs()), 0.0)], "0.0 ns is no time"),
            ([(next(SPACE.configs()), math.nan)], "nan ns is no time"),
            ([(next(SPACE.configs()), FailureKind.CRASH)], "no config has a time"),
            ([], "no config has a time"),
        ],
    )
    def test_what_is_no_recording_is_not_written(
        self, path: Path, wrong: list[tuple[Config, Outcome]], reason: str
    ) -> None:
        with pytest.raises(ValueError, match=reason):
            record(path, PROBLEM, H200, FAMILY, SPACE, wrong, {})
        assert not path.exists()


Edit = Callable[[dict[str, Any], list[list[Any]]], None]


def rewritten(path: Path, edit: Edit) -> None:
    header, *lines = map(json.loads, gzip.decompress(path.read_bytes()).splitlines())
    edit(header, lines)
    path.write_bytes(gzip.compress("".join(json.dumps(line) + "\n" for line in (header, *lines)).encode()))


@pytest.mark.usefixtures("recording")
class TestRefusals:
    @pytest.mark.parametrize(
        ("edit", "reason"),
        [
            (lambda header, _: header.update(format="other"), "first line does not say 'warpsmith recording'"),
            (lambda header, _: header.update(version=2), "of version 2; this one reads 1"),
            (lambda header, _: header.pop("device"), "'device'"),
            (lambda header, _: header.update(operation="dct"), "unknown operation 'dct'"),
            (lambda _, lines: lines.pop(), f"it has {SIZE - 1} lines with {SIZE - 1} of {SIZE} configs"),
            (lambda _, lines: lines.append(lines[0]), f"it has {SIZE + 1} lines with {SIZE} of {SIZE} configs"),
            (lambda _, lines: lines[3].pop(0), "zip"),
            (lambda _, lines: lines[3].__setitem__(-1, "tired"), "'tired' is not a valid FailureKind"),
            (lambda _, lines: lines[3].__setitem__(-1, -1.0), "-1.0 ns is no time"),
            (lambda _, lines: lines[3].__setitem__(1, 3), "is not in its space"),
            (lambda header, _: header["default"].__setitem__(1, 3), "is not in its space"),
        ],
    )
    def test_a_file_that_was_altered(self, path: Path, edit: Edit, reason: str) -> None:
        rewritten(path, edit)
        with pytest.raises(BadArgument, match=reason) as caught:
            Recording.read(path)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        "damage",
        [lambda content: content[: len(content) // 2], lambda _: b"", lambda _: b"nothing of the kind"],
        ids=["cut off", "empty", "another file"],
    )
    def test_a_file_that_is_damaged(self, path: Path, damage: Callable[[bytes], bytes]) -> None:
        path.write_bytes(damage(path.read_bytes()))
        with pytest.raises(BadArgument, match="is not a readable recording"):
            Recording.read(path)

    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(BadArgument, match=f"there is no recording {tmp_path}/none"):
            Recording.read(tmp_path / "none")
        with pytest.raises(BadArgument, match="is not a readable recording"):
            Recording.read(tmp_path)


class TestReplay:
    def test_gives_the_best_so_far_after_each_trial(self, recording: Recording) -> None:
        run = replay(recording, seed=1, trials=40, ahead=5)
        assert len(run.best_ns) == 40
        assert list(run.best_ns) == sorted(run.best_ns, reverse=True)
        assert run.best_ns[0] == recording.outcomes[recording.default]
        assert run.needed is not None
        assert run.best_ns[run.needed - 1] <= 1.02 * recording.best_ns < run.best_ns[run.needed - 2]

    def test_is_the_same_for_a_seed(self, recording: Recording) -> None:
        runs = [replay(recording, seed, trials=60, ahead=9).best_ns for seed in (1, 1, 2, 3)]
        assert runs[0] == runs[1]
        assert len(set(runs)) > 1

    def test_tries_every_config_once_at_the_most(self, recording: Recording) -> None:
        run = replay(recording, seed=0, trials=1000)
        assert len(run.best_ns) == SIZE
        assert run.best_ns[-1] == recording.best_ns

    def test_is_told_of_failures(self, path: Path) -> None:
        """All configs but one fail, so the best time is infinite until that one is found."""
        only = list(SPACE.configs())[70]
        all_but_one = ((config, 1e5 if config == only else FailureKind.WRONG) for config in SPACE.configs())
        recording = record(path, PROBLEM, H200, FAMILY, SPACE, all_but_one, {})
        run = replay(recording, seed=0, trials=SIZE)
        assert run.needed is not None
        assert run.needed > 1
        assert run.best_ns[run.needed - 2 : run.needed] == (math.inf, 1e5)

    def test_has_so_many_asks_out(self, recording: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
        out: list[int] = []

        class Counted(replay_module.FamilySearch):
            def tell(self, config: Config, time_ns: float | None) -> None:
                out.append(self.tried - self.settled)
                super().tell(config, time_ns)

        monkeypatch.setattr(replay_module, "FamilySearch", Counted)
        replay(recording, seed=0, trials=50, ahead=7)
        assert out == [7] * 50

    def test_of_a_space_too_large_to_list_goes_on(self, recording: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("warpsmith.tuner.search.random_order.LISTED", 10)
        assert len(replay(recording, seed=0, trials=1000).best_ns) == SIZE


class TestLuck:
    @pytest.mark.parametrize("trials", [1, 3, 6])
    def test_is_what_all_orders_come_to(self, path: Path, trials: int) -> None:
        times = [100.0, 101.0, 130.0, 150.0, 170.0, FailureKind.COMPILE]
        configs = list(SPACE.configs())[:6]
        recording = record(path, PROBLEM, H200, FAMILY, SPACE, zip(configs, times, strict=True), {})
        needed, best = [], []
        for order in itertools.permutations(math.inf if isinstance(each, FailureKind) else each for each in times):
            needed.append(next(place for place, time_ns in enumerate(order, start=1) if time_ns <= 102.0))
            best.append(min(order[:trials]))
        needed, best = sorted(needed), sorted(best)

        def at(part: float) -> int | None:
            value = needed[math.ceil(part * len(needed)) - 1]
            return value if value <= trials else None

        luck = by_luck(recording, trials)
        assert (luck.median, luck.p20, luck.p80) == (at(0.5), at(0.2), at(0.8))
        assert luck.excess == pytest.approx(best[len(best) // 2 - 1] / 100.0 - 1)


class TestReport:
    def test_sums_up_the_replays(self, recording: Recording) -> None:
        report = replay_report(recording, seeds=5, trials=50, ahead=10)
        runs = [replay(recording, seed, 50, 10) for seed in range(5)]
        needed = sorted(run.needed or 51 for run in runs)
        assert (report.search.p20, report.search.median, report.search.p80) == (needed[0], needed[2], needed[3])
        assert report.share == needed[2] / SIZE
        excesses = sorted(run.best_ns[-1] / recording.best_ns - 1 for run in runs)
        assert (report.search.excess, report.worst_excess) == (excesses[2], excesses[4])
        assert (report.size, report.trials, report.seeds, report.ahead) == (SIZE, 50, 5, 10)
        assert report.failures == {FailureKind.LAUNCH: FAILED}
        assert (report.best, report.best_ns) == (recording.best, min(recording.times_ns.values()))
        assert report.near == sum(time_ns <= 1.02 * report.best_ns for time_ns in recording.times_ns.values())
        assert report.by_luck == by_luck(recording, 50)
        json.dumps(report.spec(), allow_nan=False)

    def test_tries_a_fifth_of_the_space_unless_told(self, recording: Recording) -> None:
        assert 300 < len(recording.outcomes) < 1000
        assert replay_report(recording, seeds=1).trials == math.ceil(SIZE / 5)
        assert replay_report(recording, seeds=1, trials=5000).trials == SIZE

    def test_says_where_too_few_came_near(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        recorded = record(path, PROBLEM, H200, FAMILY, SPACE, outcomes(), {})
        by_seed = {0: 3, 1: 5, 2: SIZE // 10 + 1, 3: None, 4: None}

        def replayed(recording: Recording, seed: int, trials: int, ahead: int, _: object) -> Replayed:
            assert (trials, ahead) == (50, 30)
            return Replayed(seed, (recording.best_ns * (1 + seed),) * trials, by_seed[seed])

        monkeypatch.setattr(replay_module, "replay", replayed)
        report = replay_report(recorded, seeds=5, trials=50)
        assert (report.search.p20, report.search.median, report.search.p80) == (3, SIZE // 10 + 1, None)
        assert (report.search.excess, report.worst_excess) == (2.0, 4.0)
        assert not report.meets_goal
        by_seed[2] = SIZE // 10
        assert replay_report(recorded, seeds=5, trials=50).meets_goal
        by_seed[1] = by_seed[2] = None
        report = replay_report(recorded, seeds=5, trials=50)
        assert (report.search.median, report.share, report.meets_goal) == (None, None, False)

    @pytest.mark.parametrize("wrong", [{"seeds": 0}, {"trials": 0}, {"ahead": 0}])
    def test_refuses_numbers_below_one(self, recording: Recording, wrong: dict[str, int]) -> None:
        assert recording.outcomes
        with pytest.raises(BadArgument, match="must be 1 or more; got 0"):
            replay_report(recording, **wrong)
