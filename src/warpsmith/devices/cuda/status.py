"""The driver's answers, as values or as our errors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from cuda.bindings import driver as cu

from warpsmith.devices.base import StreamIdentity
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
"""Answers that leave the device unharmed: this binary or this launch is at fault. Any other condemns the context."""

NOT_CURRENT = frozenset({STATUS.CUDA_ERROR_INVALID_CONTEXT, STATUS.CUDA_ERROR_INVALID_HANDLE})
"""Answers to a launch while the context of another device, or none, is current on the calling thread."""


def failure(status: Any, doing: str) -> DeviceError:
    """The error for a status other than success. `doing` completes the sentence "cannot ..."."""
    _, text = cu.cuGetErrorString(status)
    message = f"cannot {doing}: {text.decode() if text else status}"
    if status == STATUS.CUDA_ERROR_OUT_OF_MEMORY:
        return OutOfMemory(message)
    return LaunchError(message) if status in _REFUSALS else DeviceError(message)


def call(result: tuple[Any, ...], doing: str) -> Any:
    """The value of a finished driver call; all of them where it has several. Raises the error of `failure`."""
    status, *values = result
    if status != SUCCESS:
        raise failure(status, doing)
    if len(values) > 1:
        return tuple(values)
    return values[0] if values else None


def is_capturing(stream: int, doing: str) -> bool:
    """Whether a stream's work goes into a CUDA graph. Raises the error of `failure` where the stream cannot be used."""
    return bool(call(cu.cuStreamIsCapturing(stream), doing) != cu.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE)


_LEGACY_DEFAULT = frozenset({0, 1})  # as a null handle, and as CU_STREAM_LEGACY


def capture_of(stream: int, doing: str) -> int | None:
    """The number of the capture whose graph takes a stream's work; None where it runs now.

    Raises the error of `failure` where the stream cannot be used.
    """
    if stream in _LEGACY_DEFAULT:  # it cannot be captured, and may not even be asked while others are
        return None
    status, capture, *_ = call(cu.cuStreamGetCaptureInfo(stream), doing)
    return None if status == cu.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE else int(capture)


@contextlib.contextmanager
def outside_of_captures(doing: str) -> Iterator[None]:
    """Allows this thread meanwhile what the driver takes for unsafe while it, or another, captures a graph.

    For what is no part of what a graph repeats. Raises the error of `failure`.
    """
    before = call(cu.cuThreadExchangeStreamCaptureMode(cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED), doing)
    try:
        yield
    finally:
        cu.cuThreadExchangeStreamCaptureMode(before)


def identity_of(stream: int) -> StreamIdentity:
    """Which stream a handle is of, or which capture it is in. Raises the error of `failure`.

    Handles are given away again once their stream is destroyed, and that of the per-thread default stream is one for
    all threads; identities are not. A stream that is captured may not be asked for its number, and a capture has one.
    """
    doing = "ask for a stream"
    if stream in _LEGACY_DEFAULT:
        return StreamIdentity()
    if (capture := capture_of(stream, doing)) is not None:
        return StreamIdentity(0, capture)
    with outside_of_captures(doing):
        return StreamIdentity(int(call(cu.cuStreamGetId(stream), doing)), None)
