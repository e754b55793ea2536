"""The end of a budget: every single change of the best config is tried before the trials run out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import exhaustive
from competing import Trials, trials
from warpsmith.generator.space import Config, Parameter, Space
from warpsmith.tuner.search import competition
from warpsmith.tuner.search.competition import Competition
from warpsmith.tuner.search.family_search import FamilySearch
from warpsmith.tuner.spaces.recording import Recording
from warpsmith.tuner.spaces.replay import SearchEnd, ending

REPLAY = Path(__file__).parents[2] / "benchmarks/replay"

SPACE = Space(tuple(Parameter(name, tuple(range(8)), "") for name in "abcdefgh"), ())
"""16.8 million configs, each with 56 single changes."""
DEFAULT = Config.of(dict.fromkeys("abcdefgh", 0))
SMALL = Space((Parameter("a", tuple(range(9)), ""), Parameter("b", tuple(range(8)), "")), ())


def time_ns(config: Config) -> float:
    """Nanoseconds: a bowl around 5 in every parameter, with 4% ruggedness on top."""
    away = sum(abs(config.integer(name) - 5) for name in "abcdefgh")
    noise = int.from_bytes(hashlib.sha256(str(config).encode()).digest()[:4]) / 2**32
    return 1e5 * (1 + 0.05 * away) * (1 + 0.04 * noise)


def slower(config: Config) -> float:
    return 1.3 * time_ns(config)


def family(space: Space = SPACE, stored: Sequence[tuple[str, Config]] = (), seed: int = 0) -> FamilySearch:
    first = DEFAULT if space is SPACE else next(space.configs())
    return FamilySearch("family", space, [first], seed, [(config, time_ns(config)) for _, config in stored])


def untried_beside_best(tried: Trials, objective: Callable[[Config], float] = time_ns) -> int:
    best = min((config for _, config in tried), key=objective)
    return len(set(SPACE.neighbours(best)) - {config for _, config in tried})


@exhaustive.meeting()
@pytest.mark.parametrize("ahead", [1, 30])
@pytest.mark.parametrize("seed", range(3))
def test_at_the_end_of_a_budget_every_single_change_of_the_best_was_tried(seed: int, ahead: int) -> None:
    search = Competition({"a": family(seed=seed)}, seed, 300)
    assert untried_beside_best(trials(search, {"a": time_ns}, 300, ahead)) == 0


def test_a_young_search_is_not_polished(monkeypatch: pytest.MonkeyPatch) -> None:
    young = trials(Competition({"a": family()}, 0, 100), {"a": time_ns}, 100, 30)
    monkeypatch.setattr(competition, "POLISH_SHARE", 0.0)
    assert young == trials(Competition({"a": family()}, 0, 100), {"a": time_ns}, 100, 30)


@pytest.mark.parametrize("seed", range(3))
def test_so_they_were_at_the_end_of_a_time_limit(seed: int) -> None:
    """The time limit ends the search after 300 trials, which the search cannot know in advance."""
    families = {"a": family(seed=seed)}
    search = Competition(families, seed, 10**6, lambda: families["a"].tried >= 210)
    assert untried_beside_best(trials(search, {"a": time_ns}, 300, 30)) == 0


def test_a_young_search_is_not_polished_however_late_it_is() -> None:
    asked = [
        trials(Competition({"a": family()}, 0, 10**6, is_late), {"a": time_ns}, 70, 30)
        for is_late in (lambda: False, lambda: True)
    ]
    assert asked[0] == asked[1]


def test_without_the_polish_they_were_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that the test above can fail."""
    monkeypatch.setattr(competition, "POLISH_SHARE", 0.0)
    untried = [
        untried_beside_best(trials(Competition({"a": family(seed=seed)}, seed, 300), {"a": time_ns}, 300, 30))
        for seed in range(3)
    ]
    assert min(untried) > 0


def test_the_budget_of_several_families_ends_with_the_changes_of_the_best() -> None:
    families = {name: family(seed=seed) for seed, name in enumerate("abc")}
    search = Competition(families, 0, 600)
    asked = trials(search, {"a": slower, "b": time_ns, "c": slower}, 600, 30)
    assert untried_beside_best([each for each in asked if each[0] == "b"]) == 0


def test_changes_of_the_fastest_come_first_whichever_family_it_is_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two families near each other with one trial each: the changes of both are due, the faster family's first."""
    monkeypatch.setattr(competition, "POLISH_AFTER", 0)
    stored = [("", DEFAULT)]
    search = Competition({"slow": family(stored=stored), "fast": family()}, 0, 20)
    first = search.ask()
    assert first == ("fast", DEFAULT)
    search.tell(*first, 0.98 * time_ns(DEFAULT))
    left = [search.ask() for _ in range(19)]
    polish = left[-6:]  # 0.3 of 21
    assert {each[0] for each in polish if each} == {"fast"}
    assert all(each is not None and each[1] in set(SPACE.neighbours(DEFAULT)) for each in polish)


def test_a_change_that_is_faster_has_its_own_changes_tried_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(competition, "POLISH_AFTER", 0)
    stored = [("", config) for config in [DEFAULT, *SPACE.neighbours(DEFAULT)][:50]]
    search = Competition({"a": family(stored=stored)}, 0, 10)
    best = min((config for _, config in stored), key=time_ns)
    time = time_ns(best)
    for _ in range(8):
        asked = search.ask()
        assert asked is not None
        assert asked[1] in set(SPACE.neighbours(best))
        time = 0.9 * time
        search.tell(*asked, time)
        best = asked[1]


def test_a_resumed_search_ends_so_too() -> None:
    """A search killed after 220 of 300 trials continues with the 80 left."""
    begun = trials(Competition({"a": family()}, 0, 300), {"a": time_ns}, 220, 30)
    resumed = Competition({"a": family(stored=begun)}, 0, 80)
    tried = begun + trials(resumed, {"a": time_ns}, 80, 30)
    assert len(set(tried)) == 300
    assert untried_beside_best(tried) == 0


def test_the_same_seed_gives_the_same_asks_to_the_end() -> None:
    runs = [trials(Competition({"a": family(seed=seed)}, seed, 150), {"a": time_ns}, 150, 30) for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


def test_a_space_smaller_than_the_budget_is_exhausted() -> None:
    search = Competition({"a": family(SMALL)}, 0, 300)
    tried = trials(search, {"a": lambda config: 1e5 + config.integer("a")}, 300, 30)
    assert {config for _, config in tried} == set(SMALL.configs())
    assert len(tried) == 72
    assert search.ask() is None


def test_where_everything_fails_the_last_part_is_a_search_like_the_rest() -> None:
    tried = trials(Competition({"a": family()}, 0, 60), {"a": lambda _: None}, 60, 30)
    assert len(set(tried)) == 60


@pytest.fixture(scope="module")
def window() -> Recording:
    return Recording.read(REPLAY / "filter2d_window.jsonl.gz")


class TestEnding:
    @exhaustive.one_in(2, first=1)
    @pytest.mark.parametrize("noise", [0.0, 0.005])
    def test_a_replay_ends_with_the_changes_of_its_winner_tried(self, window: Recording, noise: float) -> None:
        for seed in range(3):
            end = ending(window, seed, 300, noise)
            assert end is not None
            assert end.untried == 0
            assert end.is_tied == (window.times_ns[end.winner] <= 1.003 * window.best_ns)

    def test_counts_what_is_untried(self, window: Recording) -> None:
        changes = sum(1 for _ in window.space.neighbours(window.default))
        assert ending(window, 0, 1) == SearchEnd(
            window.default, window.times_ns[window.default] / window.best_ns - 1, changes
        )

    def test_is_the_same_for_a_seed(self, window: Recording) -> None:
        ends = [ending(window, seed, 60, 0.01) for seed in (4, 4, *range(4))]
        assert ends[0] == ends[1]
        assert len(set(ends)) > 1
