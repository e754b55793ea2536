"""Answers for many problems at once, found and compiled by other processes and left in the cache on disk.

A look-up takes 20 to 100 ms of Python, and threads of one process take turns, which is a large part of
`warpsmith.torch.patch` where a network has more than a hundred passes and nothing is cached. The kernels that verify
the first use of all answers are compiled meanwhile: half a second for which every thread that makes a plan would wait.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Iterable

from warpsmith.devices.compiler import Compiler
from warpsmith.devices.host.machine import cores
from warpsmith.devices.select import CompilerChoice, DeviceRef
from warpsmith.errors import WarpsmithError
from warpsmith.generator.problem import Problem
from warpsmith.generator.steps import Compilation
from warpsmith.plans.answer_cache import Circumstances, cached_answer, is_named_in_cache
from warpsmith.plans.first_use.kernels import references_to_load
from warpsmith.plans.fresh_answer import fresh_answer
from warpsmith.store.changes import state_of
from warpsmith.store.location import named_location
from warpsmith.workers.job import Job, WorkerState
from warpsmith.workers.worker import DeadlinePassed, Worker, WorkerDied
from warpsmith.workers.worker_pool import COMPILER_MEMORY_BYTES, WorkerPool

ANSWERS_EACH = 8
"""Least answers of a process. It needs a second until its first one, the time of ten look-ups."""
MOST_PROCESSES = 8
DEADLINE_S = 120.0
"""Seconds for one answer, after which this process finds it itself."""
LOOKED_AT = 3
"""Cached answers whose validity is checked: they become stale together, and a check takes 5 ms."""


@dataclasses.dataclass(frozen=True, slots=True)
class LookUp(Job[None]):
    """Finds and compiles one answer for the cache."""

    circumstances: Circumstances
    compiler: Compiler

    def run(self, state: WorkerState) -> None:  # noqa: ARG002 - a look-up needs no device
        if cached_answer(self.circumstances) is None:
            fresh_answer(self.circumstances, self.compiler)


@dataclasses.dataclass(frozen=True, slots=True)
class CompileUnit(Job[None]):
    """Compiles one unit for the cache."""

    unit: Compilation
    compiler: Compiler

    def run(self, state: WorkerState) -> None:  # noqa: ARG002 - a compiler needs no device
        self.compiler.compile(self.unit)


def answer_ahead(problems: Iterable[Problem], device: str, store: str | None, processes: int | None = None) -> int:
    """Finds answers that are not cached, in processes of their own, if there are enough for two.

    It changes no result: what a process could not do is left to whoever asks for the plan.

    Args:
        problems: the problems that will be asked for, each once or several times.
        device, store: as for `warpsmith.plan`.
        processes: number of processes; None for as many as there are cores, MOST_PROCESSES at most.

    Returns the number of answers that processes were asked for. Raises BadArgument or DeviceError if the device does
    not exist.
    """
    ref = DeviceRef.parse(device)
    left = _uncached(problems, ref, named_location(store))
    count = min(processes or cores(), MOST_PROCESSES, len(left) // ANSWERS_EACH)
    if count < 2:
        return 0
    compiler = ref.compiler(CompilerChoice.AUTO)
    references = dict.fromkeys(each for asked in left for each in references_to_load(asked.problem, asked.device))
    jobs = *(CompileUnit(each, compiler) for each in references), *(LookUp(each, compiler) for each in left)
    workers = (Worker(memory_bytes=COMPILER_MEMORY_BYTES) for _ in range(count))
    with contextlib.closing(WorkerPool(workers)) as pool:
        for done in [pool.submit(_run, pool, each) for each in jobs]:
            done.result()
    return len(left)


def _uncached(problems: Iterable[Problem], ref: DeviceRef, store: str | None) -> list[Circumstances]:
    """What is asked without a valid answer in the cache, of what can be cached."""
    state, target = state_of(store), ref.device()
    every = (Circumstances(each, target, store, state) for each in dict.fromkeys(problems))
    asked = [each for each in every if each.can_be_cached]
    are_named = [is_named_in_cache(each) for each in asked]
    some = itertools.islice(itertools.compress(asked, are_named), LOOKED_AT)
    if any(cached_answer(each) is None for each in some):
        return asked
    return [each for each, is_named in zip(asked, are_named, strict=True) if not is_named]


def _run(pool: WorkerPool, job: Job[None]) -> None:
    with pool.borrow() as worker, contextlib.suppress(WarpsmithError, WorkerDied, DeadlinePassed):
        worker.call(job, DEADLINE_S)
