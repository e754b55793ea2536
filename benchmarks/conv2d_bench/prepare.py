"""Prepares problems before their turn, in processes beside the measuring ones."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import TypeVar

from conv2d_bench.candidates import configs, single_units
from conv2d_bench.points import Point
from conv2d_bench.sampled import Sample, has_sample, sample
from conv2d_bench.untuned import Choice
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config
from warpsmith.tuner.evaluate.buffers import GUARD_BYTES
from warpsmith.tuner.evaluate.verify import verification
from warpsmith.tuner.operations.judge import FLOAT32_BOUND
from warpsmith.tuner.operations.registry import random_operands
from warpsmith.workers.job import Job, WorkerState
from warpsmith.workers.worker import Worker, WorkerDied
from warpsmith.workers.worker_pool import WorkerPool

T = TypeVar("T")

PREPARE_S = 60.0
"""Seconds for one problem, at most: it takes 0.2 to 1 s."""
NICENESS = 5
"""Niceness, as of the compilers: measuring has priority."""


@dataclasses.dataclass(frozen=True, slots=True)
class Material:
    """A problem with the programs and references prepared for it."""

    point: Point
    sample: Sample | None
    programs: tuple[tuple[str, Config, Program], ...]
    """Candidates in the order in which they are tried, with the names of their families."""
    first: tuple[Program, ...]
    """Programs to compile before the candidates: each of their units once, and the kernels that verify results."""
    seconds: float
    """Seconds that the preparation took."""
    choice: Choice | None = None
    """What answers without a search, if that is measured. Its program is the first candidate."""


@dataclasses.dataclass(frozen=True, slots=True)
class Prepare(Job[Material]):
    """Generates a problem's candidates and computes a sample of its results in float64."""

    point: Point
    device: Device
    starts: int
    beside: tuple[str, ...]
    families: tuple[str, ...]
    """The only families to try, by name; empty for all."""
    seed: int
    untuned: bool = False
    """Whether candidates are what answers without a search and other families' defaults, verified on the device."""

    def run(self, state: WorkerState) -> Material:  # noqa: ARG002 - nothing is kept
        start, problem = time.monotonic(), self.point.problem
        choice = Choice.of(problem, self.device) if self.untuned else None
        wanted = (
            configs(problem, self.device, self.starts, self.beside, self.families)
            if choice is None
            else choice.configs(problem, self.device, self.starts)
        )
        programs = [(family.name, config, family.program(problem, config)) for family, config in wanted]
        first = single_units(program for *_, program in programs)
        if self.device.kind is DeviceKind.CUDA:
            # The device's process finds it in the cache. Its text contains the result's size.
            first.insert(0, verification(problem.output, GUARD_BYTES, self.device.multiprocessors, FLOAT32_BOUND))
        is_sampled = choice is None and has_sample(problem)
        known = sample(problem, random_operands(problem, self.seed), self.seed) if is_sampled else None
        return Material(self.point, known, tuple(programs), tuple(first), time.monotonic() - start, choice)


class Preparers:
    """Processes that prepare problems in the order of submission. Close it after use.

    Args:
        processes: number of processes.
        environment: additional environment variables for them.
    """

    def __init__(self, processes: int, environment: Mapping[str, str]) -> None:
        own = {"OPENBLAS_NUM_THREADS": "1", **environment}
        self._pool = WorkerPool(Worker(own, None, NICENESS) for _ in range(processes))

    def submit(self, job: Prepare, then: Callable[[Material], T]) -> Future[T]:
        """Starts the job as soon as a process is free, and passes its material to `then`. The future has the result of
        `then`.

        The future raises RuntimeError with the last words of a process that ended, and the errors of the job.
        """
        return self._pool.submit(self._run, job, then)

    def _run(self, job: Prepare, then: Callable[[Material], T]) -> T:
        with self._pool.borrow() as worker:
            try:
                return then(worker.call(job, PREPARE_S))
            except WorkerDied as death:
                words = death.last_words.strip().splitlines()
                raise RuntimeError(f"preparing: {words[-1] if words else death}") from None

    def close(self) -> None:
        """Ends the processes, whatever they are doing."""
        self._pool.close()


def with_folder(folder: str) -> dict[str, str]:
    """Environment variables with which a process finds the modules of a folder, in addition to those that this one
    finds.
    """
    elsewhere = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": os.pathsep.join((folder, *filter(None, (elsewhere,))))}
