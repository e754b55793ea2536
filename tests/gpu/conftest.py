"""Fixtures that tests of several operations share: they verify configs, and run programs under compute-sanitizer."""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from policies import ONE_RUN
from warpsmith.devices.cuda.compiler import NvrtcCompiler
from warpsmith.devices.select import CompilerChoice, DeviceRef
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.generator.registry import FAMILIES
from warpsmith.generator.space import Config
from warpsmith.store.record import Measurement
from warpsmith.tuner.evaluate.evaluator import Evaluator, Workshop
from warpsmith.tuner.workers.compile_pool import Compiled
from warpsmith.tuner.workers.deadlines import Deadlines

CUDA = DeviceRef(DeviceKind.CUDA)
PATIENT = Deadlines(compile_s=240.0, least_compile_s=240.0)
"""Deadlines of tests that need results. Some random configs of large filters compile for 5 s alone, and for more than a
minute if as many processes as cores run tests and compile at once."""
COMPILING = max(3, (os.cpu_count() or 2) // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))
"""Processes that compile for one problem. Several processes that run tests share the cores: with a compiler per core in
each of them, compilers miss their deadlines."""
SANITIZER = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"

ConfigsOf = Callable[[Family, Problem, Device], Iterable[Config]]


class Workshops:
    """Processes that compile and that run candidates, kept from one test to the next: the start of one that runs
    candidates takes 2 s, as long as many of the tests.
    """

    def __init__(self) -> None:
        self._opened = contextlib.ExitStack()
        self._idle: dict[CompilerChoice, list[Workshop]] = {choice: [] for choice in CompilerChoice}

    @contextlib.contextmanager
    def lend(self, choice: CompilerChoice) -> Iterator[Workshop]:
        """Lends a workshop with this compiler to one thread: the one used last, or a new one if all are lent."""
        idle = self._idle[choice]
        try:
            workshop = idle.pop()
        except IndexError:
            workshop = self._opened.enter_context(Workshop.open(CUDA.compiler(choice), PATIENT, COMPILING))
        try:
            yield workshop
        finally:
            idle.append(workshop)

    def close(self) -> None:
        self._opened.close()


@pytest.fixture(scope="session")
def check_configs() -> Iterator[Callable[..., None]]:
    """Verifies configs of every family that solves each of several problems, by the tuner's own bench."""

    def check(
        problems: Iterable[Problem],
        configs_of: ConfigsOf,
        compiler: CompilerChoice = CompilerChoice.NVRTC,
        families: tuple[Family, ...] = FAMILIES,
    ) -> None:
        def check_one(problem: Problem) -> None:
            with workshops.lend(compiler) as workshop:
                _check_configs(problem, configs_of, compiler, families, workshop)

        with ThreadPoolExecutor(3) as pool:  # laying out a problem takes longer than running it
            list(pool.map(check_one, problems))

    with contextlib.closing(Workshops()) as workshops:
        yield check


def _check_configs(
    problem: Problem,
    configs_of: ConfigsOf,
    compiler: CompilerChoice,
    families: tuple[Family, ...],
    workshop: Workshop,
) -> None:
    opened = Evaluator.open(
        problem, CUDA, families, compiler, 0, PATIENT, sanitize=False, policy=ONE_RUN, workshop=workshop
    )
    with opened as evaluator:
        programs = [
            evaluator.program(name, config)
            for name, family in evaluator.families.items()
            for config in configs_of(family, problem, evaluator.device)
        ]
        # All are given to the compilers at once.
        compiling = [evaluator.compile(program) for program in programs]
        outcomes = [
            evaluator.bench.evaluate(program, compiled).outcome if isinstance(compiled, Compiled) else compiled
            for program, compiled in zip(programs, (each.result() for each in compiling), strict=True)
        ]
    wrong = [
        f"{program.family} {program.config}: {outcome}"
        for program, outcome in zip(programs, outcomes, strict=True)
        if not isinstance(outcome, Measurement)
    ]
    assert not wrong, "\n".join([problem.key(), *wrong])


@pytest.fixture
def check_under_sanitizer(tmp_path: Path) -> Callable[[str, Device, Sequence[tuple[Problem, Program]]], None]:
    """Runs programs in a process under a tool of compute-sanitizer."""
    if not Path(SANITIZER).exists():
        pytest.skip("compute-sanitizer is not installed")

    def check(tool: str, device: Device, cases: Sequence[tuple[Problem, Program]]) -> None:
        compiler = NvrtcCompiler(device.arch)
        with ThreadPoolExecutor(COMPILING) as pool:
            binaries = list(pool.map(lambda case: compiler.compile_program(case[1]), cases))
        compiled = tmp_path / "programs"
        compiled.write_bytes(pickle.dumps([(*case, binary) for case, binary in zip(cases, binaries, strict=True)]))
        watched = (sys.executable, str(Path(__file__).with_name("memory_checked.py")), str(compiled))
        ran = subprocess.run(
            [SANITIZER, "--tool", tool, "--report-api-errors", "no", "--error-exitcode", "9", *watched],
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-4000:]
        assert f"{len(cases)} programs ran" in ran.stdout

    return check
