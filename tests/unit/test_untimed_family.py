"""A family that the stored search did not know answers where its model expects much less time."""

from __future__ import annotations

import dataclasses

import pytest

from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.gate import Gate
from warpsmith.generator.presets import H200
from warpsmith.generator.registry import family_named
from warpsmith.plans import untimed_family
from warpsmith.plans.lookup import find
from warpsmith.plans.match import MatchKind
from warpsmith.store.location import shipped_store
from warpsmith.store.record import Record
from warpsmith.store.store import Store
from warpsmith.store.store_chain import StoreChain
from winners_in_memory import WinnersInMemory

LAYER = Conv2d((24, 64, 56, 56), (256, 64, 1, 1), pass_=Pass.DGRAD)
STORED = Conv2d((32, 96, 56, 56), (384, 96, 1, 1), pass_=Pass.DGRAD)
"""The nearest stored layer, whose search knew `conv2d_warpgroup` and `conv2d_mma` but not `conv2d_pointwise`."""
POINTWISE, WARPGROUP = "conv2d_pointwise", "conv2d_warpgroup"


def records() -> tuple[Record, tuple[Record, ...]]:
    """The shipped winner of STORED, and its runners-up."""
    with Store.open(str(shipped_store()), write=False) as store:
        (won,) = store.winners(STORED.key(), H200.key())
        return won, tuple(store.runners_up(STORED.key(), H200.key()))


def chain(won: Record, beaten: tuple[Record, ...]) -> StoreChain[WinnersInMemory]:
    return StoreChain((WinnersInMemory("made up", (won,), beaten),))


def test_a_family_without_a_stored_time_answers_if_it_is_expected_to_be_faster() -> None:
    won, beaten = records()
    assert won.trial.family == WARPGROUP
    assert POINTWISE not in {each.trial.family for each in beaten}
    match = find(LAYER, H200, chain(won, beaten))
    assert (match.kind, match.program.family, match.record) == (MatchKind.DEFAULT, POINTWISE, None)
    assert match.reasons[-1].startswith(
        f"family: {POINTWISE} was not timed beside {WARPGROUP} of {STORED.key()}, and is expected to take "
    )


def test_a_family_that_was_beaten_there_does_not() -> None:
    won, beaten = records()
    timed = dataclasses.replace(beaten[0], trial=dataclasses.replace(beaten[0].trial, family=POINTWISE))
    match = find(LAYER, H200, chain(won, (*beaten, timed)))
    assert (match.kind, match.program.family) == (MatchKind.NEAR, WARPGROUP)


def test_without_runners_up_nobody_knows_what_was_tried() -> None:
    won, _ = records()
    match = find(LAYER, H200, chain(won, ()))
    assert (match.kind, match.program.family) == (MatchKind.NEAR, WARPGROUP)


def test_a_family_that_is_expected_to_be_about_as_fast_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    stores, gate = chain(*records()), Gate(LAYER, H200)
    pointwise, warpgroup = family_named(POINTWISE), family_named(WARPGROUP)
    assert pointwise is not None
    assert warpgroup is not None
    ours, theirs = gate.likely_ns(pointwise), gate.likely_ns(warpgroup)
    assert ours is not None
    assert theirs is not None
    for share, family in ((0.99, WARPGROUP), (1.01, POINTWISE)):
        monkeypatch.setattr(untimed_family, "EXPECTED_SHARE", share * ours / theirs)
        assert find(LAYER, H200, stores).program.family == family
