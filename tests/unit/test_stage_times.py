"""Times of pipelines, from what is known of their stages."""

from __future__ import annotations

import math
import random

import pytest

from warpsmith.generator.space import Config, Parameter, Space
from warpsmith.tuner.search.additive import Expected, StageTimes
from warpsmith.tuner.search.neighbours import Neighbours

STAGE = Space((Parameter("rows", (1, 2, 4, 8), ""), Parameter("path", ("global", "texture"), "")), ())
SPACES = {"first": STAGE, "second": STAGE}
SPACE = Space.joined(SPACES)


def first_ns(config: Config) -> float:
    """Nanoseconds; five times as long through textures, whatever the rows."""
    return 2e4 * (5.0 if config.text("path") == "texture" else 1.0) * (1 + 0.05 * config.integer("rows"))


def second_ns(config: Config) -> float:
    return 8e4 * (1.2 if config.text("path") == "global" else 1.0) / (1 + 0.02 * config.integer("rows"))


def time_ns(config: Config) -> float:
    return first_ns(config.of_stage("first")) + second_ns(config.of_stage("second"))


@pytest.fixture
def known() -> StageTimes:
    stages = {"first": first_ns, "second": second_ns}
    trials = {
        name: sorted(((time(config), config) for config in STAGE.configs()), key=lambda each: each[0])
        for name, time in stages.items()
    }
    return StageTimes(trials)


def test_times_of_stages_add_up(known: StageTimes) -> None:
    best = min(SPACE.configs(), key=time_ns)
    assert known.log_ns(best) == pytest.approx(math.log(time_ns(best)), abs=0.02)


def test_ranks_configs_of_which_none_was_tried(known: StageTimes) -> None:
    ranked = sorted(SPACE.configs(), key=known.log_ns)
    assert time_ns(ranked[0]) <= 1.01 * min(map(time_ns, SPACE.configs()))


def test_changes_that_a_stage_rules_out_are_not_proposed(known: StageTimes) -> None:
    """Start config: slow in both stages. Only the stage times tell which changes are better.

    The best config is four changes away, one more than are made at once.
    """
    start = Config.of({"first.rows": 8, "first.path": "texture", "second.rows": 1, "second.path": "global"})
    best = min(map(time_ns, SPACE.configs()))

    def proposed_ns(expected: Expected | None, seed: int) -> float:
        neighbours = Neighbours(SPACE, {start}, random.Random(seed), expected)
        neighbours.learn(start, time_ns(start))
        proposal = neighbours.next_likely()
        assert proposal is not None
        return time_ns(proposal)

    assert all(proposed_ns(known.log_ns, seed) <= 1.15 * best for seed in range(10))
    assert not all(proposed_ns(None, seed) <= 1.15 * best for seed in range(10))
