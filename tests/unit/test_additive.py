"""The additive model: its fit to times that are products of factors, and its use of failures."""

from __future__ import annotations

import math
import random

import pytest

from warpsmith.generator.space import Config, Parameter, Space
from warpsmith.tuner.search.additive import Additive, Item

SPACE = Space(
    (Parameter("rows", (1, 2, 4, 8), ""), Parameter("path", ("global", "texture"), ""), Parameter("dull", (0, 1), "")),
    (),
)
FACTORS: dict[Item, float] = {
    ("rows", 1): 1.3,
    ("rows", 2): 1.1,
    ("rows", 4): 1.0,
    ("rows", 8): 1.2,
    ("path", "texture"): 1.15,
}


def time_ns(config: Config) -> float:
    return 1e5 * math.prod(FACTORS.get(item, 1.0) for item in config.items)


def known(configs: list[Config]) -> list[tuple[float, Config]]:
    return sorted(((time_ns(config), config) for config in configs), key=lambda each: each[0])


def test_finds_the_factors() -> None:
    model, fastest = Additive(), known(list(SPACE.configs()) * 20)
    for _ in range(5):  # each fit begins where the last one ended
        costs = model.costs(fastest, [])
    assert costs.keys() == {(each.name, value) for each in SPACE.parameters for value in each.values}
    for item, factor in FACTORS.items():
        base = ("rows", 4) if item[0] == "rows" else ("path", "global")
        assert costs[item] - costs[base] == pytest.approx(math.log(factor), abs=0.01)
    assert costs["dull", 0] == pytest.approx(costs["dull", 1], abs=0.01)


def test_a_value_seen_once_counts_less_than_it_seems() -> None:
    """Two configs, one of them slower by e^0.2: the parameters that differ share the difference, and it is shrunk."""
    fast, slow = (
        Config.of({"rows": 4, "path": "global", "dull": 0}),
        Config.of({"rows": 8, "path": "global", "dull": 0}),
    )
    costs = Additive().costs([(1e5, fast), (1e5 * math.exp(0.2), slow)], [])
    assert 0.02 < costs["rows", 8] - costs["rows", 4] < 0.15
    assert not {("rows", 1), ("rows", 2)} & costs.keys()


def test_what_fails_is_expensive() -> None:
    configs = list(SPACE.configs())
    failed = [config for config in configs if config.text("path") == "texture" and config.integer("rows") > 2]
    right = known([config for config in configs if config not in failed])

    def texture(failed: list[Config]) -> float:
        costs = Additive().costs(right, failed)
        return costs["path", "texture"] - costs["path", "global"]

    assert texture(failed) > texture([]) + 0.05


def test_slow_configs_say_little() -> None:
    """The fit finds the value that makes a fast config faster, although it makes a hundred slow ones slower."""
    space = Space((Parameter("a", tuple(range(20)), ""), Parameter("b", (0, 1), "")), ())

    def uneven(config: Config) -> float:
        a, b = config.integer("a"), config.integer("b")
        return 1e5 * (1 - 0.05 * b) if a == 0 else 9e5 * (1 + b)

    costs = Additive().costs(sorted(((uneven(c), c) for c in space.configs()), key=lambda each: each[0]), [])
    assert costs["b", 1] < costs["b", 0]


def test_what_was_fitted_before_is_forgotten() -> None:
    """Each fit starts at the last costs; after a few more fits the result equals that of a fresh model."""
    configs = random.Random(0).choices(list(SPACE.configs()), k=600)
    model, fresh = Additive(), Additive()
    for fastest, failed in ((configs[:7], configs[7:9]), (configs[100:400], [])):
        model.costs([(3e5 - time_ns, config) for time_ns, config in reversed(known(fastest))], failed)
    for _ in range(20):
        ours, theirs = (each.costs(known(configs[50:300]), configs[:3]) for each in (model, fresh))
    for parameter in SPACE.parameters:
        base, *others = ((parameter.name, value) for value in parameter.values)
        for other in others:  # what all values of a parameter have in common ranks nothing, and fades slowly
            assert ours[other] - ours[base] == pytest.approx(theirs[other] - theirs[base], abs=2e-3)


class TestExpected:
    """Expected times are not learned a second time."""

    def test_nothing_is_left_to_learn_where_all_is_known(self) -> None:
        model, configs = Additive(lambda config: math.log(time_ns(config))), list(SPACE.configs())
        assert all(abs(cost) < 1e-9 for cost in model.costs(known(configs), []).values())

    def test_what_is_known_wrongly_is_learned(self) -> None:
        """The expectation says that texture is the faster path, which is wrong."""
        model = Additive(lambda config: -0.2 if config.text("path") == "texture" else 0.0)
        for _ in range(5):
            costs = model.costs(known(list(SPACE.configs()) * 20), [])
        gap = costs["path", "texture"] - costs["path", "global"]
        assert gap == pytest.approx(math.log(1.15) + 0.2, abs=0.01)
