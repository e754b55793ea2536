"""Borders made by `filter2d_warpgroup`'s loads: problems that may choose it, and positions of its warps."""

from __future__ import annotations

import dataclasses
import random
from math import ceil, prod
from typing import Any

import numpy as np
import pytest

import exhaustive
from warpsmith.generator.family import Subject
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.filter2d.text import result_pitch, row_pitch
from warpsmith.generator.filter2d.warpgroup_family import Filter2dWarpgroup
from warpsmith.generator.filter2d.warpgroup_frames import frames, likely_frame
from warpsmith.generator.filter2d.warpgroup_geometry import SEGMENT, WARP_COLUMNS, Filter2dWarpgroupGeometry, Frame
from warpsmith.generator.filter2d.warpgroup_walk import warps_wave
from warpsmith.generator.presets import H200
from warpsmith.generator.ranking import default_answer
from warpsmith.generator.space import Config, Space

WARPGROUP = Filter2dWarpgroup()
PLANES = Filter2d(image=(512, 512), filter=(9, 9), planes=64, border=Border.WRAP)
PROBLEMS = [
    PLANES,
    dataclasses.replace(PLANES, image=(511, 517), border=Border.CONSTANT),
    dataclasses.replace(PLANES, image=(2, 130), filter=(13, 25), border=Border.REFLECT, anchor=(0, 24)),
    dataclasses.replace(PLANES, image=(100, 60), channels=3, filter=(5, 3), border=Border.MIRROR),
    dataclasses.replace(PLANES, image=(300, 262), pitch=1056, result_pitch=1052, border=Border.NEAREST),
    dataclasses.replace(PLANES, image=(40, 140), border=Border.VALID, planes=3),
    dataclasses.replace(PLANES, image=(9216, 9216), planes=1),
]
every_problem = pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.key().replace(" ", ","))


def space_of_loads(problem: Filter2d) -> Space:
    return WARPGROUP.space(problem, H200).narrowed({"frame": ["loads"]})


def geometries(problem: Filter2d) -> list[Filter2dWarpgroupGeometry]:
    """Geometries of random configs, the same in each run."""
    space, rng = space_of_loads(problem), random.Random(problem.key())
    return [Filter2dWarpgroupGeometry.of(problem, config) for _ in range(40) if (config := space.drawn(rng))]


def starts(problem: Filter2d, g: Filter2dWarpgroupGeometry) -> list[tuple[int, int, int]]:
    """Plane, row and element of each warp's first output: the arithmetic of filter2d_warpgroup_loads.cu.jinja."""
    last_row, last_column = problem.output_shape[0] - g.rows, problem.output_shape[1] * problem.channels - WARP_COLUMNS
    return [
        (
            n // (g.warps_across * g.strips),
            min(n // g.warps_across % g.strips * g.rows, last_row),
            min(n % g.warps_across * WARP_COLUMNS, last_column),
        )
        for n in range(g.warps)
    ]


class TestChoice:
    def test_is_no_parameter_of_problems_that_have_none(self) -> None:
        """Stored configs and texts of earlier versions stay valid."""
        for fields in ({"border": Border.VALID, "image": (512, 520)}, {"dtype": "float16", "image": (512, 1024)}):
            problem = dataclasses.replace(PLANES, **fields)
            assert frames(problem) == (Frame.APART,)
            assert "frame" not in {each.name for each in WARPGROUP.space(problem, H200).parameters}
            assert "frame" not in WARPGROUP.default(problem, H200).values()

    @pytest.mark.parametrize(
        ("fields", "choices"),
        [
            ({}, ("loads",)),
            ({"image": (512, 1024)}, ("apart", "loads")),
            ({"border": Border.VALID}, ("loads",)),
            ({"border": Border.CONSTANT, "image": (5, 4000)}, ("loads",)),
            ({"image": (512, 1024), "filter": (3, 25)}, ("apart", "loads")),
        ],
    )
    def test_is_what_the_image_leaves(self, fields: dict[str, Any], choices: tuple[str, ...]) -> None:
        problem = dataclasses.replace(PLANES, **fields)
        assert frames(problem) == choices
        frame = next(each for each in WARPGROUP.space(problem, H200).parameters if each.name == "frame")
        assert frame.values == choices

    @pytest.mark.parametrize(
        ("image", "taps", "faster"),
        [
            ((9216, 9216), 15, Frame.APART),
            ((4096, 4096), 9, Frame.APART),
            ((2000, 3000), 7, Frame.LOADS),
            ((1080, 1920), 11, Frame.LOADS),
        ],
    )
    def test_falls_on_what_was_faster(self, image: tuple[int, int], taps: int, faster: Frame) -> None:
        """The faster choice on an H200."""
        problem = dataclasses.replace(PLANES, image=image, planes=1, filter=(taps, taps))
        assert likely_frame(problem) is faster

    def test_planes_of_the_issue_are_answered_by_it(self) -> None:
        family, config = default_answer(PLANES, H200)
        assert (family.name, config.text("frame")) == (WARPGROUP.name, "loads")
        assert default_answer(dataclasses.replace(PLANES, planes=1), H200)[0].name == "filter2d_window"

    def test_warps_by_themselves_lie_in_one_line_of_a_block_and_in_the_result(self) -> None:
        space, usual = WARPGROUP.space(PLANES, H200), WARPGROUP.default(PLANES, H200).values()
        for change in ({"block_groups": 1, "block_strips": 2, "prefetch": 1},):
            assert "warps lie by themselves" in str(space.why_not(Config.of({**usual, **change})))
        short = dataclasses.replace(PLANES, image=(20, 512))
        told = WARPGROUP.space(short, H200).why_not(Config.of({**WARPGROUP.default(short, H200).values(), "rows": 32}))
        assert "within the result" in str(told)

    def test_a_winner_without_the_choice_is_carried_over(self) -> None:
        home = dataclasses.replace(PLANES, image=(9216, 9216), planes=1, border=Border.VALID)
        config = WARPGROUP.carried(WARPGROUP.default(home, H200), Subject(home, H200), PLANES, H200)
        assert config is not None
        assert config == WARPGROUP.default(PLANES, H200)
        back = WARPGROUP.carried(config, Subject(PLANES, H200), home, H200)
        assert back == WARPGROUP.default(home, H200)


@every_problem
class TestWarps:
    @exhaustive.one_in(2)
    def test_compute_every_output(self, problem: Filter2d) -> None:
        for g in exhaustive.share(geometries(problem), 0, 3):
            computed = np.zeros(
                (problem.planes, problem.output_shape[0], problem.output_shape[1] * problem.channels), bool
            )
            for plane, row, element in starts(problem, g):
                assert min(plane, row, element) >= 0
                assert row + g.rows <= computed.shape[1]
                assert element + WARP_COLUMNS <= computed.shape[2]
                computed[plane, row : row + g.rows, element : element + WARP_COLUMNS] = True
            assert computed.all()
            assert g.frame_blocks == g.frame_pixels == 0
            assert 0 <= g.blocks(problem.planes) * 4 * g.block_groups - g.warps < 4 * g.block_groups

    def test_copies_and_stores_are_aligned(self, problem: Filter2d) -> None:
        """True in every row of every plane. A vector lies in the image or left of it; the rest are single elements."""
        elements = problem.image[1] * problem.channels
        for g in geometries(problem):
            assert row_pitch(problem) % g.copy_vector == 0
            assert 0 <= g.lead <= g.depth - SEGMENT - (problem.filter[1] - 1) * problem.channels
            for _, _, element in starts(problem, g)[: g.warps_across]:
                first = element - problem.before[1] * problem.channels - g.lead
                assert first % g.copy_vector == 0
                assert first + WARP_COLUMNS <= elements
                outside = max(0, -first)
                assert outside <= 32 * g.copy_vector  # only a thread's first vector may lie outside
                assert outside + g.depth - SEGMENT <= 32 * ceil(2 * (g.depth - SEGMENT) / 32)
                assert element % g.store_vector == result_pitch(problem) % g.store_vector == 0
            assert g.depth // 4 % g.load_vector == 0

    def test_the_default_is_in_the_space(self, problem: Filter2d) -> None:
        assert WARPGROUP.space(problem, H200).why_not(WARPGROUP.default(problem, H200)) is None


class TestWave:
    @pytest.mark.parametrize(("planes", "rows", "waves"), [(64, 86, 1), (32, 43, 1), (256, 171, 2), (1024, 171, 8)])
    def test_planes_fill_the_device_once_or_whole_waves(self, planes: int, rows: int, waves: int) -> None:
        problem = dataclasses.replace(PLANES, planes=planes)
        assert warps_wave(problem, H200, 3) == rows
        warps = prod((4, planes, ceil(512 / rows)))
        assert waves - 0.25 <= warps / (4 * 3 * H200.multiprocessors) <= waves

    def test_walks_of_one_large_plane_are_those_of_warpgroups(self) -> None:
        assert warps_wave(dataclasses.replace(PLANES, image=(9216, 9216), planes=1), H200, 3) == 419
