"""The job of a compiler's process."""

from __future__ import annotations

import dataclasses
import time

from warpsmith.devices.base import Binary, Compiler
from warpsmith.errors import CompileError
from warpsmith.generator.program import Program
from warpsmith.store.record import Failure, FailureKind
from warpsmith.tuner.workers.job import Job, WorkerState


@dataclasses.dataclass(frozen=True, slots=True)
class Compiled:
    """A binary and how long its compilation took; 0 ms is a binary that was in the cache."""

    binary: Binary
    compile_ms: float


@dataclasses.dataclass(frozen=True, slots=True)
class Compile(Job[Compiled | Failure]):
    """Compile one program."""

    compiler: Compiler
    program: Program

    def run(self, state: WorkerState) -> Compiled | Failure:  # noqa: ARG002 - compiling needs no device
        start = time.monotonic()
        try:
            binary = self.compiler.compile(self.program)
        except CompileError as error:
            return Failure(FailureKind.COMPILE, str(error))
        return Compiled(binary, (time.monotonic() - start) * 1e3)
