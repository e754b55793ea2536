"""Ctrl-C that strikes where Python drops exceptions."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from warpsmith.tuner.run.interrupt import watching_for_interrupt


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
