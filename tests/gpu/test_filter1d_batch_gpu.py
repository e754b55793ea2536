"""`filter1d_toeplitz_batch` and `filter1d_gradients_batch` on a GPU: every kind of slice, and compute-sanitizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from random_configs import some, some_configs
from warpsmith.devices.cuda.runtime import cuda_device
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter1d.gradients_batch_family import Filter1dGradientsBatch
from warpsmith.generator.filter1d.toeplitz_batch_family import Filter1dToeplitzBatch

pytestmark = pytest.mark.gpu

FAMILIES = (Filter1dToeplitzBatch(), Filter1dGradientsBatch())
BFLOAT: dict[str, Any] = {"dtype": "bfloat16", "taps_dtype": "bfloat16"}
HALF: dict[str, Any] = {"dtype": "float16", "taps_dtype": "float16"}
EPILOGUE: dict[str, Any] = {"bias": True, "activation": "silu"}
FILTERS = (
    Filter1d(1024, 1024, 64, channels=96, filters=96, mode="causal", **BFLOAT),
    Filter1d(8760, 300, 3, channels=64, filters=2, mode="same", **HALF),
    Filter1d(1001, 129, 70, channels=5, filters=5, convolve=True, **BFLOAT, **EPILOGUE),
    Filter1d(500, 700, 40, channels=6, filters=3, lags=(-300, 77), **HALF),
    Filter1d(333, 33, 1, channels=200, mode="causal", pitch=2 * 340, result_pitch=2 * 334, **BFLOAT),
    Filter1d(1, 1, 9, **BFLOAT),
)
GRADIENTS = (
    Filter1d(1024, 1024, 64, channels=96, filters=96, mode="causal", pass_="wgrad", **BFLOAT),  # type: ignore[arg-type]
    Filter1d(8760, 300, 3, channels=64, filters=2, mode="same", pass_="wgrad", **HALF),  # type: ignore[arg-type]
    Filter1d(1001, 129, 70, channels=5, filters=5, convolve=True, pass_="wgrad", dtype="float16"),  # type: ignore[arg-type]
    Filter1d(500, 700, 40, channels=6, filters=3, lags=(-300, 77), pass_="wgrad", **BFLOAT),  # type: ignore[arg-type]
    Filter1d(333, 33, 1, channels=200, mode="causal", pitch=2 * 340, pass_="wgrad", **BFLOAT),  # type: ignore[arg-type]
)


@pytest.mark.parametrize("problems", [FILTERS, GRADIENTS], ids=["filters", "gradients"])
def test_configs_are_right(check_configs: Callable[..., None], problems: tuple[Filter1d, ...]) -> None:
    check_configs(problems, some(6), families=FAMILIES)


@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "synccheck"])
def test_kernels_are_clean_under_compute_sanitizer(check_under_sanitizer: Callable[..., None], tool: str) -> None:
    device = cuda_device(0)
    cases = [
        (problem, family.program(problem, config))
        for problem in (*FILTERS[2:], *GRADIENTS[2:])
        for family in FAMILIES
        if family.why_not(problem, device) is None
        for config in some_configs(family, problem, device, 1)
    ]
    check_under_sanitizer(tool, device, cases)
