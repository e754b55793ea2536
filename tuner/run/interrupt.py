"""Ctrl-C, SIGTERM and SIGHUP: none is lost, and each ends a run in order.

Python turns Ctrl-C alone into a KeyboardInterrupt. SIGTERM, which `kill`, batch systems and containers send, and SIGHUP
of a closed terminal end a process at once: its winner so far is lost, and compilers that its workers started go on.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterable, Iterator
from types import FrameType

ENDING = (signal.SIGTERM, signal.SIGHUP)
"""Signals that a process gets from others, and that end it."""


class Interrupt:
    """Whether a signal came. It raises KeyboardInterrupt at once, and is remembered where that was swallowed.

    A KeyboardInterrupt that strikes inside a destructor or a callback is printed and dropped by Python.

    Args:
        raises: whether a signal raises; else it is only remembered.
        pressed: whether one came before.
    """

    def __init__(self, *, raises: bool = True, pressed: bool = False) -> None:
        self._raises = raises
        self.pressed = pressed

    def check(self) -> None:
        """Raises KeyboardInterrupt where a signal came."""
        if self.pressed:
            raise KeyboardInterrupt

    def _press(self, number: int, _frame: FrameType | None) -> None:
        # A closing terminal sends SIGHUP and SIGTERM: the second would end what the first one began to clear up.
        is_repeated = self.pressed and number in ENDING
        self.pressed = True
        if self._raises and not is_repeated:
            raise KeyboardInterrupt


@contextlib.contextmanager
def watching_for_interrupt() -> Iterator[Interrupt]:
    """Remembers Ctrl-C, SIGTERM and SIGHUP while it lasts, and raises KeyboardInterrupt where one comes.

    In a thread other than the main one, which gets no signals, nothing changes. So it does for SIGTERM and SIGHUP where
    the program has a handler of its own, or ignores them, as `nohup` makes it.
    """
    with _handled((signal.SIGINT, *ENDING), raises=True) as interrupt:
        yield interrupt


@contextlib.contextmanager
def ending_in_order() -> Iterator[Interrupt]:
    """Makes SIGTERM and SIGHUP raise KeyboardInterrupt, as Ctrl-C does: what was started is then ended."""
    with _handled(ENDING, raises=True) as interrupt:
        yield interrupt


@contextlib.contextmanager
def ending_later() -> Iterator[Interrupt]:
    """Remembers SIGTERM and SIGHUP while it lasts, for work of seconds whose result would be lost."""
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
    """Whether a signal's handler may be replaced: it is the system's default, or one of this module."""
    return handler == signal.SIG_DFL or _own(handler) is not None


def _own(handler: object) -> Interrupt | None:
    """The object whose method a handler is, where it is one of this module."""
    own = getattr(handler, "__self__", None)
    return own if isinstance(own, Interrupt) else None
