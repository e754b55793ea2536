"""Evaluator of a tuning run: a problem with its families, compilers and benches."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path

from warpsmith.devices.compiler import Compiler
from warpsmith.devices.library_versions import identity_with_libraries, is_of_today
from warpsmith.devices.select import CompilerChoice, DeviceRef
from warpsmith.errors import DeviceError
from warpsmith.generator.device import Device
from warpsmith.generator.family import Family
from warpsmith.generator.gate import Gate
from warpsmith.generator.pins import NO_PINS, Pins
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.generator.registry import families_for
from warpsmith.generator.space import Config
from warpsmith.store.record import Failure, Trial
from warpsmith.tuner.evaluate.bench import Bench, device_worker
from warpsmith.tuner.evaluate.device_lock import shared_device
from warpsmith.tuner.evaluate.outcomes import Contender
from warpsmith.tuner.evaluate.timing_policy import TimingPolicy
from warpsmith.tuner.workers.compile_pool import Compiled, CompilePool
from warpsmith.tuner.workers.deadlines import Deadlines
from warpsmith.workers.worker import Worker


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


@dataclasses.dataclass(frozen=True)
class Evaluator:
    """One problem on one kind of device, with everything that turns configs into measurements."""

    problem: Problem
    device: Device
    families: dict[str, Family]
    """Families that solve the problem, by name, preferred first."""
    compiler: Compiler
    compiler_identity: str
    pool: CompilePool
    bench: Bench
    lock_file: Path | None = None
    """Lock file of the device if other processes use it too; see `DeviceLock`."""
    pins: Pins = NO_PINS
    """Values of parameters that every candidate has."""

    @classmethod
    @contextlib.contextmanager
    def open(
        cls,
        problem: Problem,
        device: DeviceRef,
        families: tuple[Family, ...] | None,
        choice: CompilerChoice,
        seed: int,
        deadlines: Deadlines,
        *,
        sanitize: bool,
        policy: TimingPolicy | None = None,
        processes: int | None = None,
        finals: bool = False,
        workshop: Workshop | None = None,
    ) -> Iterator[Evaluator]:
        """Opens an evaluator and ends all its processes at the end. Each process starts with its first job.

        Args:
            problem: problem to tune.
            device: device to run on.
            families: families that may solve it; None for the operation's.
            choice: compiler to use.
            seed: seed of the data.
            deadlines: time limits of every job.
            sanitize: run under the sanitizers.
            policy: timing policy; None for the device's usual one.
            processes: number of compiler processes; None for one per core.
            finals: verify on stress data too, however large the problem.
            workshop: processes owned by the caller.

        Raises BadArgument if no family solves the problem, CompileError without a compiler, DeviceError.
        """
        model = device.device()
        able, compiler = families_for(problem, model, families), device.compiler(choice, sanitize=sanitize)
        with shared_device(device) as lock_file:
            bench = Bench(
                device,
                compiler,
                problem,
                seed,
                policy or TimingPolicy.for_kind(model.kind),
                deadlines,
                sanitize=sanitize,
                lock_file=lock_file,
                finals=finals,
                worker=workshop.search if workshop else None,
            )
            others = workshop.pool if workshop else None
            with cls.furnished(problem, model, able, compiler, deadlines, bench, processes, others) as evaluator:
                yield dataclasses.replace(evaluator, lock_file=lock_file)

    @classmethod
    @contextlib.contextmanager
    def furnished(
        cls,
        problem: Problem,
        device: Device,
        families: tuple[Family, ...],
        compiler: Compiler,
        deadlines: Deadlines,
        bench: Bench,
        processes: int | None,
        pool: CompilePool | None = None,
    ) -> Iterator[Evaluator]:
        """Opens an evaluator for a known device, families and bench.

        Finding these out starts a driver, which takes 0.6 s on a machine with four GPUs. A `pool` that the caller
        passes stays open at the end.
        """
        by_name = {family.name: family for family in families}
        identity = compiler.identity
        with contextlib.ExitStack() as opened:
            if pool is None:
                pool = opened.enter_context(contextlib.closing(CompilePool(compiler, deadlines, processes)))
            opened.enter_context(contextlib.closing(bench))
            yield cls(problem, device, by_name, compiler, identity, pool, bench)

    @contextlib.contextmanager
    def final_bench(
        self, device: DeviceRef, seed: int, policy: TimingPolicy, deadlines: Deadlines, worker: Worker | None = None
    ) -> Iterator[Callable[[], Bench]]:
        """Yields a function that returns the bench for the finalists, with data that the search has not seen. It raises
        DeviceError if there is none.

        If the device has a lock file, so that two processes can take turns, the bench is a second process, prepared
        while the search runs: it draws the data, computes their float64 reference and imports the other libraries; one
        of these takes six seconds to load. On the host such a process would disturb the search, so there the search's
        own bench draws fresh data at the end. The process ends with the block, unless the caller passed it as `worker`.
        """
        if self.lock_file is None:
            yield lambda: self._renewed(seed)
            return
        subject, lock = (device, self.compiler, self.problem), self.lock_file
        bench = Bench(*subject, seed, policy, deadlines, sanitize=False, lock_file=lock, finals=True, worker=worker)
        with contextlib.closing(bench):
            bench.open_ahead(peers=True)
            yield lambda: bench if bench.is_open_ahead() else self._renewed(seed, bench)

    def _renewed(self, seed: int, failed: Bench | None = None) -> Bench:
        """The search's own bench, with fresh data, in place of one that `failed`."""
        if failed is not None:
            failed.interrupt()  # frees the memory it has, even in a process of the caller's
            failed.close()  # there may be no room for both benches, and the search is over
        self.bench.renew(seed)
        return self.bench

    @functools.cached_property
    def gate(self) -> Gate:
        """Gate that checks every config before a program is generated."""
        return Gate(self.problem, self.device, self.pins)

    def program(self, family: str, config: Config) -> Program:
        """Program that `family` generates for `config`. Raises IllegalConfig."""
        return self.gate.program(self.families[family], config)

    def identity_of(self, program: Program) -> str:
        """Identity of the compiler and the libraries that decide a program's machine code, as stored with its trial."""
        return identity_with_libraries(self.compiler_identity, program.libraries, self.device.kind)

    def compile(self, program: Program) -> Future[Compiled | Failure]:
        return self.pool.submit(program)

    def verified(self, program: Program, bench: Bench, best_ns: float | None = None) -> Contender | Failure:
        """Compiles a program in the pool and evaluates it on `bench`, which may be the bench of the finals.

        Returns a contender that can be timed in turns with others, or the first failure. With `best_ns`, the time of a
        better candidate, a slower one gets only a few samples. Raises DeviceError if the bench cannot be opened.
        """
        compiled = self.compile(program).result()
        if isinstance(compiled, Failure):
            return compiled
        outcome = bench.evaluate(program, compiled, best_ns).outcome
        return outcome if isinstance(outcome, Failure) else Contender(program, compiled.binaries, outcome)

    def may_hold(self, trial: Trial) -> bool:
        """True if a trial has today's compiler, libraries and timing conditions."""
        if trial.family not in self.families:
            return False
        if not is_of_today(trial.compiler, self.compiler_identity, self.device.kind):
            return False
        return trial.conditions is None or trial.conditions == self.bench.opened.conditions

    def still_holds(self, trial: Trial) -> bool:
        """True if a trial is valid for today's candidates: `may_hold` is true and its source is unchanged."""
        if not self.may_hold(trial):
            return False
        family = self.families[trial.family]
        program = self.gate.program_if_legal(family, trial.config)
        if program is None or not program.has_fingerprint(trial.fingerprint):
            return False
        return trial.compiler == self.identity_of(program)


def common_device(devices: tuple[DeviceRef, ...]) -> Device:
    """The device model that all devices share. Raises DeviceError if they differ or one does not exist."""
    first, *others = [each.device() for each in devices]
    for ref, other in zip(devices[1:], others, strict=True):
        if other.key() != first.key():
            raise DeviceError(
                f"{devices[0]} is {first.key()}, but {ref} is {other.key()}: tune on those that are alike"
            )
    return first
