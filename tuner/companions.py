"""A tuner for each further device of this machine, in a process of its own, beside the one that leads."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import math
import warnings
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

from warpsmith.devices.base import Compiler
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import BadArgument, WarpsmithError
from warpsmith.generator.device import Device
from warpsmith.generator.family import Family
from warpsmith.generator.problem import Problem
from warpsmith.store.store import Store
from warpsmith.tuner.crew import new_tuner
from warpsmith.tuner.job import Job, WorkerState
from warpsmith.tuner.options import TuneOptions
from warpsmith.tuner.process import Worker, WorkerDied, interrupt_all
from warpsmith.tuner.workshop import Workshop

END_S = 5.0
"""A companion may take so long to end: it gives up what runs, commits its trials and ends its processes."""


@dataclasses.dataclass(frozen=True, slots=True)
class Accompany(Job[None]):
    """Tunes on one device until there are trials enough, for a leader that ends it sooner as a rule."""

    store: str
    """Its path or URL."""
    tuner: str
    """By which id this one takes part."""
    problem: Problem
    device: DeviceRef
    model: Device
    """What the device is, and `compiler` its own: to find out would start the driver of every GPU once more."""
    compiler: Compiler
    options: TuneOptions
    families: tuple[Family, ...]
    processes: int
    """Compilers at work at once."""

    def run(self, state: WorkerState) -> None:  # noqa: ARG002 - it opens a worker of its own
        from warpsmith.tuner.session import accompany  # which starts companions, and so imports this module

        with Store.open(self.store, write=True) as store:
            accompany(self, store)


class Companions:
    """Tunes on several devices through one store, while it is entered. One interpreter cannot feed four GPUs: at 140
    candidates a second it has no time left.

    A companion that fails leaves its device idle, and a warning.

    Args:
        devices: one for each companion; may be none.
        store: of the leader; in a file or on a server.
        workshop: of the leader; companions get one like it.
        options: how to search.

    Raises:
        BadArgument: the store lies in memory, where no other process reaches it.
    """

    def __init__(
        self,
        devices: tuple[DeviceRef, ...],
        store: Store,
        workshop: Workshop,
        options: TuneOptions,
    ) -> None:
        if devices and store.address is None:
            raise BadArgument("tuning on several devices needs a store in a file or on a server, not in memory")
        self._store, self._devices = store, devices
        self._workshop = workshop
        self._options = options
        self._jobs: list[Accompany] = []
        self._workers = [Worker() for _ in devices]
        self._threads = ThreadPoolExecutor(max(1, len(devices)))
        self._running: dict[Future[None], Accompany] = {}

    def __enter__(self) -> Self:
        for device, worker in zip(self._devices, self._workers, strict=True):
            job = Accompany(
                self._store.address or "",
                new_tuner(self._store),
                self._workshop.problem,
                device,
                self._workshop.device,
                self._workshop.compiler,
                self._options,
                tuple(self._workshop.families.values()),
                self._workshop.pool.processes,
            )
            self._jobs.append(job)
            self._running[self._threads.submit(worker.call, job, math.inf)] = job
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends them, in order where they do so soon: a candidate that dies with its tuner is suspected of the deed."""
        for worker in self._workers:
            worker.ask_to_end()
        concurrent.futures.wait(self._running, END_S)
        while True:
            interrupt_all(self._workers)  # again where it struck before a process was there
            if not concurrent.futures.wait(self._running, 0.1).not_done:
                break
        for worker in self._workers:
            worker.kill()
        self._threads.shutdown()
        if kind is None:  # after an error the store may be out of reach, and others find out by themselves
            for job in self._jobs:
                self._store.strike(job.tuner)

    def check(self) -> None:
        """Warns of companions that have failed since the last call, and frees what they had claimed."""
        for future in [future for future in self._running if future.done()]:
            job = self._running.pop(future)
            error = future.exception()
            if error is None:
                continue
            if not isinstance(error, WarpsmithError | WorkerDied):
                raise error
            words = error.last_words.splitlines()[-1:] if isinstance(error, WorkerDied) else []
            warnings.warn(": ".join([f"tuning continues without {job.device}", str(error), *words]), stacklevel=2)
            self._store.strike(job.tuner)
