"""Scales and parts of split numbers in `filter1d_toeplitz`: very large and very small numbers, and infinite taps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from joined import plans_of
from warpsmith.devices.elements import numpy_dtype
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter1d.toeplitz_family import Filter1dToeplitz
from warpsmith.generator.problem import Accuracy, NonFinite
from warpsmith.generator.space import Config

FAMILY = Filter1dToeplitz()
DEVICE = DeviceRef(DeviceKind.HOST).device()
LARGEST = float(np.finfo(np.float32).max)
Values = NDArray[Any]


def filtered(
    host: HostRuntime, compiler: HostCompiler, problem: Filter1d, signal: Values, weights: Values, **wanted: Any
) -> Values:
    config = Config.of({**FAMILY.default(problem, DEVICE).values(), **wanted})
    (plan,) = plans_of(host, compiler, [(problem, FAMILY.program(problem, config))])
    return np.array(plan(signal, weights))


def drawn(samples: int, taps: int) -> tuple[Values, Values]:
    random = np.random.default_rng(samples + taps)
    return random.standard_normal(samples).astype(np.float32), random.standard_normal(taps).astype(np.float32)


def exact(signal: Values, weights: Values) -> Values:
    return np.correlate(signal.astype(np.float64), weights.astype(np.float64), "full")


@pytest.mark.parametrize(("samples_by", "taps_by"), [(100, -100), (-100, 100), (110, 0), (0, -90), (-60, -40)])
def test_powers_of_two_change_no_other_bit(
    host: HostRuntime, quickest: HostCompiler, samples_by: int, taps_by: int
) -> None:
    signal, weights = drawn(700, 30)
    problem = Filter1d(700, 30)
    plain = filtered(host, quickest, problem, signal, weights)
    scaled = filtered(
        host, quickest, problem, np.ldexp(signal, samples_by), np.ldexp(weights, taps_by).astype(np.float32)
    )
    assert np.array_equal(scaled, np.ldexp(plain, samples_by + taps_by))
    assert np.abs(plain - exact(signal, weights)).max() < 1e-6 * np.abs(weights).sum() * np.abs(signal).max()


@pytest.mark.parametrize("split", ["halves", "bfloats"])
def test_the_largest_and_the_smallest_numbers(host: HostRuntime, quickest: HostCompiler, split: str) -> None:
    """The largest numbers have no bfloat16 next to them: their windows are summed tap by tap. Subnormal numbers are the
    parts of each other.
    """
    problem = Filter1d(600, 5)
    weights = np.array([0.25, -0.5, 0.125, 0.0625, 0.03125], np.float32)
    for signal in (np.full(600, LARGEST, np.float32), np.arange(600, dtype=np.float32) * np.float32(2.0**-140)):
        result = filtered(host, quickest, problem, signal, weights, split=split)
        expected = exact(signal, weights)
        assert np.abs(result - expected).max() <= 1e-6 * np.abs(signal).max()


def test_tiles_have_scales_of_their_own(host: HostRuntime, quickest: HostCompiler) -> None:
    """Samples 2^60 times smaller keep their bits where no tile has both kinds."""
    problem = Filter1d(20_000, 9, mode="same")
    signal, weights = drawn(20_000, 9)
    signal[10_000:] *= np.float32(2.0**-60)
    result = filtered(host, quickest, problem, signal, weights, strips=1, warps=1, row_blocks=0)
    expected = exact(signal, weights)[4:-4]
    error = np.abs(result - expected)
    assert error[:10_000].max() < 1e-5
    assert error[10_300:].max() < 1e-5 * 2.0**-60


@pytest.mark.parametrize("accuracy", [Accuracy.SIGNALWISE, Accuracy.ELEMENTWISE])
@pytest.mark.parametrize("nonfinite", NonFinite)
def test_infinite_numbers_reach_their_windows_alone(
    host: HostRuntime, quickest: HostCompiler, accuracy: Accuracy, nonfinite: NonFinite
) -> None:
    problem = Filter1d(3000, 40, accuracy=accuracy, nonfinite=nonfinite)
    signal, weights = drawn(3000, 40)
    signal[[700, 2000]] = np.inf, np.nan
    result = filtered(host, quickest, problem, signal, weights)
    reached = np.convolve(~np.isfinite(signal), np.ones(40), "full") > 0
    assert np.array_equal(~np.isfinite(result), reached)
    expected = exact(np.where(np.isfinite(signal), signal, 0), weights)
    assert np.abs(result - expected)[~reached].max() < 2e-5


def test_an_infinite_tap_gives_what_its_products_are(host: HostRuntime, quickest: HostCompiler) -> None:
    signal, weights = drawn(300, 9)
    weights[3] = np.inf
    result = filtered(host, quickest, Filter1d(300, 9, mode="valid"), signal, weights)
    assert np.array_equal(result, np.where(signal[3:-5] > 0, np.inf, -np.inf))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("largest", [LARGEST, 2.0**-148])
def test_the_largest_and_the_smallest_taps(
    host: HostRuntime, quickest: HostCompiler, dtype: str, largest: float
) -> None:
    problem = Filter1d(600, 5, dtype=dtype, result_dtype="float32")  # type: ignore[arg-type]
    weights = np.array([0.5, -1, 0.25, 0.125, 0], np.float32) * np.float32(largest)
    signal = np.resize(np.array([0.5, 0.125, -0.25, 1], np.float32), 600)
    result = filtered(host, quickest, problem, signal.astype(numpy_dtype(problem.dtype)), weights)
    expected = exact(signal, weights)
    fits = np.abs(expected) < LARGEST
    assert fits.any()
    bound = np.maximum(1e-6 * np.abs(weights).sum(dtype=np.float64), 2.0**-149)
    assert (np.abs(result.astype(np.float64) - expected)[fits] <= bound).all()
