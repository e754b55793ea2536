"""`filter1d_gradients_fft` on the CPU: slices, rows that share a filter, shares, samples that are not finite."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import verified
from joined import plan_of
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter1d.gradients_fft_family import Filter1dGradientsFft
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config
from warpsmith.plans.first_use.check import check_on_random_data
from warpsmith.tuner.operations.registry import random_operands, references

DEVICE = DeviceRef(DeviceKind.HOST).device()
FAMILY = Filter1dGradientsFft()
BFLOAT: dict[str, Any] = {"dtype": "bfloat16", "taps_dtype": "bfloat16"}
SHAPES: tuple[dict[str, Any], ...] = (
    {"signal": 200, "taps": 200, "batch": 7, "channels": 3, "filters": 3, "mode": "causal", "convolve": True},
    {"signal": 3000, "taps": 70, "batch": 5, "channels": 6, "filters": 2, "dtype": "float16"},
    {"signal": 2501, "taps": 300, "mode": "same", **BFLOAT},
    {"signal": 90, "taps": 400, "batch": 3, "channels": 2, "nonfinite": "any"},
    {"signal": 1600, "taps": 129, "channels": 4, "lags": (-5, 1400), "pitch": 6420, "result_pitch": 5648},
    {"signal": 1500, "taps": 700, "batch": 2, "lags": (1200, 1499), "result_dtype": "float32", **BFLOAT},
    {"signal": 900, "taps": 800, "batch": 3, "mode": "valid"},
)
PROBLEMS = tuple(Filter1d(**each, pass_="wgrad") for each in SHAPES)


def program_of(problem: Filter1d, **wanted: str | int) -> Program:
    """Program of the default config with some other values."""
    config = Config.of({**FAMILY.default(problem, DEVICE).values(), **wanted})
    assert FAMILY.space(problem, DEVICE).why_not(config) is None, FAMILY.space(problem, DEVICE).why_not(config)
    return FAMILY.program(problem, config)


def test_slices_and_shares(host: HostRuntime, quickest: HostCompiler) -> None:
    """Data with samples that are not finite are among those that verify a program."""
    rng = random.Random(5)
    cases = [(each, program_of(each, shares=1)) for each in PROBLEMS]
    drawn = ((each, FAMILY.space(each, DEVICE).drawn(rng)) for each in PROBLEMS)
    cases += [(each, FAMILY.program(each, config)) for each, config in drawn if config]
    assert len(cases) > len(PROBLEMS)
    verified.check(host, quickest, cases)


def test_groups_of_taps(host: HostRuntime, quickest: HostCompiler) -> None:
    """Short lines under a long causal filter: the oldest taps meet no sample of the first tiles."""
    problem = Filter1d(700, 700, 2, channels=2, filters=2, mode="causal", convolve=True, pass_="wgrad")
    verified.check(host, quickest, [(problem, program_of(problem, radices="32x8", shares=2, prefetch="next"))])


def test_a_nan_spoils_only_taps_that_meet_it(host: HostRuntime, quickest: HostCompiler) -> None:
    """The newest sample of a causal filter meets the newest tap alone, in one of two rows of a line."""
    problem = Filter1d(300, 300, 2, mode="causal", pass_="wgrad")
    plan = plan_of(host, quickest, problem, program_of(problem, shares=1))
    operands = dict(random_operands(problem, 3))
    operands["signal"] = operands["signal"].copy()
    operands["signal"][1, -1] = np.nan
    found = plan(*(operands[each.name] for each in problem.inputs))
    expected = references(problem, operands)["weights_gradient"]
    assert np.isnan(found).nonzero()[0].tolist() == np.isnan(expected.expected).nonzero()[0].tolist() == [299]
    assert np.allclose(found[:-1], expected.expected[:-1], rtol=1e-5, atol=1e-3)


def test_first_use_takes_an_error_relative_to_the_signal(host: HostRuntime, quickest: HostCompiler) -> None:
    """The oldest taps of a causal filter have few terms beside the error of a transform; wrong results are found."""
    problem = Filter1d(300, 300, 2, channels=2, filters=2, mode="causal", pass_="wgrad")
    finding = check_on_random_data(plan_of(host, quickest, problem, program_of(problem)).loaded, quickest, 1)
    assert finding is not None
    assert finding.is_right, finding
    other = Filter1d(300, 300, 2, channels=2, filters=2, mode="causal", pass_="wgrad", convolve=True)
    finding = check_on_random_data(plan_of(host, quickest, problem, program_of(other)).loaded, quickest, 1)
    assert finding is not None
    assert not finding.is_right
