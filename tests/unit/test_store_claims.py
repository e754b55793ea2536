"""Claims of trials: nothing is tried twice, and a dead tuner's trials are not lost."""

from __future__ import annotations

import dataclasses

import pytest

from builders import SMALL as PROBLEM
from builders import trial as made_trial
from warpsmith.errors import StoreError
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.presets import H200, HOST
from warpsmith.generator.space import Config
from warpsmith.store import opening
from warpsmith.store.contents import check_store, contents_of
from warpsmith.store.record import Trial
from warpsmith.store.store import Store
from warpsmith.store.tuners import Claim, StruckOff

OTHER = Filter2d(image=(64, 48), filter=(1, 3))


def claim(number: int) -> Claim:
    return Claim("plain", Config.of({"n": number}), f"f{number % 2}", "g++ 12.2.0")


def trial(number: int) -> Trial:
    mine = claim(number)
    return made_trial(family=mine.family, config=mine.config, fingerprint=mine.fingerprint, compiler=mine.compiler)


CLAIMS = [claim(number) for number in range(4)]


@pytest.fixture
def tuners(store: Store) -> tuple[str, str]:
    """Names of two tuners at work."""
    return store.tuners.register("host-a 17"), store.tuners.register("host-b 17")


class TestTuners:
    def test_of_one_name_are_two(self, store: Store) -> None:
        ids = {store.tuners.register("host 17"), store.tuners.register("host 17")}
        assert len(ids) == 2
        assert store.tuners.beats() == dict.fromkeys(ids, 0)

    def test_beat(self, store: Store, tuners: tuple[str, str]) -> None:
        for _ in range(3):
            store.tuners.beat(tuners[1])
        assert store.tuners.beats() == {tuners[0]: 0, tuners[1]: 3}

    def test_are_struck_off_by_name(self, store: Store, tuners: tuple[str, str]) -> None:
        assert store.tuners.strike(tuners[0]) == "host-a 17"
        assert store.tuners.beats() == {tuners[1]: 0}
        assert store.tuners.strike(tuners[0]) is None

    def test_a_name_may_hold_anything(self, store: Store) -> None:
        assert store.tuners.strike(store.tuners.register("a\0\udcffµ")) == "a\N{REPLACEMENT CHARACTER}?µ"

    def test_that_were_struck_off_hear_so(self, store: Store, tuners: tuple[str, str]) -> None:
        store.tuners.strike(tuners[0])
        with pytest.raises(StruckOff, match=rf"{tuners[0]} was struck off.*register it again"):
            store.tuners.beat(tuners[0])
        with pytest.raises(StoreError, match="was struck off"):
            store.tuners.claim(PROBLEM, H200, tuners[0], CLAIMS)
        assert store.tuners.claim(PROBLEM, H200, tuners[1], CLAIMS).mine == set(CLAIMS)


class TestClaims:
    def test_are_granted_once(self, store: Store, tuners: tuple[str, str]) -> None:
        assert store.tuners.claim(PROBLEM, H200, tuners[0], iter(CLAIMS[:2])).mine == set(CLAIMS[:2])
        assert store.tuners.claim(PROBLEM, H200, tuners[1], CLAIMS[1:]).mine == set(CLAIMS[2:])
        assert store.tuners.claim(PROBLEM, H200, tuners[1], CLAIMS[:2]).mine == set()
        assert store.tuners.claim(PROBLEM, H200, tuners[1], []).mine == set()

    def test_of_ones_own_are_granted_again(self, store: Store, tuners: tuple[str, str]) -> None:
        store.tuners.claim(PROBLEM, H200, tuners[0], CLAIMS[:1])
        assert store.tuners.claim(PROBLEM, H200, tuners[0], CLAIMS[:2]).mine == set(CLAIMS[:2])

    @pytest.mark.parametrize(
        "change",
        [{"family": "window"}, {"config": Config.of({"n": "0"})}, {"fingerprint": "f9"}, {"compiler": "nvrtc 13"}],
    )
    def test_of_anything_else_are_others(
        self, store: Store, tuners: tuple[str, str], change: dict[str, object]
    ) -> None:
        changed = dataclasses.replace(CLAIMS[0], **change)  # type: ignore[arg-type]
        store.tuners.claim(PROBLEM, H200, tuners[0], CLAIMS[:1])
        assert store.tuners.claim(PROBLEM, H200, tuners[1], [CLAIMS[0], changed]).mine == {changed}

    def test_of_other_problems_and_devices_are_others(self, store: Store, tuners: tuple[str, str]) -> None:
        store.tuners.claim(PROBLEM, H200, tuners[0], CLAIMS)
        assert store.tuners.claim(OTHER, H200, tuners[1], CLAIMS).mine == set(CLAIMS)
        assert store.tuners.claim(PROBLEM, HOST, tuners[1], CLAIMS).mine == set(CLAIMS)

    def test_of_what_is_stored_are_refused(self, store: Store, tuners: tuple[str, str]) -> None:
        store.add_trials(PROBLEM, H200, [trial(0)])
        store.add_trials(OTHER, H200, [trial(1)])
        assert store.tuners.claim(PROBLEM, H200, tuners[0], CLAIMS).mine == set(CLAIMS[1:])

    def test_of_what_is_stored_come_with_the_trials(self, store: Store, tuners: tuple[str, str]) -> None:
        store.add_trials(PROBLEM, H200, [trial(0), trial(1)])
        store.tuners.claim(PROBLEM, H200, tuners[1], CLAIMS[2:3])
        granted = store.tuners.claim(PROBLEM, H200, tuners[0], CLAIMS[1:])
        assert granted.mine == {CLAIMS[3]}
        assert granted.stored == (trial(1),)

    def test_of_trials_that_do_not_hold_are_granted(self, store: Store, tuners: tuple[str, str]) -> None:
        store.add_trials(PROBLEM, H200, [trial(0), trial(1)])
        granted = store.tuners.claim(PROBLEM, H200, tuners[0], CLAIMS[:2], lambda stored: stored == trial(1))
        assert (granted.mine, granted.stored) == ({CLAIMS[0]}, (trial(1),))
        assert store.tuners.claim(PROBLEM, H200, tuners[1], CLAIMS[:2], lambda _: False).mine == {CLAIMS[1]}

    def test_of_trials_that_cannot_be_read_are_granted(self, location: str) -> None:
        with Store.open(location, write=True) as store:
            tuner = store.tuners.register("host 17")
            store.add_trials(PROBLEM, H200, [trial(0)])
            opened = opening.open_location(location, write=True, immutable=False)
            with opened.writing() as connection:
                connection.exec_driver_sql("UPDATE warpsmith_trials SET spec = '{'")
            opened.reader.dispose()
            assert store.tuners.claim(PROBLEM, H200, tuner, CLAIMS[:1]).mine == {CLAIMS[0]}

    def test_end_with_the_trial_whoever_tried(self, store: Store, tuners: tuple[str, str]) -> None:
        store.tuners.claim(PROBLEM, H200, tuners[0], CLAIMS)
        store.add_trials(PROBLEM, H200, [trial(0), trial(1)])
        # A tuner that is removed with a claim left would free the claim.
        store.tuners.strike(tuners[0])
        assert store.tuners.claim(PROBLEM, H200, tuners[1], CLAIMS).mine == set(CLAIMS[2:])

    def test_go_with_a_tuner_that_is_struck_off(self, store: Store, tuners: tuple[str, str]) -> None:
        store.tuners.claim(PROBLEM, H200, tuners[0], CLAIMS[:2])
        store.tuners.claim(PROBLEM, H200, tuners[1], CLAIMS[2:3])
        store.tuners.strike(tuners[0])
        assert store.tuners.claim(PROBLEM, H200, tuners[1], CLAIMS).mine == set(CLAIMS)

    def test_leave_nothing_in_what_is_merged(self, store: Store, tuners: tuple[str, str]) -> None:
        store.tuners.claim(PROBLEM, H200, tuners[0], CLAIMS)
        assert contents_of(store).trials == ()
        assert check_store(store) == ()

    def test_by_hundreds(self, store: Store, tuners: tuple[str, str]) -> None:
        many = [claim(number) for number in range(300)]
        store.add_trials(PROBLEM, H200, [trial(number) for number in range(0, 300, 3)])
        assert len(store.tuners.claim(PROBLEM, H200, tuners[0], many).mine) == 200
        assert len(store.tuners.claim(PROBLEM, H200, tuners[1], many).mine) == 0


def test_a_trial_of_a_tuner_that_was_struck_off_is_kept(store: Store, tuners: tuple[str, str]) -> None:
    store.tuners.claim(PROBLEM, H200, tuners[0], CLAIMS[:1])
    store.tuners.strike(tuners[0])
    store.tuners.claim(PROBLEM, H200, tuners[1], CLAIMS[:1])
    store.add_trials(PROBLEM, H200, [trial(0)])
    assert store.trials(PROBLEM, H200) == (trial(0),)
    assert store.tuners.claim(PROBLEM, H200, tuners[1], CLAIMS[:1]).mine == set()


def test_trials_leave_no_claims_behind(location: str) -> None:
    with Store.open(location, write=True) as store:
        store.tuners.claim(PROBLEM, H200, store.tuners.register("host-a 17"), CLAIMS)
        store.add_trials(PROBLEM, H200, [trial(0), trial(1), trial(9)])
        opened = opening.open_location(location, write=False, immutable=False)
        with opened.reading() as connection:
            left = connection.exec_driver_sql("SELECT config FROM warpsmith_claims").scalars().all()
        opened.reader.dispose()
    assert sorted(left) == ['{"n":2}', '{"n":3}']
