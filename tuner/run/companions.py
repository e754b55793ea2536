"""Helper tuners for the further devices of this machine, each in a process of its own beside the leader."""

from __future__ import annotations

import concurrent.futures
import math
import warnings
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

from warpsmith.devices.select import DeviceRef
from warpsmith.errors import BadArgument
from warpsmith.store.store import Store
from warpsmith.tuner.faults import Faults, Part
from warpsmith.tuner.run.sharing import new_tuner
from warpsmith.tuner.workers.job import Job
from warpsmith.tuner.workers.worker import Worker, WorkerDied, interrupt_all

END_S = 5.0
"""Seconds that a companion may take to end: it gives up what runs, commits its trials and ends its processes."""


class Companions:
    """Tunes on several devices through one store, inside a `with` block.

    Each device needs a process of its own: one interpreter is fully busy at 140 candidates per second and cannot feed
    four GPUs. A companion that fails leaves its device idle and causes a warning.

    Args:
        devices: one for each companion; may be empty.
        store: the leader's store, in a file or on a server.
        job: returns the job that tunes on a device under a tuner id until it is ended.

    Raises:
        BadArgument: the store is in memory, where no other process can reach it.
    """

    def __init__(
        self, devices: tuple[DeviceRef, ...], store: Store, job: Callable[[DeviceRef, str], Job[None]]
    ) -> None:
        if devices and store.database.address is None:
            raise BadArgument("tuning on several devices needs a store in a file or on a server, not in memory")
        self._store, self._job = store, job
        self._workers = {device: Worker() for device in devices}
        self._tuners: dict[DeviceRef, str] = {}
        """Tuner id of each device."""
        self._threads = ThreadPoolExecutor(max(1, len(devices)))
        self._running: dict[Future[None], DeviceRef] = {}

    def __enter__(self) -> Self:
        for device, worker in self._workers.items():
            tuner = self._tuners[device] = new_tuner(self._store)
            self._running[self._threads.submit(worker.call, self._job(device, tuner), math.inf)] = device
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends the companions. Each has END_S to end in order: a candidate that dies with its tuner is suspected of
        having killed it.
        """
        for worker in self._workers.values():
            worker.ask_to_end()
        concurrent.futures.wait(self._running, END_S)
        while True:
            interrupt_all(self._workers.values())  # again, in case a process had not started yet
            if not concurrent.futures.wait(self._running, 0.1).not_done:
                break
        for worker in self._workers.values():
            worker.kill()
        self._threads.shutdown()
        if kind is None:  # after an error the store may be unreachable; the other tuners find out by themselves
            for tuner in self._tuners.values():
                self._store.tuners.strike(tuner)

    def check(self, faults: Faults) -> None:
        """Warns of companions that failed since the last call, adds them to `faults`, and frees their claims."""
        for future in [future for future in self._running if future.done()]:
            device = self._running.pop(future)
            error = future.exception()
            if error is None:
                continue
            faults.add(Part.WORKER, f"of {device}", error)
            words = error.last_words.splitlines()[-1:] if isinstance(error, WorkerDied) else []
            warnings.warn(": ".join([f"tuning continues without {device}", str(error), *words]), stacklevel=2)
            self._store.tuners.strike(self._tuners[device])
