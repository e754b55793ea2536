"""Prior knowledge of families: whose first configs come first, and that none is forgotten."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest

from competing import Objective, Trials, trials
from warpsmith.generator.space import Config, Parameter, Space
from warpsmith.tuner.search.competition import EVEN, UNLIKELY, Competition, Prospect, Prospects
from warpsmith.tuner.search.family_search import FamilySearch

SPACE = Space((Parameter("a", tuple(range(60)), ""), Parameter("b", tuple(range(40)), "")), ())
FIRSTS = [Config.of({"a": 3 * number, "b": number}) for number in range(20)]
AHEAD = 30
"""Open requests before the first result, as with 16 compilers."""


def asked(times: Mapping[str, float], budget: int, prospects: Mapping[str, Prospect] | None = None) -> Trials:
    """Trials of a search within `budget`; families have 20 first configs each, all with the same time."""
    return trials(competition(times, prospects), {name: constant(ns) for name, ns in times.items()}, budget, AHEAD)


def competition(times: Mapping[str, float], prospects: Mapping[str, Prospect] | None = None) -> Competition:
    families = {name: FamilySearch(name, SPACE, FIRSTS, 0) for name in times}
    return Competition(families, 0, 400, known=[(name, FIRSTS[0]) for name in times], prospects=prospects)


def constant(time_ns: float) -> Objective:
    return lambda _: time_ns


def shares(told: Trials) -> Counter[str]:
    return Counter(name for name, _ in told)


SLOWER = {f"slow {number}": 2.0e5 for number in range(12)}


class TestRarities:
    def test_without_knowledge_all_are_alike(self) -> None:
        assert Prospects({}).rarities({"a": None, "b": None}) == {"a": 1.0, "b": 1.0}

    def test_a_slow_family_is_rare_by_its_fourth_power(self) -> None:
        found = Prospects({}).rarities({"fast": 1e5, "even": 1e5 * EVEN, "slow": 2e5 * EVEN})
        assert found == {"fast": 1.0, "even": 1.0, "slow": pytest.approx(16.0)}

    def test_what_is_expected_counts_until_there_is_a_time(self) -> None:
        prospects = Prospects({"a": Prospect(1e5), "b": Prospect(2e5 * EVEN)})
        assert prospects.rarities({"a": None, "b": None}) == {"a": 1.0, "b": pytest.approx(16.0)}
        assert prospects.rarities({"a": None, "b": 1e5}) == {"a": 1.0, "b": 1.0}

    def test_those_that_are_not_likely_wait_for_those_that_are(self) -> None:
        prospects = Prospects({"a": Prospect(is_likely=True), "b": Prospect()})
        assert prospects.rarities({"a": None, "b": None, "c": None}) == {"a": 1.0, "b": UNLIKELY, "c": UNLIKELY}


class TestFirsts:
    def test_a_short_search_goes_to_the_fastest(self) -> None:
        """If 13 families were alike, each would have six of 80 trials."""
        told = shares(asked({"fast": 1e5, **SLOWER}, 80))
        assert told["fast"] >= 18
        assert min(told.values()) >= 2

    def test_what_is_expected_says_so_before_the_first_time(self) -> None:
        times = {"fast": 1e5, **SLOWER}
        told = shares(asked(times, 55, {name: Prospect(ns) for name, ns in times.items()}))
        assert told["fast"] == 20 > shares(asked(times, 55))["fast"]

    def test_even_ones_take_turns(self) -> None:
        assert shares(asked({"a": 1e5, "b": 1.05e5, "c": 1.0e5}, 60)) == {"a": 20, "b": 20, "c": 20}

    def test_nearly_even_ones_take_theirs_more_rarely(self) -> None:
        times = {"fast": 1e5, "slow": 1.25e5}
        told = shares(asked(times, 32, {name: Prospect(ns) for name, ns in times.items()}))
        assert told == {"fast": 20, "slow": 12}

    def test_those_far_behind_have_their_share_of_the_rungs(self) -> None:
        """400 trials of two families make a first rung of 25."""
        told = shares(asked({"fast": 1e5, "slow": 3e5}, 200))
        assert told["slow"] == 25

    def test_one_that_turns_out_fast_has_its_turns_again(self) -> None:
        objectives: dict[str, Objective] = {
            "fast": constant(1e5),
            "slow": lambda config: 5e4 if config == FIRSTS[9] else 3e5,
        }
        told = shares(trials(competition({"fast": 1e5, "slow": 3e5}), objectives, 200, ahead=1))
        assert told["slow"] > 150
