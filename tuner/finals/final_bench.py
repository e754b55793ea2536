"""Bench for the finalists, with data that the search has not seen."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from warpsmith.devices.select import DeviceRef
from warpsmith.errors import WarpsmithError
from warpsmith.tuner.evaluate.bench import Bench
from warpsmith.tuner.evaluate.evaluator import Evaluator
from warpsmith.tuner.evaluate.timing_policy import TimingPolicy
from warpsmith.tuner.workers.deadlines import Deadlines
from warpsmith.tuner.workers.worker import Worker


class FinalBench:
    """Second process on the device, prepared while the search runs.

    It draws the data, computes their float64 reference and imports the other libraries; one of these takes six seconds
    to load. On the host such a process would disturb the search, so there the search's own bench draws fresh data at
    the end.
    """

    def __init__(self, evaluator: Evaluator, seed: int, bench: Bench | None) -> None:
        self._evaluator, self._seed, self._bench = evaluator, seed, bench
        self._error: WarpsmithError | None = None
        self._thread = threading.Thread(target=self._prepare, daemon=True)
        if bench is not None:
            self._thread.start()

    @classmethod
    @contextlib.contextmanager
    def beside(
        cls,
        evaluator: Evaluator,
        device: DeviceRef,
        seed: int,
        policy: TimingPolicy,
        deadlines: Deadlines,
        worker: Worker | None = None,
    ) -> Iterator[FinalBench]:
        """Starts preparing the second process if the device has a lock file, so that the two take turns. The process
        ends with the block, unless the caller passed it as `worker`.
        """
        bench = None
        if evaluator.lock_file is not None:
            bench = Bench(
                device,
                evaluator.compiler,
                evaluator.problem,
                seed,
                policy,
                deadlines,
                sanitize=False,
                lock_file=evaluator.lock_file,
                finals=True,
                worker=worker,
            )
        finals = cls(evaluator, seed, bench)
        try:
            yield finals
        finally:
            if bench is not None:
                while finals._thread.is_alive():
                    bench.interrupt()  # again, in case it struck between two jobs or before the process started
                    finals._thread.join(0.1)
                bench.close()

    def bench(self) -> Bench:
        """The bench, ready for use. Raises DeviceError if it cannot be prepared."""
        if self._bench is not None:
            self._thread.join()
            if self._error is None:
                return self._bench
            self._bench.interrupt()  # frees the memory it has, even in a process of the caller's
            self._bench.close()  # there may be no room for both benches, and the search is over
        self._evaluator.bench.renew(self._seed)
        return self._evaluator.bench

    def _prepare(self) -> None:
        assert self._bench is not None
        try:
            _ = self._bench.opened
            self._bench.prepare_peers()
        except WarpsmithError as error:
            self._error = error
