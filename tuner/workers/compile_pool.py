"""Pool of processes that compile ahead while the device works."""

from __future__ import annotations

import dataclasses
import time
from concurrent.futures import Future

from warpsmith.devices.compiler import Binaries, Compiler
from warpsmith.devices.host.machine import cores
from warpsmith.errors import CompileError, OutOfMemory
from warpsmith.generator.program import Program
from warpsmith.store.record import Failure, FailureKind
from warpsmith.tuner.workers.deadlines import Deadlines
from warpsmith.workers.job import Job, WorkerState
from warpsmith.workers.worker import DeadlinePassed, Worker, WorkerDied
from warpsmith.workers.worker_pool import COMPILER_MEMORY_BYTES, WorkerPool


@dataclasses.dataclass(frozen=True, slots=True)
class Compiled:
    """Binaries of a program and the duration of its compilation; 0 ms if it came from the cache."""

    binaries: Binaries
    compile_ms: float


@dataclasses.dataclass(frozen=True, slots=True)
class Compile(Job[Compiled | Failure]):
    """Compiles the units of one program."""

    compiler: Compiler
    program: Program

    def run(self, state: WorkerState) -> Compiled | Failure:  # noqa: ARG002 - compiling needs no device
        start = time.monotonic()
        try:
            binaries = self.compiler.compile_program(self.program)
        except CompileError as error:
            return Failure(FailureKind.COMPILE, str(error))
        return Compiled(binaries, (time.monotonic() - start) * 1e3)


NICENESS = 5
"""Niceness of the compilers: with one per core, the tuner and the device's worker still get the time that they need."""


class CompilePool:
    """Pool of compilers, each in its own process. One that hangs, crashes or takes too much memory costs one program.

    Args:
        compiler: compiler that each process runs.
        deadlines: time limits of compilations.
        processes: number of processes; None for one per core.
    """

    def __init__(self, compiler: Compiler, deadlines: Deadlines, processes: int | None = None) -> None:
        self.processes = processes or cores()
        self._compiler = compiler
        self._deadlines = deadlines
        self._fastest_s: float | None = None
        self._pool = WorkerPool(
            Worker(memory_bytes=COMPILER_MEMORY_BYTES, niceness=NICENESS) for _ in range(self.processes)
        )

    def submit(self, program: Program) -> Future[Compiled | Failure]:
        """Compiles `program` as soon as a process is free."""
        return self._pool.submit(self._compile, program)

    def expect(self, compile_ms: float | None) -> None:
        """Sets the compile time of the best candidate so far, which deadlines follow."""
        if compile_ms:  # 0 is a binary from the cache
            self._fastest_s = compile_ms / 1e3

    def _compile(self, program: Program) -> Compiled | Failure:
        if (binaries := self._compiler.cached_program(program)) is not None:
            return Compiled(binaries, 0.0)
        with self._pool.borrow() as worker:
            try:
                return worker.call(Compile(self._compiler, program), self._deadlines.of_compilation(self._fastest_s))
            except DeadlinePassed as passed:
                return Failure(FailureKind.COMPILE, f"the compiler gave {passed}")
            except WorkerDied as death:
                return Failure(FailureKind.COMPILE, f"compiling: {death}")
            except OutOfMemory as error:
                worker.kill()  # its memory is not needed any more
                return Failure(FailureKind.OUT_OF_MEMORY, f"compiling: {error}")

    def close(self) -> None:
        """Drops waiting programs and ends the processes."""
        self._pool.close()

    def interrupt(self) -> None:
        """Ends running compilations; later programs get fresh processes."""
        self._pool.interrupt()
