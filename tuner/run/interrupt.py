"""Handling of Ctrl-C, SIGTERM and SIGHUP: no signal is lost, and each ends a run in order.

Python turns only Ctrl-C into a KeyboardInterrupt. SIGTERM, which `kill`, batch systems and containers send, and the
SIGHUP of a closed terminal end a process at once: its winner so far is lost, and compilers that its workers started
keep running.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterable, Iterator
from types import FrameType

ENDING = (signal.SIGTERM, signal.SIGHUP)
"""Signals from other processes that end a process."""


class Interrupt:
    """Records whether a signal came, and raises KeyboardInterrupt at once.

    The record is needed because Python prints and drops a KeyboardInterrupt inside a destructor or a callback.

    Args:
        raises: true if a signal raises; otherwise it is only recorded.
        pressed: true if a signal came before.
    """

    def __init__(self, *, raises: bool = True, pressed: bool = False) -> None:
        self._raises = raises
        self.pressed = pressed

    def check(self) -> None:
        """Raises KeyboardInterrupt if a signal came."""
        if self.pressed:
            raise KeyboardInterrupt

    def _press(self, number: int, _frame: FrameType | None) -> None:
        # A closing terminal sends SIGHUP and SIGTERM. The second must not interrupt the clean-up after the first.
        is_repeated = self.pressed and number in ENDING
        self.pressed = True
        if self._raises and not is_repeated:
            raise KeyboardInterrupt


@contextlib.contextmanager
def watching_for_interrupt() -> Iterator[Interrupt]:
    """Raises KeyboardInterrupt on Ctrl-C, SIGTERM or SIGHUP inside the block, and records the signal.

    Nothing changes in a thread other than the main one, which gets no signals. Nothing changes for SIGTERM and SIGHUP
    if the program has its own handler or ignores them, as under `nohup`.
    """
    with _handled((signal.SIGINT, *ENDING), raises=True) as interrupt:
        yield interrupt


@contextlib.contextmanager
def ending_in_order() -> Iterator[Interrupt]:
    """Makes SIGTERM and SIGHUP raise KeyboardInterrupt, as Ctrl-C does, so that started processes are ended."""
    with _handled(ENDING, raises=True) as interrupt:
        yield interrupt


@contextlib.contextmanager
def ending_later() -> Iterator[Interrupt]:
    """Only records SIGTERM and SIGHUP inside the block, for work of seconds whose result would be lost."""
    with _handled(ENDING, raises=False) as interrupt:
        yield interrupt


@contextlib.contextmanager
def _handled(signals: Iterable[signal.Signals], *, raises: bool) -> Iterator[Interrupt]:
    if threading.current_thread() is not threading.main_thread():
        yield Interrupt(raises=raises)
        return
    earlier = {each: signal.getsignal(each) for each in signals}
    outer = [own for handler in earlier.values() if (own := _own(handler)) is not None]
    interrupt = Interrupt(raises=raises, pressed=any(each.pressed for each in outer))
    replaced = {each: handler for each, handler in earlier.items() if each not in ENDING or _is_ours(handler)}
    try:
        for each in replaced:
            signal.signal(each, interrupt._press)
        yield interrupt
    finally:
        for each, handler in replaced.items():
            signal.signal(each, handler)
        for own in outer:
            own.pressed |= interrupt.pressed


def _is_ours(handler: object) -> bool:
    """True if a signal's handler may be replaced: it is the system's default, or one of this module."""
    return handler == signal.SIG_DFL or _own(handler) is not None


def _own(handler: object) -> Interrupt | None:
    """The `Interrupt` whose method the handler is; None if it is not one of this module."""
    own = getattr(handler, "__self__", None)
    return own if isinstance(own, Interrupt) else None
