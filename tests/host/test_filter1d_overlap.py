"""Overlap-discard, overlap-add and scattered additions on the CPU: against SciPy in float64, and under sanitizers."""

from __future__ import annotations

import contextlib
import dataclasses
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import exhaustive
import sanitized
from filter1d_bench import FilterBench, drawn
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
)
"""Every mode, slices, lengths that fit no block, filters longer than the signal and than a block, every type."""


def configs(family: Family, problem: Filter1d, count: int) -> tuple[Config, ...]:
    """The default and random configs."""
    space, rng = family.space(problem, DEVICE), random.Random(problem.key())
    return tuple(
        dict.fromkeys((family.default(problem, DEVICE), *filter(None, (space.drawn(rng) for _ in range(count)))))
    )


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
    bench.check_all(exhaustive.share(cases(family, 3), 0, 2))


SHARED_CASES = (
    case(SHARED, of(1000, 9, mode="same"), threads=64, outputs=2, align=64),
    case(SHARED, of(1000, 9, mode="full"), threads=64, outputs=1, align=128, weights="shared"),
    case(SHARED, of(1024, 9, mode="full", channels=3), threads=64, outputs=4, align=128),
    case(SHARED, of(1001, 5, mode="same", dtype="complex64"), threads=64, outputs=1, align=64),
    case(SHARED, of(1001, 6, mode="full", dtype="uint8"), threads=128, outputs=1, align=128),
    case(SHARED, of(1001, 6, mode="full", dtype="int16", down=3), threads=64, outputs=1, align=64, weights="global"),
)


def test_blocks_that_are_aligned_are_right_too(bench: FilterBench) -> None:
    bench.check_all(SHARED_CASES)
