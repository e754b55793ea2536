"""Ctrl-C that strikes where Python drops exceptions."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from typing import Any

import pytest

from warpsmith.tuner.run.interrupt import ENDING, ending_in_order, ending_later, watching_for_interrupt


class PressesCtrlCWhenItDies:
    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)


def test_it_strikes_at_once() -> None:
    with watching_for_interrupt(), pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_it_is_remembered_where_a_destructor_swallows_it() -> None:
    with watching_for_interrupt() as interrupt:
        interrupt.check()
        PressesCtrlCWhenItDies()
        with pytest.raises(KeyboardInterrupt):
            interrupt.check()


def test_the_earlier_handler_comes_back() -> None:
    earlier = signal.getsignal(signal.SIGINT)
    with watching_for_interrupt():
        assert signal.getsignal(signal.SIGINT) != earlier
    assert signal.getsignal(signal.SIGINT) == earlier


def test_other_threads_get_no_signals_and_change_nothing() -> None:
    handlers = []

    def watch() -> None:
        with watching_for_interrupt() as interrupt:
            interrupt.check()
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=watch)
    thread.start()
    thread.join()
    assert handlers == [signal.getsignal(signal.SIGINT)]


@pytest.mark.parametrize("number", ENDING)
class TestEnding:
    def test_is_an_interrupt(self, number: signal.Signals) -> None:
        for watching in (watching_for_interrupt, ending_in_order):
            earlier = signal.getsignal(number)
            with watching() as interrupt, pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), number)
            assert interrupt.pressed
            assert signal.getsignal(number) == earlier

    def test_that_comes_again_does_not_end_what_the_first_began(self, number: signal.Signals) -> None:
        with watching_for_interrupt() as interrupt:
            for other in ENDING:
                with contextlib.suppress(KeyboardInterrupt):
                    os.kill(os.getpid(), other)
            os.kill(os.getpid(), number)
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
            assert interrupt.pressed

    def test_waits_for_what_would_be_lost(self, number: signal.Signals) -> None:
        with ending_in_order() as outer, ending_later() as ending:
            os.kill(os.getpid(), number)
            assert ending.pressed
            with watching_for_interrupt() as inner, pytest.raises(KeyboardInterrupt):
                inner.check()
        assert outer.pressed

    def test_is_told_from_the_search_to_what_follows(self, number: signal.Signals) -> None:
        with ending_later() as ending:
            with watching_for_interrupt(), pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), number)
            assert ending.pressed

    @pytest.mark.parametrize("handler", [signal.SIG_IGN, lambda *_: None])
    def test_is_left_to_a_program_that_handles_or_ignores_it(self, number: signal.Signals, handler: Any) -> None:
        earlier = signal.signal(number, handler)
        try:
            for watching in (watching_for_interrupt, ending_in_order, ending_later):
                with watching():
                    assert signal.getsignal(number) == handler
                    os.kill(os.getpid(), number)
        finally:
            signal.signal(number, earlier)
