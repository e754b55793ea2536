"""The design space in regions: each is visited evenly, the same way every time; and what a sweep does with it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from builders import trial
from warpsmith.cli.app import run
from warpsmith.errors import BadArgument
from warpsmith.generator.device import Device
from warpsmith.generator.family import Family
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.filter2d.operation import FILTER2D
from warpsmith.generator.presets import H200
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.generator.registry import families_for
from warpsmith.generator.space import Config, Constraint, Parameter, Space
from warpsmith.store.record import FailureKind, Trial
from warpsmith.tuner.spaces.regions import ConfigCounts, Region, RegionPlan, path_words, plan_sweep
from warpsmith.tuner.spaces.sweep import RegionResult, Sweep, points

PROBLEM = Filter2d(image=(4, 40), filter=(3, 3))


class Toy(Family):
    """A family with two paths of its own and tiles of 1 to 4 rows; path `b` takes only one row."""

    name = "toy"

    def why_not(self, problem: Problem, device: Device) -> str | None:  # noqa: ARG002
        return None

    def space(self, problem: Problem, device: Device) -> Space:  # noqa: ARG002
        return Space(
            (
                Parameter("block", (32, 64, 128), "threads"),
                Parameter("path", ("a", "b"), "where pixels come from"),
                Parameter("rows", (1, 2, 4), "rows a thread"),
                Parameter("unroll", (1, 2, 4), "rows a turn"),
            ),
            (
                Constraint("b has no walk", lambda path, rows: path == "a" or rows == 1),
                Constraint("whole turns", lambda rows, unroll: rows % unroll == 0),
            ),
        )

    def default(self, problem: Problem, device: Device) -> Config:  # noqa: ARG002
        return Config.of({"block": 128, "path": "a", "rows": 4, "unroll": 4})

    def program(self, problem: Problem, config: Config) -> Program:
        raise NotImplementedError


def plan(trials: int | None = None, seed: int = 0) -> tuple[RegionPlan, ...]:
    return plan_sweep(PROBLEM, H200, trials, seed, (Toy(),))


def tried(family: str, ns: float | None, **values: int | str) -> Trial:
    return trial(outcome=FailureKind.WRONG if ns is None else ns, family=family, config=values)


class TestPlan:
    def test_visits_every_cell_that_has_a_legal_config_once(self) -> None:
        space = Toy().space(PROBLEM, H200)
        expected = Counter(Region.of("toy", config) for config in space.configs())
        assert {each.region: each.size for each in plan()} == expected
        assert len(plan()) == len(expected)

    def test_visits_every_path_of_every_family(self) -> None:
        offered = set()
        for family in families_for(PROBLEM, H200):
            space = family.space(PROBLEM, H200)
            paths = next((each.values for each in space.parameters if each.name == "path"), ("global",))
            offered |= {(family.name, path) for path in paths}
        plans = plan_sweep(PROBLEM, H200, 1, 0)
        assert {(each.region.family, each.region.path) for each in plans} == offered
        assert len({each.region for each in plans}) == len(plans)
        assert all(len(each.configs) == 1 for each in plans)

    def test_takes_the_paths_from_the_space(self) -> None:
        regions = [each.region for each in plan()]
        assert regions == [Region("toy", "a", rows, 1) for rows in (1, 2, 4)] + [Region("toy", "b", 1, 1)]

    def test_tries_legal_configs_of_the_cell_and_none_twice(self) -> None:
        space = Toy().space(PROBLEM, H200)
        for each in plan(trials=1000):
            assert len(set(each.configs)) == len(each.configs) == each.size
            assert all(space.contains(config) and Region.of("toy", config) == each.region for config in each.configs)

    def test_begins_with_what_is_most_like_the_default(self) -> None:
        first = {each.region.rows: each.configs[0].values() for each in plan() if each.region.path == "a"}
        assert first[4] == Toy().default(PROBLEM, H200).values()
        assert first[2] == {"block": 128, "path": "a", "rows": 2, "unroll": 2}  # 2 is nearer to 4 than 1 is

    def test_repeats_for_a_seed(self) -> None:
        assert plan(seed=3) == plan(seed=3)
        assert len({plan(seed=seed) for seed in range(5)}) > 1

    @pytest.mark.parametrize(
        ("trials", "counts"),
        [
            (None, [3, 4, 4, 3]),  # four of each, where there are so many
            (1, [1, 1, 1, 1]),
            (6, [1, 1, 2, 2]),
            (18, [3, 6, 6, 3]),  # what the small regions leave goes to the large ones
            (1000, [3, 6, 9, 3]),
        ],
    )
    def test_spreads_the_trials_evenly(self, trials: int | None, counts: list[int]) -> None:
        found = [len(each.configs) for each in plan(trials)]
        assert sorted(found) == sorted(counts)
        assert all(few == many for few, many in zip(found, counts, strict=True)) or trials == 6  # which two is open

    def test_refuses_no_trials(self) -> None:
        with pytest.raises(BadArgument, match="trials must be 1 or more; got 0"):
            plan(0)


class TestCensus:
    def test_numbers_the_configs_as_the_space_lists_them(self) -> None:
        space = Toy().space(PROBLEM, H200)
        counts = ConfigCounts(space, Toy().default(PROBLEM, H200))
        assert [counts.at(number) for number in range(counts.size)] == list(space.configs())
        for number in (-1, counts.size):
            with pytest.raises(IndexError):
                counts.at(number)

    def test_counts_a_space_of_a_real_family(self) -> None:
        plainest = FILTER2D.simplest
        space = plainest.space(PROBLEM, H200)
        assert ConfigCounts(space, plainest.default(PROBLEM, H200)).size == sum(1 for _ in space.configs())

    @pytest.mark.parametrize("path", ["a", "b"])
    @pytest.mark.parametrize("unroll", [1, 2, 4])
    def test_finds_the_nearest(self, path: str, unroll: int) -> None:
        space = Toy().space(PROBLEM, H200)
        wanted = Config.of({"block": 64, "path": path, "rows": 2, "unroll": unroll})
        found = ConfigCounts(space, wanted).nearest

        def differing(config: Config) -> int:
            return sum(one != other for one, other in zip(config.items, wanted.items, strict=True))

        assert space.contains(found)
        assert differing(found) == min(map(differing, space.configs()))
        assert (found == wanted) == space.contains(wanted)

    def test_of_an_empty_space(self) -> None:
        space = Toy().space(PROBLEM, H200)
        counts = ConfigCounts(
            Space(space.parameters, (Constraint("no", lambda block: block < 0),)),
            Config.of({"block": 32, "path": "a", "rows": 1, "unroll": 1}),
        )
        assert counts.size == 0
        with pytest.raises(ValueError, match="empty"):
            _ = counts.nearest


class TestCell:
    def test_of_a_family_that_offers_no_choice(self) -> None:
        assert Region.of("toy", Config.of({"block": 32})) == Region("toy", "global", 1, 1)

    def test_counts_the_outputs_of_a_thread(self) -> None:
        assert Region.of("toy", Config.of({"rows": 4, "columns": 2})).outputs == 8

    @pytest.mark.parametrize(
        ("family", "path", "words"),
        [
            ("filter2d_window", "global", "global to register"),
            ("filter2d_window", "texture", "texture to register"),
            ("filter2d_window", "shared", "shared to register"),
            ("filter2d_window", "async", "asynchronous copies to shared"),
            ("filter2d_window", "shuffle", "global to register, shuffled on"),
            ("filter2d_plain", "global", "global without prefetch"),
            ("filter2d_plain", "texture", "texture without prefetch"),
        ],
    )
    def test_has_the_paper_s_words(self, family: str, path: str, words: str) -> None:
        assert path_words(Region(family, path, 1, 1)) == words


class TestPoints:
    def test_are_the_best_over_all_tiles_of_as_many_outputs(self) -> None:
        regions = (
            RegionResult(Region("toy", "a", 4, 1), 9, (tried("toy", 30.0, block=32), tried("toy", None, block=64))),
            RegionResult(Region("toy", "a", 1, 4), 5, (tried("toy", 20.0, block=128),)),
            RegionResult(Region("toy", "a", 1, 1), 5, (tried("toy", None, block=1),)),
            RegionResult(Region("toy", "b", 1, 1), 5, ()),
        )
        found = [(point.line, point.outputs, point.best and point.best.median_ns) for point in points(regions)]
        assert found == [("a to register", 1, None), ("a to register", 4, 20.0), ("b to register", 1, None)]

    def test_of_two_families_with_one_path_have_names_of_their_own(self) -> None:
        regions = (RegionResult(Region("toy", "a", 1, 1), 1, ()), RegionResult(Region("joy", "a", 1, 1), 1, ()))
        assert [point.line for point in points(regions)] == ["a to register (toy)", "a to register (joy)"]


def test_a_sweep_as_json_has_every_measurement_and_counts_failures_by_cell() -> None:
    good = tried("toy", 20.0, block=32)
    regions = (
        RegionResult(Region("toy", "a", 2, 2), 9, (good, tried("toy", None, block=64), tried("toy", None, block=128))),
        RegionResult(Region("toy", "b", 1, 1), 3, (tried("toy", None, block=32),)),
    )
    swept = Sweep(PROBLEM, H200, None, regions, {"os": "x"}, 1.5, interrupted=False)
    assert (swept.size, swept.tried, swept.right) == (12, 4, 1)
    spec = json.loads(json.dumps(swept.spec()))
    assert [region["failures"] for region in spec["cells"]] == [{"wrong": 2}, {"wrong": 1}]
    assert spec["cells"][0]["outputs"] == 4
    assert spec["cells"][0]["trials"][0]["measurement"]["timing"]["median_ns"] == 20.0
    assert regions[0].best == good
    assert regions[1].best is None


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--sweep", "--save", "a.json"), "--sweep takes no --save"),
        (("--sweep", "--plot", "a.svg"), "--sweep takes no --plot"),
        (("--sweep", "--store", "a.db"), "--sweep takes no --store"),
        (("--sweep", "--filter", "2x2", "--filter", "3x3"), "--sweep takes one --filter"),
        (("--sweep", "--border", "torus"), "unknown border 'torus'"),
        (("--sweep", "--dtype", "float64"), "unknown dtype 'float64'"),
        (("--out", "a"), "without --sweep there is no --out"),
        (("--trials", "4"), "without --sweep there is no --trials"),
        (("--plot", "a.pdf"), "unknown kind of plot 'pdf'; choose one of svg, png"),
        (("--channels", "5"), "channels must be 1 to 4"),
    ],
)
def test_options_that_do_not_fit(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    options: tuple[str, ...],
    why: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["bench", "filter2d", "--image", "16x40", "--device", "host", *options]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert why in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("out", ["file", "file/inside"])
def test_a_folder_that_cannot_be_made_is_told_before_anything_is_measured(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, out: str
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr("warpsmith.cli.operations.filter2d_bench.plan_sweep", lambda *_: pytest.fail("it went on"))
    arguments = ["--image", "8x40", "--filter", "3x3", "--device", "host", "--sweep", "--out", str(tmp_path / out)]
    assert run(["bench", "filter2d", *arguments]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"warpsmith: error: cannot make the folder {tmp_path / out}: ")
