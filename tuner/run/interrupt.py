"""Ctrl-C that is not lost."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


class Interrupt:
    """Whether Ctrl-C was pressed. It raises KeyboardInterrupt at once, and is remembered where that was swallowed.

    A KeyboardInterrupt that strikes inside a destructor or a callback is printed and dropped by Python.
    """

    def __init__(self) -> None:
        self._pressed = False

    def check(self) -> None:
        """Raises KeyboardInterrupt where Ctrl-C was pressed."""
        if self._pressed:
            raise KeyboardInterrupt

    def _press(self, _signal: int, _frame: FrameType | None) -> None:
        self._pressed = True
        raise KeyboardInterrupt


@contextlib.contextmanager
def watching_for_interrupt() -> Iterator[Interrupt]:
    """Remembers Ctrl-C while it lasts. In a thread other than the main one, which gets no signals, nothing changes."""
    interrupt = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return
    earlier = signal.signal(signal.SIGINT, interrupt._press)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, earlier)
