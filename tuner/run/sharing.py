"""Tuners that search together at one store: each tries what no other tries and learns the others' trials.

Dead tuners are struck off. Further devices of this machine have tuners in processes of their own beside the leader.
"""

from __future__ import annotations

import collections
import concurrent.futures
import hashlib
import math
import os
import platform
import threading
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self, TypeVar

from warpsmith.devices.select import DeviceRef
from warpsmith.errors import BadArgument
from warpsmith.generator.device import Device
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.store.record import Trial
from warpsmith.store.store import Store
from warpsmith.store.tuners import Claim, StruckOff
from warpsmith.tuner.faults import Faults, Part
from warpsmith.workers.job import Job
from warpsmith.workers.worker import Worker, WorkerDied, interrupt_all

T = TypeVar("T")

ROUND_S = 0.25
"""Seconds between two looks at the store. The others' trials steer the search; a look costs a millisecond or two."""
BEAT_ROUNDS = 8
"""Rounds between two heartbeats."""
DEAD_ROUNDS = 80
"""Rounds of this tuner without a heartbeat of another one after which that one counts as dead (20 s). Rounds are
counted instead of time, so that nobody is struck off while the store is away or this process is stopped.
"""


def new_tuner(store: Store) -> str:
    """Registers a tuner named after this machine and process, and returns its id."""
    return store.tuners.register(f"{platform.node()} {os.getpid()}")


class Sharing:
    """One tuner's membership among those that tune a problem on one kind of device at one store, inside a `with` block.

    An error of the store is raised by the next call.

    Args:
        store: store open for writing, in a file or on a server; other threads may use it meanwhile.
        problem: problem to tune.
        device: device model.
        tuner: registered id of this tuner. It is struck off at the end.
        seen: id of the last stored trial that is known already.
    """

    def __init__(self, store: Store, problem: Problem, device: Device, tuner: str, seen: int) -> None:
        self._store, self._problem, self._device = store, problem, device
        self._tuner, self._seen = tuner, seen
        self._joining = threading.Lock()
        self._news: collections.deque[Trial] = collections.deque()
        self._ended = threading.Event()
        self._over = threading.Event()
        self._error: Exception | None = None
        self._others: dict[str, tuple[int, int]] = {}
        """Heartbeat count of each other tuner, and our rounds since it changed."""
        self.departed = 0
        """Number of tuners that have left or died. Their claimed, untried programs are free."""

    def __enter__(self) -> Self:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leaves, which frees its claims. If the store cannot be reached, the other tuners strike it off later."""
        self._ended.set()
        self._over.wait()
        if self._error is None:
            self._store.tuners.strike(self._tuner)

    def seed(self, seed: int) -> int:
        """Seed of this tuner, in 32 bits: with equal seeds, tuners would request equal configs."""
        return int.from_bytes(hashlib.sha256(f"{seed} {self._tuner}".encode()).digest()[:4])

    def claim(
        self, programs: Iterable[Program], identity_of: Callable[[Program], str], holds: Callable[[Trial], bool]
    ) -> frozenset[Program]:
        """The programs that this tuner may try. `identity_of` returns the compiler identity that a program's trial will
        carry.

        Stored trials of other tuners are added to the news; see `Store.claim`.
        """
        self._raise()
        claims = {Claim(each.family, each.config, each.fingerprint, identity_of(each)): each for each in programs}
        granted = self._while_at_work(
            lambda tuner: self._store.tuners.claim(self._problem, self._device, tuner, claims, holds)
        )
        self._news.extend(granted.stored)
        return frozenset(claims[claim] for claim in granted.mine)

    def news(self) -> list[Trial]:
        """Trials stored since the last call, including this tuner's own."""
        self._raise()
        return [self._news.popleft() for _ in range(len(self._news))]

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _serve(self) -> None:
        try:
            rounds = 0
            while not self._ended.wait(ROUND_S):
                if rounds % BEAT_ROUNDS == 0:
                    self._while_at_work(self._store.tuners.beat)
                self._look_after_others()
                self._seen, trials = self._store.trials_since(self._problem, self._device, self._seen)
                self._news.extend(trials)
                rounds += 1
        except Exception as error:  # any error is raised again in the tuner's thread
            self._error = error
        finally:
            self._over.set()

    def _look_after_others(self) -> None:
        beats = self._store.tuners.beats()
        gone = self._others.keys() - beats.keys()
        self.departed += len(gone)
        before, self._others = self._others, {}
        for tuner in beats.keys() - {self._tuner}:
            known, silent = before.get(tuner, (beats[tuner], -1))
            self._others[tuner] = (beats[tuner], silent + 1 if known == beats[tuner] else 0)
        for tuner in [tuner for tuner, (_, silent) in self._others.items() if silent >= DEAD_ROUNDS]:
            self._store.tuners.strike(tuner)

    def _while_at_work(self, ask: Callable[[str], T]) -> T:
        """Calls `ask` with this tuner's id. If other tuners struck it off while it was stopped, it registers again."""
        while True:
            tuner = self._tuner
            try:
                return ask(tuner)
            except StruckOff:
                with self._joining:
                    if self._tuner == tuner:
                        self._tuner = new_tuner(self._store)


END_S = 5.0
"""Seconds that a helper tuner may take to end: it gives up what runs, commits its trials and ends its processes."""


class HelperTuners:
    """Tunes on several devices through one store, inside a `with` block.

    Each device needs a process of its own: one interpreter is fully busy at 140 candidates per second and cannot feed
    four GPUs. A helper tuner that fails leaves its device idle and causes a warning.

    Args:
        devices: one for each helper tuner; may be empty.
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
        """Ends the helper tuners. Each has END_S to end in order: a candidate that dies with its tuner is suspected of
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
        """Warns of helper tuners that failed since the last call, adds them to `faults`, and frees their claims."""
        for future in [future for future in self._running if future.done()]:
            device = self._running.pop(future)
            error = future.exception()
            if error is None:
                continue
            faults.add(Part.WORKER, f"of {device}", error)
            words = error.last_words.splitlines()[-1:] if isinstance(error, WorkerDied) else []
            warnings.warn(": ".join([f"tuning continues without {device}", str(error), *words]), stacklevel=2)
            self._store.tuners.strike(self._tuners[device])
