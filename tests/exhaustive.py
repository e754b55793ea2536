"""Selects the tests and cases that run by default. The others run only if `-m` names the marker `exhaustive`.

A kernel's test costs a compilation. By default a function with many parameters runs as often as it takes to meet every
value of each. A loop over cases runs the cases that meet every value of every parameter of a config and every option of
a problem. CONTRIBUTING.md has the command that runs all tests.
"""

from __future__ import annotations

import dataclasses
import enum
import itertools
import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar

import pytest

from warpsmith.generator.space import Config

EXHAUSTIVE = pytest.mark.exhaustive
REQUESTED = "WARPSMITH_TESTS_EXHAUSTIVE"
"""Environment variable that conftest.py sets if the run's `-m` selects exhaustive tests."""
Item = TypeVar("Item")
Features = frozenset[Hashable]


def requested() -> bool:
    """Whether this run takes every case."""
    return REQUESTED in os.environ


def take_request(config: pytest.Config) -> None:
    """Reads the run's `-m`."""
    if re.search(r"(?<!not )\bexhaustive\b", config.option.markexpr):
        os.environ[REQUESTED] = "1"
    else:
        os.environ.pop(REQUESTED, None)


def meeting(strength: int = 1) -> pytest.MarkDecorator:
    """Mark of a function whose tests by default meet every combination of `strength` parameters' values."""
    return pytest.mark.meeting(strength)


def one_in(count: int, first: int = 0) -> pytest.MarkDecorator:
    """Mark of a function that runs every `count`-th of its tests by default, from number `first` on."""
    return pytest.mark.one_in(count, first)


def diagonal(width: int) -> pytest.MarkDecorator:
    """Mark of a function whose tests form rows of `width`. By default row n runs only test -n modulo `width`."""
    return pytest.mark.diagonal(width)


def mark(items: Sequence[pytest.Item]) -> None:
    """Marks the tests that the default run leaves out. Only collected tests count: one requested by name runs."""
    functions: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        functions[item.nodeid.partition("[")[0]].append(item)
    for tests in functions.values():
        if found := tests[0].get_closest_marker("meeting"):
            kept = set(cover([_values(item, *found.args) for item in tests]))
        elif found := tests[0].get_closest_marker("one_in"):
            count, first = found.args
            kept = set(range(first if first < len(tests) else 0, len(tests), count))
        elif found := tests[0].get_closest_marker("diagonal"):
            (width,) = found.args
            kept = {number for number in range(len(tests)) if (number // width + number) % width == 0}
        else:
            continue
        for number, item in enumerate(tests):
            if number not in kept:
                item.add_marker(EXHAUSTIVE)


def _values(item: pytest.Item, strength: int) -> Features:
    """Combinations of a test's parameters. Tests that share a value share the object, so its id identifies it."""
    values: dict[str, Any] = item.callspec.params  # type: ignore[attr-defined]
    told = sorted((name, id(value)) for name, value in values.items())
    return frozenset(itertools.combinations(told, min(strength, len(told))))


def cover(features: Sequence[Features]) -> list[int]:
    """Sorted indices of sets that together cover all features, chosen greedily and the same in every run.

    If several sets add equally many features, the first whose features were met least often wins, so that no value
    dominates.
    """
    missing = set().union(*features)
    met = Counter[Hashable]()
    kept = list[int]()

    def gain(number: int) -> tuple[int, int]:
        return len(features[number] & missing), -sum(met[each] for each in features[number])

    while missing:
        best = max(range(len(features)), key=gain)
        missing -= features[best]
        met.update(features[best])
        kept.append(best)
    return sorted(kept)


def parameters(cases: Sequence[Any], features: Callable[[Any], Features]) -> list[Any]:
    """`cases` for `parametrize`. Cases that add no feature to the default ones get the marker `exhaustive`."""
    kept = set(cover([features(case) for case in cases]))
    return [
        case if number in kept else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=EXHAUSTIVE)
        for number, case in enumerate(cases)
    ]


def chosen(cases: Iterable[Item], features: Callable[[Item], Features]) -> list[Item]:
    """Cases that together have every feature, or all cases if the run is exhaustive."""
    given = list(cases)
    return given if requested() else [given[number] for number in cover([features(case) for case in given])]


def share(cases: Sequence[Item], which: int, count: int) -> list[Item]:
    """Every `count`-th case, from number `which % count` on, or all cases if the run is exhaustive."""
    return list(cases) if requested() else list(cases[which % count :: count])


def features_of(problem: Any, family: str, config: Config) -> Features:
    """Features of a kernel's case: its problem (whatever the family), and for its family each parameter value of the
    config and each option of the problem.
    """
    values = (*config.values().items(), *_options(problem))
    return frozenset([("problem", problem.key()), *((family, *value) for value in values)])


def _options(problem: Any) -> list[tuple[str, Hashable]]:
    values = ((field.name, getattr(problem, field.name)) for field in dataclasses.fields(problem))
    return [(name, value) for name, value in values if isinstance(value, str | bool | enum.Enum)]
