"""Standard streams that may be closed, full or gone: one line says so, and no result in a store depends on it."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO, cast

from warpsmith.errors import WarpsmithError


class OutputLost(WarpsmithError):
    """Standard output takes no more: its disk is full, or it failed."""


class _Stream:
    """A stream in the place of another, which does all but what a class here says."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Results(_Stream):
    """Standard output. A closed pipe is BrokenPipeError, as always; any other failure is an OutputLost."""

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
    """Standard error. What it does not take is dropped: there is no other place to say so."""

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError, ValueError):  # ValueError: it was closed
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()


def fill_closed_descriptors() -> None:
    """Opens /dev/null in the place of closed standard descriptors, before any file gets one of their numbers.

    A store that is opened as number 2 would take what a library or a compiler writes to standard error.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free


@contextlib.contextmanager
def guarded_streams() -> Iterator[None]:
    """While it lasts, standard output raises OutputLost where it fails, and standard error never fails.

    A closed stream, which Python has as None, is one that nobody reads. Characters that the encoding of standard output
    lacks are written as escapes.
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


@contextlib.contextmanager
def _escaping(stream: TextIO) -> Iterator[None]:
    # Python's own choice is `strict`, and in the C locales `surrogateescape`, which writes what is no text at all.
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
    """Sends what is left in standard output's buffer to /dev/null: Python would try to write it once more at its end,
    and fail.
    """
    with contextlib.suppress(OSError, ValueError):  # a stream that is no file
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
