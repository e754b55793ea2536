"""Processes that several consecutive runs on one device share."""

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
    """Compilers and two device processes, one for searches and one for finals, with the libraries that they have
    loaded.

    A layer in the frequency domain takes five runs: its stages and the whole. Without sharing, each run would start two
    processes, open the device twice and import the other libraries: 4 to 7 s for a search of less than one.
    """

    pool: CompilePool
    search: Worker
    finals: Worker

    @classmethod
    @contextlib.contextmanager
    def open(cls, compiler: Compiler, deadlines: Deadlines, processes: int | None = None) -> Iterator[Workshop]:
        """Opens a workshop. Each process starts with its first job; all of them end with the block.

        Args:
            compiler: compiler that the compile processes run.
            deadlines: time limits of compilations.
            processes: number of compile processes; None for one per core.
        """
        with contextlib.ExitStack() as opened:
            pool = opened.enter_context(contextlib.closing(CompilePool(compiler, deadlines, processes)))
            search, finals = (opened.enter_context(contextlib.closing(device_worker())) for _ in range(2))
            yield cls(pool, search, finals)
