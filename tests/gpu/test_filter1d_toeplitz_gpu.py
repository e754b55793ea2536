"""Families of banded Toeplitz matrices on a GPU: random configs of many lengths and types, and compute-sanitizer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from filter1d_problems import GROUPED
from random_configs import some, some_configs
from warpsmith.devices.cuda.runtime import cuda_device
from warpsmith.generator.family import Family
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter1d.toeplitz_channels_family import Filter1dToeplitzChannels
from warpsmith.generator.filter1d.toeplitz_family import Filter1dToeplitz

pytestmark = pytest.mark.gpu

FAMILIES: tuple[Family, ...] = (Filter1dToeplitz(), Filter1dToeplitzChannels())
CheckConfigs = Callable[..., None]
TYPES: tuple[dict[str, Any], ...] = (
    {"dtype": "float32"},
    {"dtype": "float32", "accuracy": "elementwise"},
    {"dtype": "float16"},
    {"dtype": "float16", "taps_dtype": "float16", "result_dtype": "float32"},
    {"dtype": "bfloat16"},
    {"dtype": "bfloat16", "taps_dtype": "bfloat16"},
)
SHAPES: tuple[dict[str, Any], ...] = (
    {"signal": 300_007, "taps": 33},
    {"signal": 70_001, "taps": 257, "mode": "same", "convolve": True},
    {"signal": 40, "taps": 65, "batch": 3},
    {"signal": 4099, "taps": 2, "channels": 7, "filters": 7, "mode": "causal"},
    {"signal": 1026, "taps": 129, "channels": 12, "filters": 4, "bias": True, "activation": "silu"},
    {"signal": 20_000, "taps": 100, "lags": (-50, 700)},
)


def solved(problems: Iterable[Filter1d]) -> list[Filter1d]:
    """Problems that fit a thread's registers: three bfloat16 parts of 257 taps do not, of samples or of taps."""
    device = cuda_device(0)
    return [each for each in problems if any(family.why_not(each, device) is None for family in FAMILIES)]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{shape['signal']}-{shape['taps']}")
def test_random_configs(shape: dict[str, Any], check_configs: CheckConfigs) -> None:
    problems = solved(Filter1d(**shape, **types) for types in TYPES)
    assert len(problems) >= len(TYPES) // 2
    check_configs(problems, some(5), families=FAMILIES)


def test_every_number_of_taps(check_configs: CheckConfigs) -> None:
    counts = (*range(1, 20), 31, 32, 33, 48, 64, 100, 128, 200, 256)
    problems = [Filter1d(5000, taps, **TYPES[taps % len(TYPES)]) for taps in counts]
    check_configs(solved(problems), some(1), families=FAMILIES)


def test_groups_of_channels(check_configs: CheckConfigs) -> None:
    check_configs(GROUPED, some(6), families=FAMILIES)


@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "synccheck"])
def test_compute_sanitizer(check_under_sanitizer: Callable[..., None], tool: str) -> None:
    device = cuda_device(0)
    problems = [Filter1d(**{**shape, "signal": min(shape["signal"], 9001)}, **TYPES[0]) for shape in SHAPES]
    problems += [Filter1d(**SHAPES[3], **TYPES[5]), Filter1d(**SHAPES[4], **TYPES[2]), *GROUPED]
    cases = [
        (problem, family.program(problem, config))
        for problem in problems
        for family in FAMILIES
        if family.why_not(problem, device) is None
        for config in some_configs(family, problem, device, 3)
    ]
    check_under_sanitizer(tool, device, cases)
