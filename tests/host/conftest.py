"""Fixtures that run small CUDA texts on the host device and whole tuning runs. Kernels run under the sanitizers if the
test process does.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import numpy as np
import pytest

import forking
import precompiled
from builders import launch, program
from foreseen import KERNELS
from policies import time_briefly
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.program import Argument, ByValue, Pointer, Program


class RunKernel(Protocol):
    """Runs `kernel` of a CUDA text. Arrays are buffers, changed in place; NumPy scalars go by value."""

    def __call__(
        self,
        source: str,
        *arguments: np.ndarray | np.generic,
        grid: tuple[int, int, int] = (1, 1, 1),
        block: tuple[int, int, int] = (1, 1, 1),
        shared_bytes: int = 0,
    ) -> None: ...


@pytest.fixture
def make_program():
    """Builds a one-kernel program by hand. `arguments` has one letter per argument, p (pointer) or v (by value); they
    are named a0, a1, ...
    """

    def make(source, arguments="", grid=(1, 1, 1), block=(1, 1, 1), shared_bytes=0, entry="kernel") -> Program:
        bound: tuple[Argument, ...] = tuple(
            Pointer(f"a{i}") if kind == "p" else ByValue(f"a{i}") for i, kind in enumerate(arguments)
        )
        return program(source, launch(*bound, entry=entry, grid=grid, block=block, shared_bytes=shared_bytes))

    return make


@pytest.fixture(scope="session")
def host() -> Iterator[HostRuntime]:
    runtime = HostRuntime(workers=4)  # more than the cores of a small machine: blocks interleave
    yield runtime
    runtime.close()


@pytest.fixture(scope="session")
def compiler() -> HostCompiler:
    return HostCompiler(sanitize=hasattr(ctypes.CDLL(None), "__asan_init"))


@pytest.fixture(scope="session")
def precompiled_headers(precompiled_folder: Path) -> str:
    """Path of the compiler that reads the headers common to all kernels from one precompiled file."""
    precompiled.script(precompiled_folder, sanitize=True)
    return precompiled.script(precompiled_folder)


@pytest.fixture(autouse=True)
def compile_with_them(compile_unoptimised: None) -> None:
    """Compiles without optimisation in all of these tests."""


@pytest.fixture
def compile_as_asked(precompiled_headers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiles in a test with the options that users get."""
    monkeypatch.setenv("CXX", precompiled_headers)


@pytest.fixture(autouse=True)
def brief_timing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shortens the timing of searches in this process. Searches in other processes time as usual."""
    time_briefly(monkeypatch.setattr)


@pytest.fixture(scope="session")
def quick(precompiled_folder: Path) -> HostCompiler:
    """Host compiler with few optimisations, for kernels that run once on small operands. -O3 takes twice as long."""
    return precompiled.RememberingCompiler(
        precompiled.script(precompiled_folder, "-O1"), folder=precompiled_folder / "few-optimisations" / "binaries"
    )


@pytest.fixture
def compile_quickly(quick: HostCompiler, monkeypatch: pytest.MonkeyPatch, precompiled_folder: Path) -> None:
    """Compiles in a test with few optimisations and reuses binaries that earlier tests compiled in this way."""
    monkeypatch.setenv("CXX", str(quick.executable))
    monkeypatch.setenv("WARPSMITH_CACHE_DIR", str(precompiled_folder / "few-optimisations"))


@pytest.fixture
def compile_quickest(quickest: HostCompiler, monkeypatch: pytest.MonkeyPatch, precompiled_folder: Path) -> None:
    """Compiles in a test without optimisation, which takes g++ 0.6 times as long. Meant for plans of small operands
    that are called once.
    """
    monkeypatch.setenv("CXX", str(quickest.executable))
    monkeypatch.setenv("WARPSMITH_CACHE_DIR", str(precompiled_folder / "unoptimised"))


@pytest.fixture
def compile_without_optimisation(precompiled_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiles for the sanitizers without optimisation, which may remove a faulty access. Meant for kernels that run
    for no noticeable time even so.
    """
    monkeypatch.setenv("CXX", precompiled.script(precompiled_folder, "-O0", sanitize=True))


@pytest.fixture(scope="session")
def compile_once(compiler):
    return functools.cache(lambda program: compiler.compile(program.compilation()))


@pytest.fixture
def run_kernel(host, compile_once, make_program) -> RunKernel:
    def run(source, *arguments, grid=(1, 1, 1), block=(1, 1, 1), shared_bytes=0) -> None:
        word = "".join("p" if isinstance(argument, np.ndarray) else "v" for argument in arguments)
        program, binary = KERNELS.compiled(make_program(source, word, grid, block, shared_bytes), compile_once)
        named = {f"a{i}": argument for i, argument in enumerate(arguments)}
        arrays = {name: argument for name, argument in named.items() if isinstance(argument, np.ndarray)}
        values = {name: np.asarray(argument).tobytes() for name, argument in named.items() if name not in arrays}
        allocations = {name: host.allocate(array.nbytes) for name, array in arrays.items()}
        module = host.load(binary)
        try:
            for name, array in arrays.items():
                host.upload(allocations[name].address, array)
            addresses = {name: allocation.address for name, allocation in allocations.items()}
            module.bind(program.launches[0], addresses, values)(None)
            for name, array in arrays.items():
                host.download(array, allocations[name].address)
        finally:
            module.close()
            for allocation in allocations.values():
                host.free(allocation)

    return run


TUNED = Filter2d(image=(24, 32), filter=(3, 3))
PATIENCE_S = 90.0
"""Seconds: far longer than any test here takes, even on a loaded machine."""
PATIENT = {"compile_s": 80.0, "least_compile_s": 80.0, "first_run_s": 80.0, "least_run_s": 80.0}
"""Deadlines that no test here exceeds."""

# Subprocesses run this text and this process imports it, because test files cannot be imported by name.
TUNER = """
import json, sys, warnings

from builders import rewritten
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import WarpsmithError
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.presets import H200
from warpsmith.generator.filter2d.plain_family import Filter2dPlain
from warpsmith.generator.family import Family
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Unit
from warpsmith.generator.space import Config, Parameter, Space
from warpsmith.store.store import Store
from warpsmith.tuner.workers.deadlines import Deadlines
from warpsmith.tuner.options import TuneOptions
from warpsmith.tuner.progress import SilentProgress
from warpsmith.tuner.run.session import tune


class Numbered(Family):
    '''Plain kernels that differ in a number, some of them with a fault written into them.'''

    name = "numbered"
    _plain = Filter2dPlain()

    def __init__(self, numbers, faults):
        self._numbers, self._faults = tuple(numbers), {int(number): fault for number, fault in faults.items()}

    def why_not(self, problem, device):
        return self._plain.why_not(problem, device)

    def space(self, problem, device):
        return Space((Parameter("n", self._numbers, "the number"),), ())

    def default(self, problem, device):
        return Config.of({"n": self._numbers[0]})

    def program(self, problem, config):
        number = config.integer("n")
        program = self._plain.program(problem, self._plain.default(problem, H200))
        before = "        results[f * (kOutputRows"
        assert program.source.count(before) == 1
        lines = f"        volatile int number = {number}; (void)number;\\n        {self._faults.get(number, '')}\\n"
        source = program.source.replace(before, lines + before)
        return rewritten(program, source, family=self.name, config=config)


def main():
    told = json.loads(sys.argv[1])
    problem = Problem.from_spec("filter2d", told["problem"])
    options = TuneOptions(**{**told["options"], "deadlines": Deadlines(**told["deadlines"])})
    try:
        with warnings.catch_warnings(record=True) as caught, Store.open(told["store"], write=True) as store:
            family = Numbered(range(*told["numbers"]), told["faults"])
            report = tune(problem, (DeviceRef(DeviceKind.HOST),), store, options, SilentProgress(), (family,))
    except WarpsmithError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(json.dumps({"winner": report.record.trial.config.integer("n"), "tried": report.tried,
                      "others": report.others, "warnings": "; ".join(str(each.message) for each in caught),
                      "reused": report.reused, "failures": {str(k): n for k, n in report.failures.items()}}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
"""


@pytest.fixture(scope="module")
def script(importable: Callable[[str, str], ModuleType]) -> ModuleType:
    return importable("tuner_of_tests", TUNER)


@pytest.fixture(scope="module")
def python_path(script: ModuleType) -> str:
    """PYTHONPATH of processes that import `script`: its folder and the folder of builders.py."""
    return os.pathsep.join((str(Path(str(script.__file__)).parent), str(Path(__file__).parents[1])))


class Tuner:
    """A tuning run in a separate process."""

    def __init__(
        self,
        python_path: str,
        store: Path | str,
        numbers: range,
        *,
        faults: Mapping[int, str] | None = None,
        environment: Mapping[str, str] | None = None,
        deadlines: Mapping[str, float] | None = None,
        prelude: str = "",
        paths: tuple[str, ...] = (),
        **options: Any,
    ) -> None:
        told = {
            "store": str(store),
            "problem": TUNED.spec(),
            "numbers": [numbers.start, numbers.stop],
            "faults": faults or {},
            "deadlines": {**PATIENT, **(deadlines or {})},
            "options": {"trials": len(numbers), "time_limit_s": None, **options},
        }
        text = f"{prelude}\nimport sys, tuner_of_tests\nsys.exit(tuner_of_tests.main())\n"
        path = os.pathsep.join(filter(None, [*paths, python_path, os.environ.get("PYTHONPATH")]))
        self.process = forking.popen(
            [sys.executable, "-c", text, json.dumps(told)],
            env={**os.environ, "PYTHONPATH": path, **(environment or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def report(self) -> Any:
        """Report of a run that succeeds."""
        output, errors = self.process.communicate(timeout=PATIENCE_S)
        assert self.process.returncode == 0, errors
        return json.loads(output)

    def complaint(self) -> str:
        """Error message of a run that fails."""
        _, errors = self.process.communicate(timeout=PATIENCE_S)
        assert self.process.returncode == 1, errors
        return errors.strip()

    def check_that_it_runs(self) -> None:
        assert self.process.poll() is None, self.process.communicate()[1]

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def start_at(python_path: str) -> Iterator[Callable[..., Tuner]]:
    """Starts tuning runs in separate processes: `start_at(store, range(5), faults={1: "abort();"}, seed=3)`."""
    started: list[Tuner] = []

    def call(store: Path | str, numbers: range, **others: Any) -> Tuner:
        started.append(Tuner(python_path, store, numbers, **others))
        return started[-1]

    yield call
    for each in started:
        each.kill()
