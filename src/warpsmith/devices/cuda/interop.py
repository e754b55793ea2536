"""Orders launches after the work that other libraries have queued on their streams."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager

_DEFAULT = 0


def launch_stream(
    requested: int | None,
    owners: Iterable[int | None],
    current: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
) -> int | None:
    """The stream to launch on. It is made to wait for all work that the arguments' owners have queued on theirs.

    Args:
        requested: handle of the caller's stream; None for the stream of the first owner that names one.
        owners: for each array, the stream on which its owner orders its work (`ArrayView.stream`).
        current: makes the device current; a thread that has made no CUDA call yet has no current device.

    Returns:
        A handle; None, the default stream, if neither the caller nor an owner names one.

    Raises:
        DeviceError: one of them is no stream of this device.
    """
    known = [owner for owner in owners if owner is not None]
    chosen = requested if requested is not None else next(iter(known), None)
    if others := set(known) - {chosen or _DEFAULT}:
        with current():
            for owner in others:
                _wait(chosen or _DEFAULT, owner)
    return chosen


def _wait(stream: int, other: int) -> None:
    """Makes `stream` wait, on the device, for all work that `other` has queued so far."""
    from cuda.bindings import driver as cu

    from warpsmith.devices.cuda.status import call

    doing = "wait for the stream of an argument"
    event = call(cu.cuEventCreate(cu.CUevent_flags.CU_EVENT_DISABLE_TIMING), doing)
    try:
        call(cu.cuEventRecord(event, other), doing)
        call(cu.cuStreamWaitEvent(stream, event, 0), doing)
    finally:
        cu.cuEventDestroy(event)  # the driver keeps it until the wait is over
