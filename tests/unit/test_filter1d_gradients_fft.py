"""`filter1d_gradients_fft`: tiles, groups and shares that make every product once, refusals, and defaults."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter1d.gradients_fft_family import Filter1dGradientsFft
from warpsmith.generator.filter1d.gradients_fft_geometry import Filter1dGradientsFftGeometry
from warpsmith.generator.presets import H200
from warpsmith.generator.ranking import default_answer

FAMILY = Filter1dGradientsFft()
WGRAD: dict[str, Any] = {"pass_": "wgrad"}
BFLOAT: dict[str, Any] = {"dtype": "bfloat16", "taps_dtype": "bfloat16", **WGRAD}
PROBLEMS = (
    Filter1d(300, 300, 3, channels=2, filters=2, mode="causal", **WGRAD),
    Filter1d(900, 70, 2, channels=6, filters=2, lags=(-20, 700), **WGRAD),
    Filter1d(400, 1200, 3, **WGRAD),
    Filter1d(1500, 600, 1, lags=(1000, 1499), **WGRAD),
)


def geometries(problem: Filter1d) -> list[Filter1dGradientsFftGeometry]:
    space, rng = FAMILY.space(problem, H200), random.Random(problem.key())
    configs = [FAMILY.default(problem, H200), *(space.drawn(rng) for _ in range(5))]
    return [Filter1dGradientsFftGeometry.of(problem, each) for each in configs if each is not None]


@pytest.mark.parametrize("problem", PROBLEMS, ids=Filter1d.key)
def test_real_parts_of_circular_correlations_are_the_gradients(problem: Filter1d) -> None:
    """The sums of one filter by the rule of the kernel: two tiles a line, rows after each other, shares added."""
    numbers = np.random.default_rng(1)
    rows = problem.batch * problem.channels // problem.filters
    x = numbers.standard_normal((rows, problem.signal))
    dy = numbers.standard_normal((rows, problem.result_length))
    windows = np.pad(x, ((0, 0), (problem.taps + problem.result_length,) * 2))
    start = problem.taps + problem.result_length + problem.first_lag
    expected = [(dy * windows[:, start + k : start + k + problem.result_length]).sum() for k in range(problem.taps)]
    for geometry in geometries(problem):
        np.testing.assert_allclose(found_by(geometry, x, dy), expected, atol=1e-9)


def found_by(geometry: Filter1dGradientsFftGeometry, x: Any, dy: Any) -> Any:
    found = np.zeros(geometry.groups * geometry.lags)
    for group in range(geometry.groups):
        tiles = geometry.met_tiles(group)
        assert [each for number in range(geometry.shares) for each in geometry.share(group, number)] == list(
            geometry.met(group)
        )
        for line in geometry.met(group):
            parts = [part_of(geometry, x, dy, group, tiles, 2 * line + each) for each in range(2)]
            samples, outputs = (parts[0][i] + 1j * parts[1][i] for i in range(2))
            product = np.fft.fft(samples) * np.fft.fft(outputs).conj()
            own = slice(group * geometry.lags, (group + 1) * geometry.lags)
            found[own] += np.fft.ifft(product).real[: geometry.lags]
    return found[: geometry.taps]


def part_of(geometry: Filter1dGradientsFftGeometry, x: Any, dy: Any, group: int, tiles: range, number: int) -> Any:
    """Samples and outputs of a tile, by its number among the tiles of all rows that meet samples."""
    samples, outputs = np.zeros(geometry.points), np.zeros(geometry.points)
    row, tile = divmod(number, len(tiles))
    if row < len(x):
        begin = tiles[tile] * geometry.tile
        first = geometry.first + group * geometry.lags + begin
        own = dy[row, begin : begin + geometry.tile]
        outputs[: len(own)] = own
        for place in range(geometry.points):
            samples[place] = x[row, first + place] if 0 <= first + place < x.shape[1] else 0.0
    return samples, outputs


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (Filter1d(300, 300, mode="causal"), "computes gradients alone"),
        (Filter1d(300, 300, mode="causal", pass_="backward"), "computes gradients of weights"),
        (Filter1d(300, 300, mode="causal", bias=True, **WGRAD), "without bias and activation"),
        (Filter1d(300, 300, mode="causal", accuracy="elementwise", **WGRAD), "accuracy signalwise"),
        (Filter1d(300, 300, mode="causal", channels=2, layout="btc", **WGRAD), "layout bct"),
        (Filter1d(300, 32, mode="causal", **WGRAD), "fewer than 33 taps"),
    ],
)
def test_refusals(problem: Filter1d, reason: str) -> None:
    why_not = FAMILY.why_not(problem, H200)
    assert why_not is not None
    assert reason in why_not


def test_it_answers_long_filters_and_tensor_cores_those_of_16_bits() -> None:
    def family(taps: int, **fields: Any) -> str:
        problem = Filter1d(4096, taps, 64, channels=768, filters=768, mode="causal", **fields)
        return default_answer(problem, H200)[0].name

    assert [family(taps, **WGRAD) for taps in (64, 1000, 4096)] == ["filter1d_gradients_fft"] * 3
    assert family(64, **BFLOAT) == "filter1d_gradients_batch"
    assert family(4096, **BFLOAT) == "filter1d_gradients_fft"


def test_causal_groups_leave_out_tiles_before_the_signal() -> None:
    """8,192 taps in two groups: the older one meets no sample in the first of two tiles."""
    problem = Filter1d(8192, 8192, 64, channels=768, filters=768, mode="causal", **WGRAD)
    geometry = Filter1dGradientsFftGeometry.of(problem, FAMILY.default(problem, H200))
    assert [len(geometry.met_tiles(each)) for each in range(geometry.groups)] == [1, 2]
