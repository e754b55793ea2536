"""Converts the driver's statuses to values or to this package's errors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from cuda.bindings import driver as cu

from warpsmith.devices.runtime import StreamIdentity
from warpsmith.errors import DeviceError, LaunchError, OutOfMemory

STATUS = cu.CUresult
SUCCESS = STATUS.CUDA_SUCCESS

_REFUSALS = frozenset(
    {
        STATUS.CUDA_ERROR_INVALID_VALUE,
        STATUS.CUDA_ERROR_INVALID_IMAGE,
        STATUS.CUDA_ERROR_INVALID_SOURCE,
        STATUS.CUDA_ERROR_NO_BINARY_FOR_GPU,
        STATUS.CUDA_ERROR_NOT_FOUND,
        STATUS.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
    }
)
"""Statuses that leave the device intact: this binary or this launch is at fault. After any other the context is
unusable.
"""

NOT_CURRENT = frozenset({STATUS.CUDA_ERROR_INVALID_CONTEXT, STATUS.CUDA_ERROR_INVALID_HANDLE})
"""Statuses of a launch while the context of another device, or none, is current on the calling thread."""


def failure(status: Any, doing: str) -> DeviceError:
    """The error for a status other than success. `doing` completes the sentence "cannot ..."."""
    _, text = cu.cuGetErrorString(status)
    message = f"cannot {doing}: {text.decode() if text else status}"
    if status == STATUS.CUDA_ERROR_OUT_OF_MEMORY:
        return OutOfMemory(message)
    return LaunchError(message) if status in _REFUSALS else DeviceError(message)


def call(result: tuple[Any, ...], doing: str) -> Any:
    """The value of a finished driver call; a tuple if it has several. Raises the error of `failure`."""
    status, *values = result
    if status != SUCCESS:
        raise failure(status, doing)
    if len(values) > 1:
        return tuple(values)
    return values[0] if values else None


def is_capturing(stream: int, doing: str) -> bool:
    """True if a stream's work goes into a CUDA graph. Raises the error of `failure` if the stream cannot be used."""
    return bool(call(cu.cuStreamIsCapturing(stream), doing) != cu.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE)


_LEGACY_DEFAULT = frozenset({0, 1})  # the null handle, and CU_STREAM_LEGACY


def capture_of(stream: int, doing: str) -> int | None:
    """Number of the capture whose graph takes a stream's work; None if the work runs now.

    Raises the error of `failure` if the stream cannot be used.
    """
    if stream in _LEGACY_DEFAULT:  # it cannot be captured, and querying it while another stream is captured is an error
        return None
    status, capture, *_ = call(cu.cuStreamGetCaptureInfo(stream), doing)
    return None if status == cu.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE else int(capture)


@contextlib.contextmanager
def outside_of_captures(doing: str) -> Iterator[None]:
    """Allows this thread calls that the driver considers unsafe while this or another thread captures a graph.

    Use it for work that must not become part of a graph. Raises the error of `failure`.
    """
    before = call(cu.cuThreadExchangeStreamCaptureMode(cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED), doing)
    try:
        yield
    finally:
        cu.cuThreadExchangeStreamCaptureMode(before)


def identity_of(stream: int) -> StreamIdentity:
    """Identity of the stream of a handle, or of the capture that it is in. Raises the error of `failure`.

    The driver reuses handles of destroyed streams, and the per-thread default stream has one handle for all threads.
    Identities are unique. A captured stream must not be asked for its number, but its capture has one.
    """
    doing = "ask for a stream"
    if stream in _LEGACY_DEFAULT:
        return StreamIdentity()
    if (capture := capture_of(stream, doing)) is not None:
        return StreamIdentity(0, capture)
    with outside_of_captures(doing):
        return StreamIdentity(int(call(cu.cuStreamGetId(stream), doing)), None)
