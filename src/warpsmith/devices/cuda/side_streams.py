"""Streams beside the caller's, over which a step spreads its work. Events fork them from the caller's stream and join
them.

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
    """Non-blocking streams, created once.

    All methods need the current context, and only one thread at a time may call them, because every call uses the same
    events.

    Args:
        count: number of streams, one or more.
        doing: completes "cannot ..." in all errors.

    Raises:
        DeviceError: the driver cannot create a stream or an event. None is left then.
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
        """Streams to queue work on: the caller's first, then the side streams, which wait for all work queued on it so
        far.

        After the block the caller's stream waits for all of them. Side streams that are first used in a capture belong
        to that capture until it ends. A caller outside it then gets only its own stream.

        Args:
            stream: handle of the caller's stream; 0 is the default one.

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
            with contextlib.suppress(DeviceError):  # the first error must be the one that is raised
                self._join(stream)
            raise

    def close(self) -> None:
        """Destroys the streams. Work that is queued on them still runs."""
        self._made.close()

    def _are_free_for(self, stream: int) -> bool:
        """True if no capture owns these streams, or the same one as the caller's: work from outside would invalidate
        it.
        """
        taken = capture_of(self._streams[0], self._doing)  # all streams are forked together
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
