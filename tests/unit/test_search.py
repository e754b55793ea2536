"""The search: nothing twice, nothing infeasible, nothing forgotten, and better than luck."""

from __future__ import annotations

import hashlib
import logging
import math
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable

import pytest

from warpsmith.generator.space import Config, Constraint, Parameter, Space
from warpsmith.tuner.rivalry import Search
from warpsmith.tuner.search import FamilySearch
from warpsmith.tuner.session import Effort

pytestmark = pytest.mark.filterwarnings("error")

Objective = Callable[[Config], float | None]

SMALL = Space(
    (
        Parameter("block", (32, 64, 128, 256), "threads of a block"),
        Parameter("rows", (1, 2, 4, 8), "outputs a thread"),
    ),
    (Constraint("block * rows is at most 256", lambda block, rows: block * rows <= 256),),
)
"""16 points, of which 4 + 3 + 2 + 1 = 10 are feasible."""

TWELVE = Space((Parameter("a", (1, 2, 4, 8), ""), Parameter("b", ("x", "y", "z"), "")), ())

LARGE = Space(
    (
        Parameter("block_x", (8, 16, 32, 64, 128, 256), ""),
        Parameter("block_y", (1, 2, 4, 8, 16), ""),
        Parameter("rows", (1, 2, 3, 4, 6, 8, 12, 16), ""),
        Parameter("columns", (1, 2, 4, 8), ""),
        Parameter("unroll", (1, 2, 4), ""),
        Parameter("load", ("plain", "cached"), ""),
    ),
    (
        Constraint("at most 1024 threads", lambda block_x, block_y: block_x * block_y <= 1024),
        Constraint("at least 64 threads", lambda block_x, block_y: block_x * block_y >= 64),
        Constraint("the unrolling divides the rows", lambda rows, unroll: rows % unroll == 0),
    ),
)
LARGE_DEFAULT = Config.of({"block_x": 32, "block_y": 4, "rows": 4, "columns": 1, "unroll": 1, "load": "plain"})


def noise(config: Config, salt: int = 0) -> float:
    """A number in [0, 1) that is the same for a config on every run and machine."""
    return int.from_bytes(hashlib.sha256(f"{salt} {config}".encode()).digest()[:4]) / 2**32


def large_time_ns(config: Config) -> float:
    """Smooth in the octaves of threads and outputs, with 10% of ruggedness on top; 100 us at the least."""
    threads = math.log2(config.integer("block_x") * config.integer("block_y"))
    outputs = math.log2(config.integer("rows") * config.integer("columns"))
    penalty = 0.15 * abs(threads - 8) + 0.25 * abs(outputs - 3) + 0.05 * abs(math.log2(config.integer("unroll")) - 1)
    penalty += 0.1 * (config.text("load") == "plain") + 0.3 * (config.integer("block_x") < 32)
    return 1e5 * math.exp(penalty + 0.1 * noise(config))


def first(space: Space) -> Config:
    return next(space.configs())


def drain(search: FamilySearch, objective: Objective, budget: int) -> list[Config]:
    """Asks and tells in turn; the configs in the order asked."""
    asked: list[Config] = []
    while len(asked) < budget and (config := search.ask()) is not None:
        asked.append(config)
        search.tell(config, objective(config))
    return asked


def large_search(seed: int = 0, stored: list[tuple[Config, float | None]] | None = None) -> FamilySearch:
    return FamilySearch("large", LARGE, LARGE_DEFAULT, seed, stored or [])


def test_a_space_is_exhausted_in_as_many_asks_as_it_has_points() -> None:
    search = FamilySearch("twelve", TWELVE, first(TWELVE), 0, [])
    asked = drain(search, lambda _: 1e5, budget=100)
    assert (search.size, len(asked), len(set(asked))) == (12, 12, 12)
    assert search.ask() is None
    assert search.remaining == 0


def test_a_small_space_is_taken_in_a_seeded_order_whatever_the_times() -> None:
    space = Space((Parameter("a", tuple(range(15)), ""), Parameter("b", ("x", "y"), "")), ())

    def asked(seed: int, slope: int) -> list[Config]:
        search = FamilySearch("thirty", space, first(space), seed, [])
        return drain(search, lambda config: 1e5 + slope * config.integer("a"), budget=100)

    assert asked(seed=1, slope=1) == asked(seed=1, slope=-1) != asked(seed=2, slope=1)


def test_a_space_beyond_the_small_ones_is_exhausted_without_repeats() -> None:
    space = Space((Parameter("a", tuple(range(12)), ""), Parameter("b", ("x", "y", "z", "u", "v"), "")), ())
    search = FamilySearch("sixty", space, first(space), 3, [])
    asked = drain(search, lambda config: 1e5 + config.integer("a"), budget=100)
    assert set(asked) == set(space.configs())
    assert len(asked) == search.size == 60
    assert search.ask() is None


def test_constraints_hold_for_every_config_asked() -> None:
    small = FamilySearch("small", SMALL, first(SMALL), 0, [])
    assert len(drain(small, lambda _: 1e5, budget=100)) == 10
    for config in drain(large_search(), large_time_ns, budget=80):
        assert LARGE.why_not(config) is None


def test_the_default_comes_first_and_only_once() -> None:
    default = Config.of({"a": 4, "b": "y"})
    asked = drain(FamilySearch("twelve", TWELVE, default, 0, []), lambda _: 1e5, budget=100)
    assert asked[0] == default
    assert asked.count(default) == 1


def test_a_default_outside_the_space_is_refused_with_the_reason() -> None:
    with pytest.raises(ValueError, match=r"small is not feasible: block \* rows is at most 256"):
        FamilySearch("small", SMALL, Config.of({"block": 256, "rows": 8}), 0, [])


@pytest.mark.parametrize("stored_outcome", [2e5, None], ids=["times", "failures"])
def test_stored_trials_count_as_tried(stored_outcome: float | None) -> None:
    stored = list(TWELVE.configs())[:5]
    search = FamilySearch("twelve", TWELVE, stored[0], 0, [(config, stored_outcome) for config in stored])
    assert (search.size, search.remaining, search.default_is_due) == (12, 7, False)
    assert search.best_ns == stored_outcome
    asked = drain(search, lambda _: 1e5, budget=100)
    assert set(asked) == set(TWELVE.configs()) - set(stored)


def test_a_resumed_search_goes_on_where_the_first_one_ended() -> None:
    before = drain(large_search(), large_time_ns, budget=60)
    stored: list[tuple[Config, float | None]] = [(config, large_time_ns(config)) for config in before]
    # A config of another space, and one stored twice: as a failure, then with its time.
    stored = [(Config.of({"other": 1}), 1.0), (before[0], None), *stored]
    resumed = large_search(stored=stored)
    assert resumed.remaining == resumed.size - 60
    assert resumed.best_ns == min(large_time_ns(config) for config in before)
    after = drain(resumed, large_time_ns, budget=20)
    assert not set(before) & set(after)
    # What was told teaches the model: its first suggestions lie well below the space's typical time.
    typical = statistics.median(large_time_ns(config) for config in LARGE.configs())
    assert statistics.median(large_time_ns(config) for config in after) < 0.75 * typical


def test_the_default_is_asked_even_when_other_trials_are_stored() -> None:
    others = [config for config in LARGE.configs() if config != LARGE_DEFAULT][:40]
    search = large_search(stored=[(config, large_time_ns(config)) for config in others])
    assert search.ask() == LARGE_DEFAULT


def test_the_same_seed_gives_the_same_sequence() -> None:
    first_run, second_run, other_seed = (drain(large_search(seed), large_time_ns, budget=50) for seed in (7, 7, 8))
    assert first_run == second_run
    assert first_run != other_seed


def test_asks_that_run_ahead_of_their_tells_are_distinct() -> None:
    search = large_search()
    drain(search, large_time_ns, budget=20)
    ahead = [search.ask() for _ in range(40)]
    assert len(set(ahead)) == 40
    for config in reversed(ahead):
        assert config is not None
        search.tell(config, large_time_ns(config))
    assert search.ask() not in ahead


def test_a_config_cannot_be_told_unasked_or_twice() -> None:
    search = FamilySearch("twelve", TWELVE, first(TWELVE), 0, [])
    with pytest.raises(ValueError, match="without being asked"):
        search.tell(first(TWELVE), 1e5)
    config = search.ask()
    assert config is not None
    search.tell(config, 1e5)
    with pytest.raises(ValueError, match="without being asked"):
        search.tell(config, 1e5)


def test_the_model_beats_random_search() -> None:
    """With a tenth of the space to try, every search does better than the median of 201 random samples."""
    times = {config: large_time_ns(config) for config in LARGE.configs()}
    assert 2500 < len(times) < 3500
    budget = len(times) // 10
    by_luck = [min(random.Random(seed).sample(list(times.values()), budget)) for seed in range(201)]
    by_search = [min(times[config] for config in drain(large_search(seed), times.get, budget)) for seed in range(4)]
    assert max(by_search) < statistics.median(by_luck)


def test_the_model_learns_to_avoid_failures() -> None:
    """Four fifths of the space fail, the fastest with them: a model that forgot its failures would meet them often."""

    def fails_when_fast(config: Config) -> float | None:
        return None if config.integer("rows") * config.integer("columns") >= 8 else large_time_ns(config)

    by_luck = statistics.mean(fails_when_fast(config) is None for config in LARGE.configs())
    asked = [config for seed in range(3) for config in drain(large_search(seed), fails_when_fast, budget=40)]
    assert statistics.mean(fails_when_fast(config) is None for config in asked) < 0.8 * by_luck


def test_everything_fails_and_the_search_still_goes_through_the_space() -> None:
    space = Space((Parameter("a", tuple(range(50)), ""),), ())
    search = FamilySearch("failing", space, first(space), 0, [])
    assert len(set(drain(search, lambda _: None, budget=100))) == 50
    assert search.best_ns is None
    assert search.is_doubted


def test_a_space_too_large_to_list_is_drawn_from() -> None:
    space = Space(
        tuple(Parameter(name, (1, 2, 4, 8, 16, 32), "") for name in "abcdefgh"),
        (Constraint("a and b", lambda a, b: a * b <= 512), Constraint("c and f", lambda c, f: c * f >= 2)),
    )
    default = Config.of(dict.fromkeys("abcdefgh", 2))
    began = time.perf_counter()
    search = FamilySearch("huge", space, default, 0, [])
    assert time.perf_counter() - began < 2.0
    assert (search.size, search.remaining) == (None, None)
    asked = drain(search, lambda config: float(1 + sum(abs(config.integer(name) - 8) for name in "abcdefgh")), 60)
    assert asked[0] == default
    assert len(set(asked)) == 60
    assert all(space.contains(config) for config in asked)
    assert Search({"huge": search}, 0).size is None


def test_the_study_is_named_after_the_space() -> None:
    search = FamilySearch("filter2d/plain", TWELVE, first(TWELVE), 0, [])
    assert search.study_name == f"filter2d/plain/{TWELVE.fingerprint}"


def test_optuna_stays_quiet_and_its_log_level_as_it_was(capfd: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("optuna")
    before = logger.level
    logger.setLevel(logging.INFO)
    try:
        drain(large_search(), large_time_ns, budget=30)
        assert logger.level == logging.INFO
    finally:
        logger.setLevel(before)
    assert capfd.readouterr() == ("", "")


def run_search(search: Search, objectives: dict[str, Objective], budget: int) -> list[str]:
    """Asks and tells in turn; the families in the order asked."""
    asked: list[str] = []
    while len(asked) < budget and (candidate := search.ask()) is not None:
        family, config = candidate
        asked.append(family)
        search.tell(family, config, objectives[family](config))
    return asked


def competition(names: str, seed: int = 0) -> Search:
    return Search({name: large_search(seed) for name in names}, seed)


def test_every_default_comes_first() -> None:
    search = competition("abc")
    asked = [search.ask() for _ in range(3)]
    assert asked == [("a", LARGE_DEFAULT), ("b", LARGE_DEFAULT), ("c", LARGE_DEFAULT)]


def test_without_any_time_the_families_take_turns() -> None:
    search = competition("abc")
    candidates = [search.ask() for _ in range(3 + 9)]
    assert Counter(candidate[0] for candidate in candidates if candidate) == {"a": 4, "b": 4, "c": 4}


def test_the_better_family_gets_four_asks_in_five() -> None:
    objectives: dict[str, Objective] = {"slow": lambda _: 2e5, "fast": lambda _: 1e5, "slower": lambda _: 3e5}
    search = Search({name: large_search() for name in objectives}, 0)
    counts = Counter(run_search(search, objectives, budget=103))
    assert counts == {"fast": 81, "slow": 11, "slower": 11}


def test_a_slow_starter_takes_over() -> None:
    """A family whose default is slow, but whose other configs are the fastest of all."""
    objectives: dict[str, Objective] = {
        "even": lambda _: 1e5,
        "late": lambda config: 4e5 if config == LARGE_DEFAULT else 5e4,
    }
    asked = run_search(Search({name: large_search() for name in objectives}, 0), objectives, budget=62)
    assert Counter(asked[-50:])["late"] >= 38


def test_a_failing_family_gets_few_asks() -> None:
    objectives: dict[str, Objective] = {"works": lambda _: 1e5, "fails": lambda _: None}
    counts = Counter(run_search(Search({name: large_search() for name in objectives}, 0), objectives, budget=100))
    assert 3 <= counts["fails"] <= 10


def test_an_exhausted_family_drops_out() -> None:
    families = {"tiny": FamilySearch("tiny", TWELVE, first(TWELVE), 0, []), "large": large_search()}
    search = Search(families, 0)
    assert search.size == 12 + families["large"].size
    objectives: dict[str, Objective] = {"tiny": lambda _: 1e3, "large": large_time_ns}
    counts = Counter(run_search(search, objectives, budget=60))
    assert counts == {"tiny": 12, "large": 48}
    assert search.remaining == search.size - 60


def test_when_everything_fails_every_family_is_exhausted() -> None:
    names = ("one", "two")
    search = Search({name: FamilySearch(name, TWELVE, first(TWELVE), 0, []) for name in names}, 0)
    assert Counter(run_search(search, dict.fromkeys(names, lambda _: None), budget=100)) == {"one": 12, "two": 12}
    assert search.ask() is None


def test_a_competition_is_deterministic() -> None:
    objectives: dict[str, Objective] = {"a": large_time_ns, "b": lambda config: 1.1 * large_time_ns(config)}
    runs = [run_search(competition("ab", seed), objectives, budget=40) for seed in (5, 5)]
    assert runs[0] == runs[1]


def test_effort_is_a_number_of_trials() -> None:
    assert [effort.trials for effort in Effort] == [20, 100, 400]
    assert Effort("quick") is Effort.QUICK
