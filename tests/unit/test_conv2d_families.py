"""Contract of the conv2d families: a default in the space, stable text, every result computed once."""

from __future__ import annotations

import collections
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
from conv2d_layers import small
from warpsmith.generator.architectures import STATIC_SHARED_BYTES
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.plain_family import Conv2dPlain
from warpsmith.generator.conv2d.sums.direct_family import Conv2dDirect
from warpsmith.generator.conv2d.sums.direct_image import MAX_PHASES, MAX_TAPS
from warpsmith.generator.conv2d.sums.direct_image_geometry import DirectImageGeometry, Spacing
from warpsmith.generator.conv2d.sums.direct_weight import DirectWeightGeometry
from warpsmith.generator.device import Device
from warpsmith.generator.family import MAX_UNROLLED, Family
from warpsmith.generator.presets import H200, HOST
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Pointer, Program
from warpsmith.generator.space import Config, Space

SAMPLE = 16
"""Configs that are drawn for each family and problem, beside the default."""
PLAIN, DIRECT = Conv2dPlain(), Conv2dDirect()
FAMILIES: tuple[Family, ...] = (DIRECT, PLAIN)

LAYERS: tuple[dict[str, Any], ...] = (
    {"input": (1, 1, 1, 1), "weight": (1, 1, 1, 1)},
    {"input": (2, 4, 7, 9), "weight": (6, 4, 3, 2), "padding": 1},
    {"input": (2, 4, 7, 9), "weight": (6, 2, 3, 2), "groups": 2, "stride": 2, "dilation": (1, 2)},
    {"input": (3, 4, 17, 19), "weight": (8, 1, 3, 3), "groups": 4, "padding": "same"},
    {"input": (4, 9, 5, 5), "weight": (10, 9, 5, 5)},
    {"input": (4, 8, 5, 5), "weight": (10, 8, 1, 1), "stride": 3},
    {"input": (2, 3, 40, 41), "weight": (5, 3, 11, 11), "stride": 4, "padding": 2},
    {"input": (1, 2, 12, 70), "weight": (3, 2, 1, 40), "padding": ((0, 1), (7, 0))},
    {"input": (1, 3, 33, 33), "weight": (24, 3, 8, 8), "stride": 8},
    {"input": (32, 64, 56, 56), "weight": (64, 64, 3, 3), "padding": 1},
    {"input": (32, 192, 28, 28), "weight": (192, 1, 7, 7), "groups": 192, "padding": 3},
    {"input": (8, 512, 7, 7), "weight": (512, 512, 1, 1)},
    {"input": (32, 3, 224, 224), "weight": (64, 3, 11, 11), "stride": 4, "padding": 2},
)
PROBLEMS = [
    Conv2d(
        **layer, pass_=pass_, bias=pass_ is Pass.FPROP and number % 2 == 1, relu=pass_ is Pass.FPROP and number % 3 == 1
    )
    for number, layer in enumerate(LAYERS)
    for pass_ in Pass
]
MANY_RESULTS = 200_000
"""Results from which on layers are not checked result by result."""


def name_of(value: Family | Problem | Device) -> str:
    """Test name of a parameter."""
    return value.key().replace(" ", ",") if isinstance(value, Problem) else value.name


whatever_is_solved = pytest.mark.parametrize(
    ("family", "problem"), [(family, problem) for family in FAMILIES for problem in PROBLEMS], ids=name_of
)


@functools.cache
def sample(family: Family, problem: Conv2d) -> tuple[Config, ...]:
    """The default config and up to SAMPLE others, the same ones in each run."""
    space, rng = family.space(problem, H200), random.Random(problem.key())
    return (family.default(problem, H200), *filter(None, dict.fromkeys(space.drawn(rng) for _ in range(SAMPLE))))


@functools.cache
def programs(family: Family, problem: Conv2d) -> tuple[Program, ...]:
    """The programs of `sample`."""
    return tuple(family.program(problem, config) for config in sample(family, problem))


class TestSpace:
    @whatever_is_solved
    def test_holds_the_default_on_every_device(self, family: Family, problem: Conv2d) -> None:
        assert family.why_not(problem, H200) is None
        for device in (H200, HOST):
            space = family.space(problem, device)
            default = family.default(problem, device)
            assert space.why_not(default) is None
            assert family.unrolled(problem, default) <= MAX_UNROLLED

    @exhaustive.one_in(3)
    @whatever_is_solved
    def test_is_of_a_size_that_a_search_can_cover(self, family: Family, problem: Conv2d) -> None:
        configs = family.space(problem, H200).listed(60_000)
        assert configs is not None
        if problem.flops > 1e9:
            assert len(configs) >= (4 if family is PLAIN else 90)

    @pytest.mark.parametrize("pass_", Pass)
    def test_no_value_of_a_parameter_is_there_in_vain(self, pass_: Pass) -> None:
        for family in FAMILIES:
            space = family.space(Conv2d((32, 64, 56, 56), (64, 64, 3, 3), padding=1, pass_=pass_), H200)  # type: ignore[arg-type]
            legal = [config.values() for config in space.configs()]
            for parameter in space.parameters:
                in_some = {values[parameter.name] for values in legal}
                missing = set(parameter.values) - in_some
                # Blocks of one or two threads across are for narrow results.
                assert missing <= ({1, 2} if parameter.name == "block_columns" else set()), parameter.name

    @whatever_is_solved
    def test_constraints_say_why_in_one_line_each_its_own(self, family: Family, problem: Conv2d) -> None:
        reasons = [constraint.why for constraint in family.space(problem, H200).constraints]
        assert len(set(reasons)) == len(reasons)
        assert all(reason and "\n" not in reason for reason in reasons)

    def test_of_two_problems_that_allow_other_configs_is_told_apart(self) -> None:
        for family in FAMILIES:
            alike = collections.defaultdict[str, list[Space]](list)
            for problem in PROBLEMS:
                space = family.space(problem, H200)
                alike[space.fingerprint].append(space)
            # A space is listed only where another one says that it is the same: the largest take seconds.
            for first, *others in alike.values():
                configs = set(first.configs()) if others else set()
                assert all(set(each.configs()) == configs for each in others), family.name


class TestRefusals:
    def test_of_what_would_be_too_much_code(self) -> None:
        wide = Conv2d((1, 1, 4, MAX_TAPS + 9), (1, 1, 2, MAX_TAPS + 1))
        assert DIRECT.why_not(wide, H200) == (
            "writes out the taps of a filter's row, 128 of them at the most; this one has 129"
        )
        strided = Conv2d((1, 1, 64, 64), (1, 1, 9, 9), stride=(MAX_PHASES // 8 + 1, 8), pass_=Pass.DGRAD)
        assert DIRECT.why_not(strided, H200) == (
            "writes out every phase of a stride, 64 of them at the most; this one has 72"
        )
        for problem in (wide, strided):
            assert PLAIN.why_not(problem, H200) is None
            assert PLAIN.space(problem, H200).contains(PLAIN.default(problem, H200))


class TestText:
    @exhaustive.one_in(3)
    @whatever_is_solved
    def test_is_the_same_every_time(self, family: Family, problem: Conv2d) -> None:
        for config, program in zip(sample(family, problem), programs(family, problem), strict=True):
            again = family.program(problem, config)
            assert again == program
            assert again.fingerprint == program.fingerprint

    @whatever_is_solved
    def test_tells_problem_and_config_first_and_is_tidy(self, family: Family, problem: Conv2d) -> None:
        for program in programs(family, problem):
            first, second, third, *rest = with_whole_head(program.source).splitlines()
            assert first == f"// warpsmith {family.name}"
            assert second == f"// problem: {problem.key()}"
            assert third == f"// config:  {program.config.key()}"
            assert not [line for line in rest if line != line.rstrip()]
            assert max(map(len, rest)) <= 120
            assert "\n\n\n" not in program.source

    @whatever_is_solved
    def test_names_every_constant_that_it_uses_and_uses_every_one(self, family: Family, problem: Conv2d) -> None:
        for program in programs(family, problem):
            code = re.sub(r"//.*", "", program.source)
            defined = set(re.findall(r"constexpr (?:int|unsigned|Taps) (k\w+)", code))
            used = {name for name in re.findall(r"\bk[A-Z]\w+", code) if name not in ("kRowPhase", "kColumnPhase")}
            assert used == defined
            count = count_of_words(code)
            for name in defined:
                assert count[name] > 1, name

    @whatever_is_solved
    def test_its_launch_takes_all_operands_in_order(self, family: Family, problem: Conv2d) -> None:
        for program in programs(family, problem):
            (launch,) = program.launches
            assert launch.entry == family.name
            assert launch.arguments == tuple(Pointer(operand.name) for operand in problem.operands)
            declared = re.search(rf"{family.name}\(([^)]*)\)", program.source)
            assert declared is not None
            assert re.findall(r"(\w+)(?:,|$)", declared[1]) == [operand.name for operand in problem.operands]
            assert 1 <= math.prod(launch.block) <= 1024
            assert launch.block[2] <= 64
            assert program.workspaces == ()


class TestImages:
    """`conv2d_direct` for results that are images."""

    @pytest.mark.parametrize("problem", [each for each in PROBLEMS if each.pass_ is not Pass.WGRAD], ids=name_of)
    def test_every_result_is_stored_once(self, problem: Conv2d) -> None:
        for config in sample(DIRECT, problem):
            geometry = DirectImageGeometry.of(problem, config)
            rows = places(geometry.row_axis, geometry.rows, geometry.block_rows, geometry.row_blocks, apart=False)
            columns = places(
                geometry.column_axis,
                geometry.columns,
                geometry.block_columns,
                geometry.column_blocks,
                apart=geometry.spacing is Spacing.APART,
            )
            filters = np.arange(geometry.filter_blocks * geometry.block_filters * geometry.filters)
            for found, count in (
                (rows, geometry.row_axis.results),
                (columns, geometry.column_axis.results),
                (filters, geometry.result_channels),
            ):
                assert np.array_equal(np.sort(found[found < count]), np.arange(count)), config

    @pytest.mark.parametrize("problem", [each for each in PROBLEMS if each.pass_ is not Pass.WGRAD], ids=name_of)
    def test_shared_memory_is_what_is_declared(self, problem: Conv2d) -> None:
        for program in programs(DIRECT, problem):
            geometry = DirectImageGeometry.of(problem, program.config)
            names = {name: int(value) for name, value in re.findall(r"constexpr int (k\w+) = (\d+);", program.source)}
            names["kBlockFilters"] = geometry.block_filters * geometry.filters
            declared = re.findall(r"__shared__.* float \w+\[([^\]]*)\]", program.source)
            floats = sum(math.prod(names[word] for word in each.split(" * ")) for each in declared)
            assert floats * 4 == geometry.shared_bytes <= STATIC_SHARED_BYTES


def places(axis: Any, own: int, block: int, blocks: int, *, apart: bool) -> Any:
    """Row of the result for each step of each thread of each block, in each phase."""
    thread, step = np.ogrid[:block, :own]
    inside = thread + step * block if apart else thread * own + step
    steps = (np.arange(blocks)[:, None] * (own * block) + inside.ravel()).ravel()
    return (steps[:, None] * len(axis.phases) + np.arange(len(axis.phases))).ravel()


class TestWeights:
    """`conv2d_direct` for gradients of weights."""

    @pytest.mark.parametrize("problem", [each for each in PROBLEMS if each.pass_ is Pass.WGRAD], ids=name_of)
    def test_blocks_and_runs_cover_everything_once(self, problem: Conv2d) -> None:
        rows, columns = problem.output_size
        for config in sample(DIRECT, problem):
            geometry = DirectWeightGeometry.of(problem, config)
            assert geometry.runs * geometry.columns == problem.input[0] * rows * columns
            assert columns % geometry.columns == 0
            assert geometry.threads % 32 == 0
            assert geometry.tap_blocks * geometry.tap_rows * geometry.tap_columns == math.prod(problem.weight[2:])
            for blocks, own, count in (
                (geometry.filter_blocks, geometry.filters, problem.group_filters),
                (geometry.channel_blocks, geometry.channels, problem.group_channels),
            ):
                assert (blocks - 1) * own < count <= blocks * own

    def test_no_atomic_addition_makes_the_order_of_the_sums_depend_on_time(self) -> None:
        for family in FAMILIES:
            for problem in PROBLEMS:
                assert not any("atomic" in program.source for program in programs(family, problem))


class TestPlain:
    @pytest.mark.parametrize("problem", PROBLEMS, ids=name_of)
    def test_threads_cover_the_results(self, problem: Conv2d) -> None:
        for program in programs(PLAIN, problem):
            (launch,) = program.launches
            results = launch.grid[0] * (1 if problem.pass_ is Pass.WGRAD else launch.block[0])
            assert results - launch.block[0] < problem.output.size <= results


class TestWork:
    @pytest.mark.parametrize("pass_", Pass)
    def test_counts_the_products_of_pixels_that_are_there(self, pass_: Pass) -> None:
        for problem in small(pass_):
            ones = np.ones(problem.input[2:], int)
            padded = np.pad(ones, problem.padding)
            met = 0
            for r, s in itertools.product(*map(range, problem.weight[2:])):
                rows, columns = (
                    tap * dilation + stride * np.arange(size)
                    for tap, dilation, stride, size in zip(
                        (r, s), problem.dilation, problem.stride, problem.output_size, strict=True
                    )
                )
                met += int(padded[np.ix_(rows, columns)].sum())
            expected = met * problem.input[0] * problem.weight[0] * problem.weight[1]
            for family in FAMILIES:
                work = family.work(problem, family.default(problem, H200))
                assert work is not None
                assert work.multiply_adds == expected
                assert work.multiply_adds <= problem.flops // 2
