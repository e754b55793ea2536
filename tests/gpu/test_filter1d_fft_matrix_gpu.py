"""`filter1d_fft_matrix` on a GPU: radices, slices and epilogues, compute-sanitizer, and the precision's error bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import warpsmith as ws
from random_configs import some
from warpsmith.devices.cuda.runtime import cuda_device
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter1d.fft_matrix_family import Filter1dFftMatrix

pytestmark = pytest.mark.gpu

FAMILY = Filter1dFftMatrix()
BFLOAT: dict[str, Any] = {"dtype": "bfloat16", "precision": "f16"}
HALF: dict[str, Any] = {"dtype": "float16", "taps_dtype": "float16", "precision": "f16"}
PROBLEMS = (
    Filter1d(4096, 4096, 7, channels=16, filters=16, mode="causal", **BFLOAT),
    Filter1d(8760, 8760, 5, channels=8, filters=4, mode="causal", bias=True, activation="silu", **HALF),
    Filter1d(14113, 5000, 4, channels=6, filters=6, mode="same", convolve=True, **BFLOAT),
    Filter1d(32768, 32768, 2, channels=3, filters=3, lags=(0, 32767), **HALF),
    Filter1d(1001, 1047, 9, channels=5, filters=1, pitch=2 * 1010, result_pitch=2 * 2050, **BFLOAT),
)


def test_configs_are_right(check_configs: Callable[..., None]) -> None:
    check_configs(PROBLEMS, some(4), families=(FAMILY,))


@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "synccheck"])
def test_kernels_are_clean_under_compute_sanitizer(check_under_sanitizer: Callable[..., None], tool: str) -> None:
    device = cuda_device(0)
    problems = (Filter1d(2000, 2000, 3, channels=4, filters=2, mode="causal", bias=True, **HALF), PROBLEMS[-1])
    cases = [(each, FAMILY.program(each, FAMILY.default(each, device))) for each in problems]
    check_under_sanitizer(tool, device, cases)


@pytest.mark.parametrize("kind", ["signs", "tone", "step"])
def test_signals_as_large_as_their_scale_are_within_the_bound(kind: str) -> None:
    """Outputs of a filter of one tap are as large as the scale, so that errors are largest relative to it."""
    problem = Filter1d(16384, 16384, 64, channels=8, filters=8, mode="causal", convolve=True, **BFLOAT)
    times = torch.arange(16384, device="cuda")
    signs = torch.randint(0, 2, (64, 8, 16384), device="cuda", generator=torch.Generator("cuda").manual_seed(1)) * 2 - 1
    signal = {"signs": signs, "tone": torch.cos(0.3 * times), "step": (times > 5000) * 1.0}[kind]
    signal = signal.expand(64, 8, 16384).to(torch.bfloat16).contiguous()
    weights = torch.zeros(8, 16384, device="cuda")
    weights[:, 7] = 1.0
    result = ws.plan(problem, "cuda:0", method=FAMILY.name)(signal, weights)
    expected = torch.nn.functional.pad(signal, (7, 0))[..., :16384]
    assert (result.float() - expected.float()).abs().max() <= problem.error_bound + 2**-9
    assert (result - expected).double().square().mean().sqrt() <= 2e-3
