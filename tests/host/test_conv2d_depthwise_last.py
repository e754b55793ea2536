"""Depthwise channels-last layers on the CPU: against float64, in all element types, and under the sanitizers."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import exhaustive
import sanitized
from pairs import covering
from together import Case, chosen, results
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.runtime import Runtime
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.layer.words import DTYPES
from warpsmith.generator.conv2d.sums.depthwise_last.depthwise_last_family import Conv2dDepthwiseLast
from warpsmith.generator.presets import H200
from warpsmith.generator.space import Config
from warpsmith.tuner.evaluate.verify import verify
from warpsmith.tuner.operations.conv2d.judge import Conv2dJudge
from warpsmith.tuner.operations.conv2d.oracle import reference
from warpsmith.tuner.operations.judge import Reference
from warpsmith.tuner.operations.registry import random_operands, stress_operands

FAMILY = Conv2dDepthwiseLast()
every_pass = pytest.mark.parametrize("pass_", Pass)

FACTORS: dict[str, tuple[Any, ...]] = {
    "stride": (1, 2, (3, 1)),
    "padding": (0, 1, ((0, 2), (3, 1))),
    "dilation": (1, 2, (1, 3)),
    "channels": (1, 3, 20, 33, 64),
    "taps": ((1, 1), (3, 3), (2, 4), (7, 7)),
    "dtype": DTYPES,
    "bias": (False, True),
    "relu": (False, True),
}
"""Values that `crossed` combines in pairs. A thread computes one of 3 or 33 channels, and two or four of 20."""
LAYERS: tuple[tuple[tuple[int, int, int, int], tuple[int, int], dict[str, Any]], ...] = (
    ((2, 8, 28, 28), (7, 7), {"padding": 3}),
    ((1, 4, 20, 33), (31, 31), {"padding": 15}),
    ((2, 16, 13, 15), (3, 3), {"padding": 1, "stride": 2}),
    ((1, 1, 1, 1), (1, 1), {}),
    ((3, 5, 5, 6), (3, 3), {"padding": 8}),
)


def layer(image: tuple[int, int, int, int], taps: tuple[int, int], pass_: Pass, **fields: Any) -> Conv2d:
    """Channels-last layer with one channel per group. wgrad has no bias and no ReLU."""
    if pass_ is Pass.WGRAD:
        fields = {name: value for name, value in fields.items() if name not in ("bias", "relu")}
    return Conv2d(image, (image[1], 1, *taps), groups=image[1], layout="nhwc", pass_=pass_, **fields)  # type: ignore[arg-type]


def crossed(pass_: Pass) -> list[Conv2d]:
    """Layers that combine every two values of two FACTORS."""
    return [_of_factors(case, pass_) for case in covering(FACTORS, lambda _: True)]


def _of_factors(case: Mapping[str, Any], pass_: Pass) -> Conv2d:
    fields = {name: value for name, value in case.items() if name not in ("channels", "taps")}
    size = (13, 20) if case["taps"] == (7, 7) else (9, 11)
    return layer((2, case["channels"], *size), case["taps"], pass_, **fields)


def in_use(pass_: Pass) -> list[Conv2d]:
    """Layers with the element types in turn."""
    return [
        layer(image, taps, pass_, **fields, dtype=DTYPES[number % 3], bias=True)
        for number, (image, taps, fields) in enumerate(LAYERS)
    ]


def cases_of(problems: Iterable[Conv2d], count: int) -> list[Case]:
    """Default config of each problem and up to `count` random ones."""
    found = []
    for problem in problems:
        assert FAMILY.why_not(problem, H200) is None
        space, rng = FAMILY.space(problem, H200), random.Random(problem.key())
        drawn = filter(None, (space.drawn(rng) for _ in range(count)))
        configs: dict[Config, None] = dict.fromkeys([FAMILY.default(problem, H200), *drawn])
        found += [Case(problem, FAMILY, config) for config in configs]
    return found


def check(cases: Sequence[Case], compiler: HostCompiler, host: Runtime, *, stressed: bool = False) -> None:
    """Runs cases that together have every feature of `cases`, and fails with a list of all wrong kernels."""
    judge, wrong = Conv2dJudge(), []
    make = stress_operands if stressed else random_operands
    for case, result, given in results(chosen(cases), compiler, host, lambda problem: make(problem, 5)):
        bound = judge.error_bound(case.problem, case.problem.output)
        bound *= judge.stress_slack(case.problem) if stressed else 1.0
        exact = Reference(*reference(case.problem, given))
        verdict = verify(np.ascontiguousarray(result), exact, case.problem.dtype, bound)
        if not verdict.right:
            wrong.append(f"{case}: {verdict.message}")
    assert not wrong, "\n".join(wrong)


@every_pass
def test_defaults_where_every_two_options_meet(pass_: Pass, quickest: HostCompiler, host: Runtime) -> None:
    check(cases_of(exhaustive.share(crossed(pass_), list(Pass).index(pass_), 3), 0), quickest, host)


@every_pass
def test_layers_that_are_in_use_and_configs_at_random(pass_: Pass, quickest: HostCompiler, host: Runtime) -> None:
    check([*cases_of(in_use(pass_), 1), *cases_of(crossed(pass_)[::5], 1)], quickest, host)


@every_pass
def test_stress_data(pass_: Pass, quickest: HostCompiler, host: Runtime) -> None:
    check(cases_of(in_use(pass_)[::2], 0), quickest, host, stressed=True)


def test_a_gradient_has_the_same_bits_each_time(quickest: HostCompiler, host: Runtime) -> None:
    """Includes configs in which several blocks share the output positions of the gradient."""
    (case,) = cases_of([layer((6, 20, 12, 13), (5, 5), Pass.WGRAD, padding=2, dtype="float16")], 0)
    shared = {"columns": 4, "rows": 2, "lanes": 4, "block_taps": 2, "tap_rows": 1, "members": 8, "splits": 4}
    case = dataclasses.replace(case, config=Config.of({**case.config.values(), **shared}))
    assert FAMILY.space(case.problem, H200).why_not(case.config) is None
    found = results([case, case], quickest, host, lambda problem: random_operands(problem, 0))
    first, again = (result.copy() for _, result, _ in found)
    assert np.array_equal(first.view(np.uint16), again.view(np.uint16))


@every_pass
def test_what_is_not_finite_stays_where_its_terms_are(pass_: Pass, quickest: HostCompiler, host: Runtime) -> None:
    """Rows need not be a multiple of the outputs per thread. No padding zero is multiplied by an infinity."""
    problem = layer((2, 4, 13, 17), (3, 3), pass_, stride=2)
    given = dict(random_operands(problem, 0))
    first = problem.inputs[0].name
    given[first][0, 0, -1, -1] = given[first][0, 1, 0, 0] = np.inf
    expected, _ = reference(problem, {name: np.nan_to_num(values, posinf=1e30) for name, values in given.items()})
    for case, result, _ in results(cases_of([problem], 4), quickest, host, lambda _: given):
        assert np.array_equal(np.isfinite(result), np.abs(expected) < 1e20), case


@every_pass
def test_nothing_is_read_or_written_outside_of_a_buffer(pass_: Pass, tmp_path: Path) -> None:
    cases = [*cases_of(in_use(pass_)[2:], 0), *cases_of(crossed(pass_)[::9], 0)]
    sanitized.check([(case.problem, case.program) for case in cases], tmp_path)
