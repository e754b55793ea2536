"""Turns on one device between processes, so that none disturbs another's timings."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType


class Turn:
    """Holds a device while it lasts; waits while another process holds it. A process that dies gives its turn back.

    Args:
        path: a file that stands for the device, made by whoever starts the processes; None where there is only one.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._descriptor: int | None = None

    def __enter__(self) -> None:
        if self._path is not None:
            self._descriptor = os.open(self._path, os.O_RDWR)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
