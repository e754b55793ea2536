"""Outputs of matrix-product warps: interior and frame partition the outputs, loads are aligned and in the image."""

from __future__ import annotations

import random

import numpy as np
import pytest
from numpy.typing import NDArray

from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.filter2d.matrix_family import DEPTH, SEGMENT, TILE, Filter2dMatrix, MatrixGeometry
from warpsmith.generator.filter2d.text import result_pitch, row_pitch
from warpsmith.generator.presets import H200
from warpsmith.generator.problem import DType, NonFinite
from warpsmith.generator.space import Config

MATRIX = Filter2dMatrix()

PROBLEMS = [
    Filter2d(image=(1, 4), filter=(1, 1), dtype=DType.UINT8),
    Filter2d(image=(40, 704), filter=(5, 5), dtype=DType.UINT8),
    Filter2d(image=(41, 702), filter=(4, 4), dtype=DType.FLOAT16, border=Border.REFLECT, nonfinite=NonFinite.ANY),
    Filter2d(image=(33, 141), filter=(2, 2), dtype=DType.UINT8, border=Border.WRAP, pitch=144, planes=3),
    Filter2d(image=(50, 160), filter=(13, 5), dtype=DType.UINT8, border=Border.MIRROR, anchor=(12, 0)),
    Filter2d(
        image=(50, 160),
        filter=(12, 3),
        dtype=DType.FLOAT16,
        border=Border.MIRROR,
        anchor=(0, 2),
        channels=2,
        nonfinite=NonFinite.ANY,
    ),
    Filter2d(image=(30, 400), filter=(9, 13), dtype=DType.UINT8, border=Border.NEAREST, convolve=True),
    Filter2d(image=(30, 400), filter=(8, 4), dtype=DType.UINT8, channels=4, result_dtype=DType.FLOAT32),
]


def geometries(problem: Filter2d) -> list[MatrixGeometry]:
    """Geometries of the default config and of random ones, the same in each run."""
    space, rng = MATRIX.space(problem, H200), random.Random(problem.key())
    configs = [MATRIX.default(problem, H200), *filter(None, (space.drawn(rng) for _ in range(60)))]
    assert all(space.why_not(config) is None for config in configs)
    return [MatrixGeometry.of(problem, config) for config in configs]


def interior_columns(g: MatrixGeometry) -> int:
    """Elements across the interior."""
    return g.last_column + TILE * g.tiles - g.first_column


def frame(problem: Filter2d, g: MatrixGeometry) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row and element of each frame output: the arithmetic of locate() in filter2d_frame.cu.jinja."""
    rows, elements = problem.output_shape[0], problem.output_shape[1] * problem.channels
    n, interior = np.arange(g.frame_pixels), interior_columns(g)
    whole = (rows - g.interior_rows) * elements
    above = n[n < whole] // elements
    inside, element = np.divmod(n[n >= whole] - whole, max(1, elements - interior))
    return (
        np.concatenate([np.where(above < g.first_row, above, above + g.interior_rows), g.first_row + inside]),
        np.concatenate([n[n < whole] % elements, np.where(element < g.first_column, element, element + interior)]),
    )


@pytest.mark.parametrize("dtype", [DType.UINT8, DType.FLOAT16])
@pytest.mark.parametrize("image", [(64, 64), (1080, 1920), (2000, 3000), (9216, 9216)], ids=str)
def test_the_default_is_in_the_space_of_every_filter(image: tuple[int, int], dtype: DType) -> None:
    solved = 0
    for taps in range(1, 32):
        for channels in (1, 3, 4):
            problem = Filter2d(image=image, filter=(taps, taps), dtype=dtype, channels=channels)
            if MATRIX.why_not(problem, H200) is None:
                assert MATRIX.space(problem, H200).why_not(MATRIX.default(problem, H200)) is None, problem.key()
                solved += 1
    assert solved >= 13


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.key().replace(" ", ","))
class TestGeometry:
    def test_interior_and_frame_compute_every_output_once(self, problem: Filter2d) -> None:
        """The last warp is the exception: it computes some of its neighbour's outputs again."""
        for g in geometries(problem):
            computed = np.zeros((problem.output_shape[0], problem.output_shape[1] * problem.channels), np.int64)
            for warp in range(g.interior_warps):
                first = min(g.first_column + warp * TILE * g.tiles, g.last_column)
                assert first + TILE * g.tiles <= computed.shape[1]
                computed[g.first_row : g.first_row + g.interior_rows, first : first + TILE * g.tiles] = 1
            np.add.at(computed, frame(problem, g), 1)
            assert (computed == 1).all(), g

    def test_blocks_cover_both_and_no_block_is_idle(self, problem: Filter2d) -> None:
        for g in geometries(problem):
            threads = 32 * g.block_warps * g.block_strips
            assert 0 <= g.frame_blocks * threads - g.frame_pixels * problem.planes < threads
            if g.interior_warps:
                assert 0 <= g.column_blocks * g.block_warps - g.interior_warps < g.block_warps
                tall = g.rows * g.block_strips
                assert 0 <= g.strip_blocks * tall - g.interior_rows < tall

    def test_the_interior_reads_whole_words_of_the_image_s_own_rows(self, problem: Filter2d) -> None:
        size = problem.dtype.itemsize
        assert row_pitch(problem) * size % 4 == 0
        for g in (each for each in geometries(problem) if each.interior_warps):
            before = problem.before[1] * problem.channels + g.lead
            first, last = g.first_column - before, g.last_column - before
            assert first >= 0
            assert first * size % 4 == last * size % 4 == 0
            assert last + TILE * g.tiles - SEGMENT + DEPTH // g.product_rows <= problem.image[1] * problem.channels
            top = g.first_row - problem.before[0]
            assert 0 <= top <= problem.image[0] - (g.interior_rows + g.window_rows - 1)

    def test_a_product_s_depth_covers_windows_and_the_elements_before_them(self, problem: Filter2d) -> None:
        reach = SEGMENT + (problem.filter[1] - 1) * problem.channels
        assert all(g.lead >= 0 and g.lead + reach <= DEPTH // g.product_rows for g in geometries(problem))

    def test_stores_are_at_most_a_word_and_aligned_in_every_row(self, problem: Filter2d) -> None:
        for g in geometries(problem):
            assert g.adjacent <= 2 * g.tiles
            assert g.adjacent == 1 or g.adjacent * problem.output.dtype.itemsize <= 4
            columns = (g.first_column, g.last_column, result_pitch(problem), TILE * g.tiles)
            assert all(each % g.adjacent == 0 for each in columns)

    def test_pixels_read_early_are_those_of_the_first_turn(self, problem: Filter2d) -> None:
        for g in geometries(problem):
            assert g.prefetch <= g.early <= (g.window_rows - 1) // g.product_rows + g.prefetch

    def test_windows_begin_and_end_with_products(self, problem: Filter2d) -> None:
        for g in geometries(problem):
            assert g.window_rows >= problem.filter[0]
            assert (g.window_rows - 1) % g.product_rows == 0
            assert g.unroll % g.product_rows == 0
            assert g.rows % g.unroll == 0
            assert g.interior_rows % g.unroll == 0


def test_an_interior_is_most_of_an_image() -> None:
    problem = Filter2d(image=(1080, 1920), filter=(5, 5), dtype=DType.UINT8, border=Border.REFLECT)
    assert all(g.frame_pixels < 0.1 * problem.output.size for g in geometries(problem))


def test_two_rows_make_a_product_where_half_of_its_depth_covers_the_windows() -> None:
    for columns, channels, rows in ((5, 1, 2), (6, 1, 1), (3, 2, 2), (2, 3, 2), (3, 3, 1), (2, 4, 2), (4, 4, 1)):
        problem = Filter2d(image=(64, 640), filter=(3, columns), channels=channels, dtype=DType.UINT8)
        assert {g.product_rows for g in geometries(problem)} == {rows}


@pytest.mark.parametrize(
    ("adjacent", "problem"),
    [
        (4, Filter2d(image=(64, 7680), filter=(5, 5), dtype=DType.UINT8)),
        (2, Filter2d(image=(64, 7680), filter=(3, 3), dtype=DType.UINT8)),  # rows of 7678 bytes
        (1, Filter2d(image=(64, 7680), filter=(4, 4), dtype=DType.UINT8)),
        (2, Filter2d(image=(64, 7680), filter=(5, 5), dtype=DType.UINT8, border=Border.REFLECT)),
        (4, Filter2d(image=(64, 7680), filter=(7, 7), dtype=DType.UINT8, border=Border.REFLECT)),  # one element of lead
        (2, Filter2d(image=(64, 7680), filter=(5, 5), dtype=DType.FLOAT16, nonfinite=NonFinite.ANY)),
        (1, Filter2d(image=(64, 7680), filter=(5, 5), dtype=DType.UINT8, result_dtype=DType.FLOAT32)),
    ],
    ids=lambda value: value.key().replace(" ", ",") if isinstance(value, Filter2d) else "",
)
def test_stores_are_as_wide_as_rows_and_loads_allow(adjacent: int, problem: Filter2d) -> None:
    config = Config.of({**MATRIX.default(problem, H200).values(), "tiles": 2})
    assert MatrixGeometry.of(problem, config).adjacent == adjacent


@pytest.mark.parametrize(("result_dtype", "is_normal"), [("float32", True), ("float16", True), ("uint8", False)])
def test_bytes_are_normal_halves_where_results_are_not_bytes(result_dtype: str, is_normal: bool) -> None:
    """Tensor cores align products of subnormal fp16 numbers like 2^-14: sums of dark pixels would lose ten bits."""
    problem = Filter2d(image=(1080, 1920), filter=(6, 9), dtype="uint8", result_dtype=result_dtype)
    source = MATRIX.program(problem, MATRIX.default(problem, H200)).source
    assert ("subtract_1024(" in source) == is_normal
