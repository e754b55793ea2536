"""Every conv2d family on the CPU, compared with the float64 reference, and run under the sanitizers.

Kernels of many problems are compiled as one program, each in its own namespace. Alone, each kernel takes g++ 0.4 s,
most of it for the headers.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import pickle
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import exhaustive
import forking
from builders import rewritten
from conv2d_layers import layer, small
from guarded import Guarded
from together import AT_ONCE, Case, chosen, together
from warpsmith.devices.elements import scaled_error
from warpsmith.devices.host.compiler import SANITIZER_EXIT_CODES, HostCompiler
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.devices.module import Module
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.plain_family import Conv2dPlain
from warpsmith.generator.conv2d.sums.direct_family import Conv2dDirect
from warpsmith.generator.family import Family
from warpsmith.generator.presets import HOST
from warpsmith.generator.program import Launch, Program
from warpsmith.generator.space import Value
from warpsmith.tuner.operations.conv2d.judge import Conv2dJudge
from warpsmith.tuner.operations.conv2d.oracle import reference
from warpsmith.tuner.operations.conv2d.stress import stress_inputs, stress_slack

PLAIN, DIRECT = Conv2dPlain(), Conv2dDirect()
FAMILIES: tuple[Family, ...] = (DIRECT, PLAIN)
every_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
every_pass = pytest.mark.parametrize("pass_", Pass)

ERROR_BOUND = 1e-6
"""Largest error allowed, relative to the sum of |terms|."""

Values = NDArray[np.float32]
Make = Callable[[Conv2d, np.random.Generator], Mapping[str, Values]]

random_inputs: Make = Conv2dJudge().inputs


SHAPES: tuple[dict[str, Any], ...] = (
    {"input": (2, 7, 11, 37), "weight": (9, 7, 3, 3), "padding": 1},
    {
        "input": (1, 10, 21, 22),
        "weight": (14, 5, 2, 5),
        "groups": 2,
        "stride": (2, 3),
        "padding": (1, 4),
        "dilation": (1, 2),
    },
    {"input": (3, 5, 16, 24), "weight": (5, 1, 5, 4), "groups": 5, "padding": "same"},
    {"input": (2, 6, 9, 8), "weight": (19, 6, 1, 1), "stride": 2},
    {"input": (1, 3, 31, 33), "weight": (5, 3, 11, 7), "stride": (4, 3), "padding": ((2, 0), (1, 3))},
    {"input": (2, 3, 5, 48), "weight": (4, 3, 2, 13), "dilation": (3, 1), "padding": (9, 0)},
    {"input": (2, 12, 1, 1), "weight": (17, 12, 1, 1)},
)
"""Layers with larger results and other block sizes, for configs that small images do not have."""


def run(module: Module, launch: Launch, problem: Conv2d, given: Mapping[str, Values]) -> Values:
    """Result of one launch. Fails if anything else changes."""
    memory = {operand.name: Guarded(operand) for operand in problem.operands}
    for name, values in given.items():
        memory[name].elements[...] = values
    module.bind(launch, {name: each.address for name, each in memory.items()}, {})(None)
    for name, each in memory.items():
        assert each.is_intact(), f"wrote around {name}"
    for name, values in given.items():
        assert np.array_equal(memory[name].elements.view(np.uint32), values.view(np.uint32)), f"wrote to {name}"
    return memory[problem.output.name].elements


def check(case: Case, result: Values, given: Mapping[str, Values], slack: float = 1.0) -> None:
    expected, scale = reference(case.problem, given)
    error = scaled_error(result, expected, scale, case.problem.dtype)
    wrong = error > slack * ERROR_BOUND
    assert not wrong.any(), f"{wrong.sum()} of {wrong.size} are off, by up to {error.max()} of their scale"


@dataclasses.dataclass(frozen=True)
class Bench:
    """Compiles kernels and runs them."""

    compiler: HostCompiler
    runtime: HostRuntime

    def results(self, cases: Sequence[Case], make: Make) -> Iterator[tuple[Case, Mapping[str, Values], Values]]:
        """Runs each case and yields it with its inputs and its result."""
        for start in range(0, len(cases), AT_ONCE):
            part = cases[start : start + AT_ONCE]
            program, _ = together([case.program for case in part])
            with contextlib.closing(self.runtime.load(self.compiler.compile(program.compilation()))) as module:
                for case, launch in zip(part, program.launches, strict=True):
                    given = make(case.problem, np.random.default_rng(3))
                    yield case, given, run(module, launch, case.problem, given)

    def check_all(self, cases: Iterable[Case], make: Make = random_inputs, *, stressed: bool = False) -> None:
        """Runs cases that together have every feature of `cases`, and fails with a list of all wrong kernels."""
        wrong = []
        for case, given, result in self.results(chosen(cases), make):
            try:
                check(case, result, given, stress_slack(case.problem) if stressed else 1.0)
            except AssertionError as error:
                wrong.append(f"{case}: {error}")
        assert not wrong, "\n".join([f"{len(wrong)} kernels are wrong", *wrong])


@pytest.fixture
def bench(quickest: HostCompiler) -> Iterator[Bench]:
    with contextlib.closing(HostRuntime(workers=2)) as runtime:
        yield Bench(quickest, runtime)


def defaults(problems: Iterable[Conv2d], families: tuple[Family, ...] = FAMILIES) -> Iterator[Case]:
    for problem, family in itertools.product(problems, families):
        yield Case(problem, family, family.default(problem, HOST))


def drawn(problems: Iterable[Conv2d], count: int) -> Iterator[Case]:
    """Random configs of every family, the same in each run."""
    for problem, family in itertools.product(problems, FAMILIES):
        space, rng = family.space(problem, HOST), random.Random(problem.key())
        for config in dict.fromkeys(space.drawn(rng) for _ in range(count)):
            assert config is not None
            yield Case(problem, family, config)


def covering(problem: Conv2d, family: Family) -> Iterator[Case]:
    """Random configs that together have each value of each parameter that some legal config has."""
    space, rng, seen = family.space(problem, HOST), random.Random(problem.key()), set[tuple[str, Value]]()
    for parameter, value in [(each, value) for each in space.parameters for value in each.values]:
        if (parameter.name, value) in seen:
            continue
        config = space.narrowed({parameter.name: [value]}).drawn(rng)
        if config is not None:
            seen.update(config.items)
            yield Case(problem, family, config)


class TestResults:
    @every_pass
    def test_of_every_stride_padding_dilation_and_number_of_groups(self, pass_: Pass, bench: Bench) -> None:
        bench.check_all(defaults(small(pass_)))

    @every_pass
    def test_of_random_configs(self, pass_: Pass, bench: Bench) -> None:
        """Two configs for every fifth problem. The options of these problems still cover all pairs."""
        bench.check_all(drawn(small(pass_)[pass_ is Pass.DGRAD :: 5], 2))

    @every_pass
    def test_of_other_shapes(self, pass_: Pass, bench: Bench) -> None:
        bench.check_all(itertools.chain(*(which(shapes(pass_)) for which in (defaults, lambda some: drawn(some, 2)))))

    @every_family
    @every_pass
    def test_of_every_value_of_every_parameter(self, family: Family, pass_: Pass, bench: Bench) -> None:
        shape = SHAPES[4] if pass_ is Pass.DGRAD else SHAPES[0]
        bench.check_all(covering(layer(pass_, 3, **shape), family))

    @every_pass
    def test_of_inputs_that_are_hard_on_rounding_errors(self, pass_: Pass, bench: Bench) -> None:
        problem = layer(pass_, 1, input=(3, 24, 14, 15), weight=(20, 24, 3, 3), padding=1)
        bench.check_all(defaults([problem]), stress_inputs, stressed=True)


def shapes(pass_: Pass) -> list[Conv2d]:
    return [layer(pass_, number, **fields) for number, fields in enumerate(SHAPES)]


class TestSums:
    def test_of_a_weights_gradient_stay_accurate_over_many_positions(self, bench: Bench) -> None:
        """All terms are positive and none is exact, so a plain sequential float32 sum would be off by 2e-6 or more."""
        problem = Conv2d((9, 1, 130, 132), (2, 1, 2, 2), pass_=Pass.WGRAD, accuracy="elementwise")

        def positive(problem: Conv2d, generator: np.random.Generator) -> Mapping[str, Values]:
            return {each.name: generator.uniform(0.5, 1, each.shape).astype(np.float32) for each in problem.inputs}

        bench.check_all(defaults([problem]), positive)
        given = positive(problem, np.random.default_rng(3))
        expected, scale = reference(problem, given)
        products = given["x"][:, 0, :129, :131].ravel() * given["dy"][:, 0].ravel()
        chain = np.add.accumulate(products, dtype=np.float32)[-1]
        assert abs(chain - expected[0, 0, 0, 0]) > ERROR_BOUND * scale[0, 0, 0, 0]

    @every_pass
    def test_have_the_same_bits_however_blocks_are_spread(self, pass_: Pass, bench: Bench) -> None:
        cases = list(defaults([layer(pass_, 0, **SHAPES[0])]))
        first = [result for _, _, result in bench.results(cases, random_inputs)]
        with contextlib.closing(HostRuntime(workers=1)) as one:
            again = [result for _, _, result in Bench(bench.compiler, one).results(cases, random_inputs)]
        for here, there in zip(first, again, strict=True):
            assert np.array_equal(here.view(np.uint32), there.view(np.uint32))

    def test_that_are_nan_stay_nan_behind_a_relu(self, bench: Bench) -> None:
        problem = Conv2d((1, 2, 6, 6), (3, 2, 3, 3), relu=True)

        def with_nan(problem: Conv2d, generator: np.random.Generator) -> Mapping[str, Values]:
            given = dict(random_inputs(problem, generator))
            given["x"][0, 0, 0, 0] = np.nan
            return given

        for _, _, result in bench.results(list(defaults([problem])), with_nan):
            assert np.isnan(result[:, :, 0, 0]).all()
            assert np.isnan(result).sum() == 3
            assert (result[~np.isnan(result)] >= 0).all()
            assert (result == 0).any()


WATCHED = """
import pickle, sys
from pathlib import Path

import numpy as np

from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.host.runtime import HostRuntime

program, problems = pickle.loads(Path(sys.argv[1]).read_bytes())
runtime = HostRuntime(workers=1)
module = runtime.load(HostCompiler(sanitize=True).compile(program.compilation()))
for launch, problem in zip(program.launches, problems, strict=True):
    memory = {each.name: runtime.allocate(each.nbytes) for each in problem.operands}
    for each in problem.inputs:
        values = np.random.default_rng(0).standard_normal(each.shape, np.float32)
        runtime.upload(memory[each.name].address, values)
    module.bind(launch, {name: each.address for name, each in memory.items()}, {})(None)
    for each in memory.values():
        runtime.free(each)
print(len(problems), "kernels ran")
"""


def watched(cases: Sequence[Case], folder: Path, program: Program | None = None) -> subprocess.CompletedProcess[str]:
    """Runs kernels in a process under the sanitizers. Arrays end where their operands do."""
    told = folder / "cases"
    program = program or together([case.program for case in cases])[0]
    told.write_bytes(pickle.dumps((program, [case.problem for case in cases])))
    environment = {**os.environ, **HostCompiler().sanitizer_environment()}
    command = [sys.executable, "-c", WATCHED, str(told)]
    return forking.run(command, env=environment, text=True, check=False)


@pytest.mark.usefixtures("compile_without_optimisation")
class TestUnderTheSanitizers:
    @every_pass
    def test_kernels_are_clean(self, pass_: Pass, tmp_path: Path) -> None:
        some = small(pass_)
        problems = [some[6], some[17], some[23], *shapes(pass_)[0:2], *shapes(pass_)[4:6]]
        # Blocks of plain sums take half of the time: by default they meet two of the larger layers.
        slow = () if exhaustive.requested() else (problems[3], problems[5])
        cases = [*defaults(problems), *drawn(problems[3:5], 1)]
        cases = [each for each in cases if each.family is not PLAIN or each.problem not in slow]
        ran = watched(cases, tmp_path)
        assert ran.returncode == 0, ran.stderr[-4000:]
        assert ran.stdout == f"{len(cases)} kernels ran\n"

    @every_family
    def test_a_read_beyond_an_operand_would_be_found(self, family: Family, tmp_path: Path) -> None:
        (case,) = defaults([layer(Pass.FPROP, input=(1, 1, 6, 6), weight=(1, 1, 3, 3), padding=1)], (family,))
        program, _ = together([case.program])
        source, count = re.subn(r"row < 0 \|\| row >= k\w*Rows \|\| ", "", program.source)
        assert count == 1
        faulty = rewritten(program, source)
        ran = watched([case], tmp_path, faulty)
        assert ran.returncode in SANITIZER_EXIT_CODES
        assert "AddressSanitizer" in ran.stderr
