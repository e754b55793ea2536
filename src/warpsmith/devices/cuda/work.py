"""This package's own copies and fills on a GPU, on a non-blocking stream. They work while another stream is
captured.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from cuda.bindings import driver as cu
from numpy.typing import NDArray

from warpsmith.devices.base import Runtime
from warpsmith.devices.cuda.primary_context import PrimaryContext
from warpsmith.devices.cuda.status import call, outside_of_captures
from warpsmith.devices.work import Work, closing

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
