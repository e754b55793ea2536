"""Journal that commits trials to the store, in order and in groups, in a thread of its own."""

from __future__ import annotations

import dataclasses
import queue
import threading
import time

from warpsmith.generator.device import Device
from warpsmith.generator.problem import Problem
from warpsmith.store.poison import Started
from warpsmith.store.record import Trial
from warpsmith.store.store import Store

GATHER_S = 0.05
"""Seconds between two groups: a transaction costs as much as twenty of its trials. A tuner that is killed loses at most
the trials of this time.
"""
SHARED_GATHER_S = 0.2
"""Seconds between two groups if other tuners write too, since each write makes them wait: of four tuners on one file,
the first spent 15 s of 17 in the store with GATHER_S.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class _Flush:
    reached: threading.Event


class Journal:
    """Stores the events of candidates. Call `close` also after an error elsewhere; it waits until all is on disk.

    An error of the store is raised by the next call of any method.

    Args:
        store: store open for writing.
        problem: problem of the candidates.
        device: device they run on.
        gather_s: seconds between two groups.
    """

    def __init__(self, store: Store, problem: Problem, device: Device, gather_s: float = GATHER_S) -> None:
        self._store, self._problem, self._device, self._gather_s = store, problem, device, gather_s
        self._queue: queue.SimpleQueue[Trial | Started | _Flush | None] = queue.SimpleQueue()
        self._error: Exception | None = None
        self._running: set[str] = set()
        """Fingerprints of candidates noted as started whose trials are not stored yet."""
        self.seconds = 0.0
        """Seconds spent in the store."""
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def keep(self, trial: Trial) -> None:
        """Queues a trial for the next commit."""
        self._raise()
        self._queue.put(trial)

    def started(self, started: Started) -> None:
        """Queues a note that a candidate is about to run, in case it kills the process."""
        self._queue.put(started)

    def flush(self) -> None:
        """Waits until everything queued is on disk."""
        flush = _Flush(threading.Event())
        self._queue.put(flush)
        flush.reached.wait()
        self._raise()

    def close(self) -> None:
        """Ends the thread, and removes the notes of candidates that were given up without harm. Raises as `flush`
        does.
        """
        self._queue.put(None)
        self._thread.join()
        self._raise()
        if self._running:
            self._store.poison.mark_ended(self._device, self._running)

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _write(self) -> None:
        while (first := self._queue.get()) is not None:
            batch: list[Trial | Started | _Flush] = [first]
            ended = False
            while not self._queue.empty():
                if (more := self._queue.get()) is None:
                    ended = True
                    break
                batch.append(more)
            start = time.monotonic()
            try:
                if self._error is None:
                    self._commit(batch)
            except Exception as error:  # any error must reach the waiting caller
                self._error = error
            self.seconds += time.monotonic() - start
            for item in batch:
                if isinstance(item, _Flush):
                    item.reached.set()
            if ended:
                return
            time.sleep(self._gather_s)

    def _commit(self, batch: list[Trial | Started | _Flush]) -> None:
        trials = [item for item in batch if isinstance(item, Trial)]
        ended = {trial.fingerprint for trial in trials}
        # A candidate that ended within the batch needs no note of its start.
        running = [item for item in batch if isinstance(item, Started) and item.fingerprint not in ended]
        if trials:
            self._store.add_trials(self._problem, self._device, trials)
        if running:
            self._store.poison.mark_started(self._device, running)
        self._running = (self._running - ended) | {each.fingerprint for each in running}
