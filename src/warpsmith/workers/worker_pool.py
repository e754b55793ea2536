"""Several worker processes, each lent to one thread at a time."""

from __future__ import annotations

import contextlib
import queue
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from warpsmith.workers.worker import Worker, interrupt_all

P = ParamSpec("P")
T = TypeVar("T")

COMPILER_MEMORY_BYTES = 8 << 30
"""Bytes of memory that a worker which compiles may take. NVRTC takes 0.5 GB for the heaviest kernel here; without a
limit, one compilation can exhaust the machine's memory.
"""


class WorkerPool:
    """Workers, and as many threads that wait for their answers. Close it after use.

    Args:
        workers: the workers, whose processes start with their first jobs. They belong to the pool from now on.
    """

    def __init__(self, workers: Iterable[Worker]) -> None:
        self._workers = tuple(workers)
        # Last in, first out: processes that already run start a job at once.
        self._idle: queue.LifoQueue[Worker] = queue.LifoQueue()
        for worker in self._workers:
            self._idle.put(worker)
        self._threads = ThreadPoolExecutor(len(self._workers))

    def submit(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Calls a function on a thread of the pool, in the order of submission. There it may `borrow` a worker."""
        return self._threads.submit(function, *args, **kwargs)

    @contextlib.contextmanager
    def borrow(self) -> Iterator[Worker]:
        """Lends a worker, as soon as one is free."""
        worker = self._idle.get()
        try:
            yield worker
        finally:
            self._idle.put(worker)

    def interrupt(self) -> None:
        """Ends running jobs; later ones get fresh processes."""
        interrupt_all(self._workers)

    def close(self) -> None:
        """Drops waiting functions and ends the processes, whatever they are doing."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self.interrupt()
        self._threads.shutdown(wait=True)
        self.interrupt()  # a thread may have started another process in between
        for worker in self._workers:
            worker.kill()
