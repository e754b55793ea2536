"""`filter1d_fft` on a GPU: long filters, every size of lines, the sanitizers, what is not finite, bound weights."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import warpsmith as ws
from random_configs import some, some_configs
from warpsmith.devices.cuda.runtime import cuda_device
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter1d.fft_family import Filter1dFft
from warpsmith.tuner.operations.registry import random_operands

pytestmark = pytest.mark.gpu

FAMILY = Filter1dFft()
LENGTHS = (1, 63, 64, 65, 127, 128, 129, 255, 256, 257, 1026, 4099)
LONG = (
    Filter1d(300_007, 257),
    Filter1d(400_000, 4097, mode="same"),
    Filter1d(400_000, 16385, nonfinite="any"),
    Filter1d(50_000, 20_000, lags=(-7000, 40_000), down=3),
    Filter1d(1024, 1024, 2, channels=24, filters=24, mode="causal"),
    Filter1d(3001, 1500, 2, channels=6, filters=3, dtype="bfloat16", bias=True, activation="silu"),
    Filter1d(9000, 300, 2, channels=20, filters=20, layout="btc", mode="causal"),
    Filter1d(200_001, 129, dtype="complex64", taps_dtype="complex64", down=8),
    Filter1d(100_000, 700, dtype="int16", convolve=True),
)


@pytest.mark.parametrize("problem", LONG, ids=lambda problem: problem.key())
def test_long_filters(check_configs: Callable[..., None], problem: Filter1d) -> None:
    check_configs([problem], some(3, starts=3), families=(FAMILY,))


def test_every_length_around_a_block(check_configs: Callable[..., None]) -> None:
    problems = [Filter1d(length, taps, channels=3, mode="same") for length in LENGTHS for taps in (33, 65)]
    check_configs(problems, some(2, starts=1), families=(FAMILY,))


@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "synccheck"])
def test_it_is_clean_under_compute_sanitizer(check_under_sanitizer: Callable[..., None], tool: str) -> None:
    device = cuda_device(0)
    problems = [
        *(Filter1d(length, 33, channels=3, filters=3, mode="causal") for length in LENGTHS[::2]),
        Filter1d(3000, 2000, dtype="float16"),
        Filter1d(700, 65, 2, channels=5, layout="btc", dtype="complex64"),
        Filter1d(1024, 1024, channels=6, filters=6, mode="causal", dtype="bfloat16"),
    ]
    cases = [
        (problem, FAMILY.program(problem, config))
        for problem in problems
        for config in some_configs(FAMILY, problem, device, 1, starts=None)[::3]
    ]
    check_under_sanitizer(tool, device, cases)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_is_not_finite_reaches_only_its_windows(value: float) -> None:
    torch = pytest.importorskip("torch")
    problem = Filter1d(100_000, 1025, channels=4, filters=4, mode="causal")
    operands = random_operands(problem, 1)
    signal, weights = (torch.from_numpy(np.array(operands[name])).cuda() for name in ("signal", "weights"))
    plan = ws.plan(problem, "cuda:0")
    assert plan.match.program.family == FAMILY.name
    clean = plan(signal, weights)
    assert torch.equal(plan(signal, weights), clean)
    signal[1, 1000] = value
    dirty = plan(signal, weights)
    assert not torch.isfinite(dirty[1, 1000:2025]).any()
    dirty[1, 1000:2025] = clean[1, 1000:2025]
    assert (dirty - clean).abs().max() < 1e-5 * clean.abs().max()
    others = [0, 2, 3]
    assert torch.equal(dirty[others], clean[others])


def test_bound_weights_give_the_same_bits() -> None:
    torch = pytest.importorskip("torch")
    problem = Filter1d(100_000, 1025, channels=4, filters=4, mode="causal")
    operands = random_operands(problem, 1)
    signal, weights = (torch.from_numpy(np.array(operands[name])).cuda() for name in ("signal", "weights"))
    plan = ws.plan(problem, "cuda:0")
    expected = plan(signal, weights)
    held = plan.hold(weights=weights.clone())
    assert torch.equal(held(signal), expected)
    signal[2, 5000] = float("nan")
    assert torch.equal(held(signal).nan_to_num(), plan(signal, weights).nan_to_num())
