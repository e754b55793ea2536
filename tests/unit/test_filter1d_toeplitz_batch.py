"""`filter1d_toeplitz_batch`: tables of taps, samples that a block holds, products that are counted, what it refuses."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from warpsmith.generator.device import Device
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter1d.operation import FILTER1D
from warpsmith.generator.filter1d.toeplitz_batch_family import Filter1dToeplitzBatch
from warpsmith.generator.filter1d.toeplitz_batch_geometry import (
    CORE,
    ROWS,
    STEP,
    Filter1dToeplitzBatchGeometry,
    filter_rows,
)
from warpsmith.generator.presets import H200, PRESETS

FAMILY = Filter1dToeplitzBatch()
TYPES: dict[str, Any] = {"dtype": "bfloat16", "taps_dtype": "bfloat16"}
PROBLEMS = (
    Filter1d(1, 1, **TYPES),
    Filter1d(256, 256, 64, channels=768, filters=768, mode="causal", **TYPES),
    Filter1d(1024, 1024, 64, channels=8, filters=8, mode="causal", **TYPES),
    Filter1d(300, 70, 5, channels=6, filters=2, **TYPES),
    Filter1d(5000, 129, 3, channels=32, mode="same", **TYPES),
    Filter1d(90, 400, 3, channels=4, **TYPES),
    Filter1d(1000, 17, 2, lags=(-5, 700), channels=8, pitch=2 * 1004, result_pitch=2 * 708, **TYPES),
    Filter1d(700, 333, 70, lags=(600, 699), **TYPES),
)


def geometries(problem: Filter1d) -> list[Filter1dToeplitzBatchGeometry]:
    space, rng = FAMILY.space(problem, H200), random.Random(problem.key())
    configs = [FAMILY.default(problem, H200), *(space.drawn(rng) for _ in range(8))]
    return [Filter1dToeplitzBatchGeometry.of(problem, each) for each in configs if each is not None]


@pytest.mark.parametrize("problem", PROBLEMS, ids=Filter1d.key)
def test_core_matrices_of_taps_are_the_toeplitz_matrix(problem: Filter1d) -> None:
    """Column n of a chunk is its output columns - 1 - n, row k the sample k of its steps."""
    taps = np.arange(1, problem.taps + 1)
    for geometry in geometries(problem):
        columns, padded = geometry.columns, np.zeros(geometry.padded, int)
        first = columns - 1 + geometry.lead
        padded[first : first + problem.taps] = taps[: geometry.padded - first]
        cores = np.array([[padded[8 * i + n : 8 * i + n + CORE] for n in range(CORE)] for i in range(geometry.cores)])
        for step in range(geometry.steps):
            for n in range(columns):
                found = [cores[2 * step + k // CORE + n // CORE, n % CORE, k % CORE] for k in range(STEP)]
                numbers = [STEP * step + k - geometry.lead - (columns - 1 - n) for k in range(STEP)]
                assert found == [taps[i] if 0 <= i < problem.taps else 0 for i in numbers]


@pytest.mark.parametrize("problem", PROBLEMS, ids=Filter1d.key)
def test_steps_are_those_of_the_windows(problem: Filter1d) -> None:
    """A warpgroup multiplies the steps of the signal that its windows touch; a block copies those of all of them."""
    for geometry in geometries(problem):
        assert geometry.first_step * STEP + geometry.lead == problem.first_lag
        rows = ROWS * geometry.row_tiles * geometry.filters
        products, copied = 0, 0
        for block in range(geometry.parts):
            touched: set[int] = set()
            for group in range(geometry.groups):
                output = block * geometry.block_outputs + group * geometry.columns
                first = (problem.first_lag + output) // STEP
                last = (problem.first_lag + output + geometry.columns - 1 + problem.taps - 1) // STEP
                steps = set(range(max(first, 0), min(last + 1, geometry.signal_steps)))
                assert len(steps) == geometry.steps_between(output, geometry.columns)
                products += len(steps) if output < problem.result_length else 0
                touched |= steps
            assert len(touched) == geometry.steps_between(block * geometry.block_outputs, geometry.block_outputs)
            copied += len(touched)
        assert geometry.products == products * STEP * geometry.columns * rows
        assert geometry.copied == copied * STEP * geometry.rows * geometry.filters


def test_every_row_of_a_filter_is_in_one_tile() -> None:
    for problem in PROBLEMS:
        for geometry in geometries(problem):
            assert filter_rows(problem) * problem.filters == problem.rows
            assert (geometry.row_tiles - 1) * ROWS < geometry.rows <= geometry.row_tiles * ROWS
            assert geometry.block_outputs * geometry.parts >= problem.result_length


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (Filter1d(100, 9), "float16 and bfloat16 samples"),
        (Filter1d(100, 9, dtype="bfloat16"), "taps and results of 16 bits"),
        (Filter1d(100, 9, dtype="bfloat16", taps_dtype="bfloat16", result_dtype="float32"), "results of 16 bits"),
        (Filter1d(100, 9, channels=2, layout="btc", **TYPES), "layout bct"),
        (Filter1d(100, 9, down=2, **TYPES), "keeps every 2-th"),
        (Filter1d(9000, 5000, **TYPES), "4096 taps at the most"),
    ],
    ids=str,
)
def test_a_refusal_names_the_reason(problem: Filter1d, reason: str) -> None:
    assert reason in (FAMILY.why_not(problem, H200) or "")


@pytest.mark.parametrize("device", [each for each in PRESETS.values() if each.compute_capability[0] != 9], ids=str)
def test_other_architectures_have_no_wgmma(device: Device) -> None:
    assert "wgmma" in (FAMILY.why_not(PROBLEMS[1], device) or "")


def test_it_answers_for_filters_as_long_as_the_signals_of_a_batch() -> None:
    def fastest(problem: Filter1d) -> str:
        likely = [each for each in FILTER1D.families if each.is_likely(problem, H200)]
        return min(likely, key=lambda each: each.expected_ns(problem, H200) or np.inf).name

    long: dict[str, Any] = {"channels": 768, "filters": 768, "mode": "causal", **TYPES}
    assert fastest(Filter1d(256, 256, 64, **long)) == FAMILY.name
    assert fastest(Filter1d(1024, 1024, 64, **long)) == FAMILY.name
    assert fastest(Filter1d(2048, 2048, 64, **long)) == FAMILY.name
    assert fastest(Filter1d(4096, 4096, 64, **long)) == "filter1d_fft"
    assert fastest(Filter1d(8192, 128, channels=8192, filters=512, mode="causal", **TYPES)) != FAMILY.name
