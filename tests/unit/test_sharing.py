"""Tuners at one store: what each learns from others, and when it declares one dead."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from builders import NVRTC as COMPILER
from builders import SMALL as PROBLEM
from builders import failure, numbered
from builders import program as made_program
from builders import trial as made_trial
from warpsmith.errors import StoreError
from warpsmith.generator.presets import H200
from warpsmith.generator.program import Program
from warpsmith.store.record import Trial
from warpsmith.store.store import Store
from warpsmith.store.tuners import Tuners
from warpsmith.tuner.run import sharing
from warpsmith.tuner.run.sharing import Sharing, new_tuner

PATIENCE_S = 30.0


def program(number: int) -> Program:
    return made_program(f"// {number}", family="plain", config=numbered(number))


def trial(number: int, message: str = "no") -> Trial:
    text = program(number).fingerprint
    return made_trial(number, failure(message=message), fingerprint=text, compiler=COMPILER)


def always(_: Trial) -> bool:
    return True


def await_that(condition: Callable[[], object]) -> None:
    give_up = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.01)


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "ROUND_S", 0.02)


@pytest.fixture
def opened(location: str) -> Iterator[Store]:
    with Store.open(location, write=True) as store:
        yield store


def join(store: Store, seen: int = 0) -> Sharing:
    return Sharing(store, PROBLEM, H200, new_tuner(store), seen)


def claim(sharing: Sharing, *numbers: int, holds: Callable[[Trial], bool] = always) -> set[int]:
    granted = sharing.claim(map(program, numbers), lambda _: COMPILER, holds)
    return {each.config.integer("n") for each in granted}


class TestClaims:
    def test_go_to_the_first_who_asks(self, opened: Store) -> None:
        with join(opened) as one, join(opened) as two:
            assert claim(one, 1, 2) == {1, 2}
            assert claim(two, 2, 3) == {3}
            assert (one.news(), two.news()) == ([], [])

    def test_on_what_is_stored_bring_the_trial(self, opened: Store) -> None:
        opened.add_trials(PROBLEM, H200, [trial(1), trial(2)])
        seen, _ = opened.trials_since(PROBLEM, H200, 0)
        with join(opened, seen) as one:
            assert claim(one, 1, 2, 3, holds=lambda stored: stored == trial(2)) == {1, 3}
            assert one.news() == [trial(2)]
            assert one.news() == []

    def test_of_one_who_leaves_are_free(self, opened: Store) -> None:
        with join(opened) as one:
            with join(opened) as two:
                assert claim(two, 1) == {1}
                await_that(lambda: one._others)
            assert claim(one, 1) == {1}
            await_that(lambda: one.departed == 1)
        assert opened.tuners.beats() == {}


class TestNews:
    def test_are_told_once_and_in_order(self, opened: Store) -> None:
        opened.add_trials(PROBLEM, H200, [trial(0)])
        seen, _ = opened.trials_since(PROBLEM, H200, 0)
        with join(opened, seen) as one:
            heard: list[Trial] = []
            for number in range(1, 6):
                opened.add_trials(PROBLEM, H200, [trial(number)])
            await_that(lambda: heard.extend(one.news()) or len(heard) == 5)
            time.sleep(0.1)
            assert heard + one.news() == [trial(number) for number in range(1, 6)]


class TestDeath:
    def test_one_that_beats_no_more_is_struck_off(self, opened: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sharing, "DEAD_ROUNDS", 30)
        dead = join(opened)  # never entered: it has no pulse
        assert claim(dead, 1, 2) == {1, 2}
        with join(opened) as one, join(opened) as two:
            await_that(lambda: one.departed == two.departed == 1)
            assert claim(one, 1) == {1}
            assert claim(two, 1, 2) == {2}
            time.sleep(1.0)  # many times as long as the dead one was given
            assert (one.departed, two.departed) == (1, 1)

    def test_one_that_was_struck_off_joins_anew(self, opened: Store) -> None:
        with join(opened) as one:
            before = one._tuner
            assert claim(one, 1) == {1}
            opened.tuners.strike(before)
            assert claim(one, 1, 2) == {1, 2}
            await_that(lambda: opened.tuners.beats().get(one._tuner, 0) > 0)
            assert before not in opened.tuners.beats()
        assert opened.tuners.beats() == {}

    def test_a_pulse_alone_notices_it_too(self, opened: Store) -> None:
        with join(opened) as one:
            opened.tuners.strike(before := one._tuner)
            await_that(lambda: one._tuner != before and one._tuner in opened.tuners.beats())


def test_each_searches_in_an_order_of_its_own(opened: Store) -> None:
    one, two = join(opened), join(opened)
    assert one.seed(0) == one.seed(0)
    assert len({one.seed(0), one.seed(1), two.seed(0)}) == 3
    assert 0 <= one.seed(0) < 2**32


def test_an_error_of_the_store_reaches_whoever_asks(opened: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Tuners) -> dict[str, int]:
        raise StoreError("the disk is gone")

    with join(opened) as one:
        monkeypatch.setattr(Tuners, "beats", fail)
        await_that(lambda: one._error)
        with pytest.raises(StoreError, match="the disk is gone"):
            one.news()
        with pytest.raises(StoreError, match="the disk is gone"):
            claim(one, 1)
