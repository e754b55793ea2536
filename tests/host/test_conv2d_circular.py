"""Depthwise layers by transforms on the CPU, compared with the float64 reference, and run under the sanitizers."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pickle
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import exhaustive
import forking
from guarded import Guarded
from testbeds import QUICK, outcome
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.fourier.circular_family import Conv2dCircular
from warpsmith.generator.presets import HOST
from warpsmith.generator.problem import Accuracy
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config, Value
from warpsmith.store.record import Measurement
from warpsmith.tuner.evaluate.testbed import Testbed
from warpsmith.tuner.operations.conv2d.judge import Conv2dJudge
from warpsmith.tuner.operations.conv2d.oracle import reference
from warpsmith.tuner.operations.conv2d.stress import stress_slack

FAMILY = Conv2dCircular()
BOUND = 1e-6
"""Largest error allowed, relative to the sum of |terms| or to twice the root mean square of the whole result, whichever
is larger.
"""
Values = NDArray[np.float32]

LAYERS = (
    {"input": (3, 2, 9, 10), "weight": (2, 1, 7, 7), "groups": 2, "padding": 3},
    {"input": (4, 3, 14, 13), "weight": (3, 1, 9, 8), "groups": 3, "padding": ((4, 4), (3, 4))},
    {"input": (2, 1, 12, 15), "weight": (1, 1, 7, 8)},
    {"input": (1, 2, 8, 9), "weight": (2, 1, 7, 9), "groups": 2, "padding": ((0, 6), (8, 1))},
    {"input": (5, 2, 6, 20), "weight": (2, 1, 1, 49), "groups": 2, "padding": ((0, 0), (24, 24))},
    {"input": (2, 2, 5, 6), "weight": (2, 1, 7, 7), "groups": 2, "padding": 8},  # wider than the filter
    {"input": (2, 2, 10, 9), "weight": (2, 1, 10, 9), "groups": 2},  # one result
)
PROBLEMS = [
    Conv2d(**fields, pass_=pass_, bias=pass_ is Pass.FPROP and n % 2 == 0, relu=pass_ is Pass.FPROP and n % 3 == 0)  # type: ignore[arg-type]
    for n, fields in enumerate(LAYERS)
    for pass_ in Pass
]
every_problem = pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.key())


def config(problem: Conv2d, **wanted: Value) -> Config:
    made = Config.of({**FAMILY.default(problem, HOST).values(), **wanted})
    assert FAMILY.space(problem, HOST).why_not(made) is None
    return made


@pytest.fixture
def compiler(quickest: HostCompiler) -> HostCompiler:
    return quickest


@pytest.fixture
def runtime() -> Iterator[HostRuntime]:
    with contextlib.closing(HostRuntime(workers=1)) as opened:
        yield opened


def run(
    problem: Conv2d, program: Program, given: Mapping[str, Values], compiler: HostCompiler, runtime: HostRuntime
) -> Values:
    """Result of a run. Fails if memory beside it changes. Workspaces start filled with NaN."""
    memory = {operand.name: Guarded(operand) for operand in problem.operands}
    for name, values in given.items():
        memory[name].elements[...] = values
    scratch = {each.name: np.full(each.nbytes // 4, np.nan, np.float32) for each in program.workspaces}
    addresses = {name: each.address for name, each in memory.items()}
    addresses |= {name: each.ctypes.data for name, each in scratch.items()}
    with contextlib.closing(runtime.load(compiler.compile(program.compilation()))) as module:
        for launch in program.launches:
            module.bind(launch, addresses, {})(None)
    for name, each in memory.items():
        assert each.is_intact(), f"wrote around {name}"
    return memory[problem.output.name].elements


def check(problem: Conv2d, made: Config, compiler: HostCompiler, runtime: HostRuntime) -> Values:
    given = Conv2dJudge().inputs(problem, np.random.default_rng(3))
    result = run(problem, FAMILY.program(problem, made), given, compiler, runtime)
    expected, terms = reference(problem, given)
    scale = np.maximum(terms, 2 * np.sqrt((expected**2).mean()))
    wrong = ~(np.abs(result - expected) <= BOUND * scale)
    assert not wrong.any(), (
        f"{made}: {wrong.sum()} of {wrong.size} are off, by up to {np.nanmax(np.abs(result - expected))}"
    )
    return result


@exhaustive.diagonal(3)
@every_problem
def test_is_what_float64_gives(problem: Conv2d, compiler: HostCompiler, runtime: HostRuntime) -> None:
    assert FAMILY.why_not(problem, HOST) is None
    check(problem, FAMILY.default(problem, HOST), compiler, runtime)


def test_on_stress_data_of_few_terms_it_is_as_right_as_a_transform_can_be(host: HostRuntime) -> None:
    """Seed 7 gives an error beyond the bound of sequential multiply-adds, as it does in SciPy."""
    problem = Conv2d((8, 96, 28, 28), (96, 1, 7, 7), groups=96, padding=3)
    tile: dict[str, Value] = {"y_radices": "8x4", "x_radices": "2x21", "twiddles": "table"}
    program = FAMILY.program(problem, config(problem, **tile, ahead=0, gaps=0, group=8, warps=1))
    with contextlib.closing(Testbed(host, problem, 7, QUICK, guarded=True)) as testbed:
        measured = outcome(testbed, program)
    assert isinstance(measured, Measurement), measured
    error = measured.max_error * stress_slack(problem)
    assert error > BOUND * stress_slack(dataclasses.replace(problem, accuracy=Accuracy.ELEMENTWISE))


@pytest.mark.parametrize("pass_", Pass)
def test_of_other_configs(pass_: Pass, compiler: HostCompiler, runtime: HostRuntime) -> None:
    """Configs with groups that do not divide a radix, warps without work, powers, several turns and rounds, and blocks
    that share work.
    """
    problem = Conv2d((6, 2, 20, 19), (2, 1, 7, 8), groups=2, padding=3, pass_=pass_)
    rest: dict[str, Value] = {"splits": 2} if pass_ is Pass.WGRAD else {"ahead": 0}
    tile: dict[str, Value] = {"y_radices": "9x3", "x_radices": "3x9", "twiddles": "powers"}
    check(problem, config(problem, **tile, **rest, group=5, warps=2, gaps=6), compiler, runtime)
    check(problem, config(problem, **tile, **rest, group=3, warps=2, gaps=0), compiler, runtime)


def test_a_gradient_has_the_same_bits_each_time(compiler: HostCompiler, runtime: HostRuntime) -> None:
    problem = Conv2d((6, 3, 12, 12), (3, 1, 7, 7), groups=3, padding=3, pass_=Pass.WGRAD)
    first, again = (check(problem, config(problem, splits=2), compiler, runtime) for _ in range(2))
    assert np.array_equal(first.view(np.uint32), again.view(np.uint32))


def test_planes_of_a_pair_share_a_filter_and_nothing_else(compiler: HostCompiler, runtime: HostRuntime) -> None:
    problem = Conv2d((2, 1, 16, 16), (1, 1, 7, 7), padding=3)
    given = dict(Conv2dJudge().inputs(problem, np.random.default_rng(3)))
    given["x"][1] = 0
    result = run(problem, FAMILY.program(problem, FAMILY.default(problem, HOST)), given, compiler, runtime)
    assert np.abs(result[1]).max() < 1e-5 * np.abs(result[0]).max()
    assert np.abs(result[0]).max() > 1


WATCHED = """
import pickle, sys
from pathlib import Path

import numpy as np

from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.host.runtime import HostRuntime

runtime = HostRuntime(workers=1)
for problem, program in pickle.loads(Path(sys.argv[1]).read_bytes()):
    module = runtime.load(HostCompiler(sanitize=True).compile(program.compilation()))
    memory = {each.name: runtime.allocate(each.nbytes) for each in (*problem.operands, *program.workspaces)}
    for each in problem.inputs:
        runtime.upload(memory[each.name].address, np.random.default_rng(0).standard_normal(each.shape, np.float32))
    for launch in program.launches:
        module.bind(launch, {name: each.address for name, each in memory.items()}, {})(None)
    for each in memory.values():
        runtime.free(each)
    print("ran", flush=True)
"""


@pytest.mark.usefixtures("compile_without_optimisation")
def test_clean_under_the_sanitizers(tmp_path: Path) -> None:
    """Arrays end where their operands do."""
    problems = [PROBLEMS[0], PROBLEMS[4], PROBLEMS[5], PROBLEMS[16]]
    cases = [(each, FAMILY.program(each, FAMILY.default(each, HOST))) for each in problems]
    cases.append((PROBLEMS[2], FAMILY.program(PROBLEMS[2], config(PROBLEMS[2], splits=2))))
    told = tmp_path / "cases"
    told.write_bytes(pickle.dumps(cases))
    environment = {**os.environ, **HostCompiler().sanitizer_environment()}
    command = [sys.executable, "-c", WATCHED, str(told)]
    ran = forking.run(command, env=environment, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-4000:]
    assert ran.stdout == "ran\n" * len(cases)
