"""Gates of filters on a GPU: random configs of every family that has them, float64 reference kernels, and memcheck."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from random_configs import some, some_configs
from warpsmith.devices.cuda.runtime import cuda_device
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter1d.operation import FILTER1D

pytestmark = pytest.mark.gpu

CheckConfigs = Callable[..., None]
TYPES: tuple[dict[str, Any], ...] = (
    {"dtype": "float32"},
    {"dtype": "float16"},
    {"dtype": "bfloat16", "taps_dtype": "bfloat16"},
    {"dtype": "bfloat16", "result_dtype": "float32"},
)
SHAPES: tuple[dict[str, Any], ...] = (
    {"signal": 300_007, "taps": 33, "mode": "full", "gates": "both"},
    {"signal": 4099, "taps": 4, "channels": 7, "filters": 7, "mode": "causal", "gates": "before"},
    {"signal": 1026, "taps": 129, "channels": 12, "filters": 4, "bias": True, "activation": "silu", "gates": "after"},
    {"signal": 2050, "taps": 7, "batch": 2, "channels": 64, "filters": 4, "layout": "btc", "gates": "both"},
    {"signal": 1027, "taps": 40, "channels": 32, "layout": "btc", "gates": "both", "bias": True},
    {"signal": 4099, "taps": 7, "channels": 6, "mode": "causal", "gates": "both", "projection": 3},
    {"signal": 2048, "taps": 128, "batch": 2, "channels": 8, "filters": 2, "gates": "both", "projection": 4},
)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{shape['taps']} taps")
def test_random_configs_of_every_family(shape: dict[str, Any], check_configs: CheckConfigs) -> None:
    check_configs([Filter1d(**{"mode": "causal", **shape}, **types) for types in TYPES], some(2))


def test_every_family_under_memcheck(check_under_sanitizer: Callable[..., None]) -> None:
    device = cuda_device(0)
    problems = [
        Filter1d(**{"mode": "causal", **shape, "signal": 517}, **types)
        for shape, types in zip(SHAPES, TYPES * 2, strict=False)
    ]
    cases = [
        (problem, family.program(problem, config))
        for problem in problems
        for family in FILTER1D.families
        if family.why_not(problem, device) is None
        for config in some_configs(family, problem, device, 1)
    ]
    check_under_sanitizer("memcheck", device, cases)
