"""Handles standard streams that are closed, full or lost: one line reports it, and no stored result depends on it."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO, cast

from warpsmith.errors import WarpsmithError


class OutputLost(WarpsmithError):
    """Standard output accepts no more text: its disk is full, or it failed."""


class _Stream:
    """Base of stream wrappers: it forwards every attribute to the wrapped stream."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Results(_Stream):
    """Standard output. A closed pipe raises BrokenPipeError, as usual; any other failure raises OutputLost."""

    def write(self, text: str) -> int:
        with self._lost():
            return self._stream.write(text)

    def flush(self) -> None:
        with self._lost():
            self._stream.flush()

    @contextlib.contextmanager
    def _lost(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputLost(f"cannot write to standard output: {error.strerror}") from None


class _Messages(_Stream):
    """Standard error. Text that it does not accept is dropped, because there is no other place to report that."""

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError, ValueError):  # ValueError: the stream is closed
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()


def fill_closed_descriptors() -> None:
    """Opens /dev/null for closed standard descriptors, before any other file gets one of their numbers.

    A store that is opened as number 2 would receive everything that a library or a compiler writes to standard error.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number


@contextlib.contextmanager
def guarded_streams() -> Iterator[None]:
    """Inside this context standard output raises OutputLost if it fails, and standard error never fails.

    A closed stream, which Python represents as None, is replaced by one that nobody reads. Characters that the encoding
    of standard output lacks are written as escapes.
    """
    earlier = sys.stdout, sys.stderr
    with contextlib.ExitStack() as opened:
        results, messages = (
            stream if stream is not None else opened.enter_context(open(os.devnull, "w"))  # noqa: PTH123
            for stream in earlier
        )
        opened.enter_context(_escaping(results))
        sys.stdout, sys.stderr = cast(TextIO, _Results(results)), cast(TextIO, _Messages(messages))
        try:
            yield
        finally:
            sys.stdout, sys.stderr = earlier
            try:
                messages.flush()
            except (OSError, ValueError):
                _give_up(messages)


@contextlib.contextmanager
def _escaping(stream: TextIO) -> Iterator[None]:
    # Python's default is `strict`, and in the C locales `surrogateescape`, which writes invalid text.
    if not isinstance(stream, io.TextIOWrapper) or stream.errors not in ("strict", "surrogateescape"):
        yield
        return
    earlier = stream.errors
    stream.reconfigure(errors="backslashreplace")
    try:
        yield
    finally:
        with contextlib.suppress(OSError, ValueError):
            stream.reconfigure(errors=earlier)


def give_up_output() -> None:
    """Redirects standard output to /dev/null, and with it the rest of its buffer."""
    _give_up(sys.stdout)


def _give_up(stream: TextIO) -> None:
    """Redirects a stream to /dev/null. Python would otherwise write the rest of its buffer at the end, and fail."""
    with contextlib.suppress(OSError, ValueError):  # a stream that is no file
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
