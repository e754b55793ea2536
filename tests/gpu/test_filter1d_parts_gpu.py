"""`filter1d_lags` and `filter1d_parts` on a GPU: two long signals, the sanitizers, what is not finite, equal bits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import warpsmith as ws
from random_configs import some, some_configs
from warpsmith.devices.cuda.runtime import cuda_device
from warpsmith.generator.family import Family
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter1d.lags_family import Filter1dLags
from warpsmith.generator.filter1d.parts_family import Filter1dParts
from warpsmith.tuner.operations.registry import random_operands

pytestmark = pytest.mark.gpu

LAGS, PARTS = Filter1dLags(), Filter1dParts()
FAMILIES: tuple[Family, ...] = (LAGS, PARTS)
LONG = (
    Filter1d(300_007, 300_000, lags=(-128, 128)),
    Filter1d(100_000, 90_001, mode="same", nonfinite="any"),
    Filter1d(60_000, 50_000, 2, channels=4, filters=2, lags=(-7, 1000), convolve=True),
    Filter1d(40_000, 40_000, dtype="complex64", taps_dtype="complex64", lags=(-100, 156), nonfinite="any"),
    Filter1d(50_000, 50_000, lags=(-49_999, -49_000), dtype="int16"),
    Filter1d(30_000, 9000, dtype="bfloat16", lags=(-500, 20_000), down=5, nonfinite="any"),
    Filter1d(16_640, 16_384, mode="valid", bias=True, activation="silu"),
)


@pytest.mark.parametrize("problem", LONG, ids=lambda problem: problem.key())
def test_two_long_signals(check_configs: Callable[..., None], problem: Filter1d) -> None:
    check_configs([problem], some(3, starts=5), families=FAMILIES)


@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "synccheck"])
def test_they_are_clean_under_compute_sanitizer(check_under_sanitizer: Callable[..., None], tool: str) -> None:
    device = cuda_device(0)
    problems = [
        Filter1d(3000, 2900, channels=2, lags=(-9, 40), nonfinite="any"),
        Filter1d(1000, 900, dtype="complex64", nonfinite="any"),
    ]
    cases = [
        (problem, family.program(problem, config))
        for problem in problems
        for family in FAMILIES
        for config in some_configs(family, problem, device, 1, starts=None)[::2]
        if config.values().get("way") not in ("blocks", "space") or config.integer("signal_block") == 64
    ]
    check_under_sanitizer(tool, device, cases)


def test_a_number_that_is_not_finite_reaches_only_its_windows() -> None:
    """A NaN before the windows of the lags from 81 on, in a share of the tiles that all lags need."""
    torch = pytest.importorskip("torch")
    problem = Filter1d(1 << 18, (1 << 18) - 100, channels=2, lags=(50, 99))
    operands = random_operands(problem, 1)
    signal, weights = (torch.from_numpy(np.array(operands[name])).cuda() for name in ("signal", "weights"))
    plan = ws.plan(problem, "cuda:0")
    assert plan.match.program.family == LAGS.name
    clean = plan(signal, weights)
    assert torch.equal(plan(signal, weights), clean)
    signal[1, 80] = float("nan")
    dirty = plan(signal, weights)
    assert torch.isnan(dirty[1, :31]).all()
    assert torch.equal(dirty[0], clean[0])
    assert (dirty[1, 31:] - clean[1, 31:]).abs().max() < 1e-4 * clean.abs().max()
