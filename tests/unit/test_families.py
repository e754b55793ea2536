"""Contract of every kernel family: a default in its space, stable text, every output computed once."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import random
import re
from unittest.mock import Mock

import numpy as np
import pytest
from numpy.typing import NDArray

import exhaustive
from builders import with_whole_head
from warpsmith.errors import BadArgument
from warpsmith.generator import registry
from warpsmith.generator.architectures import PARAMETER_BYTES
from warpsmith.generator.device import Device
from warpsmith.generator.family import Family
from warpsmith.generator.filter2d.operation import FILTER2D
from warpsmith.generator.filter2d.plain_family import MAX_UNROLLED, Filter2dPlain, Filter2dPlainGeometry
from warpsmith.generator.filter2d.problem import Border, Filter2d
from warpsmith.generator.filter2d.text import image_texture, result_pitch
from warpsmith.generator.filter2d.window_family import Filter2dWindow
from warpsmith.generator.presets import H200, HOST
from warpsmith.generator.problem import DType, Problem
from warpsmith.generator.program import ByValue, Constant, Pointer, Program, Texture, Transformed
from warpsmith.generator.registry import families_for, family_named
from warpsmith.generator.space import Config

FAMILIES = FILTER2D.families

MOST_TAPS = (PARAMETER_BYTES - 2 * 8) // 4
"""Most taps that fit a kernel's parameters beside the pointers to image and result."""
SAMPLE = 24
"""Configs that are drawn for each family and problem, beside the default; a whole space can hold 10^7."""

SMALL = dataclasses.replace(H200, name="small", registers_per_multiprocessor=32768, threads_per_multiprocessor=512)


def weights(count: int) -> tuple[float, ...]:
    """Weights with zeros, negatives and fractions."""
    return tuple((i % 5 - 2) / 3 for i in range(count))


PROBLEMS = [
    Filter2d(image=(1, 1), filter=(1, 1)),
    Filter2d(image=(1, 1), filter=(1, 1), border=Border.MIRROR, weights=(2.0,)),
    Filter2d(image=(1, 131), filter=(1, 5), dtype=DType.FLOAT16),
    Filter2d(image=(1, 64), filter=(1, 2), border=Border.WRAP, planes=2),
    Filter2d(image=(97, 1), filter=(3, 1), border=Border.REFLECT, channels=4),
    Filter2d(image=(40, 33), filter=(3, 3)),
    Filter2d(image=(37, 50), filter=(3, 3), border=Border.NEAREST, filters=3, planes=2),
    Filter2d(image=(50, 48), filter=(2, 2), border=Border.CONSTANT, cval=-1.5, dtype=DType.UINT8, channels=3),
    Filter2d(image=(64, 64), filter=(4, 4), planes=3, border=Border.WRAP, result_dtype=DType.FLOAT16),
    Filter2d(image=(70, 260), filter=(5, 5), border=Border.MIRROR, weights=weights(25), convolve=True),
    Filter2d(image=(33, 128), filter=(2, 7), border=Border.REFLECT, weights=weights(14), anchor=(0, 6)),
    Filter2d(image=(90, 36), filter=(6, 1), planes=5, pitch=160, result_pitch=148),
    Filter2d(image=(9, 21), filter=(11, 9), border=Border.CONSTANT, weights=weights(19 * 99), filters=19),
    Filter2d(image=(5, 3), filter=(12, 7), border=Border.MIRROR, dtype=DType.UINT8, result_dtype=DType.FLOAT32),
    Filter2d(image=(31, 33), filter=(31, 31)),
    Filter2d(image=(40, 40), filter=(31, 31), border=Border.NEAREST, weights=weights(31 * 31)),
    Filter2d(image=(300, 514), filter=(7, 7), channels=2, dtype=DType.UINT8, pitch=1057),
    Filter2d(image=(60, 1101), filter=(4, 7), border=Border.REFLECT, convolve=True, result_dtype=DType.UINT8),
    Filter2d(image=(150, 200), filter=(9, 9), border=Border.REFLECT, accuracy="imagewise"),
    Filter2d(image=(150, 200), filter=(9, 9), filters=2, accuracy="imagewise", nonfinite="any"),
    Filter2d(image=(200, 190), filter=(95, 91), border=Border.CONSTANT, accuracy="imagewise", nonfinite="any"),
    Filter2d(image=(99, 98), filter=(91, 93), weights=weights(91 * 93), accuracy="imagewise", nonfinite="any"),
    Filter2d(image=(48, 530), filter=(3, 3), border=Border.WRAP, planes=2, weights=(1, 2, 1, 2, 4, 2, 1, 2, 1)),
]

PLAIN = Filter2dPlain()


def name_of(value: Family | Problem | Device) -> str:
    """Test name of a parameter."""
    return value.key().replace(" ", ",") if isinstance(value, Problem) else value.name


every_family = pytest.mark.parametrize("family", FAMILIES, ids=name_of)
every_problem = pytest.mark.parametrize("problem", PROBLEMS, ids=name_of)
whatever_is_solved = pytest.mark.parametrize(
    ("family", "problem"),
    [(family, problem) for family in FAMILIES for problem in PROBLEMS if family.why_not(problem, H200) is None],
    ids=name_of,
)
every_device = pytest.mark.parametrize("device", [H200, HOST, SMALL], ids=name_of)


@functools.cache
def sample(family: Family, problem: Problem) -> tuple[Config, ...]:
    """The default config and up to SAMPLE others, the same ones in each run."""
    space, rng = family.space(problem, H200), random.Random(problem.key())
    return (family.default(problem, H200), *filter(None, dict.fromkeys(space.drawn(rng) for _ in range(SAMPLE))))


@functools.cache
def programs(family: Family, problem: Problem) -> tuple[Program, ...]:
    """The programs of `sample`."""
    return tuple(family.program(problem, config) for config in sample(family, problem))


@every_device
class TestEverySpace:
    @every_family
    def test_has_the_default_in_it_unless_the_family_says_why_not(self, family: Family, device: Device) -> None:
        for problem in PROBLEMS:
            told = problem.key()
            why_not = family.why_not(problem, device)
            assert why_not is None or (why_not and "\n" not in why_not), told
            if why_not is None:
                space = family.space(problem, device)
                assert space.contains(next(space.configs())), told
                assert space.why_not(family.default(problem, device)) is None, told
                assert all(parameter.meaning and parameter.values for parameter in space.parameters), told
                assert all(constraint.why and "\n" not in constraint.why for constraint in space.constraints), told

    def test_of_the_plain_family_is_never_empty(self, device: Device) -> None:
        assert [problem.key() for problem in PROBLEMS if PLAIN.why_not(problem, device) is not None] == []


@whatever_is_solved
class TestEveryProgram:
    def test_writes_the_same_bytes_each_time(self, family: Family, problem: Problem) -> None:
        again = dataclasses.replace(problem)  # type: ignore[type-var]
        pairs = list(zip(sample(family, problem), programs(family, problem), strict=True))
        for config, program in exhaustive.share(pairs, 0, 4):
            assert family.program(again, Config.of(config.values())) == program

    def test_writes_another_text_for_another_config(self, family: Family, problem: Problem) -> None:
        configs = set(sample(family, problem))
        assert len({program.source for program in programs(family, problem)}) == len(configs)

    def test_says_in_the_text_what_it_is(self, family: Family, problem: Problem) -> None:
        for program in programs(family, problem):
            header = with_whole_head(program.source[: program.source.index("constexpr")])
            assert family.name in header
            # Most texts do not depend on `nonfinite`.
            assert dataclasses.replace(problem, nonfinite="window").key() in header
            assert program.config.key() in header
            assert (program.family, program.config) == (family.name, Config.of(program.config.values()))

    def test_writes_tidy_text(self, family: Family, problem: Problem) -> None:
        for source in (program.source for program in programs(family, problem)):
            assert source.isascii()
            assert source.endswith("}\n")
            assert "\t" not in source
            assert not re.search(r"[ \t]+$|\n\n\n|\{%|\{\{|\}\}|None|Undefined", source, re.MULTILINE)
            assert "#include" not in source  # NVRTC is given no headers

    def test_launches_kernels_that_the_text_has(self, family: Family, problem: Problem) -> None:
        for program in programs(family, problem):
            entries = re.findall(
                r'extern "C" __global__ void(?: __(?:launch_bounds|cluster_dims)__\([^)]*\))*\s+(\w+)\(', program.source
            )
            assert list(dict.fromkeys(launch.entry for launch in program.launches)) == entries

    def test_launches_stay_within_what_every_gpu_can_do(self, family: Family, problem: Problem) -> None:
        for launch in itertools.chain.from_iterable(program.launches for program in programs(family, problem)):
            (x, y, z), grid = launch.block, launch.grid
            assert x * y * z <= 1024
            assert min(x, y, z) >= 1
            assert z <= 64
            assert min(grid) >= 1
            assert grid[0] < 2**31
            assert max(grid[1:]) < 2**16
            assert launch.shared_bytes <= 227 * 1024

    def test_arguments_are_operands_and_the_result_is_a_pointer(self, family: Family, problem: Problem) -> None:
        inputs = {operand.name for operand in problem.inputs}
        for program in programs(family, problem):
            scratch = {workspace.name for workspace in program.workspaces}
            pointers = {a.buffer for launch in program.launches for a in launch.arguments if isinstance(a, Pointer)}
            assert pointers <= inputs | scratch | {problem.output.name}
            assert problem.output.name in pointers
            assert program.pointed_to <= inputs | scratch | {problem.output.name}
            assert program.by_value <= inputs

    def test_weights_and_textures_are_bound_as_the_config_says(self, family: Family, problem: Problem) -> None:
        for program in programs(family, problem):
            where = program.config.text("weights")
            arguments = [each for launch in program.launches for each in launch.arguments]
            assert (ByValue("weights") in arguments) == (where == "argument")
            is_given = problem.weights is None
            assert (Pointer("weights") in arguments) == (where == "global" and is_given)
            for launch in program.launches:
                is_transformed = where == "argument" and program.config.values().get("method") == "winograd"
                assert any(isinstance(each, Transformed) for each in launch.arguments) == is_transformed
                assert launch.constants == ((Constant("weights", "weights"),) if where == "constant" else ())
                textures = [each for each in launch.arguments if isinstance(each, Texture)]
                is_texture = program.config.text("path") == "texture"
                assert textures == ([image_texture(problem)] if is_texture else [])


class TestRefusals:
    def test_no_family_at_all_names_each_one_s_reason(self) -> None:
        problem = Mock(spec=Problem, key=lambda: "imaginary size=3")
        with pytest.raises(BadArgument, match=re.escape("no kernel family solves imaginary size=3: ")) as caught:
            families_for(problem, H200, FAMILIES)
        assert "\n" not in str(caught.value)
        for family in FAMILIES:
            assert f"{family.name}: solves filter2d only" in str(caught.value)


class TestRegistry:
    def test_prefers_the_first_family_that_can(self) -> None:
        window, large = Filter2dWindow(), Filter2d(image=(300, 300), filter=(200, 200), border=Border.WRAP)
        assert families_for(PROBLEMS[5], H200, (window, PLAIN)) == (window, PLAIN)
        assert families_for(PROBLEMS[5], H200, (PLAIN, window)) == (PLAIN, window)
        assert families_for(large, H200, (window, PLAIN)) == (PLAIN,)

    def test_names_are_unique_and_found_again(self) -> None:
        assert len({family.name for family in registry.FAMILIES}) == len(registry.FAMILIES)
        assert all(family_named(family.name) is family for family in registry.FAMILIES)
        assert family_named("filter2d_imaginary") is None


class TestPlain:
    @staticmethod
    def stores(problem: Filter2d, config: Config) -> NDArray[np.int64]:
        """Number of stores to each element of the result's memory: the arithmetic of the plain kernel."""
        rows, columns = problem.output_shape[0], problem.output_shape[1] * problem.channels
        down, across, filters = (config.integer(name) for name in ("rows", "columns", "filters"))
        width, height = config.integer("block_columns"), config.integer("block_rows")
        column_blocks, row_blocks = -(-columns // (across * width)), -(-rows // (down * height))
        (launch,) = PLAIN.program(problem, config).launches
        assert (launch.grid[1:], launch.block) == ((1, 1), (width, height, 1))
        block, y, x, i, j, f = (
            axis.ravel() for axis in np.indices((launch.grid[0], height, width, down, across, filters))
        )
        groups = -(-problem.filters // filters)
        block, filter_ = block // groups, block % groups * filters + f
        row = (block // column_blocks % row_blocks * height + y) * down + i
        column = (block % column_blocks * width + x) * across + j
        plane = block // (column_blocks * row_blocks)
        live = (row < rows) & (column < columns) & (filter_ < problem.filters)
        index = ((plane * problem.filters + filter_) * rows + row) * result_pitch(problem) + column
        return np.bincount(index[live], minlength=problem.output.span_bytes // problem.output.dtype.itemsize)

    @every_problem
    def test_stores_every_output_exactly_once(self, problem: Filter2d) -> None:
        size = problem.output.dtype.itemsize
        offsets = sum(
            np.arange(extent).reshape(-1, *[1] * depth) * (stride // size)
            for depth, (extent, stride) in enumerate(
                zip(reversed(problem.output.shape), reversed(problem.output.strides), strict=True)
            )
        )
        for config in sample(PLAIN, problem)[::4]:
            stores = self.stores(problem, config)
            expected = np.zeros_like(stores)
            expected[np.ravel(offsets)] = 1
            np.testing.assert_array_equal(stores, expected, err_msg=str(config))

    def test_starts_from_the_baseline_of_the_paper(self) -> None:
        config = PLAIN.default(Filter2d(image=(512, 512), filter=(3, 3)), H200)
        assert config.text("path") == "global"
        assert [config.integer(name) for name in ("rows", "columns", "block_columns", "block_rows")] == [1, 1, 32, 8]

    @pytest.mark.parametrize(
        "problem",
        [
            Filter2d(image=(MOST_TAPS, 1), filter=(MOST_TAPS, 1)),
            Filter2d(image=(1, 1), filter=(1, MOST_TAPS), border=Border.WRAP),
            Filter2d(image=(64, 64), filter=(90, 90), border=Border.MIRROR),
            Filter2d(image=(64, 64), filter=(1, 1), filters=MOST_TAPS),
            Filter2d(image=(64, 64), filter=(1, 1), filters=MOST_TAPS + 1),
            Filter2d(image=(512, 512), filter=(255, 255)),
        ],
        ids=name_of,
    )
    def test_unrolls_no_more_than_a_compiler_can_take(self, problem: Filter2d) -> None:
        for config in sample(PLAIN, problem):
            g = Filter2dPlainGeometry.of(problem, config)
            (r, s), outputs = problem.filter, g.rows * g.columns * g.filters
            written = outputs * (r if g.unroll_rows else 1) * (s if g.unroll_columns else 1)
            assert written <= MAX_UNROLLED

    def test_offers_no_texture_where_the_image_is_too_large_for_one(self) -> None:
        def paths(rows: int) -> tuple[int | str, ...]:
            space = PLAIN.space(Filter2d(image=(rows, 2**15 + 1), filter=(3, 3)), H200)
            return next(each.values for each in space.parameters if each.name == "path")

        assert paths(2**11) == ("global", "texture")
        assert paths(2**12) == ("global",)
