"""`filter1d_toeplitz_batch` and `filter1d_gradients_batch` on the CPU: rows, slices, samples that are not finite."""

from __future__ import annotations

import random
from typing import Any

import pytest

import verified
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter1d.gradients_batch_family import Filter1dGradientsBatch
from warpsmith.generator.filter1d.toeplitz_batch_family import Filter1dToeplitzBatch
from warpsmith.generator.program import Program

DEVICE = DeviceRef(DeviceKind.HOST).device()
BFLOAT: dict[str, Any] = {"dtype": "bfloat16", "taps_dtype": "bfloat16"}
HALF: dict[str, Any] = {"dtype": "float16", "taps_dtype": "float16"}
SHAPES: tuple[dict[str, Any], ...] = (
    {"signal": 200, "taps": 200, "batch": 64, "channels": 2, "filters": 2, "mode": "causal", **BFLOAT},
    {"signal": 300, "taps": 70, "batch": 5, "channels": 6, "filters": 2, "convolve": True, **HALF},
    {"signal": 301, "taps": 33, "batch": 70, "mode": "same", **BFLOAT},
    {"signal": 90, "taps": 400, "batch": 3, "channels": 4, **BFLOAT},
    {"signal": 600, "taps": 17, "channels": 8, "lags": (-5, 400), "pitch": 1208, "result_pitch": 816, **HALF},
    {"signal": 9, "taps": 1, "batch": 9, **BFLOAT},
)
EPILOGUE: dict[str, Any] = {"bias": True, "activation": "silu"}


def programs_of(family: Family[Filter1d], problem: Filter1d) -> list[Program]:
    assert family.why_not(problem, DEVICE) is None
    space, rng = family.space(problem, DEVICE), random.Random(problem.key())
    configs = [family.default(problem, DEVICE), *(space.drawn(rng) for _ in range(2))]
    return [family.program(problem, each) for each in configs if each is not None]


@pytest.mark.parametrize("family", [Filter1dToeplitzBatch(), Filter1dGradientsBatch()], ids=lambda each: each.name)
def test_rows_and_slices(family: Family[Filter1d], host: HostRuntime, quickest: HostCompiler) -> None:
    """Data with samples that are not finite are among those that verify a program."""
    if isinstance(family, Filter1dGradientsBatch):
        problems = [Filter1d(**each, pass_="wgrad") for each in SHAPES]  # type: ignore[arg-type]  # a name
    else:
        problems = [Filter1d(**each, **(EPILOGUE if number == 1 else {})) for number, each in enumerate(SHAPES)]
    verified.check(host, quickest, [(each, program) for each in problems for program in programs_of(family, each)])
