"""Depthwise and grouped layers by sliding windows: every output once, legal defaults, tidy text, reasons."""

from __future__ import annotations

import functools
import itertools
import math
import random
import re
from typing import Any

import numpy as np
import pytest

import exhaustive
from builders import count_of_words, with_whole_head
from machine_code import frames_of
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.fourier.circular_family import Conv2dCircular
from warpsmith.generator.conv2d.layer.axes import multiply_adds
from warpsmith.generator.conv2d.layer.fold import PADDED, folds
from warpsmith.generator.conv2d.sums.depthwise.depthwise_family import Conv2dDepthwise
from warpsmith.generator.conv2d.sums.depthwise.depthwise_image_geometry import DepthwiseImageGeometry, Stores
from warpsmith.generator.conv2d.sums.depthwise.depthwise_tile import PlaneLanes, PlaneTile, wavefronts
from warpsmith.generator.conv2d.sums.depthwise.depthwise_weight_geometry import DepthwiseWeightGeometry
from warpsmith.generator.device import Device
from warpsmith.generator.family import MAX_UNROLLED
from warpsmith.generator.presets import H200, HOST
from warpsmith.generator.program import Pointer, Program
from warpsmith.generator.ranking import default_answer
from warpsmith.generator.space import Config

FAMILY = Conv2dDepthwise()
SAMPLE = 12
"""Configs that are drawn for each problem, beside the default."""


def depthwise(images: int, channels: int, size: int, taps: int, **more: Any) -> dict[str, Any]:
    """A depthwise layer of square planes; results have the same size."""
    usual = {
        "input": (images, channels, size, size),
        "weight": (channels, 1, taps, taps),
        "groups": channels,
        "padding": taps // 2,
    }
    return {**usual, **more}


LAYERS: tuple[dict[str, Any], ...] = (
    depthwise(32, 192, 28, 7),
    depthwise(32, 192, 28, 3),
    depthwise(16, 128, 56, 31),
    depthwise(32, 768, 7, 7),
    depthwise(1, 96, 112, 3, stride=2),
    depthwise(32, 384, 14, 5),
    {"input": (32, 128, 28, 28), "weight": (128, 4, 3, 3), "groups": 32, "padding": 1},
    {"input": (3, 6, 9, 13), "weight": (4, 3, 3, 2), "groups": 2, "padding": ((2, 0), (1, 3)), "dilation": (1, 3)},
    {"input": (2, 4, 15, 30), "weight": (12, 1, 5, 4), "groups": 4, "stride": (2, 3), "dilation": (3, 2)},
    {"input": (2, 3, 9, 11), "weight": (3, 1, 5, 3), "groups": 3, "padding": (4, 2), "padding_mode": "reflect"},
    {"input": (1, 1, 1, 1), "weight": (1, 1, 1, 1)},
    {"input": (1, 2, 5, 1000), "weight": (2, 1, 1, 3), "groups": 2, "padding": (0, 1)},
)
PROBLEMS = [
    Conv2d(
        **each, pass_=pass_, bias=pass_ is not Pass.WGRAD and n % 2 == 1, relu=pass_ is not Pass.WGRAD and n % 3 == 1
    )
    for n, each in enumerate(LAYERS)
    for pass_ in Pass
]
every_problem = pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.key().replace(" ", ","))
IMAGES = [each for each in PROBLEMS if each.pass_ is not Pass.WGRAD and each.padding_mode == "zeros"]
WEIGHTS = [each for each in PROBLEMS if each.pass_ is Pass.WGRAD]


@functools.cache
def sample(problem: Conv2d) -> tuple[Config, ...]:
    """The default config and up to SAMPLE others, the same ones in each run."""
    space, rng = FAMILY.space(problem, H200), random.Random(problem.key())
    drawn = filter(None, (space.drawn(rng) for _ in range(SAMPLE)))
    return (FAMILY.default(problem, H200), *dict.fromkeys(drawn))


@functools.cache
def programs(problem: Conv2d) -> tuple[Program, ...]:
    """The programs of `sample`."""
    return tuple(FAMILY.program(problem, config) for config in sample(problem))


class TestSpace:
    @exhaustive.meeting()
    @every_problem
    @pytest.mark.parametrize("device", [H200, HOST], ids=lambda device: device.name)
    def test_holds_the_default_and_the_starts(self, problem: Conv2d, device: Device) -> None:
        assert FAMILY.why_not(problem, device) is None
        space = FAMILY.space(problem, device)
        for config in (FAMILY.default(problem, device), *FAMILY.starts(problem, device)):
            assert space.why_not(config) is None
        assert FAMILY.unrolled(problem, FAMILY.default(problem, device)) <= MAX_UNROLLED
        assert len({space.drawn(random.Random(seed)) for seed in range(20)}) > (1 if problem.flops < 1e4 else 10)

    def test_every_value_of_a_parameter_is_in_some_config(self) -> None:
        layer = {"input": (32, 32, 14, 14), "weight": (64, 2, 3, 3), "groups": 16, "padding": 1}
        for pass_ in Pass:
            problem = Conv2d(**layer, pass_=pass_)  # type: ignore[arg-type]
            space = FAMILY.space(problem, H200)
            default = FAMILY.default(problem, H200).values()
            for parameter in space.parameters:
                for value in parameter.values:
                    found = space.narrowed({parameter.name: [value]}).like({**default, parameter.name: value})
                    assert found is not None, (parameter.name, value)

    @pytest.mark.parametrize("pass_", Pass)
    def test_defaults_of_many_sizes_are_legal(self, pass_: Pass) -> None:
        sizes = list(itertools.product((1, 32), (7, 27, 112), (3, 7, 31), (1, 2)))
        # Five divides none of the factors, so that each pass meets every value.
        for images, size, taps, stride in exhaustive.share(sizes, list(Pass).index(pass_), 5):
            problem = Conv2d(**depthwise(images, 64, size, taps, stride=stride), pass_=pass_)
            config = FAMILY.default(problem, H200)
            assert FAMILY.space(problem, H200).why_not(config) is None
            assert FAMILY.unrolled(problem, config) <= MAX_UNROLLED
            if images * size * size > 32 * 28 * 28:
                (first, *_) = FAMILY.program(problem, config).launches
                assert first.grid[0] >= H200.multiprocessors, config


class TestText:
    @every_problem
    def test_is_the_same_every_time_and_tidy(self, problem: Conv2d) -> None:
        for config, program in zip(sample(problem), programs(problem), strict=True):
            assert FAMILY.program(problem, config) == program
            first, second, third, *rest = with_whole_head(program.source).splitlines()
            assert first == "// warpsmith conv2d_depthwise"
            assert second == f"// problem: {problem.key()}"
            assert third == f"// config:  {program.config.key()}"
            assert not [line for line in rest if line != line.rstrip()]
            assert [line for line in rest if len(line) > 120] == []
            assert "\n\n\n" not in program.source
            assert "atomic" not in program.source

    @every_problem
    def test_names_every_constant_that_it_uses_and_uses_every_one(self, problem: Conv2d) -> None:
        parameters = {"kRowPhase", "kColumnPhase", "kBytes", "kPending", "kCount"}
        for program in programs(problem):
            code = re.sub(r"//.*", "", program.source)
            defined = set(re.findall(r"constexpr (?:int|unsigned|Taps) (k\w+)", code))
            defined |= set(re.findall(r"constexpr Taps \w+ = kRowTaps\S+ (k\w+) =", code))
            assert set(re.findall(r"\bk[A-Z]\w+", code)) - parameters == defined
            count = count_of_words(code)
            for name in defined:
                assert count[name] > 1, name

    @every_problem
    def test_launches_take_what_the_kernels_declare(self, problem: Conv2d) -> None:
        for program in programs(problem):
            first, *rest = program.launches
            taken = [each.buffer for each in first.arguments if isinstance(each, Pointer)]
            expected = [operand.name for operand in problem.operands]
            names = {each.name for each in program.workspaces}
            if folds(problem):  # the bias is added once a pixel, behind the sums
                assert [each.buffer for each in rest[0].arguments] == [PADDED, *expected[2:]]
                expected = [*expected[:2], expected[-1]]
            assert taken[:-1] == expected[:-1]
            assert taken[-1] in ({expected[-1]} | names)
            assert len(rest) == len(names) <= 1
            assert first.shared_bytes <= H200.shared_per_block_bytes
            assert math.prod(first.block) % 32 == 0


class TestImages:
    """Results that are images."""

    @pytest.mark.parametrize("problem", IMAGES, ids=lambda problem: problem.key().replace(" ", ","))
    def test_every_result_is_computed_once(self, problem: Conv2d) -> None:
        for config in sample(problem):
            g = DepthwiseImageGeometry.of(problem, config)
            bands, band, step = np.ogrid[: g.row_bands, : g.down, : g.rows]
            rows = (bands * g.band_rows + band * g.rows + step).ravel()
            bands, band, step = np.ogrid[: g.column_bands, : g.across, : g.columns]
            columns = (bands * g.band_columns + band * g.columns + step).ravel()
            filters = np.arange(g.filter_blocks * g.block_filters * g.filters)
            sets = g.blocks // (g.row_bands * g.column_bands * g.filter_blocks)
            units = np.arange(sets * g.rounds * g.units)
            for found, count in (
                (_phased(rows, len(g.row_axis.phases)), g.row_axis.results),
                (_phased(columns, len(g.column_axis.phases)), g.column_axis.results),
                (filters, g.result_channels),
                (units, problem.input[0] * problem.groups),
            ):
                assert np.array_equal(np.sort(found[found < count]), np.arange(count)), config
            assert g.channels * g.channel_rounds == g.source_channels

    @pytest.mark.parametrize("problem", IMAGES, ids=lambda problem: problem.key().replace(" ", ","))
    def test_windows_lie_in_their_tiles(self, problem: Conv2d) -> None:
        """Each read begins at a multiple of its vector, and each copy does if the image's rows allow it."""
        for config in sample(problem):
            g = DepthwiseImageGeometry.of(problem, config)
            t = g.tile
            for taps, threads, own, axis, low, lead, size in (
                (g.row_axis.phases, g.down, g.rows, g.row_axis, g.low_row, 0, t.rows),
                (g.column_axis.phases, g.across, g.columns, g.column_axis, g.low_column, t.lead, t.columns),
            ):
                for phase in taps:
                    if phase.count:
                        first = phase.low - low + lead
                        last = axis.multiple * (threads * own - 1) + first + phase.span - 1
                        assert 0 <= first <= last < size
            assert t.columns % t.vector == 0
            assert (g.low_column - t.lead) % t.vector == 0
            assert g.column_axis.sources % t.vector == 0
            assert t.pitch % t.vector == t.plane_pitch % t.vector == 0
            assert t.pitch % t.read == t.plane_pitch % t.read == g.columns * g.column_axis.multiple % t.read == 0
            assert t.plane_pitch >= t.rows * t.pitch
            assert t.pitch >= t.columns
            assert g.shared_bytes <= H200.shared_per_block_bytes
            if g.store_vector > 1:
                assert g.stores is Stores.DIRECT
                assert g.columns % g.store_vector == g.column_axis.results % g.store_vector == 0


def _phased(steps: np.ndarray, phases: int) -> np.ndarray:  # type: ignore[type-arg]
    """Rows or columns of the result, by steps of each phase."""
    return (steps[:, None] * phases + np.arange(phases)).ravel()


class TestWeights:
    @pytest.mark.parametrize("problem", WEIGHTS, ids=lambda problem: problem.key().replace(" ", ","))
    def test_every_position_is_added_once_to_every_weight(self, problem: Conv2d) -> None:
        rows, columns = problem.output_size
        for config in sample(problem):
            g = DepthwiseWeightGeometry.of(problem, config)
            found = np.zeros(rows, int)
            for band in range(g.bands):
                start = min(band * g.band_rows, rows - g.band_rows)
                for strip in range(g.strips):
                    row = min(strip * g.rows, g.band_rows - g.rows)
                    first = max(band * g.band_rows - start, strip * g.rows) - row
                    assert start + row + g.rows <= rows
                    found[start + row + first : start + row + g.rows] += 1
            assert (found == 1).all(), config
            across = np.zeros(columns, int)
            for thread in range(g.across):
                column = min(thread * g.columns, columns - g.columns)
                across[thread * g.columns : column + g.columns] += 1
            assert (across == 1).all(), config
            assert g.tap_blocks * g.block_taps * g.tap_rows == g.filter_rows
            assert g.filter_blocks * g.block_filters * g.filters == problem.group_filters
            assert g.channel_blocks * g.block_channels == problem.group_channels
            assert g.group_blocks * g.block_groups == problem.groups
            assert g.splits <= g.steps
            assert g.strips >= g.down
            assert g.shared_bytes <= H200.shared_per_block_bytes

    def test_no_more_splits_than_the_workspace_holds(self) -> None:
        layer = depthwise(32, 4, 28, 7, workspace=4 * 4 * 49 * 4 + 3)
        problem = Conv2d(**layer, pass_=Pass.WGRAD)
        splits = next(each for each in FAMILY.space(problem, H200).parameters if each.name == "splits")
        assert splits.values == (1, 2, 4)


class TestTile:
    def test_counts_turns_of_shared_memory(self) -> None:
        assert wavefronts(tuple(range(32)), 1) == 1
        assert wavefronts(tuple(2 * n for n in range(32)), 1) == 2
        assert wavefronts((5,) * 32, 1) == 1
        assert wavefronts(tuple(4 * n for n in range(32)), 4) == 4
        assert wavefronts(tuple(8 * n for n in range(32)), 4) == 8

    def test_rows_of_a_28x28_plane_lie_in_different_banks(self) -> None:
        """Threads are 7 across and 4 down with 7 rows each: at a pitch of 36 the next row of threads continues."""
        tile = PlaneTile.of(28, -3, 34, 10, PlaneLanes.of(7, 4, 4, 7))
        assert (tile.vector, tile.read, tile.lead, tile.columns, tile.pitch) == (4, 4, 1, 36, 36)


class TestAnswers:
    @pytest.mark.parametrize("pass_", Pass)
    def test_it_answers_for_depthwise_layers_but_for_large_filters(self, pass_: Pass) -> None:
        for layer in (*LAYERS[:2], LAYERS[3], LAYERS[6]):
            problem = Conv2d(**layer, pass_=pass_)
            assert FAMILY.is_likely(problem, H200)
            assert not FAMILY.is_likely(problem, HOST)
            assert default_answer(problem, H200)[0].name == FAMILY.name
            expected_ns = FAMILY.expected_ns(problem, H200)
            assert expected_ns is not None
            assert expected_ns > 2e9 * multiply_adds(problem) / 64e12 * 0.9
        large = Conv2d(**LAYERS[2], pass_=pass_)
        assert default_answer(large, H200)[0].name == Conv2dCircular.name
        assert FAMILY.is_likely(Conv2d(**LAYERS[2], accuracy="elementwise", pass_=pass_), H200)  # type: ignore[arg-type]
        assert FAMILY.is_likely(Conv2d((8, 4, 9, 9), (8, 4, 3, 3), pass_=pass_), H200)
        assert not FAMILY.is_likely(Conv2d((8, 32, 9, 9), (8, 32, 3, 3), pass_=pass_), H200)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"input": (1, 64, 9, 9), "weight": (64, 32, 3, 3), "groups": 2}, "groups of 16 channels and filters"),
        ({"input": (1, 4, 9, 9), "weight": (128, 1, 3, 3), "groups": 4}, "groups of 16 channels and filters"),
        ({"input": (1, 2, 9, 99), "weight": (2, 1, 1, 65), "groups": 2}, "64 of them at the most; this one has 65"),
        ({"stride": 5, "pass_": "dgrad"}, "16 of them at the most; this one has 25"),
        ({"input": (1, 2, 400, 400), "weight": (2, 1, 3, 3), "dilation": 120}, "does not fit"),
        (
            {"padding": 1, "padding_mode": "reflect", "pass_": "dgrad", "workspace": 100},
            "the gradient of the padded images takes",
        ),
        ({"dtype": "float16"}, "reads float32 only, and no float16"),
        ({"layout": "nhwc"}, "reads images in nchw only, and none in nhwc"),
        ({"input": (1, 2, 40000, 40000)}, "counts elements in 32 bits"),
    ],
)
def test_says_why_not(fields: dict[str, Any], told: str) -> None:
    problem = Conv2d(**{"input": (1, 2, 9, 9), "weight": (2, 1, 3, 3), "groups": 2, **fields})
    why_not = FAMILY.why_not(problem, H200)
    assert why_not is not None
    assert told in why_not


@pytest.mark.parametrize("pass_", Pass)
def test_defaults_spill_no_registers(pass_: Pass) -> None:
    """Dgrad of stride 1 is fprop with the filter rotated and takes the same registers; one layer is enough."""
    problems = [Conv2d(**layer, pass_=pass_) for layer in LAYERS]
    for number, problem in exhaustive.share(list(enumerate(problems)), list(Pass).index(pass_), 3):
        if pass_ is Pass.DGRAD and number > 0 and problem.stride == (1, 1):
            continue
        frames = frames_of(FAMILY.program(problem, FAMILY.default(problem, H200)).source)
        assert {(each.spill_stores, each.spill_loads) for each in frames} == {(0, 0)}, problem.key()
