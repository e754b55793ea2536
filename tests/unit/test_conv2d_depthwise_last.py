"""Depthwise layers channels last: every output once, legal defaults, tidy text, reasons, and who answers."""

from __future__ import annotations

import dataclasses
import functools
import random
import re
from typing import Any

import numpy as np
import pytest

import exhaustive
from builders import count_of_words, with_whole_head
from machine_code import frames_of
from warpsmith.generator.architectures import STATIC_SHARED_BYTES
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.layer.axes import multiply_adds
from warpsmith.generator.conv2d.sums.depthwise_last.depthwise_last_family import Conv2dDepthwiseLast
from warpsmith.generator.conv2d.sums.depthwise_last.depthwise_last_image import DepthwiseLastImageGeometry
from warpsmith.generator.conv2d.sums.depthwise_last.depthwise_last_weight import PARTS, DepthwiseLastWeightGeometry
from warpsmith.generator.conv2d.sums.direct_family import Conv2dDirect
from warpsmith.generator.device import Device
from warpsmith.generator.family import MAX_UNROLLED
from warpsmith.generator.presets import A100, H200, HOST
from warpsmith.generator.program import Pointer, Program
from warpsmith.generator.ranking import default_answer
from warpsmith.generator.space import Config

FAMILY = Conv2dDepthwiseLast()
SAMPLE = 6
"""Configs that are drawn for each problem, beside the default."""


def layer(images: int, channels: int, size: int, taps: int, **more: Any) -> dict[str, Any]:
    """A depthwise layer of square planes; results have the same size."""
    usual = {
        "input": (images, channels, size, size),
        "weight": (channels, 1, taps, taps),
        "groups": channels,
        "padding": taps // 2,
        "layout": "nhwc",
    }
    return {**usual, **more}


LAYERS: tuple[dict[str, Any], ...] = (
    layer(32, 192, 28, 7, dtype="float16"),
    layer(16, 128, 56, 31),
    layer(32, 96, 112, 3, stride=2, dtype="bfloat16"),
    layer(32, 768, 7, 7),
    layer(2, 20, 9, 5, padding=((2, 0), (1, 3)), dilation=(1, 2), dtype="float16"),
    layer(3, 33, 15, 3, stride=(2, 3)),
    layer(1, 1, 1, 1),
)
PROBLEMS = [
    Conv2d(
        **each, pass_=pass_, bias=pass_ is not Pass.WGRAD and n % 2 == 1, relu=pass_ is not Pass.WGRAD and n % 3 == 1
    )
    for n, each in enumerate(LAYERS)
    for pass_ in Pass
]
every_problem = pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.key().replace(" ", ","))


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

    @exhaustive.meeting()
    @pytest.mark.parametrize("pass_", Pass)
    @pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
    def test_has_a_default_where_a_block_has_little_memory(self, dtype: str, pass_: Pass) -> None:
        device = dataclasses.replace(A100, shared_per_block_bytes=STATIC_SHARED_BYTES)
        for channels, taps in ((1, 31), (3, 7), (33, 31), (512, 31), (512, 1)):
            for stride in (1, (2, 3)):
                problem = Conv2d(**layer(2, channels, 33, taps, dtype=dtype, stride=stride), pass_=pass_)
                assert FAMILY.space(problem, device).contains(FAMILY.default(problem, device)), problem.key()

    def test_every_value_of_a_parameter_is_in_some_config(self) -> None:
        for pass_ in Pass:
            problem = Conv2d(**layer(32, 64, 28, 3, dtype="float16"), pass_=pass_)
            space, default = FAMILY.space(problem, H200), FAMILY.default(problem, H200).values()
            for parameter in space.parameters:
                for value in parameter.values:
                    found = space.narrowed({parameter.name: [value]}).like({**default, parameter.name: value})
                    assert found is not None, (parameter.name, value)

    def test_no_more_splits_than_the_workspace_holds(self) -> None:
        problem = Conv2d(**layer(32, 4, 28, 7, workspace=4 * 4 * 49 * 4 + 3), pass_=Pass.WGRAD)
        splits = next(each for each in FAMILY.space(problem, H200).parameters if each.name == "splits")
        assert splits.values == (1, 2, 3, 4)

    @pytest.mark.parametrize(
        ("channels", "dtype", "widest"), [(20, "float16", 4), (33, "float16", 1), (24, "float32", 4)]
    )
    def test_vectors_are_what_every_pixel_has_whole(self, channels: int, dtype: str, widest: int) -> None:
        problem = Conv2d(**layer(2, channels, 9, 3, dtype=dtype))
        vector = next(each for each in FAMILY.space(problem, H200).parameters if each.name == "vector")
        assert vector.values[-1] == widest


class TestText:
    @every_problem
    def test_is_tidy_and_uses_every_constant(self, problem: Conv2d) -> None:
        for program in programs(problem):
            first, second, third, *rest = with_whole_head(program.source).splitlines()
            assert first == "// warpsmith conv2d_depthwise_last"
            assert second == f"// problem: {problem.key()}"
            assert third == f"// config:  {program.config.key()}"
            assert not [line for line in rest if line != line.rstrip()]
            assert [line for line in rest if len(line) > 120] == []
            assert "\n\n\n" not in program.source
            assert "atomic" not in program.source
            code = re.sub(r"//.*", "", program.source)
            count = count_of_words(code)
            for name in re.findall(r"constexpr (?:int|Taps) (k\w+)", code):
                assert count[name] > 1, name

    @every_problem
    def test_launches_take_what_the_kernels_declare(self, problem: Conv2d) -> None:
        for program in programs(problem):
            first, *rest = program.launches
            taken = [each.buffer for each in first.arguments if isinstance(each, Pointer)]
            expected = [operand.name for operand in problem.operands]
            assert taken[:-1] == expected[:-1]
            assert taken[-1] == (PARTS if rest else expected[-1])
            assert len(rest) == len(program.workspaces) <= 1
            assert first.shared_bytes <= H200.shared_per_block_bytes


class TestGeometry:
    @pytest.mark.parametrize("problem", [each for each in PROBLEMS if each.pass_ is not Pass.WGRAD], ids=str)
    def test_every_result_is_computed_once(self, problem: Conv2d) -> None:
        for config in sample(problem):
            g = DepthwiseLastImageGeometry.of(problem, config)
            for strips, own, axis in ((g.down, g.rows, g.row_axis), (g.across, g.columns, g.column_axis)):
                steps = np.arange(strips * own)
                found = (steps[:, None] * len(axis.phases) + np.arange(len(axis.phases))).ravel()
                assert np.array_equal(np.sort(found[found < axis.results]), np.arange(axis.results)), config
            assert g.channel_blocks * g.block_channels >= g.channels
            assert g.blocks // g.channel_blocks * g.strips >= g.all_strips

    @pytest.mark.parametrize("problem", [each for each in PROBLEMS if each.pass_ is Pass.WGRAD], ids=str)
    def test_every_position_is_added_once_to_every_weight(self, problem: Conv2d) -> None:
        for config in sample(problem):
            g = DepthwiseLastWeightGeometry.of(problem, config)
            for strips, own, all_of in ((g.down, g.rows, g.output_rows), (g.across, g.columns, g.output_columns)):
                found = np.zeros(all_of, int)
                for strip in range(strips):
                    first = min(strip * own, all_of - own)
                    found[strip * own : first + own] += 1
                assert (found == 1).all(), config
            assert g.tap_blocks * g.block_taps * g.tap_rows >= g.filter_rows
            assert g.thread_strips * g.members * g.splits >= g.all_strips


class TestAnswers:
    @exhaustive.meeting()
    @pytest.mark.parametrize("device", [H200, A100], ids=lambda device: device.name)
    @pytest.mark.parametrize("pass_", Pass)
    def test_it_is_likely_and_answers(self, pass_: Pass, device: Device) -> None:
        for each in LAYERS[:4]:
            problem = Conv2d(**each, pass_=pass_)
            assert Conv2dDirect().why_not(problem, device) is None
            assert FAMILY.is_likely(problem, device)
            assert default_answer(problem, device)[0].name == FAMILY.name
            expected_ns = FAMILY.expected_ns(problem, H200)
            assert expected_ns is not None
            assert expected_ns > 2e9 * multiply_adds(problem) / 64e12 * 0.9
        assert not FAMILY.is_likely(Conv2d(**LAYERS[0], pass_=pass_), HOST)

    def test_larger_filters_and_more_channels_take_longer(self) -> None:
        for pass_ in Pass:
            problems = [Conv2d(**layer(32, channels, 28, taps), pass_=pass_) for channels, taps in CLIMBING]
            times = [FAMILY.expected_ns(problem, H200) or 0.0 for problem in problems]
            assert times == sorted(times), times


CLIMBING = ((96, 3), (192, 3), (192, 7), (384, 7), (384, 15))
"""Channels and taps."""


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"layout": "nchw"}, "reads images in nhwc only, and none in nchw"),
        ({"weight": (8, 1, 3, 3)}, "is for groups of one channel and one filter"),
        ({"groups": 2, "weight": (4, 2, 3, 3)}, "is for groups of one channel and one filter"),
        ({"padding": 1, "padding_mode": "reflect"}, "pads with zeros only"),
        ({"input": (1, 4, 9, 99), "weight": (4, 1, 1, 32)}, "is for filters of 31x31 taps at the most"),
        ({"stride": 5, "pass_": "dgrad"}, "16 of them at the most; this one has 25"),
        ({"input": (1, 4, 30000, 30000)}, "counts elements in 32 bits"),
    ],
)
def test_says_why_not(fields: dict[str, Any], told: str) -> None:
    problem = Conv2d(**{"input": (1, 4, 9, 9), "weight": (4, 1, 3, 3), "groups": 4, "layout": "nhwc", **fields})
    why_not = FAMILY.why_not(problem, H200)
    assert why_not is not None
    assert told in why_not
    assert "\n" not in why_not


@pytest.mark.parametrize("pass_", Pass)
def test_defaults_spill_no_registers(pass_: Pass) -> None:
    for each in exhaustive.share(LAYERS[:4], list(Pass).index(pass_), 2):
        problem = Conv2d(**each, pass_=pass_)
        frames = frames_of(FAMILY.program(problem, FAMILY.default(problem, H200)).source)
        assert {(each.spill_stores, each.spill_loads) for each in frames} == {(0, 0)}, problem.key()
