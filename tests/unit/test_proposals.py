"""Proposals for the next trial, with one tuner and with several."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from builders import program, trial
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config, Parameter, Space
from warpsmith.store.record import Trial
from warpsmith.tuner.costs import CostStage, Ledger
from warpsmith.tuner.run.proposals import AT_ONCE, Proposals
from warpsmith.tuner.search.competition import Competition
from warpsmith.tuner.search.family_search import FamilySearch

SPACE = Space((Parameter("n", tuple(range(40)), "the number"),), ())


class FakeCrew:
    """A stand-in for the helper tuners that grants everything not in `taken`."""

    def __init__(self, *taken: int) -> None:
        self.taken = set(taken)
        self.departed = 0
        self.asked: list[list[int]] = []

    def claim(
        self, programs: Iterable[Program], identity_of: Callable[[Program], str], _: Callable[[Trial], bool]
    ) -> frozenset[Program]:
        wanted = list(programs)
        assert {identity_of(each) for each in wanted} == {"nvrtc"}
        self.asked.append([each.config.integer("n") for each in wanted])
        return frozenset(each for each in wanted if each.config.integer("n") not in self.taken)


class Setting:
    def __init__(self, sharing: FakeCrew | None = None, processes: int = 64) -> None:
        family = FamilySearch("plain", SPACE, [Config.of({"n": 0})], 0)
        evaluator: Any = types.SimpleNamespace(
            program=lambda family, config: program(f"// {config}", family=family, config=config),
            identity_of=lambda _: "nvrtc",
            pool=types.SimpleNamespace(processes=processes),
        )
        self.ledger, self.sharing = Ledger(), sharing
        self.search = Competition({"plain": family}, 0, 40)
        self.proposals = Proposals(self.search, evaluator, self.ledger, sharing, lambda _: True)  # type: ignore[arg-type]

    def next(self) -> int | None:
        program = self.proposals.next()
        return None if program is None else program.config.integer("n")

    def rest(self) -> list[int]:
        return list(iter(self.next, None))  # type: ignore[arg-type]


def test_alone_a_tuner_asks_for_one_at_a_time() -> None:
    setting = Setting()
    assert setting.next() == 0
    assert setting.search.remaining == 39
    assert sorted([0, *setting.rest()]) == list(range(40))
    assert not setting.proposals.waits_for_others
    assert setting.ledger.seconds[CostStage.ASK] > 0
    assert setting.ledger.seconds[CostStage.GENERATE] > 0


@pytest.mark.parametrize(("processes", "at_once"), [(64, AT_ONCE), (3, 3)])
def test_with_others_it_claims_several_at_once_but_no_more_than_it_can_compile(processes: int, at_once: int) -> None:
    setting = Setting(FakeCrew(), processes)
    setting.next()
    assert setting.sharing is not None
    assert [len(asked) for asked in setting.sharing.asked] == [at_once]
    assert setting.ledger.seconds[CostStage.STORE] > 0


def test_what_others_try_is_left_to_them() -> None:
    setting = Setting(FakeCrew(0, 7, 9))
    assert sorted(setting.rest()) == [number for number in range(40) if number not in (0, 7, 9)]
    assert setting.proposals.waits_for_others
    for number in (0, 7, 9):
        setting.proposals.learn(trial(number))
    assert not setting.proposals.waits_for_others
    assert setting.rest() == []


def test_where_all_that_is_wanted_is_taken_more_is_asked_for() -> None:
    sharing = FakeCrew(*range(30))
    assert sorted(Setting(sharing, processes=4).rest()) == list(range(30, 40))
    assert sorted(number for asked in sharing.asked for number in asked) == list(range(40))


def test_what_others_give_up_is_tried() -> None:
    setting = Setting(sharing := FakeCrew(0, 7))
    setting.rest()
    setting.proposals.offer_again()
    assert setting.rest() == []
    assert setting.proposals.waits_for_others
    sharing.taken = {7}
    setting.proposals.offer_again()
    assert setting.rest() == [0]


def test_what_a_dead_one_had_is_tried_before_all_else() -> None:
    setting = Setting(sharing := FakeCrew(0), processes=2)
    setting.next()
    sharing.taken.clear()
    sharing.departed = 1
    assert setting.next() == 0


def test_what_was_learned_meanwhile_is_not() -> None:
    setting = Setting(sharing := FakeCrew(0, 7))
    setting.rest()
    setting.proposals.learn(trial(7))
    sharing.taken.clear()
    setting.proposals.offer_again()
    assert setting.rest() == [0]
