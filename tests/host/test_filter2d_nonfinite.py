"""A NaN or an infinite pixel shows in the outputs whose window contains it, and in no others, whatever the family."""

from __future__ import annotations

import random

import numpy as np
import pytest
import scipy.ndimage
from numpy.typing import NDArray

from warpsmith.devices.base import Binary
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.device import H200, DeviceKind
from warpsmith.generator.families.filter2d_window_geometry import Method
from warpsmith.generator.family import Family
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.problem import NonFinite
from warpsmith.generator.program import Program
from warpsmith.generator.registry import FAMILIES, family_named
from warpsmith.generator.space import Config
from warpsmith.plans.match import Match, MatchKind
from warpsmith.plans.plan import Plan

HOST = DeviceRef(DeviceKind.HOST)
DEVICE = HOST.device()
BEYOND = ("filter2d_matrix", "filter2d_warpgroup")
"""Families that multiply pixels outside a window by zero."""
BINOMIAL_5 = tuple(float(a * b) for a in (1, 4, 6, 4, 1) for b in (1, 4, 6, 4, 1))
WIDE = (40, 620)
"""An image that every family has an interior in."""
STRICT = [
    Filter2d(WIDE, (7, 7)),
    Filter2d(WIDE, (4, 5), border=Border.REFLECT, dtype="float16", result_dtype="float32"),
    Filter2d(WIDE, (5, 3), border=Border.CONSTANT, cval=0.5, filters=2, convolve=True),
    Filter2d(WIDE, (5, 5), border=Border.MIRROR, weights=BINOMIAL_5),
    Filter2d(WIDE, (2, 6), border=Border.NEAREST, accuracy="normwise", anchor=(1, 0)),
    Filter2d((24, 300), (3, 3), border=Border.WRAP, channels=3, planes=2, dtype="float16"),
]
ANY = [
    Filter2d(WIDE, (7, 7), nonfinite="any"),
    Filter2d(WIDE, (5, 5), dtype="float16", nonfinite="any"),
]


def reached(problem: Filter2d, at: tuple[int, ...]) -> NDArray[np.bool_]:
    """The outputs whose window contains the pixel `at`, for each plane, filter and channel."""
    marked = np.zeros((problem.planes, *problem.image, problem.channels))
    marked.reshape(problem.operands[0].shape)[at] = 1
    (r, s), (row, column) = problem.filter, problem.anchor or (problem.filter[0] // 2, problem.filter[1] // 2)
    function = scipy.ndimage.convolve if problem.convolve else scipy.ndimage.correlate
    mode = "constant" if problem.border in (Border.VALID, Border.CONSTANT) else problem.border.value
    origin = (row - r // 2, column - s // 2)
    top, left = (r - 1 - r // 2, s - 1 - s // 2) if problem.convolve else (r // 2, s // 2)
    rows, columns = problem.output_shape
    inner = (slice(top, top + rows), slice(left, left + columns)) if problem.border is Border.VALID else ()
    windows = np.zeros((problem.planes, problem.filters, rows, columns, problem.channels), bool)
    for p, f, c in np.ndindex(problem.planes, problem.filters, problem.channels):
        sums = function(marked[p, ..., c], np.ones(problem.filter), mode=mode, origin=origin)
        windows[p, f, ..., c] = sums[inner] > 0.5
    return windows.reshape(problem.output.shape)


def planted(problem: Filter2d, seed: int) -> list[tuple[NDArray[np.generic], NDArray[np.bool_]]]:
    """Images of positive pixels with one that is not finite, in a corner, at a border or inside, and the outputs
    that it may reach.
    """
    rng = np.random.default_rng(seed)
    image = problem.operands[0]
    rows, columns = problem.image
    spots = ((0, 0), (rows - 1, columns // 2), (rows // 2, columns // 3 + 1))
    cases = []
    for (row, column), value in zip(spots, (np.nan, -np.inf, np.inf), strict=True):
        plane = (problem.planes - 1,) if problem.planes > 1 else ()
        channel = (1,) if problem.channels > 1 else ()
        at = (*plane, row, column, *channel)
        pixels = rng.uniform(0.5, 2, image.shape).astype(str(image.dtype))
        pixels[at] = value
        cases.append((pixels, reached(problem, at)))
    return cases


def weights_of(problem: Filter2d) -> NDArray[np.float32]:
    """Positive, so that no sum of infinities is hidden."""
    return np.random.default_rng(3).uniform(0.5, 1, problem.operands[1].shape).astype(np.float32)


def outside(problem: Filter2d, program: Program, binary: Binary) -> int:
    """Outputs that are not finite though no such pixel lies in their window; all of the others must be so."""
    plan = Plan(problem, Match(MatchKind.DEFAULT, program, None, ()), binary, HostRuntime(workers=1))
    beyond = 0
    for pixels, windows in planted(problem, 5):
        result = plan(pixels) if problem.weights is not None else plan(pixels, weights_of(problem))
        assert not np.isfinite(result[windows]).any(), f"{problem.key()} {program.config}"
        beyond += int(np.count_nonzero(~np.isfinite(result[~windows])))
    return beyond


def configs(family: Family, problem: Filter2d) -> set[Config]:
    """The default, one of each method and way to read the image where there are several, and a random one."""
    space = family.space(problem, DEVICE)
    wanted = {family.default(problem, DEVICE)}
    named = {each.name: each.values for each in space.parameters}
    rng = random.Random(problem.key())
    missing = {(name, value) for name in ("path", "method") for value in named.get(name, ())}
    for _ in range(2000):
        if not missing:
            break
        config = space.drawn(rng)
        if config is not None and (new := missing & set(config.values().items())):
            missing -= new
            wanted.add(config)
    return wanted


@pytest.mark.parametrize("problem", STRICT, ids=lambda problem: problem.key())
def test_what_is_not_finite_stays_within_the_window(problem: Filter2d) -> None:
    solving = [family for family in FAMILIES if family.why_not(problem, DEVICE) is None]
    assert not {family.name for family in solving} & set(BEYOND)
    for family in solving:
        for config in configs(family, problem):
            program = family.program(problem, config)
            assert outside(problem, program, HOST.compiler().compile(program)) == 0, f"{family.name} {config}"


def test_every_method_is_among_those_configs() -> None:
    window = family_named("filter2d_window")
    assert window is not None
    methods = {config.text("method") for problem in STRICT for config in configs(window, problem)}
    assert methods == set(Method)


@pytest.mark.parametrize("problem", ANY, ids=lambda problem: problem.key())
def test_products_of_matrices_reach_further_and_must_be_allowed(problem: Filter2d) -> None:
    solving = [each for each in FAMILIES if each.name in BEYOND and each.why_not(problem, DEVICE) is None]
    assert solving
    for family in solving:
        program = family.program(problem, family.default(problem, DEVICE))
        assert outside(problem, program, HOST.compiler().compile(program)) > 0
        strict = Filter2d(problem.image, problem.filter, dtype=problem.dtype)
        assert "nonfinite='any'" in str(family.why_not(strict, H200))
        assert family.legal_program(strict, H200, family.default(problem, H200)) is None


@pytest.mark.parametrize("name", BEYOND)
def test_bytes_have_nothing_to_spread(name: str) -> None:
    family = family_named(name)
    assert family is not None
    assert family.why_not(Filter2d((1080, 1920), (5, 5), dtype="uint8"), H200) is None


def test_the_text_is_the_same_under_either_rule() -> None:
    """So that a time that was taken under one holds under the other, where the config is legal."""
    window = family_named("filter2d_window")
    assert window is not None
    config = window.default(STRICT[0], H200)
    strict, loose = (window.program(each, config) for each in (STRICT[0], ANY[0]))
    assert STRICT[0].nonfinite is NonFinite.WINDOW
    assert strict.fingerprint == loose.fingerprint
