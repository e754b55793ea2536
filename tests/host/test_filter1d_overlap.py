"""Overlap-discard, overlap-add and scattered additions on the CPU: against SciPy in float64, and under sanitizers."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import exhaustive
import sanitized
import warpsmith as ws
from filter1d_bench import FilterBench, drawn
from joined import compiled
from policies import ONE_RUN
from testbeds import opened
from together import Case
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter1d.overlap_add_family import Filter1dOverlapAdd
from warpsmith.generator.filter1d.scatter_family import Filter1dScatter
from warpsmith.generator.filter1d.shared_family import Filter1dShared
from warpsmith.generator.space import Config, Value
from warpsmith.plans.match import MatchKind
from warpsmith.store.record import Measurement

DEVICE = DeviceRef(DeviceKind.HOST).device()
SHARED, ADD, SCATTER = Filter1dShared(), Filter1dOverlapAdd(), Filter1dScatter()
FAMILIES: tuple[Family, ...] = (SHARED, ADD, SCATTER)
every_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)


def of(signal: int, taps: int, **fields: Any) -> Filter1d:
    return Filter1d(signal, taps, **fields)


def known(count: int) -> tuple[float, ...]:
    return tuple((i * 5 % 7 - 3) / 8 for i in range(count))


PROBLEMS = (
    of(1, 1),
    of(64, 1, mode="valid", down=3),
    of(65, 5, mode="full"),
    of(300, 5, mode="same"),
    of(301, 4, mode="same", convolve=True),
    of(257, 17, mode="valid"),
    of(500, 9, mode="causal", channels=3, filters=3, batch=2),
    of(129, 64, mode="full", channels=2),
    of(40, 90, mode="full"),
    of(40, 90, mode="causal", convolve=True),
    of(40, 90, mode="same", channels=2, filters=2),
    of(700, 300, mode="valid"),
    of(130, 600, mode="full"),
    of(400, 33, lags=(-20, 111)),
    of(400, 33, lags=(77, 399), convolve=True),
    of(400, 33, lags=(5, 5)),
    of(530, 7, mode="same", down=2),
    of(530, 16, mode="full", down=5, channels=4, filters=2),
    of(330, 3, mode="causal", down=7),
    of(400, 33, lags=(50, 390), down=3),
    of(333, 8, mode="same", dtype="float16"),
    of(333, 8, mode="full", dtype="float16", taps_dtype="float16", channels=3),
    of(333, 70, mode="full", dtype="bfloat16", taps_dtype="bfloat16", filters=2, channels=2),
    of(200, 4, mode="causal", dtype="bfloat16", result_dtype="float32", channels=6, batch=2),
    of(200, 4, mode="causal", dtype="float32", result_dtype="float16"),
    of(444, 31, mode="same", dtype="complex64"),
    of(260, 12, mode="full", dtype="complex64", taps_dtype="complex64", convolve=True, channels=2),
    of(260, 12, mode="full", dtype="complex64", taps_dtype="complex64", down=4),
    of(310, 21, mode="full", dtype="int16"),
    of(310, 21, mode="valid", dtype="uint8", result_dtype="float16"),
    of(310, 11, mode="full", weights=known(11)),
    of(310, 11, mode="same", weights=known(22), channels=4, filters=2, convolve=True),
    of(150, 6, mode="full", channels=3, pitch=640, result_pitch=1000),
    of(150, 6, mode="same", channels=3, layout="btc", batch=2),
    of(150, 6, mode="full", channels=4, filters=2, layout="btc", down=2, pitch=20, result_pitch=24),
)
"""Every mode, slices, lengths that fit no block, filters longer than the signal and than a block, every type."""


def configs(family: Family, problem: Filter1d, count: int) -> tuple[Config, ...]:
    """The default, the starts and random configs."""
    space, rng = family.space(problem, DEVICE), random.Random(problem.key())
    drawn_ = filter(None, (space.drawn(rng) for _ in range(count)))
    return tuple(dict.fromkeys((family.default(problem, DEVICE), *family.starts(problem, DEVICE), *drawn_)))


def cases(family: Family, count: int) -> list[Case]:
    able = [problem for problem in PROBLEMS if family.why_not(problem, DEVICE) is None]
    return [Case(problem, family, config) for problem in able for config in configs(family, problem, count)]


def case(family: Family, problem: Filter1d, **wanted: Value) -> Case:
    config = Config.of({**family.default(problem, DEVICE).values(), **wanted})
    assert family.space(problem, DEVICE).why_not(config) is None, family.space(problem, DEVICE).why_not(config)
    return Case(problem, family, config)


@pytest.fixture
def bench(quickest: HostCompiler) -> Iterator[FilterBench]:
    with contextlib.closing(HostRuntime(workers=2)) as runtime:
        yield FilterBench(quickest, runtime)


@every_family
def test_is_what_scipy_computes_with_the_same_bits_each_time(family: Family, bench: FilterBench) -> None:
    bench.check_all(exhaustive.chosen(cases(family, 6), lambda each: each.features))


ALIGNED = (
    case(SHARED, of(1000, 9, mode="same"), threads=64, outputs=2, windows="apart", align=64),
    case(SHARED, of(1000, 9, mode="full"), threads=64, outputs=1, windows="apart", align=128, weights="shared"),
    case(SHARED, of(1024, 9, mode="full", channels=3), threads=64, outputs=4, align=128),
    case(SHARED, of(1001, 5, mode="same", dtype="complex64"), threads=64, outputs=4, align=64),
    case(SHARED, of(1001, 6, mode="full", dtype="uint8"), threads=128, outputs=1, windows="apart", align=128),
    case(SHARED, of(1001, 6, mode="full", dtype="int16", down=3), threads=64, outputs=1, align=64, weights="global"),
)
SHORT = of(777, 90, mode="full", channels=2)
"""Its blocks of 64 threads have 32 outputs, far fewer than the 89 that several blocks add to."""
WAYS = (
    case(ADD, SHORT, way="steps", steps=4, run=0, threads=128, outputs=1, windows="apart"),
    case(ADD, SHORT, way="steps", steps=8, run=0, threads=128, outputs=1, windows="apart", weights="shared"),
    case(ADD, SHORT, way="carry", run=4, threads=128, outputs=1, windows="apart"),
    case(ADD, SHORT, way="carry", run=64, threads=128, outputs=1, windows="apart"),
    case(ADD, SHORT, way="atomics", run=0, threads=256, outputs=1, windows="apart"),
    case(ADD, SHORT, way="steps", steps=2, run=0, threads=64, outputs=4),
    case(ADD, SHORT, way="atomics", run=0, threads=64, outputs=4),
    case(ADD, SHORT, way="carry", run=4, threads=64, outputs=8),
    case(ADD, of(500, 300, lags=(-40, 333)), way="carry", run=4, threads=64, outputs=8),
    case(ADD, of(500, 300, lags=(-40, 333)), way="steps", steps=3, run=0, threads=64, outputs=8),
    case(ADD, of(3000, 40, mode="valid", down=3), way="carry", run=4, threads=64, outputs=1),
    case(ADD, of(3000, 40, mode="same", down=3), way="steps", steps=2, run=0, threads=64, outputs=1),
)


def test_blocks_that_are_aligned_are_right_too(bench: FilterBench) -> None:
    bench.check_all(ALIGNED)


def test_sums_are_added_alike_in_three_ways(bench: FilterBench) -> None:
    """More than two blocks add to an output in some of them, and no block is last in others."""
    bench.check_all(WAYS)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_shows_in_its_windows_alone(value: float, bench: FilterBench) -> None:
    problem = of(400, 9, mode="same", channels=2)
    signal, weights = drawn(problem)
    signal[0, [0, 131, 399]] = value
    lags = np.arange(400) + problem.first_lag
    touched = np.zeros((2, 400), bool)
    for sample in (0, 131, 399):
        touched[0] |= (lags <= sample) & (sample < lags + 9)
    found = (
        case(SHARED, problem),
        case(SCATTER, problem),
        case(ADD, problem, run=4, threads=64, outputs=1, windows="apart"),
    )
    for each in found:
        result = bench.filtered(each.program, problem, signal, weights)
        np.testing.assert_array_equal(~np.isfinite(result), touched)


@every_family
@pytest.mark.parametrize("taps", [7, 200])
def test_keeps_the_bound_on_all_data_of_the_judge(family: Family, taps: int, quick: HostCompiler) -> None:
    """Random and stress data, on which sums are rounded most."""
    problem = of(3000, taps, mode="full", channels=2, filters=2)
    with contextlib.closing(HostRuntime(workers=1)) as runtime, opened(runtime, None, problem) as testbed:
        programs = [family.program(problem, config) for config in configs(family, problem, 2)]
        for program, binaries in compiled(quick, programs):
            outcome = testbed.evaluate(program, binaries, ONE_RUN).outcome
            assert isinstance(outcome, Measurement), f"{program.config}: {outcome}"


@pytest.mark.usefixtures("compile_quickly")
def test_a_search_by_name_keeps_scattered_additions_beside_the_winner(tmp_path: Path) -> None:
    problem, store = of(300, 5), str(tmp_path / "store.db")
    report = ws.tune(problem, "host", trials=1, store=store, method=SCATTER.name)
    assert report.record.trial.family == SCATTER.name
    assert ws.query(problem, "host", store=store).program.family != SCATTER.name
    assert ws.query(problem, "host", store=store, method=SCATTER.name).kind is MatchKind.EXACT


@pytest.mark.usefixtures("compile_without_optimisation")
def test_clean_under_the_sanitizers(tmp_path: Path) -> None:
    others = (of(40, 90, mode="full"), of(260, 12, mode="full", dtype="complex64", taps_dtype="complex64", down=4))
    made = [case(family, problem) for problem in others for family in FAMILIES]
    chosen = (
        *ALIGNED[2:5],
        *WAYS[1:6:2],
        *WAYS[7::2],
        *made,
        case(SCATTER, of(530, 16, down=5, channels=4, layout="btc")),
    )
    sanitized.check([(each.problem, each.program) for each in chosen], tmp_path)
