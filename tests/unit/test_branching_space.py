"""Spaces with branches, over small made-up branches."""

from __future__ import annotations

import collections
import random

import optuna
import pytest

from warpsmith.generator.branching_space import ADJACENT, Branches, BranchingSpace
from warpsmith.generator.space import Config, Constraint, Parameter, Space
from warpsmith.tuner.search.family_search import FamilySearch
from warpsmith.tuner.search.guarded import guarded
from warpsmith.tuner.search.sampler_choice import SamplerChoice
from warpsmith.tuner.search.studies.coding import Branched


class Sizes(Branches):
    """Branches by a size, whose radices are the divisors of the size; size 7 is empty, and odd sizes have no `half`."""

    name = "size"

    def __init__(self, count: int = 40) -> None:
        self.values = tuple(map(str, range(6, 6 + count)))
        self.likely = self.values[:3]
        self.made: list[str] = []

    values: tuple[str, ...] = ()

    def space(self, value: str) -> Space | str:
        self.made.append(value)
        size = int(value)
        if size == 7:
            return "a lucky number has no radices"
        half = (Parameter("half", (0, 1), "1 for real rows"),) if size % 2 == 0 else ()
        radices = tuple(each for each in range(1, size + 1) if size % each == 0)
        return Space(
            (
                Parameter("size", (value,), "points"),
                Parameter("radix", radices, "points of a thread"),
                Parameter("threads", (32, 64), "of a block"),
                *half,
            ),
            (Constraint("a large radix needs few threads", lambda radix, threads: radix < 6 or threads == 32),),
        )


def config(size: int, radix: int, threads: int = 32, half: int | None = None) -> Config:
    odd = {} if half is None else {"half": half}
    return Config.of({"size": str(size), "radix": radix, "threads": threads, **odd})


DEFAULT = config(6, 3, 32, 0)


class TestBranchingSpace:
    def test_has_the_configs_of_all_branches(self) -> None:
        branches = Sizes(4)
        found = list(BranchingSpace(branches).configs())
        expected = [
            each
            for value in branches.values
            if isinstance(space := branches.space(value), Space)
            for each in space.configs()
        ]
        assert found == expected
        assert {each.text("size") for each in found} == {"6", "8", "9"}
        assert all(map(BranchingSpace(branches).contains, found))

    @pytest.mark.parametrize(
        ("wrong", "why"),
        [
            (config(8, 3, 32, 0), "with size=8: radix=3 is not one of [1, 2, 4, 8]"),
            (config(6, 6, 64, 0), "with size=6: a large radix needs few threads"),
            (config(9, 3, 32, 0), "with size=9: parameters ['half'] are missing or unknown"),
            (config(7, 1), "with size=7: a lucky number has no radices"),
            (config(5, 1), "size=5 is not one of the 40 values 6, 7, 8, 9, 10, 11, ..."),
            (Config.of({"radix": 3}), "parameter size is missing"),
        ],
    )
    def test_says_why_a_config_is_none(self, wrong: Config, why: str) -> None:
        assert BranchingSpace(Sizes()).why_not(wrong) == why

    def test_makes_one_branch_for_a_likely_config(self) -> None:
        branches = Sizes()
        space = BranchingSpace(branches)
        assert space.contains(DEFAULT)
        assert space.like(DEFAULT.values()) == DEFAULT
        assert len(space.names) == 4
        assert set(branches.made) == {"6"}
        assert {each.name: len(each.values) for each in space.parameters} == {
            "size": 39,
            "radix": len(
                {each for size in range(6, 46) for each in range(1, size + 1) if size % each == 0 and size != 7}
            ),
            "threads": 2,
            "half": 2,
        }

    def test_fits_the_others_to_another_branch(self) -> None:
        space = BranchingSpace(Sizes())
        assert space.like({"size": "9", "radix": 3, "threads": 64, "half": 1}) == config(9, 3, 64)
        assert space.like({"size": "8", "radix": 3, "threads": 64}) == config(8, 4, 64, 0)
        assert space.like({"size": "7", "radix": 3, "threads": 64, "half": 1}) == config(6, 3, 64, 1)
        assert space.like({"size": "none", "radix": 3, "threads": 64, "half": 1}) == config(6, 3, 64, 1)

    def test_neighbours_are_legal_and_reach_the_branches_beside(self) -> None:
        space = BranchingSpace(Sizes())
        here = config(20, 4, 64, 1)
        found = list(space.neighbours(here))
        assert len(found) == len(set(found))
        assert all(map(space.contains, found))
        assert {int(each.text("size")) for each in found} == set(range(20 - ADJACENT, 20 + ADJACENT + 1))
        own = [each for each in found if each.text("size") == "20"]
        assert own == list(space.within(here).neighbours(here))

    def test_allows_what_stays_legal(self) -> None:
        space = BranchingSpace(Sizes())
        assert space.allows(config(6, 2, 32, 1).values(), ("radix",))
        assert not space.allows(config(6, 6, 64, 1).values(), ("radix",))
        assert not space.allows(config(8, 3, 32, 1).values(), ("size",))

    def test_draws_from_every_branch_the_first_ones_most_often(self) -> None:
        space, rng = BranchingSpace(Sizes()), random.Random(0)
        drawn = [space.drawn(rng) for _ in range(2000)]
        counts = collections.Counter(each.text("size") for each in drawn if each is not None)
        assert set(counts) == {*map(str, range(6, 46))} - {"7"}
        assert sum(counts[str(size)] for size in range(6, 13)) > 900

    def test_is_narrowed_to_branches_and_to_values(self) -> None:
        space = BranchingSpace(Sizes())
        one = space.narrowed({"size": ("9",), "threads": (64,)})
        assert [each.values() for each in one.configs()] == [{"size": "9", "radix": r, "threads": 64} for r in (1, 3)]
        fives = space.narrowed({"radix": (5,)})
        assert {int(each.text("size")) % 5 for each in fives.configs()} == {0}
        with pytest.raises(ValueError, match="size has no value 99"):
            space.narrowed({"size": ("99",)})
        with pytest.raises(ValueError, match="unknown parameters"):
            space.narrowed({"colour": ("red",)})

    def test_rules_that_fail_refuse(self) -> None:
        class Failing(Sizes):
            def space(self, value: str) -> Space | str:
                space = super().space(value)
                if isinstance(space, str):
                    return space
                return Space(space.parameters, (Constraint("it fails", lambda threads: 1 // (64 - threads) >= 0),))

        noted: list[Exception] = []
        space = guarded(BranchingSpace(Failing()), noted.append)
        assert space.contains(DEFAULT)
        assert not space.contains(config(6, 3, 64, 0))
        assert [type(each) for each in noted] == [ZeroDivisionError]

    def test_branches_that_fail_are_empty(self) -> None:
        class Failing(Sizes):
            def space(self, value: str) -> Space | str:
                if value == "12":
                    raise ZeroDivisionError("by twelve")
                return super().space(value)

        noted: list[Exception] = []
        space = guarded(BranchingSpace(Failing()), noted.append)
        assert noted == []
        assert space.why_not(config(12, 3, 32, 0)) == "with size=12: by twelve"
        assert space.like({**config(12, 3, 32, 0).values()}) is not None
        assert [str(each) for each in noted] == ["by twelve"]

    def test_is_named_after_its_branches(self) -> None:
        prints = {BranchingSpace(Sizes(count)).fingerprint for count in (4, 4, 5)}
        assert len(prints) == 2

    def test_none_without_a_config_is_refused(self) -> None:
        class Empty(Sizes):
            def space(self, value: str) -> Space | str:
                return f"{value} is none"

        with pytest.raises(ValueError, match="all 40 values of size are empty branches"):
            BranchingSpace(Empty())


def time_ns(each: Config) -> float:
    """The best config is in a branch that is neither likely nor near the first."""
    return 1e5 * (1 + abs(int(each.text("size")) - 30) / 10 + abs(each.integer("radix") - 5) / 5)


@pytest.mark.parametrize("sampler", [SamplerChoice.ADDITIVE, SamplerChoice.RANDOM, SamplerChoice.TPE])
def test_a_search_reaches_other_branches(sampler: SamplerChoice) -> None:
    search = FamilySearch("sizes", BranchingSpace(Sizes()), [DEFAULT], 0, sampler=sampler)
    asked = []
    for _ in range(150):
        each = search.ask()
        assert each is not None
        assert search.space.contains(each)
        asked.append(each)
        search.tell(each, time_ns(each))
    assert len(set(asked)) == 150
    assert len({each.text("size") for each in asked}) > 15
    if sampler is SamplerChoice.ADDITIVE:
        assert min(map(time_ns, asked)) == min(map(time_ns, search.space.configs()))
    assert len(search.study.get_trials(deepcopy=False)) >= 150


def test_a_study_names_parameters_after_their_branch() -> None:
    """Optuna forbids a study's parameter to have other choices in another trial."""
    coding = Branched(BranchingSpace(Sizes()))
    nine = config(9, 3)
    assert coding.params(nine) == {"size": "9", "9/radix": 3, "9/threads": 32}
    assert coding.config({**coding.params(nine), "another": 1}) == nine
    distributions = coding.distributions_of(nine)
    assert distributions["9/radix"] == optuna.distributions.CategoricalDistribution((1, 3, 9))
    assert distributions["size"] == coding.distributions_of(DEFAULT)["size"]
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler())
    for each in (nine, DEFAULT, config(8, 2, 32, 1)):
        study.ask(coding.distributions_of(each))
    assert len(study.trials) == 3
