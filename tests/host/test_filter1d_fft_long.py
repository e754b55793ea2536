"""`filter1d_fft_long` on the CPU: small matrices, every slice and type, channels apart, repairs, bound weights."""

from __future__ import annotations

import random

import numpy as np
import pytest
from numpy.typing import NDArray

import verified
from joined import plan_of, plans_of
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter1d.fft_long_family import Filter1dFftLong
from warpsmith.generator.prepacking import split_program
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config
from warpsmith.tuner.operations.registry import random_operands, reference

DEVICE = DeviceRef(DeviceKind.HOST).device()
FAMILY = Filter1dFftLong()
PLAIN = {"threads": 32, "min_blocks": 1, "blocks": DEVICE.multiprocessors}
SPECTRA = ("first", "with")
every_way = pytest.mark.parametrize("spectra", SPECTRA)


def program_of(problem: Filter1d, **wanted: str | int) -> Program:
    """Program of the default config with the wanted values."""
    config = Config.of({**FAMILY.default(problem, DEVICE).values(), **PLAIN, **wanted})
    assert FAMILY.space(problem, DEVICE).why_not(config) is None, config
    return FAMILY.program(problem, config)


def test_every_length_and_slice(host: HostRuntime, quickest: HostCompiler) -> None:
    """Signals of one block and of several, filters longer than the signal, aligned and odd slices, complex taps."""
    cases = (
        ("first", Filter1d(1, 129)),
        ("with", Filter1d(5000, 130, mode="same")),
        ("first", Filter1d(1300, 1500, mode="causal")),
        ("with", Filter1d(4099, 1025, mode="valid", convolve=True)),
        ("first", Filter1d(3000, 200, 2, channels=3, filters=3, lags=(-5, 2900), down=3)),
        ("with", Filter1d(2100, 300, channels=2, dtype="complex64", taps_dtype="complex64", mode="causal")),
        ("first", Filter1d(2100, 300, lags=(0, 1799), dtype="complex64")),
    )
    verified.check(host, quickest, [(each, program_of(each, spectra=spectra)) for spectra, each in cases])


def test_an_impulse_moves_the_taps(host: HostRuntime, quickest: HostCompiler) -> None:
    """An impulse in each part of a block: outputs that a wrapped sample would reach are other blocks'."""
    problem = Filter1d(4000, 400, convolve=True)
    plan = plan_of(host, quickest, problem, program_of(problem))
    taps = np.array(random_operands(problem, 1)["weights"])
    for place in (0, 1, 399, 1000, 1648, 1649, 2047, 2048, 3999):
        signal = np.zeros(problem.signal, np.float32)
        signal[place] = 1
        expected = np.zeros(problem.result_length, np.float32)
        expected[place : place + problem.taps] = taps
        assert np.abs(np.array(plan(signal, taps)) - expected).max() < 1e-5 * np.abs(taps).max(), place


@every_way
def test_a_channel_does_not_see_the_scale_of_another(spectra: str, host: HostRuntime, quickest: HostCompiler) -> None:
    """Channels of 1e-6 and 1e6 side by side have the bits that each has alone."""
    problem, alone = Filter1d(700, 133, channels=4, mode="same"), Filter1d(700, 133, mode="same")
    programs = [(each, program_of(each, spectra=spectra, lag=0)) for each in (problem, alone)]
    plan, single = plans_of(host, quickest, programs)
    operands = random_operands(problem, 1)
    signal = np.array(operands["signal"]) * np.array([[1e-6], [1e6], [1.0], [1e-6]], np.float32)
    result = np.array(plan(signal, operands["weights"]))
    for row, expected in zip(signal, result, strict=True):
        assert np.array_equal(np.array(single(row.copy(), operands["weights"])), expected)


def spoilt(signal: NDArray[np.float32]) -> NDArray[np.float32]:
    signal = signal.copy()
    signal[1, 300], signal[1, 301], signal[2, 0] = np.nan, np.inf, -np.inf
    return signal


@every_way
def test_what_is_not_finite_stays_in_its_windows(spectra: str, host: HostRuntime, quickest: HostCompiler) -> None:
    problem = Filter1d(2900, 133, channels=4, mode="same")
    plan = plan_of(host, quickest, problem, program_of(problem, spectra=spectra))
    operands = random_operands(problem, 1)
    clean = np.array(operands["signal"])
    before, after = (np.array(plan(each, operands["weights"])) for each in (clean, spoilt(clean)))
    reached = np.isnan(reference(problem, {**operands, "signal": spoilt(clean)}).scale)
    assert not np.isfinite(after[reached]).any()
    assert np.isfinite(after[~reached]).all()
    assert np.array_equal(after[[0, 3]], before[[0, 3]])
    assert np.abs(after - before)[~reached].max() < 5e-6 * np.abs(before).max()


def test_bound_weights_give_the_same_bits(host: HostRuntime, quickest: HostCompiler) -> None:
    """Repairs read a copy of the taps: the caller's memory may change."""
    problem = Filter1d(2900, 133, 2, channels=3, filters=3)
    program = program_of(problem, spectra="first")
    parts = split_program(program, {"weights"})
    assert parts is not None
    assert [each.entry.removeprefix(FAMILY.name) for each in parts.rest.launches] == ["_begin", "", "_repair"]
    plan = plan_of(host, quickest, problem, program)
    operands = random_operands(problem, 1)
    signal, weights = np.array(operands["signal"]), np.array(operands["weights"])
    expected = np.array(plan(signal, weights))
    bound = weights.copy()
    held = plan.hold(weights=bound)
    bound[:] = 0
    assert np.array_equal(np.array(held(signal)), expected)
    assert np.array_equal(np.array(held(2 * signal)), 2 * expected)
    signal[0, 0, 100] = np.nan
    assert np.array_equal(np.array(held(signal)), np.array(plan(signal, weights)), equal_nan=True)


def test_a_random_config_of_many_channels(host: HostRuntime, quickest: HostCompiler) -> None:
    """More blocks than slots of the workspace, both layouts, filters for groups, every kind of epilogue."""
    rng = random.Random(7)
    problems = (
        Filter1d(300, 165, 3, channels=6, filters=2, bias=True, activation="silu", down=3),
        Filter1d(300, 165, 3, channels=6, filters=2, bias=True, layout="btc", convolve=True, dtype="float16"),
        Filter1d(900, 190, 2, channels=5, layout="btc", dtype="complex64", taps_dtype="complex64"),
        Filter1d(257, 257, 3, channels=7, filters=7, mode="causal", dtype="bfloat16", activation="silu"),
        Filter1d(2000, 140, channels=9, dtype="int16", weights=tuple(k % 7 - 3 for k in range(140))),
    )
    drawn = ((each, FAMILY.space(each, DEVICE).drawn(rng)) for each in problems)
    verified.check(host, quickest, [(each, FAMILY.program(each, config)) for each, config in drawn if config])
