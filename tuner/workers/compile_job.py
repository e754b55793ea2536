"""Job of a compiler process."""

from __future__ import annotations

import dataclasses
import time

from warpsmith.devices.base import Compiler
from warpsmith.devices.binary import Binaries
from warpsmith.errors import CompileError
from warpsmith.generator.program import Program
from warpsmith.store.record import Failure, FailureKind
from warpsmith.tuner.workers.job import Job, WorkerState


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
