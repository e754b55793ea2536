"""Answers for many problems at once, found and compiled by other processes and left in the cache on disk.

A look-up takes 20 to 100 ms of Python, and threads of one process take turns. Where a network has more than a hundred
passes and nothing is cached, that is most of `warpsmith.torch.patch`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import queue
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from warpsmith.devices.compiler import Compiler
from warpsmith.devices.host.machine import cores
from warpsmith.devices.select import CompilerChoice, DeviceRef
from warpsmith.errors import WarpsmithError
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.problem import Problem
from warpsmith.plans.answer_cache import Circumstances, cached_answer, is_named_in_cache
from warpsmith.store.changes import state_of
from warpsmith.store.location import named_location
from warpsmith.workers.job import Job, WorkerState
from warpsmith.workers.worker import DeadlinePassed, Worker, WorkerDied

LEAST_ANSWERS = 16
"""Answers for which processes are started. One needs a second until its first answer, ten look-ups' time."""
ANSWERS_EACH = 8
"""Least answers of a process."""
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
            from warpsmith.plans.fresh_answer import fresh_answer

            fresh_answer(self.circumstances, self.compiler, is_kept=True)


def answer_ahead(problems: Iterable[Problem], device: str, store: str | None, processes: int | None = None) -> int:
    """Finds answers that are not cached, in processes of their own, if there are many.

    It changes no result: what a process could not do is left to whoever asks for the plan.

    Args:
        problems: the problems that will be asked for, each once or several times.
        device, store: as for `warpsmith.plan`.
        processes: number of processes; None for as many as there are cores, MOST_PROCESSES at most.

    Returns the number of answers that processes were asked for. Raises BadArgument or DeviceError if the device does
    not exist.
    """
    ref = DeviceRef.parse(device)
    if ref.kind is not DeviceKind.CUDA:
        return 0  # answers for the host are not cached
    left = list(_uncached(problems, ref, named_location(store)))
    count = min(processes or cores(), MOST_PROCESSES, len(left) // ANSWERS_EACH)
    if len(left) < LEAST_ANSWERS or count < 2:
        return 0
    compiler = ref.compiler(CompilerChoice.AUTO)
    idle: queue.LifoQueue[Worker] = queue.LifoQueue()
    with contextlib.ExitStack() as opened, ThreadPoolExecutor(count) as threads:
        for worker in [Worker() for _ in range(count)]:
            opened.callback(worker.close)
            idle.put(worker)
        for done in [threads.submit(_answer, idle, LookUp(each, compiler)) for each in left]:
            done.result()
    return len(left)


def _uncached(problems: Iterable[Problem], ref: DeviceRef, store: str | None) -> Iterator[Circumstances]:
    """What is asked without a valid answer in the cache."""
    state = state_of(store)
    if state is None:  # a store on a server, whose answers are not cached
        return
    target = ref.device()
    asked = [Circumstances(each, target, store, state) for each in dict.fromkeys(problems)]
    named = [each for each in asked if is_named_in_cache(each)]
    are_stale = any(cached_answer(each) is None for each in named[:LOOKED_AT])
    yield from (each for each in asked if are_stale or each not in named)


def _answer(idle: queue.LifoQueue[Worker], job: LookUp) -> None:
    worker = idle.get()
    try:
        with contextlib.suppress(WarpsmithError, WorkerDied, DeadlinePassed):
            worker.call(job, DEADLINE_S)
    finally:
        idle.put(worker)
