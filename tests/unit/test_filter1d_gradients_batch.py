"""`filter1d_gradients_batch`: diagonals that hold every tap, samples that a block holds, what it refuses."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter1d.gradients_batch_family import Filter1dGradientsBatch
from warpsmith.generator.filter1d.gradients_batch_geometry import TILE, Filter1dGradientsBatchGeometry
from warpsmith.generator.filter1d.operation import FILTER1D
from warpsmith.generator.filter1d.toeplitz_batch_geometry import CORE
from warpsmith.generator.presets import H200

FAMILY = Filter1dGradientsBatch()
TYPES: dict[str, Any] = {"dtype": "bfloat16", "taps_dtype": "bfloat16", "pass_": "wgrad"}
PROBLEMS = (
    Filter1d(1, 1, **TYPES),
    Filter1d(256, 256, 64, channels=768, filters=768, mode="causal", **TYPES),
    Filter1d(700, 300, 5, channels=6, filters=2, **TYPES),
    Filter1d(5000, 129, 3, channels=32, mode="same", **TYPES),
    Filter1d(90, 400, 3, channels=4, **TYPES),
    Filter1d(1000, 17, 2, lags=(-5, 700), channels=8, pitch=2 * 1004, result_pitch=2 * 708, **TYPES),
)


def geometries(problem: Filter1d) -> list[Filter1dGradientsBatchGeometry]:
    space, rng = FAMILY.space(problem, H200), random.Random(problem.key())
    configs = [FAMILY.default(problem, H200), *(space.drawn(rng) for _ in range(8))]
    return [Filter1dGradientsBatchGeometry.of(problem, each) for each in configs if each is not None]


def test_diagonals_of_products_are_the_gradients() -> None:
    """The sums of a tile's outputs times the samples beside it, by the rule of the kernel, for one row."""
    problem, random_numbers = Filter1d(300, 70, lags=(-33, 250), **TYPES), np.random.default_rng(1)
    x, dy = random_numbers.standard_normal(problem.signal), random_numbers.standard_normal(problem.result_length)
    expected = [
        sum(dy[t] * x[s] for t in range(len(dy)) if 0 <= (s := t + problem.first_lag + k) < len(x))
        for k in range(problem.taps)
    ]
    for geometry in geometries(problem):
        found = np.zeros(problem.taps)
        for lag_part in range(geometry.lag_parts):
            matrix = np.zeros((TILE, geometry.width))
            for tile in range(-(-len(dy) // TILE)):
                first = geometry.first + lag_part * geometry.lags + tile * TILE
                samples = np.array([x[s] if 0 <= s < len(x) else 0.0 for s in range(first, first + geometry.width)])
                outputs = np.array([dy[t] if t < len(dy) else 0.0 for t in range(tile * TILE, (tile + 1) * TILE)])
                matrix += np.outer(outputs, samples)
            for i in range(min(geometry.lags, problem.taps - lag_part * geometry.lags)):
                diagonal = (matrix[m, m + geometry.lead + i] for m in range(TILE))
                found[lag_part * geometry.lags + i] = sum(diagonal)
        np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("problem", PROBLEMS, ids=Filter1d.key)
def test_a_block_holds_the_samples_of_its_columns(problem: Filter1d) -> None:
    for geometry in geometries(problem):
        assert geometry.first % CORE == 0
        assert geometry.lags * geometry.lag_parts >= problem.taps
        assert geometry.lead + geometry.lags + TILE - 1 <= geometry.width
        for lag_part in range(geometry.lag_parts):
            for time_part in range(geometry.time_parts):
                begin, end = geometry.held_of(time_part, lag_part)
                assert begin % CORE == end % CORE == 0
                assert end - begin <= geometry.held
                for tile in range(geometry.tiles):
                    output = (time_part * geometry.tiles + tile) * TILE
                    for group in range(geometry.groups):
                        column = geometry.first + lag_part * geometry.lags + output + group * geometry.columns
                        is_used = output < problem.result_length and -geometry.columns < column < problem.signal
                        assert not is_used or begin <= column <= column + geometry.columns <= end


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (Filter1d(100, 9), "no filter (pass fprop)"),
        (Filter1d(100, 9, **{**TYPES, "pass_": "backward"}), "this is backward"),
        (Filter1d(100, 9, bias=True, **TYPES), "without bias"),
        (Filter1d(100, 9, pass_="wgrad"), "float16 or both bfloat16"),  # type: ignore[arg-type]  # a name
        (Filter1d(100, 9, channels=2, layout="btc", **TYPES), "layout bct"),
    ],
    ids=str,
)
def test_a_refusal_names_the_reason(problem: Filter1d, reason: str) -> None:
    assert reason in (FAMILY.why_not(problem, H200) or "")


def test_it_answers_for_long_filters() -> None:
    def fastest(problem: Filter1d) -> str:
        likely = [each for each in FILTER1D.families if each.is_likely(problem, H200)]
        return min(likely, key=lambda each: each.expected_ns(problem, H200) or np.inf).name

    many: dict[str, Any] = {"channels": 768, "filters": 768, "mode": "causal", **TYPES}
    assert fastest(Filter1d(1024, 1024, 64, **many)) == FAMILY.name
    assert fastest(Filter1d(1024, 64, 64, **many)) == FAMILY.name
    assert fastest(Filter1d(1024, 4, 64, **many)) == "filter1d_gradients_warp"
