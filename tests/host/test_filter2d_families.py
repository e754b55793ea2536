"""Every filter2d family on the CPU, against scipy.ndimage: borders, odd sizes, sanitizers."""

from __future__ import annotations

import dataclasses
import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.ndimage
from numpy.typing import NDArray

from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.devices.select import CompilerChoice, DeviceRef
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.registry import FAMILIES
from warpsmith.generator.space import Config
from warpsmith.plans.match import Match, MatchKind
from warpsmith.plans.plan import Plan
from warpsmith.store.record import Measurement
from warpsmith.tuner.evaluate import Deadlines
from warpsmith.tuner.jobs import Compiled
from warpsmith.tuner.workshop import Workshop

HOST = DeviceRef(DeviceKind.HOST)

SHAPES: list[tuple[tuple[int, int], tuple[int, int], int]] = [
    ((1, 1), (1, 1), 1),
    ((1, 37), (1, 5), 1),
    ((29, 1), (4, 1), 1),
    ((5, 7), (5, 7), 2),
    ((33, 41), (3, 3), 3),
    ((40, 64), (2, 5), 1),
    ((37, 52), (7, 4), 2),
]
"""Image, filter, planes: single pixels, a filter as large as the image, odd and even, more planes than one."""


def expected(problem: Filter2d, image: NDArray[np.float32], weights: NDArray[np.float32]) -> NDArray[np.float64]:
    """scipy.ndimage's answer in float64, plane by plane."""
    mode = "constant" if problem.border is Border.VALID else problem.border.value
    planes = image.reshape(problem.planes, *problem.image).astype(np.float64)
    full = np.stack(
        [scipy.ndimage.correlate(plane, weights.astype(np.float64), mode=mode, cval=problem.cval) for plane in planes]
    )
    if problem.border is Border.VALID:
        (r, s), (rows, columns) = problem.filter, problem.output_shape
        full = full[:, r // 2 : r // 2 + rows, s // 2 : s // 2 + columns]
    return full.reshape(problem.output.shape)


def some_configs(family: Family, problem: Filter2d, count: int) -> list[Config]:
    """The default config and random others, the same in every run."""
    device = HOST.device()
    configs = list(family.space(problem, device).configs())
    chosen = random.Random(problem.key()).sample(configs, min(count, len(configs)))
    return [family.default(problem, device), *chosen]


def check(problem: Filter2d, family: Family, config: Config) -> None:
    generator = np.random.default_rng(7)
    image = generator.standard_normal(problem.operands[0].shape, dtype=np.float32)
    weights = generator.standard_normal(problem.filter, dtype=np.float32)
    if problem.weights is not None:
        weights = np.array(problem.weights, np.float32).reshape(problem.filter)
    program = family.program(problem, config)
    binary = HOST.compiler(CompilerChoice.AUTO).compile(program)
    plan = Plan(problem, Match(MatchKind.DEFAULT, program, None, ()), binary, HostRuntime())
    out = np.full(problem.output.shape, np.nan, np.float32)
    inputs = (image,) if problem.weights is not None else (image, weights)
    assert plan(*inputs, out=out) is out
    magnitudes = dataclasses.replace(problem, cval=abs(problem.cval))
    scale = expected(magnitudes, np.abs(image), np.abs(weights))  # the sum of |terms|
    error = np.abs(out - expected(problem, image, weights))
    assert np.all(error <= 1e-6 * scale), f"{family.name} {config}: {np.nanmax(error)}"


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
@pytest.mark.parametrize("border", Border)
def test_every_border_and_shape(family: Family, border: Border) -> None:
    cases = []
    for image, size, planes in SHAPES:
        problem = Filter2d(image=image, filter=size, planes=planes, border=border, cval=-1.5)
        cases += [(problem, config) for config in some_configs(family, problem, 1)[-1:]]
    with ThreadPoolExecutor(2) as pool:  # the time goes into the compiler
        list(pool.map(lambda case: check(case[0], family, case[1]), cases))


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_known_weights_are_literals_and_zeros_vanish(family: Family) -> None:
    sobel = (1.0, 0.0, -1.0, 2.0, 0.0, -2.0, 1.0, 0.0, -1.0)
    problem = Filter2d(image=(31, 44), filter=(3, 3), border=Border.MIRROR, weights=sobel)
    config = family.default(problem, HOST.device())
    assert config.text("weights") == "literal"
    check(problem, family, config)


def test_asymmetric_filter_is_correlated_not_convolved() -> None:
    problem = Filter2d(image=(9, 9), filter=(3, 3))
    image = np.zeros((9, 9), np.float32)
    image[4, 4] = 1.0
    weights = np.arange(9, dtype=np.float32).reshape(3, 3)
    for family in FAMILIES:
        program = family.program(problem, family.default(problem, HOST.device()))
        binary = HOST.compiler().compile(program)
        result = Plan(problem, Match(MatchKind.DEFAULT, program, None, ()), binary, HostRuntime())(image, weights)
        # An impulse shows the filter turned by 180 degrees under correlation.
        np.testing.assert_array_equal(result[2:5, 2:5], weights[::-1, ::-1])


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
@pytest.mark.parametrize(
    ("image", "size", "border"), [((33, 41), (4, 5), Border.VALID), ((19, 23), (3, 7), Border.WRAP)]
)
def test_clean_under_the_sanitizers(
    family: Family, image: tuple[int, int], size: tuple[int, int], border: Border
) -> None:
    problem = Filter2d(image=image, filter=size, border=border, planes=2)
    opened = Workshop.open(problem, HOST, FAMILIES, CompilerChoice.AUTO, 0, Deadlines(), sanitize=True)
    with opened as workshop:
        assert HostCompiler(sanitize=True).identity == workshop.compiler_identity
        for config in some_configs(family, problem, 3):
            program = workshop.program(family.name, config)
            compiled = workshop.compile(program).result()
            assert isinstance(compiled, Compiled), compiled
            outcome = workshop.bench.evaluate(program, compiled)
            assert isinstance(outcome, Measurement), f"{config}: {outcome}"
