"""Streams of this package on a GPU: its own copies and fills, capture into graphs, and streams beside the caller's.

Source: CUDA programming guide, CUDA graphs, "Cross-stream dependencies and events" (a stream that waits for an event of
a captured one is captured with it, and has to be joined before the capture ends).
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from cuda.bindings import driver as cu
from numpy.typing import NDArray

from warpsmith.devices.cuda.primary_context import PrimaryContext
from warpsmith.devices.cuda.status import call, capture_of, outside_of_captures
from warpsmith.devices.module import Graph
from warpsmith.devices.runtime import Runtime, Work, closing
from warpsmith.errors import DeviceError

_DOING = "work beside the caller"


class CudaWork(Work):
    """Copies and fills on one stream. The context is current, and captures of graphs do not affect this work."""

    def __init__(self, runtime: Runtime, stream: int | None) -> None:
        super().__init__(runtime)
        self.stream = stream

    def upload(self, address: int, source: NDArray[np.generic]) -> None:
        # The call returns once pageable memory is staged.
        call(cu.cuMemcpyHtoDAsync(address, source.ctypes.data, source.nbytes, self.stream or 0), _DOING)

    def download(self, target: NDArray[np.generic], address: int) -> None:
        call(cu.cuMemcpyDtoHAsync(target.ctypes.data, address, target.nbytes, self.stream or 0), _DOING)
        self.finish()

    def fill(self, address: int, byte: int, nbytes: int) -> None:
        call(cu.cuMemsetD8Async(address, byte, nbytes, self.stream or 0), _DOING)

    def finish(self) -> None:
        call(cu.cuStreamSynchronize(self.stream or 0), _DOING)


@contextlib.contextmanager
def independent_work(runtime: Runtime, context: PrimaryContext) -> Iterator[Work]:
    """Work on a new stream of its own."""
    with context.active(_DOING), outside_of_captures(_DOING):
        stream = int(call(cu.cuStreamCreate(cu.CUstream_flags.CU_STREAM_NON_BLOCKING), _DOING))
        try:
            with closing(CudaWork(runtime, stream)) as work:
                yield work
        finally:
            cu.cuStreamDestroy(stream)


@contextlib.contextmanager
def ordered_work(runtime: Runtime, context: PrimaryContext, stream: int | None) -> Iterator[Work]:
    """Work on a caller's stream, which must not be captured."""
    with context.active(_DOING), outside_of_captures(_DOING), closing(CudaWork(runtime, stream)) as work:
        yield work


def free_memory(context: PrimaryContext) -> int:
    doing = "ask for free memory"
    with context.active(doing), outside_of_captures(doing):
        free, _ = call(cu.cuMemGetInfo(), doing)
    return int(free)


def is_being_captured() -> bool:
    """True if the caller's current stream, of PyTorch or CuPy, is being captured."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
        return True
    cupy: Any = sys.modules.get("cupy")
    # CuPy's default stream cannot be captured, and querying it while another stream is captured is an error.
    current = None if cupy is None else cupy.cuda.get_current_stream()
    return current is not None and current.ptr not in (0, 1) and bool(current.is_capturing())


class CudaGraph(Graph):
    """Graph of the launches of `work` on the stream that it receives. With `rehearse`, the work runs there once before.

    Raises DeviceError if the work cannot be captured, and whatever `work` raises.
    """

    def __init__(self, context: PrimaryContext, work: Callable[[int], None], *, rehearse: bool = False) -> None:
        self._context = context
        doing = "capture a graph"
        with context.active(doing):
            # The default stream cannot be captured.
            stream = call(cu.cuStreamCreate(cu.CUstream_flags.CU_STREAM_NON_BLOCKING), doing)
            try:
                if rehearse:
                    work(int(stream))
                    call(cu.cuStreamSynchronize(stream), doing)
                graph = _captured(stream, work, doing)
            finally:
                cu.cuStreamDestroy(stream)
            try:
                self._handle = call(cu.cuGraphInstantiate(graph, 0), doing)
            finally:
                cu.cuGraphDestroy(graph)

    def launch(self) -> None:
        call(cu.cuGraphLaunch(self._handle, 0), "launch a graph")

    def close(self) -> None:
        # A context that has failed has already destroyed its graphs.
        with contextlib.suppress(DeviceError), self._context.active("destroy a graph"):
            cu.cuGraphExecDestroy(self._handle)


def _captured(stream: Any, work: Callable[[int], None], doing: str) -> Any:
    mode = cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
    call(cu.cuStreamBeginCapture(stream, mode), doing)
    try:
        work(int(stream))
    except BaseException:
        cu.cuStreamEndCapture(stream)
        raise
    return call(cu.cuStreamEndCapture(stream), doing)


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
