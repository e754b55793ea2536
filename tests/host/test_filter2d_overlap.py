"""Overlap-save on the CPU: against scipy.ndimage in float64, with NaN and infinity, and under the sanitizers."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import exhaustive
import sanitized
from filter2d_bench import Bench, by_scipy, drawn
from joined import compiled
from policies import ONE_RUN
from testbeds import opened
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.filter2d.overlap_family import Filter2dOverlapSave
from warpsmith.generator.program import Program
from warpsmith.generator.registry import families_for
from warpsmith.generator.space import Config, Value
from warpsmith.store.record import Measurement

FAMILY = Filter2dOverlapSave()
DEVICE = DeviceRef(DeviceKind.HOST).device()
SMALL: dict[str, Value] = {"y_radices": "4x4", "x_radices": "4x4", "group": 2, "warps": 1, "gaps": 6}
"""Tiles of 16 x 16. They compile quickly, and small images have many."""
WIDE: dict[str, Value] = {"y_radices": "8x2", "x_radices": "4x8", "group": 3, "warps": 2, "gaps": 0}
TALL: dict[str, Value] = {"y_radices": "7x4", "x_radices": "3x7", "group": 2, "warps": 2, "gaps": 12, "ahead": 0}
ODD: dict[str, Value] = {"y_radices": "5x5", "x_radices": "2x9", "group": 3, "warps": 2, "twiddles": "powers"}


def of(image: tuple[int, int], size: tuple[int, int], **fields: object) -> Filter2d:
    return Filter2d(image, size, accuracy="imagewise", **fields)  # type: ignore[arg-type]


def config(problem: Filter2d, wanted: dict[str, Value]) -> Config:
    made = Config.of({**FAMILY.default(problem, DEVICE).values(), **wanted})
    assert FAMILY.space(problem, DEVICE).why_not(made) is None
    return made


CASES: tuple[tuple[Filter2d, dict[str, Value]], ...] = (
    (of((50, 61), (7, 7)), SMALL),
    (of((31, 33), (9, 8), border="constant", cval=-1.5), SMALL),
    (of((40, 64), (8, 9), border="nearest", convolve=True, planes=3), WIDE),
    (of((33, 50), (9, 6), border="reflect", anchor=(8, 0), filters=3, planes=2), SMALL),
    (of((29, 40), (7, 7), border="mirror", pitch=176, result_pitch=164), TALL),
    (of((35, 37), (8, 8), border="wrap", convolve=True, anchor=(0, 7)), {**ODD, "partners": "apart"}),
    (of((40, 41), (7, 8), dtype="float16", border="reflect"), SMALL),
    (of((37, 50), (8, 7), dtype="uint8", border="constant", cval=7.5, pitch=53), SMALL),
    (of((30, 44), (7, 9), dtype="float16", result_dtype="float32", filters=2), TALL),
    (of((44, 30), (10, 5), result_dtype="uint8", border="wrap"), {**SMALL, "store": "streaming"}),
    (of((5, 7), (7, 9), border="mirror"), SMALL),  # smaller than a tile and than the filter
    (of((9, 40), (9, 6)), SMALL),  # a result of one row
    (of((40, 12), (5, 12)), SMALL),  # and of one column
    (of((12, 12), (12, 12)), SMALL),  # one pixel
    (of((1, 90), (1, 49), border="nearest"), {"y_radices": "4x4", "x_radices": "4x16", "group": 2, "warps": 2}),
    (of((34, 36), (7, 7), weights=tuple((i * 5 % 7 - 3) / 8 for i in range(49)), border="mirror"), SMALL),
    (of((60, 70), (13, 11), nonfinite="any"), {"y_radices": "16x2", "x_radices": "2x15", "group": 4, "warps": 2}),
    (
        of((70, 66), (7, 7), nonfinite="any", planes=2),
        {"y_radices": "12x2", "x_radices": "5x6", "group": 8, "warps": 1},
    ),
)


@pytest.fixture
def bench(quickest: HostCompiler) -> Iterator[Bench]:
    with contextlib.closing(HostRuntime(workers=1)) as runtime:
        yield Bench(quickest, runtime)


def test_is_what_scipy_computes(bench: Bench) -> None:
    some = exhaustive.share(CASES, 0, 2)
    bench.check_all((problem, FAMILY, config(problem, wanted)) for problem, wanted in some)


def check_repaired(problem: Filter2d, wanted: dict[str, Value], image: NDArray[np.generic], bench: Bench) -> None:
    """Checks that an output is not finite only if its window has such a pixel or its sum overflows. Others keep the
    bound.
    """
    weights = drawn(problem)[1]
    _, target = bench.filtered(problem, FAMILY.program(problem, config(problem, wanted)), image, weights)
    with np.errstate(invalid="ignore", over="ignore"):
        expected = by_scipy(problem, image, weights, problem.cval).astype(np.float32)
    got = target.elements.astype(np.float32)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    np.testing.assert_array_equal(np.isposinf(got), np.isposinf(expected))
    np.testing.assert_array_equal(np.isneginf(got), np.isneginf(expected))
    finite = np.isfinite(expected)
    largest = np.abs(image[np.isfinite(image)]).max()
    assert np.abs(got[finite] - expected[finite]).max() <= 1e-6 * np.abs(weights).sum() * largest
    assert target.is_intact()


STRICT = (
    of((50, 61), (7, 7)),
    of((33, 40), (7, 8), border="reflect", filters=2, planes=2),
    of((33, 40), (8, 7), border="constant", cval=0.5, dtype="float16", result_dtype="float32", convolve=True),
)


@pytest.mark.parametrize("problem", STRICT, ids=lambda each: each.key())
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_shows_in_its_windows_alone(problem: Filter2d, value: float, bench: Bench) -> None:
    """The values stand in a corner, inside, and in the last tile, which may have no partner."""
    program = FAMILY.program(problem, config(problem, SMALL))
    assert "__syncthreads_or" in program.source
    image = drawn(problem)[0].astype(str(problem.dtype))
    planes = image.reshape(problem.planes, *problem.image)
    planes[0, 0, 0] = planes[-1, 17, 20] = planes[-1, -1, -1] = value
    check_repaired(problem, SMALL, image, bench)


def test_sums_that_overflow_are_infinite_and_their_neighbours_right(bench: Bench) -> None:
    """All pixels and most results are finite, but every transform of their tile overflows."""
    problem = of((40, 44), (7, 7))
    image = drawn(problem)[0].astype(np.float32)
    image[9:12, 9:12] = 3e38
    check_repaired(problem, SMALL, image, bench)


@pytest.mark.parametrize("problem", [of((30, 30), (7, 7), nonfinite="any"), of((30, 30), (7, 7), dtype="uint8")])
def test_nothing_is_looked_at_where_nothing_can_be_wrong(problem: Filter2d) -> None:
    source = FAMILY.program(problem, config(problem, SMALL)).source
    assert "__syncthreads_or" not in source
    assert "repair" not in source


def test_a_bright_tile_leaves_other_planes_alone(bench: Bench) -> None:
    """The error bound is relative to the pixels of one plane, so both tiles of a pair come from one plane."""
    problem = of((24, 25), (7, 7), planes=3)
    image, weights = drawn(problem)
    image = image.astype(np.float32)
    image[1] *= 1e12
    _, target = bench.filtered(problem, FAMILY.program(problem, config(problem, SMALL)), image, weights)
    expected = by_scipy(problem, image, weights, 0.0)
    for plane in range(3):
        error = np.abs(target.elements[plane] - expected[plane]).max()
        assert error <= 1e-6 * np.abs(weights).sum() * np.abs(image[plane]).max()


@exhaustive.one_in(2)
@pytest.mark.parametrize("taps", [9, 15])
def test_every_family_keeps_the_bound_on_all_data_of_the_judge(taps: int, quick: HostCompiler) -> None:
    """Families with a stricter bound of their own are included, and so are pairs of outputs."""
    problem = of((60, 620), (taps, taps), border="reflect")
    programs: list[Program] = []
    for family in families_for(problem, DEVICE):
        space, default = family.space(problem, DEVICE), family.default(problem, DEVICE)
        ways = {each.name: each.values for each in space.parameters}.get("method", ())
        drawn_ways = (space.narrowed({"method": [way]}).drawn(random.Random(taps)) for way in ways)
        programs += [family.program(problem, each) for each in (default, *filter(None, drawn_ways))]
    with contextlib.closing(HostRuntime(workers=1)) as runtime, opened(runtime, None, problem) as testbed:
        for program, binaries in compiled(quick, programs):
            found = testbed.evaluate(program, binaries, ONE_RUN).outcome
            assert isinstance(found, Measurement), f"{program.family} {program.config}: {found}"


@pytest.mark.usefixtures("compile_without_optimisation")
def test_clean_under_the_sanitizers(tmp_path: Path) -> None:
    chosen = (CASES[2], CASES[4], CASES[7], CASES[8], CASES[10])
    sanitized.check([(each, FAMILY.program(each, config(each, wanted))) for each, wanted in chosen], tmp_path)
