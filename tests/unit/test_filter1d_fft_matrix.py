"""`filter1d_fft_matrix` and `Filter1d.precision`: radices without wrapped products, memory, refusals and answers."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from warpsmith.errors import BadArgument
from warpsmith.generator.device import Device
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter1d.fft_matrix_family import Filter1dFftMatrix
from warpsmith.generator.filter1d.fft_matrix_geometry import (
    INNER,
    Filter1dFftMatrixGeometry,
    least_radix,
    shift_of,
)
from warpsmith.generator.filter1d.operation import FILTER1D
from warpsmith.generator.filter1d.toeplitz_batch_geometry import filter_rows
from warpsmith.generator.precision import Precision
from warpsmith.generator.presets import H200, T4
from warpsmith.generator.problem import Problem

FAMILY = Filter1dFftMatrix()
F16: dict[str, Any] = {"dtype": "bfloat16", "precision": "f16"}
PROBLEMS = (
    Filter1d(4096, 4096, 64, channels=768, filters=768, mode="causal", **F16),
    Filter1d(8760, 3001, 5, channels=6, filters=2, mode="same", **F16),
    Filter1d(4096, 4096, lags=(0, 4095), **F16),
    Filter1d(1000, 1047, 3, **F16),
    Filter1d(300, 6000, 7, lags=(-4000, -3800), **F16),
    Filter1d(6000, 300, lags=(5000, 5100), **F16),
    Filter1d(5000, 200, mode="valid", **F16),
)


@pytest.mark.parametrize("problem", PROBLEMS, ids=Filter1d.key)
def test_negacyclic_products_are_the_outputs(problem: Filter1d) -> None:
    """Outputs are the first numbers of a negacyclic product of twice as many numbers as a row has complex ones."""
    generator = np.random.default_rng(1)
    signal, taps = generator.integers(-9, 10, problem.signal), generator.integers(-9, 10, problem.taps)
    full = np.convolve(signal, taps)
    period, shift, outputs = 2 * INNER * least_radix(problem), shift_of(problem), problem.result_length
    assert max(problem.signal, outputs) <= period // 2  # so that both are real parts alone
    folded = np.zeros(period, np.int64)
    for place, value in enumerate(full):
        turns, rest = divmod(place - shift, period)
        folded[rest] += value * (-1) ** (turns % 2)
    assert np.array_equal(folded[:outputs], full[shift : shift + outputs])


@pytest.mark.parametrize("problem", PROBLEMS, ids=Filter1d.key)
def test_every_row_is_in_one_block(problem: Filter1d) -> None:
    space, rng = FAMILY.space(problem, H200), random.Random(problem.key())
    for config in (FAMILY.default(problem, H200), *(space.drawn(rng) for _ in range(6))):
        assert config is not None
        geometry = Filter1dFftMatrixGeometry.of(problem, config)
        rows = filter_rows(problem)
        assert (geometry.groups - 1) * geometry.rows < rows <= geometry.groups * geometry.rows
        assert geometry.blocks == problem.filters * geometry.groups
        assert geometry.shared_bytes <= H200.shared_per_block_bytes
        assert geometry.warps <= geometry.radix  # each has an outer frequency
        assert 16 * INNER * (geometry.signal_tiles - 1) < problem.signal <= INNER * geometry.radix


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (Filter1d(4096, 4096, dtype="bfloat16"), "precision f16"),
        (Filter1d(4096, 4096, result_dtype="float32", **F16), "results of 16 bits"),
        (Filter1d(4096, 4096, channels=2, layout="btc", **F16), "layout bct"),
        (Filter1d(4096, 4096, down=2, **F16), "keeps every 2-th"),
        (Filter1d(4096, 128, **F16), "129 samples at the least"),
        (Filter1d(32769, 300, mode="causal", **F16), "32768 points at the most"),
        (Filter1d(4096, 4096, gates="before", **F16), "multiplies by no gates"),
        (Filter1d(4096, 4096, mode="causal", state="before", **F16), "state"),
    ],
    ids=str,
)
def test_a_refusal_names_the_reason(problem: Filter1d, reason: str) -> None:
    assert reason in (FAMILY.why_not(problem, H200) or "")


def test_older_gpus_have_no_such_product() -> None:
    assert "mma.sync" in (FAMILY.why_not(PROBLEMS[0], T4) or "")


@pytest.mark.parametrize("device", [H200], ids=lambda each: each.name)
def test_it_answers_for_filters_as_long_as_signals_of_a_batch(device: Device) -> None:
    def fastest(problem: Filter1d) -> str:
        likely = [each for each in FILTER1D.families if each.is_likely(problem, device)]
        return min(likely, key=lambda each: each.expected_ns(problem, device) or np.inf).name

    long: dict[str, Any] = {"channels": 768, "filters": 768, "mode": "causal", "taps_dtype": "bfloat16", **F16}
    assert fastest(Filter1d(1024, 1024, 64, **long)) == "filter1d_toeplitz_batch"
    for samples in (4096, 8760, 16384, 32768):
        assert fastest(Filter1d(samples, samples, 64, **long)) == FAMILY.name
    assert fastest(Filter1d(4096, 4096, 64, **{**long, "precision": "ieee"})) == "filter1d_fft"


def test_the_default_precision_is_in_no_key() -> None:
    """Stored winners of problems without a precision stay theirs."""
    plain = Filter1d(4096, 4096, dtype="bfloat16")
    assert plain.precision is Precision.IEEE
    assert "precision" not in plain.key()
    assert plain.error_bound == 1e-6
    coarse = Filter1d(4096, 4096, **F16)
    assert coarse.key().endswith("precision=f16")
    assert coarse.error_bound == 4e-3
    assert Problem.from_spec("filter1d", coarse.spec()) == coarse
    assert plain.distance(coarse) != plain.distance(plain)


def test_a_gradient_of_the_signal_keeps_the_precision() -> None:
    gradient = Filter1d(4096, 4096, mode="causal", pass_="dgrad", **F16)  # type: ignore[arg-type]  # a name
    assert gradient.precision is Precision.F16
    assert not gradient.pass_.is_gradient
    assert FAMILY.why_not(gradient, H200) is None


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"precision": "f16"}, "float16 and bfloat16 signals"),
        ({"precision": "tf32", "dtype": "float16"}, "precision"),
        ({"accuracy": "elementwise", **F16}, "accuracy signalwise"),
        ({"pass_": "wgrad", **F16}, "are of precision ieee"),
        ({"pass_": "dgrad", "activation": "silu", **F16}, "are of precision ieee"),
    ],
    ids=str,
)
def test_a_precision_that_data_do_not_have_is_refused(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadArgument, match=reason):
        Filter1d(4096, 4096, mode="causal", **fields)
