"""Several families for one problem: shares of trials, when a family leaves, and none is forgotten."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping

import pytest

from warpsmith.generator.space import Config, Parameter, Space
from warpsmith.tuner.search.competition import Competition
from warpsmith.tuner.search.family_search import FamilySearch

Objective = Callable[[Config], float | None]

SPACE = Space((Parameter("a", tuple(range(60)), ""), Parameter("b", tuple(range(40)), "")), ())
DEFAULT = Config.of({"a": 30, "b": 20})
SMALL = Space((Parameter("a", (1, 2, 4, 8), ""), Parameter("b", ("x", "y", "z"), "")), ())


def fails(_: Config) -> None:
    return None


def constant(time_ns: float) -> Objective:
    return lambda _: time_ns


def family(space: Space = SPACE, stored: list[tuple[Config, float | None]] | None = None) -> FamilySearch:
    default = DEFAULT if space is SPACE else next(space.configs())
    return FamilySearch("family", space, [default], 0, stored or [])


def competition(names: str, budget: int, seed: int = 0) -> Competition:
    return Competition({name: family() for name in names}, seed, budget)


def compete(search: Competition, objectives: Mapping[str, Objective], budget: int, ahead: int = 1) -> list[str]:
    """Families in the order requested; up to `ahead` requests are open before the first result comes."""
    asked: list[str] = []
    out: deque[tuple[str, Config]] = deque()
    while len(asked) < budget or out:
        if len(asked) < budget and len(out) < ahead:
            if (candidate := search.ask()) is None:
                budget = len(asked)
                continue
            asked.append(candidate[0])
            out.append(candidate)
        else:
            name, config = out.popleft()
            search.tell(name, config, objectives[name](config))
    return asked


def left(search: Competition) -> dict[str, int | None]:
    return {standing.family: standing.left_after for standing in search.standings}


def test_what_is_to_come_first_comes_first() -> None:
    other = Config.of({"a": 1, "b": 1})
    families = {"a": family(), "b": FamilySearch("b", SPACE, [DEFAULT, other], 0), "c": family()}
    search = Competition(families, 0, 100)
    assert [search.ask() for _ in range(4)] == [("a", DEFAULT), ("b", DEFAULT), ("c", DEFAULT), ("b", other)]


def test_without_any_time_the_families_take_turns() -> None:
    search = competition("abc", budget=400)
    candidates = [search.ask() for _ in range(60)]
    assert Counter(candidate[0] for candidate in candidates if candidate) == {"a": 20, "b": 20, "c": 20}


def test_the_slower_half_leaves_after_each_rung() -> None:
    """320 trials of 4 families: 10 each, 20 each of two, and the rest for the fastest."""
    objectives = {"a": constant(4e5), "b": constant(1e5), "c": constant(3e5), "d": constant(2e5)}
    search = competition("abcd", budget=320)
    counts = Counter(compete(search, objectives, budget=320))
    assert counts == {"a": 10, "c": 10, "d": 20, "b": 280}
    assert left(search) == {"b": None, "d": 60, "a": 40, "c": 40}
    assert [standing.family for standing in search.standings] == ["b", "d", "c", "a"]
    assert search.standings[1].why == "2.00 times the best time after 20 trials"
    assert search.standings[0].why == ""


def test_of_three_families_two_stay_at_first() -> None:
    objectives = {"a": constant(3e5), "b": constant(1e5), "c": constant(2e5)}
    search = competition("abc", budget=240)
    assert Counter(compete(search, objectives, budget=240)) == {"a": 10, "c": 20, "b": 210}


def test_nearly_as_fast_stays_as_long_as_it_may_still_win() -> None:
    """Expected gains: 25% after 10 trials, and 20%, 10% and 5% after 20, 40 and 80."""
    objectives = {"a": constant(1e5), "b": constant(1.15e5), "c": constant(1.07e5), "d": constant(1.3e5)}
    search = competition("abcd", budget=320)
    compete(search, objectives, budget=320)
    settled = {standing.family: standing.tried for standing in search.standings}
    assert left(search)["a"] is None
    assert (settled["d"], settled["b"], settled["c"]) == (10, 40, 80)


def test_the_rungs_shrink_with_the_trials() -> None:
    objectives = {"a": constant(1e5), "b": constant(2e5)}
    for budget, slow in ((2, 1), (8, 1), (32, 2), (160, 10), (100_000, 64)):
        search = competition("ab", budget)
        assert Counter(compete(search, objectives, budget=min(budget, 400)))["b"] == slow, budget


def test_a_slow_starter_takes_over() -> None:
    """The default of family `late` is slow, but its other configs are the fastest of all."""
    objectives: dict[str, Objective] = {
        "even": constant(1e5),
        "late": lambda config: 4e5 if config == DEFAULT else 5e4,
    }
    search = Competition({name: family() for name in objectives}, 0, 160)
    asked = compete(search, objectives, budget=160)
    assert Counter(asked) == {"even": 10, "late": 150}


@pytest.mark.parametrize("ahead", [1, 30])
def test_a_family_that_only_fails_leaves_early(ahead: int) -> None:
    objectives: dict[str, Objective] = {"works": constant(1e5), "fails": fails, "slow": constant(1.1e5)}
    search = Competition({name: family() for name in objectives}, 0, 2000)
    counts = Counter(compete(search, objectives, budget=300, ahead=ahead))
    assert 8 <= counts["fails"] <= 8 + ahead
    standing = search.standings[-1]
    assert (standing.family, standing.best_ns, standing.why) == ("fails", None, "all its candidates failed")


def test_a_family_without_a_success_leaves_with_its_rung() -> None:
    objectives: dict[str, Objective] = {"works": constant(1e5), "fails": fails}
    search = Competition({name: family() for name in objectives}, 0, 64)
    assert Counter(compete(search, objectives, budget=64)) == {"works": 60, "fails": 4}
    assert search.standings[-1].why == "no candidate succeeded after 4 trials"


def test_asks_ahead_of_a_verdict_go_to_those_that_would_stay() -> None:
    """Requests do not wait for a rung's results, and none of those given out meanwhile go to slow families."""
    objectives = {"a": constant(4e5), "b": constant(1e5), "c": constant(3e5), "d": constant(2e5)}
    search = competition("abcd", budget=320)
    counts = Counter(compete(search, objectives, budget=320, ahead=20))
    assert counts == {"a": 10, "c": 10, "d": 20, "b": 280}


def test_before_any_time_is_known_asks_ahead_are_spread_evenly() -> None:
    search = competition("abc", budget=72)  # rungs of 3
    candidates = [search.ask() for _ in range(60)]
    assert Counter(candidate[0] for candidate in candidates if candidate) == {"a": 20, "b": 20, "c": 20}


def test_a_late_verdict_counts_late_times() -> None:
    """The family that seemed slower before its last times came is the faster one."""
    search = competition("ab", budget=64)  # rungs of 4
    out = [search.ask() for _ in range(8)]
    for candidate in out[:7]:
        assert candidate is not None
        search.tell(*candidate, 1e5 if candidate[0] == "a" else 3e5)
    assert out[7] is not None
    slow = out[7][0]
    assert left(search) == {"a": None, "b": None}
    ahead = [search.ask() for _ in range(5)]
    assert {candidate[0] for candidate in ahead if candidate} == {"a"}
    search.tell(*out[7], 1e4)
    later = search.ask()
    assert later is not None
    assert later[0] == slow
    assert left(search)[slow] is None


def test_an_exhausted_family_passes_its_trials_on() -> None:
    families = {"tiny": family(SMALL), "large": family()}
    search = Competition(families, 0, 400)
    assert search.size == 12 + 2400
    counts = Counter(compete(search, {"tiny": constant(1e3), "large": constant(9e5)}, budget=100))
    assert counts == {"tiny": 12, "large": 88}
    assert search.remaining == 2412 - 100


def test_those_that_left_come_back_when_nothing_else_is_left() -> None:
    names = {"fast": constant(1e5), "slow": constant(9e5), "fails": fails}
    search = Competition({name: family(SMALL) for name in names}, 0, 36)
    assert Counter(compete(search, names, budget=100)) == {"fast": 12, "slow": 12, "fails": 12}
    assert search.ask() is None


def test_when_everything_fails_every_family_is_exhausted() -> None:
    search = Competition({name: family(SMALL) for name in "ab"}, 0, 100)
    assert Counter(compete(search, {"a": fails, "b": fails}, budget=100)) == {"a": 12, "b": 12}
    assert search.ask() is None


def test_stored_trials_are_trials_of_the_rungs() -> None:
    """A resumed search spends nothing on a family that its stored trials eliminated."""
    stored: list[tuple[Config, float | None]] = [(Config.of({"a": 30, "b": b}), 3e5) for b in range(40)]
    faster: list[tuple[Config, float | None]] = [(config, 1e5) for config, _ in stored]
    search = Competition({"slow": family(stored=stored), "fast": family(stored=faster)}, 0, 80)
    assert Counter(compete(search, {"slow": constant(3e5), "fast": constant(1e5)}, budget=80)) == {"fast": 80}
    assert left(search) == {"fast": None, "slow": 80}


def test_stored_trials_count_for_the_length_of_the_rungs() -> None:
    """40 stored trials and 40 to come make rungs of 5, as 80 would."""
    stored: list[tuple[Config, float | None]] = [(Config.of({"a": 30, "b": b}), 1e5) for b in range(40)]
    search = Competition({"slow": family(), "fast": family(stored=stored)}, 0, 40)
    assert Counter(compete(search, {"slow": constant(3e5), "fast": constant(1e5)}, budget=40)) == {
        "slow": 5,
        "fast": 35,
    }


def test_one_family_has_no_rival() -> None:
    search = competition("a", budget=50)
    assert Counter(compete(search, {"a": constant(1e5)}, budget=50, ahead=30)) == {"a": 50}
    assert [standing.left_after for standing in search.standings] == [None]


def test_a_large_space_leaves_the_size_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warpsmith.tuner.search.random_order.LISTED", 100)
    search = competition("ab", budget=50)
    assert (search.size, search.remaining) == (None, None)
    assert len(compete(search, {"a": constant(1e5), "b": fails}, budget=50)) == 50


def test_a_competition_is_deterministic_and_its_seed_decides_who_is_first() -> None:
    objectives: dict[str, Objective] = {name: lambda config: 1e5 + config.integer("a") for name in "abc"}
    runs = [compete(competition("abc", 120, seed), objectives, budget=120, ahead=9) for seed in (5, 5, 6, 7, 8)]
    assert runs[0] == runs[1]
    assert len({tuple(run[3:6]) for run in runs}) > 1
