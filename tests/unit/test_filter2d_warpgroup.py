"""Outputs of warpgroup products: interior and frame partition the outputs, copies and stores are aligned."""

from __future__ import annotations

import dataclasses
import math
import random
import re
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import exhaustive
from warpsmith.generator.architectures import STATIC_SHARED_BYTES
from warpsmith.generator.family import Subject
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.filter2d.separable import separable_terms
from warpsmith.generator.filter2d.text import result_pitch, row_pitch
from warpsmith.generator.filter2d.warpgroup_family import MAX_DEPTH, Filter2dWarpgroup
from warpsmith.generator.filter2d.warpgroup_geometry import (
    COLUMNS,
    SEGMENT,
    Filter2dWarpgroupGeometry,
    batches,
    part_rows,
    parts_choices,
)
from warpsmith.generator.filter2d.warpgroup_walk import STRIPS, strips
from warpsmith.generator.presets import H200, HOST
from warpsmith.generator.problem import PIXELS, Accuracy, DType, NonFinite
from warpsmith.generator.space import Config

WARPGROUP = Filter2dWarpgroup()

BINOMIAL_15 = tuple(float(math.comb(14, r) * math.comb(14, s)) for r in range(15) for s in range(15))
TWO_TERMS = tuple(float((r + 1) * (s - 2) + (r % 2) * (s + 3)) for r in range(8) for s in range(6))
FULL_RANK = tuple(float((i * i * 7 + i * 3) % 11 - 5) for i in range(25))

PROBLEMS = [
    Filter2d(image=(40, 528), filter=(9, 9), nonfinite=NonFinite.ANY),
    Filter2d(image=(41, 702), filter=(4, 4), dtype=DType.FLOAT16, border=Border.REFLECT, nonfinite=NonFinite.ANY),
    Filter2d(image=(33, 541), filter=(2, 2), dtype=DType.UINT8, border=Border.WRAP, pitch=544, planes=3),
    Filter2d(image=(50, 660), filter=(13, 5), dtype=DType.UINT8, border=Border.MIRROR, anchor=(12, 0)),
    Filter2d(
        image=(50, 301),
        filter=(12, 3),
        dtype=DType.FLOAT16,
        border=Border.MIRROR,
        anchor=(0, 2),
        channels=2,
        nonfinite=NonFinite.ANY,
    ),
    Filter2d(image=(30, 700), filter=(9, 13), dtype=DType.UINT8, border=Border.NEAREST, convolve=True),
    Filter2d(image=(30, 400), filter=(8, 4), dtype=DType.UINT8, channels=3, result_dtype=DType.FLOAT32),
    Filter2d(image=(37, 1101), filter=(5, 3), border=Border.CONSTANT, cval=1.5, nonfinite=NonFinite.ANY),
    Filter2d(
        image=(24, 1031),
        filter=(3, 16),
        planes=2,
        border=Border.REFLECT,
        result_dtype=DType.UINT8,
        nonfinite=NonFinite.ANY,
    ),
    Filter2d(image=(64, 640), filter=(7, 25), border=Border.WRAP, nonfinite=NonFinite.ANY),
    Filter2d(
        image=(38, 612), filter=(3, 17), border=Border.REFLECT, anchor=(1, 5), nonfinite=NonFinite.ANY
    ),  # no room for a lead
    Filter2d(
        image=(64, 1080),
        filter=(3, 9),
        dtype=DType.FLOAT16,
        border=Border.REFLECT,
        anchor=(1, 3),
        nonfinite=NonFinite.ANY,
    ),  # nor here
    Filter2d(
        image=(61, 187),
        filter=(6, 2),
        channels=3,
        border=Border.WRAP,
        pitch=2252,
        convolve=True,
        nonfinite=NonFinite.ANY,
    ),
    Filter2d(
        image=(29, 3001), filter=(3, 9), dtype=DType.FLOAT16, pitch=6004, result_pitch=5990, nonfinite=NonFinite.ANY
    ),
    Filter2d(image=(80, 1301), filter=(31, 31)),
    Filter2d(image=(60, 640), filter=(17, 5), border=Border.WRAP, dtype=DType.FLOAT16, result_dtype=DType.FLOAT32),
    Filter2d(image=(70, 600), filter=(15, 15), border=Border.NEAREST, weights=BINOMIAL_15, nonfinite=NonFinite.ANY),
    Filter2d(
        image=(40, 777),
        filter=(8, 6),
        weights=TWO_TERMS,
        accuracy=Accuracy.NORMWISE,
        result_dtype=DType.FLOAT16,
        nonfinite=NonFinite.ANY,
    ),
]
every_problem = pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.key().replace(" ", ","))


def geometries(problem: Filter2d) -> list[Filter2dWarpgroupGeometry]:
    """Geometries with a separate frame: the default config's and random ones, the same in each run."""
    space, rng = WARPGROUP.space(problem, H200), random.Random(problem.key())
    usual = WARPGROUP.default(problem, H200)
    if "frame" in usual.values():
        space = space.narrowed({"frame": ["apart"]})
        usual = Config.of({**usual.values(), "frame": "apart"})
    configs = [usual, *filter(None, (space.drawn(rng) for _ in range(40)))]
    assert all(space.why_not(config) is None for config in configs)
    return [Filter2dWarpgroupGeometry.of(problem, config) for config in configs]


def frame(problem: Filter2d, g: Filter2dWarpgroupGeometry) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row and element of each frame output: the arithmetic of locate() in filter2d_frame.cu.jinja."""
    rows, elements = problem.output_shape[0], problem.output_shape[1] * problem.channels
    n, interior = np.arange(g.frame_pixels), g.last_column + COLUMNS - g.first_column
    whole = (rows - g.interior_rows) * elements
    above = n[n < whole] // elements
    inside, element = np.divmod(n[n >= whole] - whole, max(1, elements - interior))
    return (
        np.concatenate([np.where(above < g.first_row, above, above + g.interior_rows), g.first_row + inside]),
        np.concatenate([n[n < whole] % elements, np.where(element < g.first_column, element, element + interior)]),
    )


@every_problem
class TestGeometry:
    def test_interior_and_frame_compute_every_output_once(self, problem: Filter2d) -> None:
        """The last warpgroup is the exception: it computes some of its neighbour's outputs again."""
        assert WARPGROUP.why_not(problem, H200) is None
        for g in geometries(problem):
            computed = np.zeros((problem.output_shape[0], problem.output_shape[1] * problem.channels), np.int64)
            begins = [min(g.first_column + n * COLUMNS, g.last_column) for n in range(g.interior_groups)]
            assert begins == sorted(set(begins))
            for first in begins:
                assert 0 <= first <= computed.shape[1] - COLUMNS
                computed[g.first_row : g.first_row + g.interior_rows, first : first + COLUMNS] = 1
            np.add.at(computed, frame(problem, g), 1)
            assert (computed == 1).all(), g

    def test_blocks_cover_both_and_no_block_is_idle(self, problem: Filter2d) -> None:
        for g in geometries(problem):
            threads = 128 * g.block_groups * g.block_strips
            assert 0 <= g.frame_blocks * threads - g.frame_pixels * problem.planes < threads
            assert 0 <= g.column_blocks * g.block_groups - g.interior_groups < g.block_groups
            tall = g.rows * g.block_strips
            assert 0 <= g.strip_blocks * tall - g.interior_rows < tall

    def test_copies_are_aligned_and_lie_in_the_image_s_own_rows(self, problem: Filter2d) -> None:
        """True in every row of every plane, since the row pitch is a multiple of the copy vector. A warp copies a row
        in several turns, by threads whose part begins before the row's end.
        """
        for g in geometries(problem):
            assert g.copy_vector * problem.dtype.itemsize in (4, 8, 16)
            assert row_pitch(problem) % g.copy_vector == 0
            begins = [min(g.first_column + n * COLUMNS, g.last_column) for n in range(g.interior_groups)]
            for warp in (begin + 128 * n for begin in begins for n in range(4)):
                first = warp - problem.before[1] * problem.channels - g.lead
                assert first % g.copy_vector == 0
                copies = np.arange(0, 120 + g.depth, g.copy_vector)
                assert first >= 0
                assert first + copies[-1] + g.copy_vector <= problem.image[1] * problem.channels
            top = g.first_row - problem.before[0]
            assert 0 <= top <= problem.image[0] - (g.interior_rows + problem.filter[0] - 1)

    def test_loads_from_shared_memory_are_aligned(self, problem: Filter2d) -> None:
        for g in geometries(problem):
            share = g.depth // 4
            assert share % g.load_vector == 0
            row = np.arange(120 + g.depth)
            for lane in range(32):
                first = lane // 4 * 8 + lane % 4 * share
                assert first % g.load_vector == 0
                assert row[first + 64 : first + 64 + share].size == share  # the row has all of it
            assert 64 % g.load_vector == row.size % g.load_vector == row.size % g.copy_vector == 0
            assert g.load_vector * problem.dtype.itemsize in (1, 2, 4, 8, 16)

    def test_a_product_s_depth_covers_windows_and_the_elements_before_them(self, problem: Filter2d) -> None:
        reach = SEGMENT + (problem.filter[1] - 1) * problem.channels
        for g in geometries(problem):
            assert 0 <= g.lead <= g.depth - reach < 8
            assert g.depth % 8 == 0
            assert g.depth <= MAX_DEPTH

    def test_two_outputs_are_stored_at_once_where_every_row_is_aligned_for_that(self, problem: Filter2d) -> None:
        """The exception: the first window begins at an odd element, and the element before it would be read in vain."""
        pitch, before = result_pitch(problem), problem.before[1] * problem.channels
        reach = SEGMENT + (problem.filter[1] - 1) * problem.channels
        for g in geometries(problem):
            assert g.store_vector in (1, 2)
            assert all(each % g.store_vector == 0 for each in (g.first_column, g.last_column, pitch))
            assert g.store_vector == 2 or pitch % 2 or (before % 2 and g.depth == reach)

    def test_weights_and_rows_read_ahead_fit_the_shared_memory_that_every_kernel_has(self, problem: Filter2d) -> None:
        space, rng = WARPGROUP.space(problem, H200), random.Random(problem.key())
        for config in (WARPGROUP.default(problem, H200), *filter(None, (space.drawn(rng) for _ in range(40)))):
            source = WARPGROUP.program(problem, config).source
            g, constant = (
                Filter2dWarpgroupGeometry.of(problem, config),
                dict(re.findall(r"constexpr int (\w+) = (\d+);", source)),
            )
            is_literal = config.text("weights") == "literal"
            rows = len(separable_terms(problem)) if is_literal else g.batch_rows
            assert constant["kMatrixRows" if is_literal or g.parts > 1 else "kFilterRows"] == str(rows)
            factors = 2 * 4 * g.depth * 8 * rows
            rings = g.block_groups * g.block_strips * 4 * (g.prefetch + 1) * (120 + g.depth) * problem.dtype.itemsize
            assert factors + rings <= 48 * 1024 == STATIC_SHARED_BYTES

    def test_threads_get_registers_for_products_that_do_not_wait_for_each_other(self, problem: Filter2d) -> None:
        space, rng = WARPGROUP.space(problem, H200), random.Random(problem.key())
        for config in filter(None, (space.drawn(rng) for _ in range(60))):
            threads = 128 * math.prod(config.integer(name) for name in ("block_groups", "block_strips"))
            granted = H200.registers_per_multiprocessor // (threads * max(1, config.integer("min_blocks")))
            assert granted >= (112 if config.integer("ahead") else 64)

    def test_literal_weights_are_offered_where_passes_are_separable(self, problem: Filter2d) -> None:
        weights = next(each for each in WARPGROUP.space(problem, H200).parameters if each.name == "weights")
        separable = ("literal",) if separable_terms(problem) else ()
        assert weights.values == ("argument", "constant", *separable)
        assert WARPGROUP.default(problem, H200).text("weights") == ("literal" if separable else "argument")


def test_known_weights_that_are_not_separable_are_no_literals() -> None:
    problem = Filter2d(image=(64, 640), filter=(5, 5), weights=FULL_RANK, nonfinite=NonFinite.ANY)
    assert separable_terms(problem) == ()
    weights = next(each for each in WARPGROUP.space(problem, H200).parameters if each.name == "weights")
    assert weights.values == ("argument", "constant")


def test_an_interior_is_most_of_an_image() -> None:
    problem = Filter2d(image=(1080, 1920), filter=(5, 5), border=Border.REFLECT, nonfinite=NonFinite.ANY)
    assert all(g.frame_pixels < 0.02 * problem.output.size for g in geometries(problem))


def test_an_image_may_be_all_interior() -> None:
    assert {g.frame_blocks for g in geometries(Filter2d(image=(64, 1032), filter=(9, 9), nonfinite=NonFinite.ANY))} == {
        0
    }


class TestRefusals:
    WIDE = Filter2d(image=(64, 640), filter=(3, 3), nonfinite=NonFinite.ANY)

    @pytest.mark.parametrize(
        ("problem", "reason"),
        [
            (dataclasses.replace(WIDE, filters=2), "applies one filter at a time"),
            (dataclasses.replace(WIDE, filter=(1, 3)), "adds up rows of products; the filter has one row"),
            (
                dataclasses.replace(WIDE, image=(64, 519), dtype=DType.FLOAT16, pitch=1040),
                "a warpgroup computes 512 elements of a row; the image is too small",
            ),
            (
                dataclasses.replace(WIDE, image=(2, 640), border=Border.WRAP, dtype=DType.UINT8),
                "a warpgroup computes 512 elements of a row; the image is too small",
            ),
            (
                dataclasses.replace(WIDE, image=(64, 129)),
                "a warp computes 128 elements of a row; the image is too small",
            ),
            (
                dataclasses.replace(WIDE, image=(64, 127), border=Border.NEAREST),
                "a warp computes 128 elements of a row; the image is too small",
            ),
            (
                dataclasses.replace(WIDE, filter=(3, 58)),
                "a segment and its filter reach over 65 elements; products sum over 64",
            ),
            (
                dataclasses.replace(WIDE, filter=(3, 20), channels=3),
                "a segment and its filter reach over 65 elements; products sum over 64",
            ),
            (
                dataclasses.replace(WIDE, image=(256, 640), filter=(120, 3)),
                "a filter of 120 rows does not fit the registers of a thread and shared memory",
            ),
            (
                dataclasses.replace(
                    WIDE, image=(128, 640), filter=(50, 3), result_dtype=DType.FLOAT16
                ),  # never in parts
                "a filter of 50 rows does not fit the registers of a thread and shared memory",
            ),
            (
                dataclasses.replace(WIDE, image=(64, 642), dtype=DType.UINT8),
                "copies 4 bytes at a time or more, which the pitch of the rows does not keep aligned",
            ),
            (
                dataclasses.replace(WIDE, image=(64, 641), dtype=DType.FLOAT16),
                "copies 4 bytes at a time or more, which the pitch of the rows does not keep aligned",
            ),
        ],
        ids=lambda value: value.key().replace(" ", ",") if isinstance(value, Filter2d) else "",
    )
    def test_a_problem_is_refused_for_a_reason(self, problem: Filter2d, reason: str) -> None:
        assert WARPGROUP.why_not(problem, H200) == WARPGROUP.why_not(problem, HOST) == reason

    @pytest.mark.parametrize(
        "problem",
        [
            dataclasses.replace(WIDE, image=(64, 520)),
            dataclasses.replace(WIDE, image=(64, 130)),
            dataclasses.replace(WIDE, image=(64, 128), border=Border.NEAREST),
            dataclasses.replace(WIDE, image=(2, 640), border=Border.WRAP),
            dataclasses.replace(WIDE, filter=(3, 57)),
            dataclasses.replace(WIDE, filter=(3, 19), channels=3),
            dataclasses.replace(WIDE, filter=(25, 9)),
            dataclasses.replace(WIDE, filter=(31, 31)),
            dataclasses.replace(WIDE, filter=(40, 3)),
            dataclasses.replace(WIDE, filter=(25, 9), result_dtype=DType.FLOAT16),
            dataclasses.replace(WIDE, image=(64, 642), dtype=DType.UINT8, pitch=644),
            dataclasses.replace(WIDE, image=(64, 641), dtype=DType.FLOAT16, pitch=1284),
        ],
        ids=lambda problem: problem.key().replace(" ", ","),
    )
    def test_its_neighbour_is_not(self, problem: Filter2d) -> None:
        assert WARPGROUP.why_not(problem, H200) is None

    @pytest.mark.parametrize("capability", [(8, 0), (8, 9), (10, 0), (12, 0)])
    def test_other_tensor_cores_multiply_by_other_instructions(self, capability: tuple[int, int]) -> None:
        device = dataclasses.replace(H200, compute_capability=capability)
        told = WARPGROUP.why_not(self.WIDE, device)
        assert told == "needs compute capability 9.0, which has wgmma.m64nNk8.f32.tf32"
        assert WARPGROUP.why_not(self.WIDE, H200) is None


class TestDefault:
    @exhaustive.meeting(2)
    @pytest.mark.parametrize("dtype", PIXELS)
    @pytest.mark.parametrize("channels", [1, 3])
    @pytest.mark.parametrize("image", [(9216, 9216), (1080, 1920), (40, 640)], ids=str)
    def test_is_in_the_space_of_every_filter_that_is_solved(
        self, image: tuple[int, int], channels: int, dtype: DType
    ) -> None:
        """Filters of 2x2 to 17x17, and up to the largest."""
        sizes = [*((r, s) for r in range(2, 18) for s in range(2, 18)), *((r, 9) for r in range(18, 33))]
        sizes += [(r, 25) for r in range(2, 33)]
        filters = (
            Filter2d(image, size, channels=channels, dtype=dtype, border=Border.WRAP, nonfinite=NonFinite.ANY)
            for size in sizes
        )
        solved = [problem for problem in filters if WARPGROUP.why_not(problem, H200) is None]
        assert len(solved) > 128
        for problem in solved:
            space = WARPGROUP.space(problem, H200)
            assert space.why_not(WARPGROUP.default(problem, H200)) is None, problem.key()

    @pytest.mark.parametrize(
        ("size", "weights", "registers", "resident"),
        [
            (3, None, 96, 3),
            (9, None, 136, 3),
            (10, None, 176, 2),
            (13, None, 248, 2),
            (15, None, 160, 3),
            (17, None, 168, 3),
            (25, None, 168, 3),
            (31, None, 255, 2),  # for the frame; 192 for the walks
            (15, BINOMIAL_15, 160, 2),
        ],
    )
    def test_walks_are_one_wave(
        self, size: int, weights: tuple[float, ...] | None, registers: int, resident: int
    ) -> None:
        """Registers of a thread as ptxas 13.0 counts them, in the steps of eight that multiprocessors allocate."""
        assert resident * 128 * registers <= H200.registers_per_multiprocessor
        held = resident * H200.multiprocessors
        for image, least in (((9216, 9216), 0.9), ((4320, 7680), 0.8), ((1080, 1920), 0.5)):
            problem = Filter2d(image=image, filter=(size, size), weights=weights, nonfinite=NonFinite.ANY)
            g = Filter2dWarpgroupGeometry.of(problem, WARPGROUP.default(problem, H200))
            walks = g.interior_groups * math.ceil(g.interior_rows / g.rows)
            assert least * held <= walks <= held

    @pytest.mark.parametrize(
        ("rows", "dtype", "ahead"),
        [
            (2, DType.FLOAT32, 1),
            (15, DType.FLOAT32, 1),
            (16, DType.FLOAT32, 0),
            (31, DType.FLOAT32, 0),
            (12, DType.FLOAT16, 1),
            (13, DType.UINT8, 1),
            (19, DType.UINT8, 0),
        ],
    )
    def test_products_are_a_row_ahead_while_registers_suffice(self, rows: int, dtype: DType, ahead: int) -> None:
        problem = Filter2d(image=(9216, 9216), filter=(rows, 9), dtype=dtype, nonfinite=NonFinite.ANY)
        assert WARPGROUP.default(problem, H200).integer("ahead") == ahead

    @pytest.mark.parametrize(
        ("size", "image", "border", "walk"),
        [
            (15, (9216, 9216), Border.NEAREST, (0, 1, 419)),
            (15, (2000, 3000), Border.MIRROR, (0, 2, 46)),
            (15, (777, 1555), Border.CONSTANT, (0, 1, 20)),
            (13, (2000, 3000), Border.VALID, (1, 2, 46)),
            (13, (1080, 1920), Border.REFLECT, (1, 1, 31)),
            (11, (4096, 4096), Border.WRAP, (1, 2, 125)),
            (31, (1080, 1920), Border.WRAP, (0, 1, 17)),
        ],
    )
    def test_fewer_warpgroups_walk_further_where_an_image_is_small(
        self, size: int, image: tuple[int, int], border: Border, walk: tuple[int, int, int]
    ) -> None:
        """Expected rows ahead, warpgroups of a block and rows of a strip."""
        config = WARPGROUP.default(Filter2d(image, (size, size), border=border), H200)
        assert (config.integer("ahead"), config.integer("block_groups"), config.integer("rows")) == walk

    def test_walks_of_a_small_image_are_short_ones(self) -> None:
        problem = Filter2d(image=(64, 640), filter=(3, 3), nonfinite=NonFinite.ANY)
        assert WARPGROUP.default(problem, H200).integer("rows") == STRIPS[0] == strips(problem, H200)[0]


class TestParts:
    """Groups of the filter's rows."""

    def problem(self, rows: int, **fields: Any) -> Filter2d:
        return Filter2d(image=(256, 1100), filter=(rows, fields.pop("columns", 9)), **fields)

    @pytest.mark.parametrize("rows", [2, 9, 15])
    def test_are_no_parameter_of_filters_of_few_rows(self, rows: int) -> None:
        """Stored configs and texts of earlier versions stay valid."""
        problem = self.problem(rows)
        assert parts_choices(problem, H200) == (1,)
        assert "parts" not in {each.name for each in WARPGROUP.space(problem, H200).parameters}
        assert "parts" not in WARPGROUP.default(problem, H200).values()

    @pytest.mark.parametrize("rows", [16, 17, 25, 31, 40, 63])
    def test_cover_every_row_of_the_filter_once(self, rows: int) -> None:
        """A row shared by two parts has its weights in the first one only: `fresh` in split() of the template."""
        problem = self.problem(rows)
        assert max(parts_choices(problem, H200)) > 1
        for parts in parts_choices(problem, H200):
            height, weighed = part_rows(problem, parts), []
            for part in range(parts):
                top = min(part * height, rows - height)
                weighed += [row for row in range(top, top + height) if row >= part * height]
            assert weighed == list(range(rows))

    def test_are_of_float32_results(self) -> None:
        """A part's sums stay in the result until the next part adds its own, so the result must be float32."""
        assert parts_choices(self.problem(17, dtype=DType.FLOAT16), H200) == (1,)
        assert parts_choices(self.problem(17, dtype=DType.FLOAT16, result_dtype=DType.FLOAT32), H200) == (1, 2, 3, 4)

    @pytest.mark.parametrize(("size", "parts"), [(17, 1), (21, 1), (25, 2), (31, 2)])
    def test_are_as_few_as_fit(self, size: int, parts: int) -> None:
        problem = self.problem(size, columns=size)
        config = WARPGROUP.default(problem, H200)
        assert config.integer("parts") == parts
        space = WARPGROUP.space(problem, H200)
        assert space.contains(config)
        fewer = [Config.of({**config.values(), "parts": each, "prefetch": 1}) for each in range(1, parts)]
        assert not any(space.contains(each) for each in fewer)

    def test_known_weights_that_are_separable_come_whole(self) -> None:
        binomial = tuple(float(math.comb(16, r) * math.comb(16, s)) for r in range(17) for s in range(17))
        problem = self.problem(17, columns=17, weights=binomial)
        config = WARPGROUP.default(problem, H200)
        assert (config.text("weights"), config.integer("parts")) == ("literal", 1)
        told = WARPGROUP.space(problem, H200).why_not(Config.of({**config.values(), "parts": 2, "ahead": 0}))
        assert told == "literal weights are those of the whole filter"

    def test_a_winner_of_a_filter_of_few_rows_is_carried_over(self) -> None:
        few, many = self.problem(15, columns=15), self.problem(31, columns=31)
        config = WARPGROUP.carried(WARPGROUP.default(few, H200), Subject(few, H200), many, H200)
        assert config is not None
        assert config.integer("parts") == WARPGROUP.default(many, H200).integer("parts") == 2
        assert WARPGROUP.space(many, H200).contains(config)

    def test_what_two_warpgroups_compute_one_of_them_stores(self) -> None:
        """Otherwise one warpgroup could store its first sums over those to which the other has added more."""
        problem = self.problem(31, columns=31)
        g = Filter2dWarpgroupGeometry.of(problem, WARPGROUP.default(problem, H200))
        columns = np.zeros(g.last_column + COLUMNS - g.first_column, np.int64)
        for group in range(g.interior_groups):
            first = min(g.first_column + group * COLUMNS, g.last_column)
            mine = g.first_column + group * COLUMNS - first  # as in the kernel
            assert mine % g.store_vector == 0
            columns[first + max(0, mine) - g.first_column : first + COLUMNS - g.first_column] += 1
        assert (columns == 1).all()
        assert g.last_column % COLUMNS != g.first_column % COLUMNS  # two do compute some


class TestBatches:
    """Batches of the filter's rows; a thread computes their products one batch after another."""

    @pytest.mark.parametrize(("size", "number"), [(15, 1), (23, 1), (24, 1), (27, 1), (28, 2), (31, 2), (35, 2)])
    def test_are_as_few_as_fit(self, size: int, number: int) -> None:
        problem = Filter2d(image=(2000, 3000), filter=(size, size), dtype=DType.UINT8)
        config = WARPGROUP.default(problem, H200)
        g = Filter2dWarpgroupGeometry.of(problem, config)
        assert (batches(problem), g.batches, config.integer("ahead")) == (number, number, int(size == 15))
        assert (number - 1) * g.batch_rows < size <= number * g.batch_rows
        assert WARPGROUP.space(problem, H200).why_not(config) is None
        (launch,) = WARPGROUP.program(problem, config).launches
        assert launch.shared_bytes == (2 * 4 * g.depth * 8 * number * g.batch_rows if size > 23 else 0)

    def test_of_float32_results_there_are_none(self) -> None:
        assert batches(Filter2d(image=(2000, 3000), filter=(31, 31))) == 1
        assert batches(Filter2d((2000, 3000), (31, 31), dtype=DType.UINT8, result_dtype=DType.FLOAT32), H200) == 1

    def test_nor_of_separable_filters(self) -> None:
        problem = Filter2d(image=(2000, 3000), filter=(31, 31), dtype=DType.UINT8, weights=(1.0,) * 961)
        config = WARPGROUP.default(problem, H200)
        assert config.text("weights") == "literal"
        assert Filter2dWarpgroupGeometry.of(problem, config).batches == 1

    def test_no_row_is_ahead_of_them(self) -> None:
        problem = Filter2d(image=(2000, 3000), filter=(31, 31), dtype=DType.UINT8)
        config = Config.of({**WARPGROUP.default(problem, H200).values(), "ahead": 1, "block_groups": 1})
        assert "registers" in (WARPGROUP.space(problem, H200).why_not(config) or "")
