"""Tests left out of the default run: every parameter value and problem option stays covered, and named tests run."""

from __future__ import annotations

import dataclasses
import itertools
from types import SimpleNamespace
from typing import Any

import pytest

import exhaustive
from builders import SMALL
from warpsmith.generator.space import Config


def items(*marks: pytest.MarkDecorator, **values: int) -> list[Any]:
    """Tests of one function with the given number of values of each parameter."""
    made = []
    for indices in itertools.product(*(range(count) for count in values.values())):
        callspec = SimpleNamespace(params=dict(zip(values, indices, strict=True)))
        own = {each.mark.name: each.mark for each in marks}
        item = SimpleNamespace(nodeid=f"file::test[{indices}]", callspec=callspec, left_out=False)
        item.get_closest_marker = own.get
        item.add_marker = lambda mark, item=item: setattr(item, "left_out", mark == exhaustive.EXHAUSTIVE)
        made.append(item)
    return made


def kept(tests: list[Any]) -> list[dict[str, int]]:
    exhaustive.mark(tests)
    return [each.callspec.params for each in tests if not each.left_out]


def test_every_value_is_met_in_as_few_tests_as_there_are_values() -> None:
    found = kept(items(exhaustive.meeting(), a=3, b=4))
    assert len(found) == 4
    assert {each["a"] for each in found} == {0, 1, 2}
    assert {each["b"] for each in found} == {0, 1, 2, 3}


def test_every_two_values_meet() -> None:
    found = kept(items(exhaustive.meeting(2), a=3, b=3, c=2))
    assert {(each["a"], each["b"]) for each in found} == set(itertools.product(range(3), range(3)))
    assert {(each["a"], each["c"]) for each in found} == set(itertools.product(range(3), range(2)))
    assert len(found) == 9


def test_one_in_so_many() -> None:
    assert [each["a"] for each in kept(items(exhaustive.one_in(3), a=7))] == [0, 3, 6]
    assert [each["a"] for each in kept(items(exhaustive.one_in(3, 2), a=7))] == [2, 5]


def test_a_diagonal_has_one_of_each_row_and_every_column() -> None:
    found = kept(items(exhaustive.diagonal(3), a=4, b=3))
    assert [each["a"] for each in found] == [0, 1, 2, 3]
    assert {each["b"] for each in found} == {0, 1, 2}


@pytest.mark.parametrize("mark", [exhaustive.meeting(), exhaustive.one_in(3, 2), exhaustive.diagonal(3)])
def test_a_test_that_is_asked_for_by_its_name_runs(mark: pytest.MarkDecorator) -> None:
    assert kept(items(mark, a=3, b=3)[5:6]) == [{"a": 1, "b": 2}]


def test_others_are_left_as_they_are() -> None:
    assert len(kept(items(a=3, b=3))) == 9


class TestCases:
    CASES = [  # noqa: RUF012 - nobody changes it
        (dataclasses.replace(SMALL, border=border), Config.of({"path": path, "rows": rows}))
        for border in ("valid", "reflect")
        for path in ("a", "b")
        for rows in (1, 2, 4)
    ]

    def test_meet_every_value_and_every_option(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv(exhaustive.REQUESTED, raising=False)
        found = exhaustive.chosen(self.CASES, lambda case: exhaustive.features_of(case[0], "family", case[1]))
        assert {case[0].border for case in found} == {case[0].border for case in self.CASES}
        assert {item for _, config in found for item in config.items} == {
            item for _, config in self.CASES for item in config.items
        }
        assert len(found) < len(self.CASES) / 2

    def test_are_all_where_the_run_is_exhaustive(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(exhaustive.REQUESTED, "1")
        assert exhaustive.chosen(self.CASES, lambda _: frozenset()) == self.CASES
        assert exhaustive.share(self.CASES, 1, 3) == self.CASES

    def test_of_shares_are_every_case_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv(exhaustive.REQUESTED, raising=False)
        parts = [exhaustive.share(range(10), which, 3) for which in range(3)]
        assert sorted(itertools.chain(*parts)) == list(range(10))


@pytest.mark.parametrize(
    ("words", "is_requested"),
    [
        ("not exhaustive", False),
        ("exhaustive or not exhaustive", True),
        ("exhaustive", True),
        ("gpu and not exhaustive", False),
        ("samples", False),
        ("", False),
    ],
)
def test_a_run_s_marks_say_whether_it_is_exhaustive(
    words: str, is_requested: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(exhaustive.REQUESTED, "")  # so that what is set here is undone
    config: Any = SimpleNamespace(option=SimpleNamespace(markexpr=words))
    exhaustive.take_request(config)
    assert exhaustive.requested() is is_requested
