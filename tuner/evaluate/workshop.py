"""Processes that several runs of one device use one after the other."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

from warpsmith.devices.base import Compiler
from warpsmith.tuner.evaluate.bench import device_worker
from warpsmith.tuner.workers.compile_pool import CompilePool
from warpsmith.tuner.workers.deadlines import Deadlines
from warpsmith.tuner.workers.worker import Worker


@dataclasses.dataclass(frozen=True, slots=True)
class Workshop:
    """Compilers, a process for a search, and one for its finals, with the device and the libraries that they have
    loaded. A layer in the frequency domain is five runs, its stages and the whole: each of them would start two
    processes, open the device twice and import the other libraries, 4 to 7 s for a search of less than one.
    """

    pool: CompilePool
    search: Worker
    finals: Worker

    @classmethod
    @contextlib.contextmanager
    def open(cls, compiler: Compiler, deadlines: Deadlines, processes: int | None = None) -> Iterator[Workshop]:
        """Each process starts with its first job; all of them end at the end.

        Args:
            compiler: what the compilers run.
            deadlines: how long they may take.
            processes: that compile at once; None for one a core.
        """
        with contextlib.ExitStack() as opened:
            pool = opened.enter_context(contextlib.closing(CompilePool(compiler, deadlines, processes)))
            search, finals = (opened.enter_context(contextlib.closing(device_worker())) for _ in range(2))
            yield cls(pool, search, finals)
