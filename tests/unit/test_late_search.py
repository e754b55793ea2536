"""Families whose spaces a search makes at their first turn."""

from __future__ import annotations

import itertools
import types
from collections.abc import Iterator

import pytest

from warpsmith.generator.conv2d import Conv2d
from warpsmith.generator.family import Family
from warpsmith.generator.gate import Gate
from warpsmith.generator.presets import H200
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.generator.registry import families_for
from warpsmith.generator.space import Config, Parameter, Space
from warpsmith.store.store import Store
from warpsmith.store.store_chain import open_beside
from warpsmith.tuner.evaluate.evaluator import Evaluator
from warpsmith.tuner.finals.choose import TuningFailed
from warpsmith.tuner.options import TuneOptions
from warpsmith.tuner.progress import SilentProgress
from warpsmith.tuner.run.search_loop import SearchLoop
from warpsmith.tuner.search.competition import Competition
from warpsmith.tuner.search.family_search import FamilySearch, LateSearch, NoSearch
from warpsmith.tuner.search.known import Known, known_first, present_answer

SPACE = Space((Parameter("n", tuple(range(40)), "a number"),), ())
FIRST = Config.of({"n": 0})
LAYER = Conv2d(input=(32, 64, 28, 28), weight=(64, 64, 3, 3), padding=1)


def family(name: str) -> FamilySearch:
    return FamilySearch(name, SPACE, [FIRST], 0)


class Makers:
    """Late searches that note when they are made; those in `broken` cannot be made."""

    def __init__(self, names: str, broken: str = "") -> None:
        self.made: list[str] = []
        self._broken = broken
        self.searches = {name: LateSearch(lambda name=name: self._make(name)) for name in names}  # type: ignore[misc]

    def _make(self, name: str) -> FamilySearch:
        self.made.append(name)
        if name in self._broken:
            raise NoSearch(name)
        return family(name)


def tell(search: Competition, asked: tuple[str, Config] | None) -> tuple[str, Config]:
    assert asked is not None
    name, config = asked
    search.tell(name, config, 100.0 * (1 + ord(name) - ord("a")) + config.integer("n"))
    return asked


def test_a_family_is_made_at_its_first_turn() -> None:
    makers = Makers("abc")
    search = Competition(makers.searches, 0, 100, known=[("b", FIRST)])
    assert makers.made == []
    assert [standing.tried for standing in search.standings] == [0, 0, 0]
    assert search.ask() == ("b", FIRST)
    assert makers.made == ["b"]
    assert search.size_up_to(2) == 2
    assert makers.made == ["b"]
    assert search.size == 120
    assert sorted(makers.made) == ["a", "b", "c"]


def test_the_order_of_asks_is_that_of_searches_made_at_once() -> None:
    late = Competition(Makers("abcd").searches, 0, 150)
    early = Competition({name: family(name) for name in "abcd"}, 0, 150)
    for _ in range(150):
        assert tell(late, late.ask()) == tell(early, early.ask())
    assert late.standings == early.standings


def test_a_family_that_cannot_be_searched_leaves() -> None:
    search = Competition(Makers("abc", "b").searches, 0, 100, known=[("b", FIRST), ("a", FIRST)])
    asked = [tell(search, search.ask()) for _ in range(20)]
    assert asked[0] == ("a", FIRST)
    assert {name for name, _ in asked} == {"a", "c"} == set(search.families)


def test_nothing_is_asked_where_no_family_can_be_searched() -> None:
    search = Competition(Makers("ab", "ab").searches, 0, 100)
    assert search.ask() is None
    assert search.families == {}
    assert search.size == 0


def test_known_candidates_are_made_when_they_are_reached() -> None:
    reached: list[int] = []

    def candidates() -> Iterator[tuple[str, Config]]:
        for number in (0, 1, 0, 2):
            reached.append(number)
            yield "a", Config.of({"n": number})

    known = Known(candidates())
    assert next(iter(known)) == ("a", FIRST)
    assert reached == [0]
    assert [config.integer("n") for _, config in itertools.islice(known, 2)] == [0, 1]
    assert reached == [0, 1]
    assert [config.integer("n") for _, config in known] == [config.integer("n") for _, config in known] == [0, 1, 2]
    assert known.made == [*known]


class Bench(types.SimpleNamespace):
    """The part of an evaluator that a search loop needs to generate programs."""

    def program(self, name: str, config: Config) -> Program:
        program: Program = self.gate.program(self.families[name], config)
        return program


def loop_of(store: Store, problem: Problem, families: tuple[Family, ...], trials: int) -> SearchLoop:
    by_name = {family.name: family for family in families}
    gate = Gate(problem, H200)
    pool = types.SimpleNamespace(processes=1)
    evaluator: Evaluator = Bench(problem=problem, device=H200, gate=gate, families=by_name, pool=pool)  # type: ignore[assignment]
    with open_beside(store) as stores:
        answer = present_answer(problem, H200, stores, by_name)
        known = known_first(answer, gate, stores, by_name, ())
    options = TuneOptions(trials=trials)
    return SearchLoop(evaluator, store, (), options, SilentProgress(), 0.0, None, known=known)


def test_a_family_without_a_turn_makes_no_space(monkeypatch: pytest.MonkeyPatch) -> None:
    families = families_for(LAYER, H200)
    made: list[str] = []
    with Store.open(":memory:", write=True) as store:
        loop = loop_of(store, LAYER, families, 2)
        space = Gate.space

        def noted(gate: Gate, family: Family) -> Space:
            made.append(family.name)
            return space(gate, family)

        monkeypatch.setattr(Gate, "space", noted)
        asked = [loop.next(), loop.next()]
        assert loop.next() is None
    names = {program.family for program in asked if program is not None}
    assert len(names) == 2 < len(families)
    assert set(made) <= names


def test_a_search_without_any_family_says_why() -> None:
    class Illegal(type(families_for(LAYER, H200)[0])):  # type: ignore[misc]
        name = "conv2d_illegal"

        def starts(self, *_: object) -> tuple[Config, ...]:
            return ()

    illegal = Illegal()
    with Store.open(":memory:", write=True) as store:
        loop = loop_of(store, LAYER, (illegal,), 2)
        illegal.default = lambda *_: FIRST
        loop._known.made.clear()
        with pytest.raises(TuningFailed, match=r"no family of conv2d .* can be searched: .*conv2d_illegal"):
            loop.next()
