"""What is made of a problem before its turn, by processes beside those that measure."""

from __future__ import annotations

import dataclasses
import os
import queue
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from conv2d_bench.candidates import configs, single_units
from conv2d_bench.points import Point
from conv2d_bench.sampled import Sample, has_sample, sample
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config
from warpsmith.tuner.evaluate.buffers import GUARD_BYTES
from warpsmith.tuner.evaluate.device_verify import verification
from warpsmith.tuner.operations.answers import random_operands
from warpsmith.tuner.operations.judge import FLOAT32_BOUND
from warpsmith.tuner.workers.job import Job, WorkerState
from warpsmith.tuner.workers.worker import Worker, WorkerDied

T = TypeVar("T")

PREPARE_S = 60.0
"""At the most, for a problem: it takes 0.2 to 1 s."""
NICENESS = 5
"""As compilers have: what measures comes first."""


@dataclasses.dataclass(frozen=True, slots=True)
class Material:
    """A problem with what is made of it before its turn."""

    point: Point
    sample: Sample | None
    programs: tuple[tuple[str, Config, Program], ...]
    """Of the candidates, in the order in which they are tried, with the names of their families."""
    first: tuple[Program, ...]
    """What is compiled ahead of them: each of their units once, and the kernels that verify results."""
    seconds: float
    """That this took."""


@dataclasses.dataclass(frozen=True, slots=True)
class Prepare(Job[Material]):
    """Writes a problem's candidates and computes the sample of its results in float64."""

    point: Point
    device: Device
    starts: int
    beside: tuple[str, ...]
    families: tuple[str, ...]
    """The only ones, by name; empty for all."""
    seed: int

    def run(self, state: WorkerState) -> Material:  # noqa: ARG002 - nothing is kept
        start, problem = time.monotonic(), self.point.problem
        programs = [
            (family.name, config, family.program(problem, config))
            for family, config in configs(problem, self.device, self.starts, self.beside, self.families)
        ]
        first = single_units(program for *_, program in programs)
        if self.device.kind is DeviceKind.CUDA:
            # Into the cache, where the device's process finds it: its text has the result's size.
            first.insert(0, verification(problem.output, GUARD_BYTES, self.device.multiprocessors, FLOAT32_BOUND))
        is_sampled = has_sample(problem)
        known = sample(problem, random_operands(problem, self.seed), self.seed) if is_sampled else None
        return Material(self.point, known, tuple(programs), tuple(first), time.monotonic() - start)


class Preparers:
    """Processes that prepare problems in the order in which they are asked for. To be closed.

    Args:
        processes: how many.
        environment: variables of theirs, beside this process's own.
    """

    def __init__(self, processes: int, environment: Mapping[str, str]) -> None:
        self._workers = [Worker({"OPENBLAS_NUM_THREADS": "1", **environment}, None, NICENESS) for _ in range(processes)]
        self._idle: queue.LifoQueue[Worker] = queue.LifoQueue()
        for worker in self._workers:
            self._idle.put(worker)
        self._threads = ThreadPoolExecutor(processes)

    def submit(self, job: Prepare, then: Callable[[Material], T]) -> Future[T]:
        """Begins as soon as a process is free, and gives what `then` makes of the material as soon as it is there.

        The future raises RuntimeError where the process ended, with its last words, and what the job raises.
        """
        return self._threads.submit(self._run, job, then)

    def _run(self, job: Prepare, then: Callable[[Material], T]) -> T:
        worker = self._idle.get()
        try:
            return then(worker.call(job, PREPARE_S))
        except WorkerDied as death:
            words = death.last_words.strip().splitlines()
            raise RuntimeError(f"preparing: {words[-1] if words else death}") from None
        finally:
            self._idle.put(worker)

    def close(self) -> None:
        """Ends them, whatever they do."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for worker in self._workers:
            worker.interrupt()
        self._threads.shutdown(wait=True)
        for worker in self._workers:
            worker.kill()


def with_folder(folder: str) -> dict[str, str]:
    """Variables with which a process finds the modules of a folder, beside those that this one finds."""
    elsewhere = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": os.pathsep.join((folder, *filter(None, (elsewhere,))))}
