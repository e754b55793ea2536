"""`filter1d_fft` on the CPU: channels that do not disturb each other, samples that are not finite, bound weights."""

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
from warpsmith.generator.filter1d.fft_family import Filter1dFft
from warpsmith.generator.prepacking import split_program
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config
from warpsmith.tuner.operations.registry import random_operands, reference

DEVICE = DeviceRef(DeviceKind.HOST).device()
FAMILY = Filter1dFft()
PLAIN = {"twiddles": "table", "min_blocks": 0}
LENGTHS = (1, 63, 64, 65, 127, 128, 129, 255, 256, 257, 1026, 4099)
PACKINGS = ({"packing": "pair", "radices": "16x16"}, {"packing": "half", "radices": "16x8"})
every_packing = pytest.mark.parametrize("packing", PACKINGS, ids=lambda each: each["packing"])


def program_of(problem: Filter1d, **wanted: str | int) -> Program:
    """Program of the config that is closest to the wanted values."""
    config = Config.of({**FAMILY.default(problem, DEVICE).values(), "threads": 32, "lines": 1, **PLAIN, **wanted})
    assert FAMILY.space(problem, DEVICE).why_not(config) is None, config
    return FAMILY.program(problem, config)


@every_packing
def test_every_length_and_slice(packing: dict[str, str], host: HostRuntime, quickest: HostCompiler) -> None:
    """Lengths around blocks, filters longer than the signal, and slices that begin anywhere."""
    modes = ("full", "same", "causal")
    problems = [Filter1d(length, 40, mode=modes[i % 3]) for i, length in enumerate(LENGTHS)]
    problems += [Filter1d(length, 37, 2, channels=3, filters=3, lags=(-5, length - 3)) for length in (65, 300)]
    verified.check(host, quickest, [(each, program_of(each, **packing)) for each in problems])


@every_packing
def test_every_element_type(packing: dict[str, str], host: HostRuntime, quickest: HostCompiler) -> None:
    """Two adjacent samples are one load, of 2 to 8 bytes."""
    types = ("float32", "float16", "bfloat16", "int16", "uint8")
    problems = [Filter1d(600, 34, mode="same", dtype=each) for each in types]  # type: ignore[arg-type]  # a name
    verified.check(host, quickest, [(each, program_of(each, **packing)) for each in problems])


@every_packing
def test_a_channel_does_not_see_the_scale_of_another(
    packing: dict[str, str], host: HostRuntime, quickest: HostCompiler
) -> None:
    """Channels of 1e-6 and 1e6 side by side have the bits that each has alone."""
    problem = Filter1d(700, 33, channels=4, mode="same")
    alone = Filter1d(700, 33, mode="same")
    plan, single = plans_of(
        host, quickest, [(problem, program_of(problem, **packing)), (alone, program_of(alone, **packing))]
    )
    operands = random_operands(problem, 1)
    signal = np.array(operands["signal"]) * np.array([[1e-6], [1e6], [1.0], [1e-6]], np.float32)
    result = np.array(plan(signal, operands["weights"]))
    for row, expected in zip(signal, result, strict=True):
        assert np.array_equal(np.array(single(row.copy(), operands["weights"])), expected)


def spoilt(signal: NDArray[np.float32]) -> NDArray[np.float32]:
    signal = signal.copy()
    signal[1, 300], signal[1, 301], signal[2, 0] = np.nan, np.inf, -np.inf
    return signal


@every_packing
@pytest.mark.parametrize("lines", [1, 4])
def test_what_is_not_finite_stays_in_its_windows(
    packing: dict[str, str], lines: int, host: HostRuntime, quickest: HostCompiler
) -> None:
    """Outputs of other channels keep their bits, also where a thread block has lines of several channels."""
    problem = Filter1d(700, 33, channels=4, mode="same")
    plan = plan_of(host, quickest, problem, program_of(problem, lines=lines, **packing))
    operands = random_operands(problem, 1)
    clean = np.array(operands["signal"])
    before, after = (np.array(plan(each, operands["weights"])) for each in (clean, spoilt(clean)))
    reached = np.isnan(reference(problem, {**operands, "signal": spoilt(clean)}).scale)
    assert not np.isfinite(after[reached]).any()
    assert np.isfinite(after[~reached]).all()
    assert np.array_equal(after[[0, 3]], before[[0, 3]])
    assert np.abs(after - before)[~reached].max() < 1e-5


@every_packing
def test_other_channels_keep_their_bits_if_more_may_be_reached(
    packing: dict[str, str], host: HostRuntime, quickest: HostCompiler
) -> None:
    problem = Filter1d(700, 33, channels=4, mode="same", nonfinite="any")
    program = program_of(problem, lines=4, **packing)
    assert "repair" not in program.source
    plan = plan_of(host, quickest, problem, program)
    operands = random_operands(problem, 1)
    clean = np.array(operands["signal"])
    before, after = (np.array(plan(each, operands["weights"])) for each in (clean, spoilt(clean)))
    assert np.array_equal(after[[0, 3]], before[[0, 3]])


@every_packing
def test_bound_weights_make_their_spectrum_once(
    packing: dict[str, str], host: HostRuntime, quickest: HostCompiler
) -> None:
    problem = Filter1d(700, 33, 2, channels=3, filters=3)
    plan = plan_of(host, quickest, problem, program_of(problem, **packing))
    operands = random_operands(problem, 1)
    signal, weights = np.array(operands["signal"]), np.array(operands["weights"])
    expected = np.array(plan(signal, weights))
    split = split_program(program_of(problem, **packing), {"weights"})
    assert split is not None
    assert [len(each.launches) for each in (split.first, split.rest)] == [1, 1]
    held = plan.hold(weights=weights.copy())
    assert np.array_equal(np.array(held(signal)), expected)
    signal[0, 0, 100] = np.nan
    assert np.array_equal(np.array(held(signal)), np.array(plan(signal, weights)), equal_nan=True)


def test_random_configs_of_many_channels(host: HostRuntime, quickest: HostCompiler) -> None:
    """Lines that do not fill a thread block, both layouts, filters for groups, every kind of epilogue."""
    rng = random.Random(7)
    problems = (
        Filter1d(300, 65, 3, channels=6, filters=2, bias=True, activation="silu", down=3),
        Filter1d(300, 65, 3, channels=6, filters=2, bias=True, layout="btc", convolve=True),
        Filter1d(500, 90, 2, channels=5, layout="btc", dtype="complex64", taps_dtype="complex64"),
        Filter1d(257, 257, 3, channels=7, filters=7, mode="causal", dtype="bfloat16", activation="silu"),
    )
    drawn = ((each, FAMILY.space(each, DEVICE).drawn(rng)) for each in problems for _ in range(4))
    verified.check(host, quickest, [(each, FAMILY.program(each, config)) for each, config in drawn if config])
