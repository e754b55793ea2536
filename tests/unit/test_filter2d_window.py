"""Outputs of the sliding window: interior and frame partition the outputs, interior accesses are aligned."""

from __future__ import annotations

import random

import numpy as np
import pytest
from numpy.typing import NDArray

from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.filter2d.text import result_pitch, row_pitch
from warpsmith.generator.filter2d.window_family import Filter2dWindow
from warpsmith.generator.filter2d.window_geometry import WindowGeometry
from warpsmith.generator.presets import H200
from warpsmith.generator.problem import DType

WINDOW = Filter2dWindow()

PROBLEMS = [
    Filter2d(image=(1, 1), filter=(1, 1)),
    Filter2d(image=(1, 131), filter=(1, 5), dtype=DType.FLOAT16),
    Filter2d(image=(97, 1), filter=(3, 1), border=Border.REFLECT, channels=4),
    Filter2d(image=(40, 133), filter=(3, 3)),
    Filter2d(image=(37, 150), filter=(3, 3), border=Border.NEAREST, filters=3, planes=2),
    Filter2d(image=(50, 148), filter=(2, 2), border=Border.CONSTANT, dtype=DType.UINT8, channels=3),
    Filter2d(image=(64, 128), filter=(4, 4), planes=3, border=Border.WRAP, result_dtype=DType.FLOAT16),
    Filter2d(image=(70, 260), filter=(5, 5), border=Border.MIRROR, convolve=True, anchor=(0, 4)),
    Filter2d(image=(90, 36), filter=(6, 1), planes=5, pitch=160, result_pitch=148),
    Filter2d(image=(5, 3), filter=(12, 7), border=Border.MIRROR, dtype=DType.UINT8),
    Filter2d(image=(90, 515), filter=(7, 7), channels=2, dtype=DType.UINT8, pitch=1057),
]


def geometries(problem: Filter2d) -> list[WindowGeometry]:
    """Geometries of the default config and of random ones, the same in each run."""
    space, rng = WINDOW.space(problem, H200), random.Random(problem.key())
    configs = [WINDOW.default(problem, H200), *filter(None, (space.drawn(rng) for _ in range(60)))]
    return [WindowGeometry.of(problem, config) for config in configs]


def sizes(problem: Filter2d) -> tuple[int, int]:
    """Rows of the result, and elements of one."""
    return problem.output_shape[0], problem.output_shape[1] * problem.channels


def frame(problem: Filter2d, g: WindowGeometry) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row and element of each frame output: the arithmetic of locate() in filter2d_frame.cu.jinja."""
    rows, elements = sizes(problem)
    n, interior = np.arange(g.frame_pixels), g.interior_threads * g.columns
    whole = (rows - g.interior_rows) * elements
    above = n[n < whole] // elements
    sides = max(1, elements - interior)
    inside, element = np.divmod(n[n >= whole] - whole, sides)
    skew = np.array(g.skews)[inside % len(g.skews)]
    return (
        np.concatenate([np.where(above < g.first_row, above, above + g.interior_rows), g.first_row + inside]),
        np.concatenate(
            [n[n < whole] % elements, np.where(element < g.first_column + skew, element, element + interior)]
        ),
    )


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.key().replace(" ", ","))
class TestGeometry:
    def test_interior_and_frame_compute_every_output_once(self, problem: Filter2d) -> None:
        for g in geometries(problem):
            computed = np.zeros(sizes(problem), np.int64)
            for inside in range(g.interior_rows):
                first = g.first_column + g.skews[inside % len(g.skews)]
                computed[g.first_row + inside, first : first + g.interior_threads * g.columns] += 1
            np.add.at(computed, frame(problem, g), 1)
            assert (computed == 1).all(), g

    def test_blocks_cover_both_and_no_block_is_idle(self, problem: Filter2d) -> None:
        for g in geometries(problem):
            threads = g.block_columns * g.block_strips
            assert 0 <= g.frame_blocks * threads - g.frame_pixels * problem.planes < threads
            if g.interior_threads:
                assert 0 <= g.column_blocks * g.block_columns - g.interior_threads < g.block_columns
                tall = g.rows * g.block_strips
                assert 0 <= g.strip_blocks * tall - g.interior_rows < tall

    def test_the_interior_reads_whole_vectors_of_the_image_s_own_rows(self, problem: Filter2d) -> None:
        (above, left), channels = problem.before, problem.channels
        for g in (each for each in geometries(problem) if each.interior_threads):
            assert g.first_row >= above
            assert g.first_row - above + g.interior_rows + problem.filter[0] - 1 <= problem.image[0]
            for row in range(g.interior_rows + problem.filter[0] - 1):
                first = g.first_column - left * channels - g.leads[row % len(g.leads)]
                assert first >= 0
                reach = (g.interior_threads - 1) * g.columns + g.loads * g.load_vector
                assert first + reach <= problem.image[1] * channels
                assert ((g.first_row - above + row) * row_pitch(problem) + first) % g.load_vector == 0
            assert g.columns % g.load_vector == 0
            assert max(g.leads) < g.load_vector

    def test_the_interior_stores_whole_vectors(self, problem: Filter2d) -> None:
        for g in (each for each in geometries(problem) if each.interior_threads):
            for row in range(g.interior_rows):
                first = g.first_column + g.skews[row % len(g.skews)]
                assert ((g.first_row + row) * result_pitch(problem) + first) % g.store_vector == 0
                assert first + g.interior_threads * g.columns <= sizes(problem)[1]
            assert g.columns % g.store_vector == 0
            assert max(g.skews) < g.store_vector

    def test_loads_cover_the_window_and_nothing_is_loaded_in_vain(self, problem: Filter2d) -> None:
        for g in geometries(problem):
            needed = max(g.leads) + g.columns + max(g.skews) + (problem.filter[1] - 1) * problem.channels
            assert needed <= g.loads * g.load_vector < needed + g.load_vector

    def test_the_loop_turns_a_whole_number_of_times(self, problem: Filter2d) -> None:
        for g in geometries(problem):
            assert g.rows % g.unroll == 0
            assert g.interior_rows % g.unroll == 0


def test_an_interior_is_most_of_an_image() -> None:
    problem = Filter2d(image=(1080, 1920), filter=(5, 5), border=Border.REFLECT)
    assert all(g.frame_pixels < 0.1 * problem.output.size for g in geometries(problem))


def test_spaces_that_differ_have_fingerprints_that_differ() -> None:
    spaces = [
        WINDOW.space(Filter2d(image=(40, 40), filter=size, border=Border.REFLECT), H200)
        for size in ((3, 3), (9, 9), (31, 31))
    ]
    assert len({space.fingerprint for space in spaces}) == 3
