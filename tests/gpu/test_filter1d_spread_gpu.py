"""Filters of signals on a GPU: every family, and libraries that compute the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from filter1d_problems import SPREAD
from random_configs import some
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter1d.operation import FILTER1D
from warpsmith.tuner.evaluate.verify import verify
from warpsmith.tuner.operations.judge import FLOAT32_BOUND
from warpsmith.tuner.operations.registry import peers, random_operands, reference

pytestmark = pytest.mark.gpu

LARGE = (
    Filter1d(1 << 22, 33),
    Filter1d((1 << 20) + 7, 129, mode="same", dtype="complex64", taps_dtype="complex64"),
    Filter1d(8192, 4, 4, channels=512, filters=512, mode="causal", dtype="bfloat16", taps_dtype="bfloat16"),
    Filter1d(8193, 7, 4, channels=510, filters=510, mode="causal", dtype="bfloat16", layout="btc"),
    Filter1d(1 << 20, 129, dtype="int16", down=8),
    Filter1d(4000, 3000, 8, channels=4, filters=4, mode="same"),
)


@pytest.mark.parametrize("part", range(8))
def test_every_family_combines_all_options(check_configs: Callable[..., None], part: int) -> None:
    check_configs(SPREAD[part::8], some(2), families=FILTER1D.families)


@pytest.mark.parametrize("problem", LARGE, ids=lambda problem: problem.key())
def test_every_family_filters_long_signals(check_configs: Callable[..., None], problem: Filter1d) -> None:
    check_configs([problem], some(2), families=FILTER1D.families)


@pytest.mark.parametrize("problem", [*SPREAD[::9], *LARGE], ids=lambda problem: problem.key())
def test_libraries_compute_the_problem(problem: Filter1d) -> None:
    operands = random_operands(problem, 0)
    expected = reference(problem, operands)
    for peer in peers(problem, operands, DeviceKind.CUDA):
        peer.run()
        result = peer.result()
        assert result.shape == problem.output.shape
        error = verify(result, expected, problem.output.dtype).max_error
        assert error <= (peer.tolerance or 20 * FLOAT32_BOUND), peer.name
