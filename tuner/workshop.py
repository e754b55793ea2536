"""What a tuning run works with: a problem, its families, compilers, and a bench to evaluate on."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import itertools
from collections.abc import Iterator
from concurrent.futures import Future, wait

from warpsmith.devices.select import CompilerChoice, DeviceRef
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.generator.registry import families_for
from warpsmith.generator.space import Config
from warpsmith.store.record import Failure, Measurement, Trial
from warpsmith.tuner.evaluate import Bench, CompilePool, Deadlines, compile_processes
from warpsmith.tuner.jobs import Compiled


@dataclasses.dataclass(frozen=True, slots=True)
class Candidate:
    """A config on its way to being measured."""

    family: str
    config: Config
    program: Program
    compiled: Future[Compiled | Failure]


@dataclasses.dataclass(frozen=True, slots=True)
class Workshop:
    """One problem on one device, with everything that turns configs into measurements."""

    problem: Problem
    device: Device
    families: dict[str, Family]
    """Those that solve the problem, by name, preferred first."""
    compiler_identity: str
    processes: int
    """Compilers that run at once."""
    pool: CompilePool
    bench: Bench

    @classmethod
    @contextlib.contextmanager
    def open(
        cls,
        problem: Problem,
        device_ref: DeviceRef,
        families: tuple[Family, ...],
        choice: CompilerChoice,
        seed: int,
        deadlines: Deadlines,
        *,
        sanitize: bool,
    ) -> Iterator[Workshop]:
        """Opens the device and starts the processes; ends them at the end.

        Raises BadArgument where no family solves the problem, CompileError where the compiler is missing,
        DeviceError where the device cannot be opened.
        """
        device = device_ref.device()
        able = {family.name: family for family in families_for(problem, device, families)}
        compiler = device_ref.compiler(choice, sanitize=sanitize)
        identity = compiler.identity
        processes = compile_processes(device.kind)
        with (
            contextlib.closing(CompilePool(compiler, processes, deadlines.compile_s)) as pool,
            contextlib.closing(Bench(device_ref, compiler, problem, seed, deadlines, sanitize=sanitize)) as bench,
        ):
            yield cls(problem, device, able, identity, processes, pool, bench)

    def program(self, family: str, config: Config) -> Program:
        """The candidate that `family` generates for `config`."""
        return self.families[family].program(self.problem, config)

    def compile(self, program: Program) -> Future[Compiled | Failure]:
        """Compiles in the pool."""
        return self.pool.submit(program)

    def candidates(self, wanted: Iterator[tuple[str, Config]]) -> Iterator[Candidate]:
        """Each config that `wanted` names, with its family, in order and sent to be compiled.

        `wanted` is read a fixed number of configs ahead, so that runs repeat. On the host, compilers and candidates
        share the cores: there a batch is compiled, then timed undisturbed.
        """
        on_host = self.device.kind is DeviceKind.HOST
        ahead = self.processes if on_host else 2 * self.processes
        pending: collections.deque[Candidate] = collections.deque()
        while True:
            if not (on_host and pending):
                for family, config in itertools.islice(wanted, ahead - len(pending)):
                    program = self.program(family, config)
                    pending.append(Candidate(family, config, program, self.compile(program)))
                if on_host:
                    wait([candidate.compiled for candidate in pending])
            if not pending:
                return
            yield pending.popleft()

    def evaluate(self, candidate: Candidate, best_ns: float | None) -> Trial:
        """Verifies and times a candidate as soon as it is compiled; one much slower than `best_ns` is timed briefly."""
        compiled = candidate.compiled.result()
        outcome: Measurement | Failure
        if isinstance(compiled, Failure):
            outcome, compile_ms = compiled, None
        else:
            outcome = self.bench.evaluate(candidate.program, compiled, best_ns)
            compile_ms = compiled.compile_ms
        return Trial(
            family=candidate.family,
            config=candidate.config,
            fingerprint=candidate.program.fingerprint,
            outcome=outcome,
            compiler=self.compiler_identity,
            compile_ms=compile_ms,
        )

    def still_holds(self, trial: Trial) -> bool:
        """Whether a stored trial says something about today's candidates: the same source, the same compiler."""
        family = self.families.get(trial.family)
        if family is None or trial.compiler != self.compiler_identity:
            return False
        program = family.legal_program(self.problem, self.device, trial.config)
        return program is not None and program.fingerprint == trial.fingerprint
