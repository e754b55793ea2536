"""What a tuning run works with: a problem, its families, compilers, and benches to evaluate on."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

from warpsmith.devices.base import Compiler
from warpsmith.devices.select import CompilerChoice, DeviceRef
from warpsmith.errors import DeviceError
from warpsmith.generator.device import Device
from warpsmith.generator.family import Family
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.generator.registry import families_for
from warpsmith.generator.space import Config
from warpsmith.store.record import Failure, Trial
from warpsmith.tuner.compile_pool import CompilePool
from warpsmith.tuner.compiling import Compiled
from warpsmith.tuner.deadlines import Deadlines
from warpsmith.tuner.evaluate import Bench
from warpsmith.tuner.outcomes import Contender
from warpsmith.tuner.timing import TimingPolicy


@dataclasses.dataclass(frozen=True, slots=True)
class Workshop:
    """One problem on one kind of device, with everything that turns configs into measurements."""

    problem: Problem
    device: Device
    families: dict[str, Family]
    """Those that solve the problem, by name, preferred first."""
    compiler: Compiler
    compiler_identity: str
    pool: CompilePool
    benches: tuple[Bench, ...]
    """One for each device."""

    @classmethod
    @contextlib.contextmanager
    def open(
        cls,
        problem: Problem,
        devices: tuple[DeviceRef, ...],
        families: tuple[Family, ...],
        choice: CompilerChoice,
        seed: int,
        deadlines: Deadlines,
        *,
        sanitize: bool,
        policy: TimingPolicy | None = None,
        turn: Path | None = None,
    ) -> Iterator[Workshop]:
        """Finds out what is there, and ends all processes at the end. Each process starts with its first job.

        Args:
            problem: what is worked on.
            devices: where, one or several of one model.
            families: those that may solve it.
            choice: of the compiler.
            seed: of the data.
            deadlines: for every job.
            sanitize: run under the sanitizers.
            policy: of the timings; None for what is usual on such a device.
            turn: what stands for the first device where others use it too; see `Turn`.

        Raises BadArgument where no family solves the problem, CompileError where the compiler is missing,
        DeviceError where a device is not there, or they differ.
        """
        device = common_device(devices)
        able = {family.name: family for family in families_for(problem, device, families)}
        compiler = devices[0].compiler(choice, sanitize=sanitize)
        identity = compiler.identity
        policy = policy or TimingPolicy.for_kind(device.kind)
        with contextlib.ExitStack() as opened:
            pool = opened.enter_context(contextlib.closing(CompilePool(compiler, deadlines)))
            benches = tuple(
                Bench(
                    each, compiler, problem, seed, policy, deadlines, sanitize=sanitize, turn=None if number else turn
                )
                for number, each in enumerate(devices)
            )
            for bench in benches:
                opened.enter_context(contextlib.closing(bench))
            yield cls(problem, device, able, compiler, identity, pool, benches)

    @property
    def bench(self) -> Bench:
        """The first device's."""
        return self.benches[0]

    def program(self, family: str, config: Config) -> Program:
        """The candidate that `family` generates for `config`."""
        return self.families[family].program(self.problem, config)

    def compile(self, program: Program) -> Future[Compiled | Failure]:
        """Compiles in the pool."""
        return self.pool.submit(program)

    def verified(self, program: Program, bench: Bench) -> Contender | Failure:
        """Compiles a program in the pool and evaluates it on `bench`, one of these or of the finals: it may be timed in
        turns with others then, or what went wrong first is told. Raises DeviceError where the bench cannot be opened.
        """
        compiled = self.compile(program).result()
        if isinstance(compiled, Failure):
            return compiled
        outcome = bench.evaluate(program, compiled).outcome
        return outcome if isinstance(outcome, Failure) else Contender(program, compiled.binary, outcome)

    def still_holds(self, trial: Trial) -> bool:
        """Whether a stored trial says something about today's candidates: the same source, the same compiler, and
        conditions of timing that are today's.
        """
        family = self.families.get(trial.family)
        if family is None or trial.compiler != self.compiler_identity:
            return False
        conditions = trial.conditions
        if conditions is not None and conditions != self.bench.opened.conditions:
            return False
        program = family.legal_program(self.problem, self.device, trial.config)
        return program is not None and program.fingerprint == trial.fingerprint


def common_device(devices: tuple[DeviceRef, ...]) -> Device:
    """What all of several devices are. Raises DeviceError where they differ, or one is not there."""
    first, *others = [each.device() for each in devices]
    for ref, other in zip(devices[1:], others, strict=True):
        if other.key() != first.key():
            raise DeviceError(
                f"{devices[0]} is {first.key()}, but {ref} is {other.key()}: tune on those that are alike"
            )
    return first
