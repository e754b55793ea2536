"""Depthwise and grouped layers by sliding windows on the CPU, compared with float64, and run under the sanitizers."""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import exhaustive
import forking
from guarded import Guarded
from together import AT_ONCE, Case, chosen, together
from warpsmith.devices.elements import scaled_error
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.devices.module import Module
from warpsmith.generator.conv2d import Conv2d, PaddingMode, Pass
from warpsmith.generator.conv2d.sums.depthwise.depthwise_family import Conv2dDepthwise
from warpsmith.generator.conv2d.sums.depthwise.depthwise_weight import STAGES
from warpsmith.generator.presets import H200
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config, Value
from warpsmith.tuner.operations.conv2d.judge import Conv2dJudge
from warpsmith.tuner.operations.conv2d.oracle import reference
from warpsmith.tuner.operations.conv2d.stress import stress_inputs, stress_slack

FAMILY = Conv2dDepthwise()
BOUND = 1e-6
"""Largest error allowed, relative to the sum of |terms|."""
Values = NDArray[np.float32]
every_pass = pytest.mark.parametrize("pass_", Pass)

GROUPS = ((4, 4, 4), (4, 8, 4), (4, 6, 2), (6, 2, 2), (3, 5, 1))
"""Channels, filters and groups: depthwise, two filters per channel, few channels per group, one group."""
STRIDES = (1, 2, (2, 3))
PADDINGS = (0, 1, ((2, 0), (1, 3)))
DILATIONS = (1, 2, (1, 3))
IMAGES = ((1, 9, 13), (3, 12, 12), (2, 11, 28))
"""Images, rows, columns."""
FILTERS = ((3, 3), (2, 4), (5, 1))
LAYERS: tuple[dict[str, Any], ...] = (
    {"input": (3, 2, 28, 28), "weight": (2, 1, 7, 7), "groups": 2, "padding": 3},
    {"input": (5, 3, 7, 7), "weight": (3, 1, 7, 7), "groups": 3, "padding": 3},
    {"input": (2, 2, 56, 56), "weight": (2, 1, 31, 31), "groups": 2, "padding": 15},
    {"input": (3, 16, 14, 14), "weight": (16, 8, 3, 3), "groups": 2, "padding": 1},
    {"input": (2, 1, 40, 70), "weight": (1, 1, 11, 40), "padding": (5, 20)},
    {"input": (1, 2, 30, 113), "weight": (4, 1, 3, 3), "groups": 2, "stride": 2, "padding": 1},
    {"input": (1, 2, 9, 8), "weight": (2, 1, 3, 3), "groups": 2, "stride": 3, "dilation": (2, 1)},
    {"input": (1, 1, 1, 1), "weight": (1, 1, 1, 1)},
    {"input": (2, 2, 5, 6), "weight": (2, 1, 3, 3), "groups": 2, "padding": 8},
)
MODES: tuple[dict[str, Any], ...] = (
    {"input": (2, 3, 9, 11), "weight": (3, 1, 5, 3), "groups": 3, "padding": (4, 2), "padding_mode": "reflect"},
    {"input": (2, 4, 8, 7), "weight": (4, 2, 3, 4), "groups": 2, "padding": 3, "padding_mode": "replicate"},
    {"input": (3, 2, 7, 6), "weight": (2, 1, 3, 3), "groups": 2, "padding": (6, 4), "padding_mode": "circular"},
    {
        "input": (1, 2, 9, 8),
        "weight": (4, 1, 3, 3),
        "groups": 2,
        "stride": 2,
        "padding": ((3, 1), (0, 2)),
        "padding_mode": "replicate",
    },
)


def crossed(pass_: Pass) -> list[Conv2d]:
    """Every nineteenth combination of strides, paddings, dilations, groups, images and filters."""
    choices = list(itertools.product(STRIDES, PADDINGS, DILATIONS, GROUPS, IMAGES, FILTERS))
    found = []
    for number, (stride, padding, dilation, (channels, filters, groups), image, taps) in enumerate(choices):
        if number % 19:
            continue
        ends = {"bias": number % 2 == 0, "relu": number % 3 == 0} if pass_ is not Pass.WGRAD else {}
        found.append(
            Conv2d(
                (image[0], channels, *image[1:]),
                (filters, channels // groups, *taps),
                stride=stride,  # type: ignore[arg-type]
                padding=padding,  # type: ignore[arg-type]
                dilation=dilation,  # type: ignore[arg-type]
                groups=groups,
                pass_=pass_,
                **ends,
            )
        )
    return found


def layers(pass_: Pass, fields: Sequence[dict[str, Any]] = LAYERS) -> list[Conv2d]:
    """Layers with these fields in one pass."""
    ends = {"bias": True, "relu": True} if pass_ is not Pass.WGRAD else {}
    return [Conv2d(**each, pass_=pass_, **ends) for each in fields]


def default(problem: Conv2d) -> Case:
    assert FAMILY.why_not(problem, H200) is None
    return Case(problem, FAMILY, FAMILY.default(problem, H200))


def drawn(problem: Conv2d, count: int) -> list[Case]:
    """Random configs, the same in each run."""
    space, rng = FAMILY.space(problem, H200), random.Random(problem.key())
    configs = filter(None, (space.drawn(rng) for _ in range(count)))
    return [Case(problem, FAMILY, each) for each in dict.fromkeys(configs)]


@pytest.fixture
def compiler(quickest: HostCompiler) -> HostCompiler:
    return quickest


@pytest.fixture
def runtime() -> Iterator[HostRuntime]:
    with contextlib.closing(HostRuntime(workers=2)) as opened:
        yield opened


def run(module: Module, placed: Program, problem: Conv2d, given: Mapping[str, Values]) -> Values:
    """Result of a run. Fails if memory beside it changes. Workspaces start filled with NaN."""
    memory = {operand.name: Guarded(operand) for operand in problem.operands}
    for name, values in given.items():
        memory[name].elements[...] = values
    scratch = {each.name: np.full(each.nbytes // 4, np.nan, np.float32) for each in placed.workspaces}
    addresses = {name: each.address for name, each in memory.items()}
    addresses |= {name: each.ctypes.data for name, each in scratch.items()}
    for launch in placed.launches:
        module.bind(launch, addresses, {})(None)
    for name, each in memory.items():
        assert each.is_intact(), f"wrote around {name}"
    for name, values in given.items():
        assert np.array_equal(memory[name].elements.view(np.uint32), values.view(np.uint32)), f"wrote to {name}"
    return memory[problem.output.name].elements


def check_all(cases: Sequence[Case], compiler: HostCompiler, runtime: HostRuntime, *, stressed: bool = False) -> None:
    """Runs cases that together have every feature of `cases`, and fails with a list of all wrong kernels."""
    cases, wrong = chosen(cases), []
    for start in range(0, len(cases), AT_ONCE):
        part = cases[start : start + AT_ONCE]
        program, placed = together([case.program for case in part])
        with contextlib.closing(runtime.load(compiler.compile(program.compilation()))) as module:
            for case, own in zip(part, placed, strict=True):
                make = stress_inputs if stressed else Conv2dJudge().inputs
                given = make(case.problem, np.random.default_rng(3))
                result = run(module, own, case.problem, given)
                expected, terms = reference(case.problem, given)
                error = scaled_error(result, expected, terms, case.problem.dtype)
                off = error > BOUND * (stress_slack(case.problem) if stressed else 1.0)
                if off.any():
                    wrong.append(f"{case}: {off.sum()} of {off.size}, up to {error.max()}")
    assert not wrong, "\n".join([f"{len(wrong)} of {len(cases)}", *wrong[:20]])


@every_pass
def test_defaults_are_what_float64_gives(pass_: Pass, compiler: HostCompiler, runtime: HostRuntime) -> None:
    some = exhaustive.share(crossed(pass_), list(Pass).index(pass_), 3)
    check_all([default(each) for each in some], compiler, runtime)


@every_pass
def test_defaults_of_layers_that_are_in_use(pass_: Pass, compiler: HostCompiler, runtime: HostRuntime) -> None:
    check_all([default(each) for each in layers(pass_)], compiler, runtime)


@every_pass
def test_padding_that_has_pixels(pass_: Pass, compiler: HostCompiler, runtime: HostRuntime) -> None:
    problems = layers(pass_, MODES)
    assert {each.padding_mode for each in problems} == {*PaddingMode} - {PaddingMode.ZEROS}
    check_all([case for each in problems for case in (default(each), *drawn(each, 3))], compiler, runtime)


@every_pass
def test_configs_at_random(pass_: Pass, compiler: HostCompiler, runtime: HostRuntime) -> None:
    cases = [case for each in layers(pass_) if each.flops < 1e7 for case in drawn(each, 6)]
    cases += [case for each in crossed(pass_)[::4] for case in drawn(each, 2)]
    check_all(cases, compiler, runtime)


@every_pass
def test_stress_data(pass_: Pass, compiler: HostCompiler, runtime: HostRuntime) -> None:
    check_all([default(each) for each in layers(pass_) if each.flops < 1e8], compiler, runtime, stressed=True)


@pytest.mark.parametrize("stages", STAGES)
def test_tiles_on_their_way(stages: int, compiler: HostCompiler, runtime: HostRuntime) -> None:
    """Eleven images pass through a pipeline of one to four stages. With two splits, one split has fewer images."""
    problem = Conv2d((11, 2, 12, 12), (2, 1, 5, 5), groups=2, padding=2, pass_=Pass.WGRAD)
    usual = {**FAMILY.default(problem, H200).values(), "images": 1, "stages": stages}
    cases = [Case(problem, FAMILY, Config.of({**usual, "bands": 1, "splits": each})) for each in (1, 2)]
    assert [FAMILY.space(problem, H200).why_not(each.config) for each in cases] == [None, None]
    check_all(cases, compiler, runtime)


def test_a_gradient_has_the_same_bits_each_time(compiler: HostCompiler, runtime: HostRuntime) -> None:
    problem = Conv2d((6, 3, 12, 12), (3, 1, 7, 7), groups=3, padding=3, pass_=Pass.WGRAD)
    values: dict[str, Value] = {**FAMILY.default(problem, H200).values(), "images": 1, "splits": 4, "stages": 1}
    config = Config.of(values)
    assert FAMILY.space(problem, H200).why_not(config) is None
    program, given = FAMILY.program(problem, config), Conv2dJudge().inputs(problem, np.random.default_rng(0))
    with contextlib.closing(runtime.load(compiler.compile(program.compilation()))) as module:
        first, again = (run(module, program, problem, given).copy() for _ in range(2))
    assert np.array_equal(first.view(np.uint32), again.view(np.uint32))


@every_pass
def test_what_is_not_finite_stays_where_its_terms_are(
    pass_: Pass, compiler: HostCompiler, runtime: HostRuntime
) -> None:
    """Rows need not be a multiple of the outputs per thread. No padding zero is multiplied by an infinity."""
    problem = Conv2d((2, 2, 13, 17), (2, 1, 3, 3), groups=2, stride=2, pass_=pass_)
    given = dict(Conv2dJudge().inputs(problem, np.random.default_rng(0)))
    first = problem.inputs[0].name
    given[first][0, 0, 0, 0] = np.inf
    expected, _ = reference(problem, {name: np.nan_to_num(values, posinf=1e30) for name, values in given.items()})
    cases = [default(problem), *drawn(problem, 4)]
    program, placed = together([case.program for case in cases])
    with contextlib.closing(runtime.load(compiler.compile(program.compilation()))) as module:
        for case, own in zip(cases, placed, strict=True):
            result = run(module, own, problem, given)
            assert np.array_equal(np.isfinite(result), np.abs(expected) < 1e20), case


WATCHED = """
import pickle, sys
from pathlib import Path

import numpy as np

from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.host.runtime import HostRuntime

runtime = HostRuntime(workers=1)
problems, program, placed = pickle.loads(Path(sys.argv[1]).read_bytes())
module = runtime.load(HostCompiler(sanitize=True).compile(program.compilation()))
for problem, own in zip(problems, placed):
    memory = {each.name: runtime.allocate(each.nbytes) for each in (*problem.operands, *own.workspaces)}
    for each in problem.inputs:
        runtime.upload(memory[each.name].address, np.random.default_rng(0).standard_normal(each.shape, np.float32))
    for launch in own.launches:
        module.bind(launch, {name: each.address for name, each in memory.items()}, {})(None)
    for each in memory.values():
        runtime.free(each)
    print("ran", flush=True)
"""


@pytest.mark.usefixtures("compile_without_optimisation")
@every_pass
def test_clean_under_the_sanitizers(pass_: Pass, tmp_path: Path) -> None:
    """Arrays end where their operands do."""
    problems = [*layers(pass_)[4:], *layers(pass_, MODES)[::2], *crossed(pass_)[::30]]
    cases = [case for each in problems for case in (default(each), *drawn(each, 1))]
    program, placed = together([case.program for case in cases])
    told = tmp_path / "cases"
    told.write_bytes(pickle.dumps(([case.problem for case in cases], program, placed)))
    environment = {**os.environ, **HostCompiler().sanitizer_environment()}
    ran = forking.run([sys.executable, "-c", WATCHED, str(told)], env=environment, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-4000:]
    assert ran.stdout == "ran\n" * len(cases)
