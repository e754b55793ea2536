"""CUDA graphs: launches captured from a stream, and launched again with one call."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cuda.bindings import driver as cu

from warpsmith.devices.base import Graph
from warpsmith.devices.cuda.status import call
from warpsmith.errors import DeviceError

if TYPE_CHECKING:
    from warpsmith.devices.cuda.primary_context import PrimaryContext


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
