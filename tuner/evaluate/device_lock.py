"""Lock on one device between processes, so that none disturbs another's timings."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from warpsmith.devices.binary_cache import locks_folder
from warpsmith.devices.private_folder import PrivateFolder
from warpsmith.devices.select import DeviceRef

PATIENCE_S = 5.0
"""Seconds after which the lock is taken even if another process holds it. A library that hangs there must not look like
a hanging candidate, and a disturbed time is better than none.
"""
_LOOK_EVERY_S = 0.001


class DeviceLock:
    """Holds a device during a `with` block, after waiting at most PATIENCE_S for another process to release it. The
    lock of a process that dies is released.

    Args:
        path: lock file of the device, made by whoever starts the processes; None if there is only one process.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._descriptor: int | None = None

    def __enter__(self) -> None:
        if self._path is not None:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_NOFOLLOW)
            until = time.monotonic() + PATIENCE_S
            while not _locked(self._descriptor) and time.monotonic() < until:
                time.sleep(_LOOK_EVERY_S)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def shared_device(device: DeviceRef) -> Iterator[Path | None]:
    """Lock file of a GPU that this user's processes take turns on: a search, its finals, and other runs beside them.

    If the user has no private folder for it, only the processes of one run take turns, and other runs disturb them.
    None for the host, whose processes share it as always. Raises DeviceError if the GPU does not exist.
    """
    bus_id = device.bus_id()
    if bus_id is None:
        yield None
        return
    path = None
    with contextlib.suppress(OSError):
        path = PrivateFolder(locks_folder(), "runs on one GPU disturb each other").touch(bus_id)
    if path is not None:
        yield path
        return
    with tempfile.NamedTemporaryFile(prefix="warpsmith-lock-") as file:
        yield Path(file.name)
