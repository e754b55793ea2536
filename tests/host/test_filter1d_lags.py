"""`filter1d_lags` on the CPU: slices of two long signals, shares, channels apart, samples that are not finite."""

from __future__ import annotations

import random

import numpy as np
import pytest

import verified
from joined import plan_of, plans_of
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter1d.lags_family import Filter1dLags
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config
from warpsmith.tuner.operations.registry import random_operands, reference

DEVICE = DeviceRef(DeviceKind.HOST).device()
FAMILY = Filter1dLags()
PROBLEMS = (
    Filter1d(6000, 6000, lags=(-20, 20)),
    Filter1d(6000, 5900, mode="valid", nonfinite="any"),
    Filter1d(700, 5000, lags=(-2000, 300), down=7),
    Filter1d(5000, 700, mode="same", bias=True, activation="silu", dtype="bfloat16"),
    Filter1d(3001, 2900, 2, channels=4, filters=2, lags=(-5, 90), convolve=True),
    Filter1d(2000, 1900, dtype="complex64", lags=(-30, 33)),
    Filter1d(2000, 1900, channels=2, dtype="complex64", taps_dtype="complex64", lags=(1000, 1999), convolve=True),
    Filter1d(2500, 2400, dtype="int16", mode="valid", result_dtype="float16"),
    Filter1d(2500, 2400, lags=(-2399, -2390)),
    Filter1d(2500, 2400, lags=(2490, 2499)),
    Filter1d(1500, 1400, lags=(-9, 9), weights=[(i * 5 % 7 - 3) / 8 for i in range(1400)]),
)


def program_of(problem: Filter1d, **wanted: str | int) -> Program:
    """Program of the default config with some other values."""
    config = Config.of({**FAMILY.default(problem, DEVICE).values(), **wanted})
    assert FAMILY.space(problem, DEVICE).why_not(config) is None, FAMILY.space(problem, DEVICE).why_not(config)
    return FAMILY.program(problem, config)


def test_slices_of_two_long_signals(host: HostRuntime, quickest: HostCompiler) -> None:
    """One share, and more of them than lines divide among; tiles before, after and around the signal."""
    rng = random.Random(3)
    programs = [(each, program_of(each, shares=1, radices="8x8x8")) for each in PROBLEMS[::3]]
    drawn = ((each, FAMILY.space(each, DEVICE).narrowed({"shares": [2, 4]}).drawn(rng)) for each in PROBLEMS)
    programs += [(each, FAMILY.program(each, config)) for each, config in drawn if config]
    assert len(programs) > len(PROBLEMS)
    verified.check(host, quickest, programs)


def test_a_channel_does_not_see_the_scale_of_another(host: HostRuntime, quickest: HostCompiler) -> None:
    """Channels of 1e-6 and 1e6 side by side have the bits that each has alone, under taps of 1e6."""
    problem = Filter1d(1500, 1400, channels=3, lags=(-9, 9))
    alone = Filter1d(1500, 1400, lags=(-9, 9))
    plan, single = plans_of(host, quickest, [(each, program_of(each)) for each in (problem, alone)])
    operands = random_operands(problem, 1)
    signal = np.array(operands["signal"]) * np.array([[1e-6], [1e6], [1.0]], np.float32)
    weights = np.float32(1e6) * np.array(operands["weights"])
    result = np.array(plan(signal, weights))
    for row, expected in zip(signal, result, strict=True):
        assert np.array_equal(np.array(single(row.copy(), weights)), expected)
        exact = np.correlate(np.pad(row.astype(float), (9, 1400)), weights.astype(float))[:19]
        norm = np.linalg.norm(row.astype(float)) * np.linalg.norm(weights.astype(float))
        assert np.abs(expected - exact).max() < 3e-6 * norm


@pytest.mark.parametrize("rule", ["window", "any"])
def test_what_is_not_finite_stays_in_its_windows(rule: str, host: HostRuntime, quickest: HostCompiler) -> None:
    """Samples outside of the windows of some lags and inside of others; other channels keep their bits."""
    problem = Filter1d(1500, 1400, channels=3, lags=(80, 99), nonfinite=rule)
    plan = plan_of(host, quickest, problem, program_of(problem, shares=2, radices="8x8x8"))
    operands = random_operands(problem, 1)
    clean = np.array(operands["signal"])
    spoilt = clean.copy()
    spoilt[1, 85], spoilt[1, 1490] = np.nan, np.inf
    before, after = (np.array(plan(each, operands["weights"])) for each in (clean, spoilt))
    assert np.array_equal(after[[0, 2]], before[[0, 2]])
    if rule == "window":
        reached = np.isnan(reference(problem, {**operands, "signal": spoilt}).scale)
        assert reached.any()
        assert not reached.all(axis=1)[1]
        assert not np.isfinite(after[reached]).any()
        assert np.abs(after - before)[~reached].max() < 1e-4
