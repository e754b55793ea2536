"""`filter1d_gradients_fft` on a GPU: every kind of slice, and compute-sanitizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from random_configs import some, some_configs
from warpsmith.devices.cuda.runtime import cuda_device
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter1d.gradients_fft_family import Filter1dGradientsFft

pytestmark = pytest.mark.gpu

FAMILY = Filter1dGradientsFft()
BFLOAT: dict[str, Any] = {"dtype": "bfloat16", "taps_dtype": "bfloat16"}
SHAPES: tuple[dict[str, Any], ...] = (
    {"signal": 1024, "taps": 1024, "batch": 64, "channels": 16, "filters": 16, "mode": "causal", "convolve": True},
    {"signal": 9000, "taps": 9000, "batch": 3, "channels": 2, "filters": 2, "mode": "causal"},
    {"signal": 100_000, "taps": 1000, "channels": 4, "filters": 2, "mode": "valid"},
    {"signal": 3001, "taps": 70, "batch": 5, "channels": 6, "filters": 2, "dtype": "float16"},
    {"signal": 2501, "taps": 300, "batch": 2, "lags": (-290, 1000), "pitch": 5004, **BFLOAT},
    {"signal": 500, "taps": 700, "batch": 9, "channels": 3, "nonfinite": "any", **BFLOAT},
)
PROBLEMS = tuple(Filter1d(**each, pass_="wgrad") for each in SHAPES)


def test_configs_are_right(check_configs: Callable[..., None]) -> None:
    check_configs(PROBLEMS, some(6), families=(FAMILY,))


@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "synccheck"])
def test_kernels_are_clean_under_compute_sanitizer(check_under_sanitizer: Callable[..., None], tool: str) -> None:
    device = cuda_device(0)
    cases = [
        (problem, FAMILY.program(problem, config))
        for problem in PROBLEMS[3:]
        for config in some_configs(FAMILY, problem, device, 1)
    ]
    check_under_sanitizer(tool, device, cases)
