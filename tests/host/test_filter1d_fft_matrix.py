"""`filter1d_fft_matrix` on the CPU: radices, slices, groups of channels, samples that are not finite."""

from __future__ import annotations

import random
from typing import Any

import pytest

import verified
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter1d.fft_matrix_family import Filter1dFftMatrix
from warpsmith.generator.program import Program

DEVICE = DeviceRef(DeviceKind.HOST).device()
FAMILY = Filter1dFftMatrix()
BFLOAT: dict[str, Any] = {"dtype": "bfloat16", "precision": "f16"}
HALF: dict[str, Any] = {"dtype": "float16", "taps_dtype": "float16", "precision": "f16"}
PROBLEMS = (
    Filter1d(2048, 2048, 3, channels=2, filters=2, mode="causal", **BFLOAT),
    Filter1d(1001, 700, 2, channels=4, filters=2, convolve=True, bias=True, activation="silu", **HALF),
    Filter1d(4200, 300, 3, mode="same", nonfinite="any", **BFLOAT),
    Filter1d(1500, 1500, channels=3, filters=3, lags=(0, 1499), pitch=3008, result_pitch=3004, **HALF),
    Filter1d(300, 2500, 2, lags=(-2400, 120), **BFLOAT),
)


def programs_of(problem: Filter1d) -> list[Program]:
    assert FAMILY.why_not(problem, DEVICE) is None
    space, rng = FAMILY.space(problem, DEVICE), random.Random(problem.key())
    configs = [FAMILY.default(problem, DEVICE), space.drawn(rng)]
    return [FAMILY.program(problem, each) for each in configs if each is not None]


@pytest.mark.parametrize("problem", PROBLEMS, ids=Filter1d.key)
def test_radices_and_slices(problem: Filter1d, host: HostRuntime, quickest: HostCompiler) -> None:
    """Data with samples that are not finite are among those that verify a program."""
    verified.check(host, quickest, [(problem, program) for program in programs_of(problem)])
