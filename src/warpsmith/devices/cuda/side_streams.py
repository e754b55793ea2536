"""Streams beside a caller's, over which a step spreads work: forked from it by events, and joined again.

Source: CUDA programming guide, CUDA graphs, "Cross-stream dependencies and events" (a stream that waits for an event of
a captured one is captured with it, and has to be joined before the capture ends).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from cuda.bindings import driver as cu

from warpsmith.devices.cuda.status import call, capture_of
from warpsmith.errors import DeviceError


class SideStreams:
    """Streams that wait for no other by themselves, made once.

    All is to be called with the context current, by one thread at a time, since its events are those of each call.

    Args:
        count: how many, one or more.
        doing: completes "cannot ..." in all errors.

    Raises:
        DeviceError: the driver cannot make one. None is left then.
    """

    def __init__(self, count: int, doing: str) -> None:
        self._doing = doing
        with contextlib.ExitStack() as made:
            self._fork = _event(made, doing)
            self._streams = tuple(_stream(made, doing) for _ in range(count))
            self._ends = tuple(_event(made, doing) for _ in range(count))
            self._made = made.pop_all()

    @contextlib.contextmanager
    def beside(self, stream: int) -> Iterator[tuple[int, ...]]:
        """The streams to queue work on: the caller's first, and those beside it, which wait until it has come here.

        Behind the block the caller's stream waits for all of them. From their first use in a capture to its end they
        are part of that capture, and a caller outside of it has its own stream alone.

        Args:
            stream: the caller's, by its handle; 0 is the default one.

        Raises:
            DeviceError: the caller's stream cannot be used.
        """
        if not self._are_free_for(stream):
            yield (stream,)
            return
        try:
            self._fork_from(stream)
            yield (stream, *self._streams)
            self._join(stream)
        except BaseException:
            with contextlib.suppress(DeviceError):  # the first error is the one to be told
                self._join(stream)
            raise

    def close(self) -> None:
        """Destroys them; what is queued on them is carried out nevertheless."""
        self._made.close()

    def _are_free_for(self, stream: int) -> bool:
        """Whether no capture has these streams, or that of the caller's: work from outside would make it invalid."""
        taken = capture_of(self._streams[0], self._doing)  # all are forked together
        return taken is None or taken == capture_of(stream, self._doing)

    def _fork_from(self, stream: int) -> None:
        call(cu.cuEventRecord(self._fork, stream), self._doing)
        for each in self._streams:
            call(cu.cuStreamWaitEvent(each, self._fork, 0), self._doing)

    def _join(self, stream: int) -> None:
        for each, end in zip(self._streams, self._ends, strict=True):
            call(cu.cuEventRecord(end, each), self._doing)
            call(cu.cuStreamWaitEvent(stream, end, 0), self._doing)


def _stream(made: contextlib.ExitStack, doing: str) -> int:
    stream = call(cu.cuStreamCreate(cu.CUstream_flags.CU_STREAM_NON_BLOCKING), doing)
    made.callback(cu.cuStreamDestroy, stream)
    return int(stream)


def _event(made: contextlib.ExitStack, doing: str) -> cu.CUevent:
    event = call(cu.cuEventCreate(cu.CUevent_flags.CU_EVENT_DISABLE_TIMING), doing)
    made.callback(cu.cuEventDestroy, event)
    return event
