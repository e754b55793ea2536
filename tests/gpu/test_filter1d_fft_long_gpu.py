"""`filter1d_fft_long` on a GPU: blocks beyond shared memory, the sanitizers, samples that are not finite."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import warpsmith as ws
from random_configs import some, some_configs
from warpsmith.devices.cuda.runtime import cuda_device
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter1d.fft_long_family import Filter1dFftLong
from warpsmith.tuner.operations.registry import random_operands

pytestmark = pytest.mark.gpu

FAMILY = Filter1dFftLong()
LONG = (
    Filter1d(200_003, 60_001),
    Filter1d(120_000, 120_000, channels=5, filters=5, mode="causal", dtype="bfloat16"),
    Filter1d(70_000, 50_000, 2, channels=6, filters=3, mode="same", dtype="float16", bias=True, activation="silu"),
    Filter1d(150_000, 60_000, lags=(-7001, 100_000), down=3, convolve=True),
    Filter1d(100_000, 51_000, channels=2, dtype="complex64", taps_dtype="complex64"),
    Filter1d(9000, 3000, 2, channels=20, filters=20, layout="btc", mode="causal"),
    Filter1d(100_000, 70_000, dtype="int16", nonfinite="any"),
    Filter1d(2000, 700, 8, channels=40, filters=8),
)


@pytest.mark.parametrize("problem", LONG, ids=lambda problem: problem.key())
def test_long_filters(check_configs: Callable[..., None], problem: Filter1d) -> None:
    check_configs([problem], some(3, starts=5), families=(FAMILY,))


@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "synccheck"])
def test_it_is_clean_under_compute_sanitizer(check_under_sanitizer: Callable[..., None], tool: str) -> None:
    device = cuda_device(0)
    problems = (
        Filter1d(1700, 133, channels=7, filters=7, mode="causal"),
        Filter1d(3000, 2000, dtype="float16"),
        Filter1d(700, 165, 2, channels=5, layout="btc", dtype="complex64"),
    )
    cases = [
        (problem, FAMILY.program(problem, config))
        for problem in problems
        for config in some_configs(FAMILY, problem, device, 1, starts=None)[::3]
    ]
    check_under_sanitizer(tool, device, cases)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_is_not_finite_reaches_only_its_windows(value: float) -> None:
    torch = pytest.importorskip("torch")
    problem = Filter1d(100_000, 60_000, channels=4, filters=4, mode="causal")
    operands = random_operands(problem, 1)
    signal, weights = (torch.from_numpy(np.array(operands[name])).cuda() for name in ("signal", "weights"))
    plan = ws.plan(problem, "cuda:0")
    assert plan.match.program.family == FAMILY.name
    clean = plan(signal, weights)
    assert torch.equal(plan(signal, weights), clean)
    signal[1, 1000] = value
    dirty = plan(signal, weights)
    assert not torch.isfinite(dirty[1, 1000:61_000]).any()
    dirty[1, 1000:61_000] = clean[1, 1000:61_000]
    assert (dirty - clean).abs().max() < 1e-5 * clean.abs().max()
    others = [0, 2, 3]
    assert torch.equal(dirty[others], clean[others])
