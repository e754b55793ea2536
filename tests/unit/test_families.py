"""What every kernel family owes: a default in its space, text that never changes, every output computed once."""

from __future__ import annotations

import dataclasses
import functools
import heapq
import itertools
import math
import random
import re
from collections.abc import Callable
from unittest.mock import Mock

import numpy as np
import pytest
from numpy.typing import NDArray

from warpsmith.errors import BadArgument
from warpsmith.generator.device import H200, HOST, Device
from warpsmith.generator.families.filter2d_plain import Filter2dPlain
from warpsmith.generator.families.filter2d_text import require_filter2d
from warpsmith.generator.families.filter2d_window import MAX_REGISTERS, Filter2dWindow, Geometry
from warpsmith.generator.family import Family
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Pointer, Program
from warpsmith.generator.registry import FAMILIES, families_for, family_named
from warpsmith.generator.space import Config

SAMPLE = 24
"""Configs that are looked at for each family and problem, beside the default; a whole space can hold 10^5."""

SMALL = dataclasses.replace(H200, name="small", registers_per_multiprocessor=32768, threads_per_multiprocessor=512)


def weights(rows: int, columns: int) -> tuple[float, ...]:
    """Weights with zeros, negatives and fractions."""
    return tuple((i % 5 - 2) / 3 for i in range(rows * columns))


PROBLEMS = [
    Filter2d(image=(1, 1), filter=(1, 1)),
    Filter2d(image=(1, 1), filter=(1, 1), border=Border.MIRROR, weights=(2.0,)),
    Filter2d(image=(1, 131), filter=(1, 5)),
    Filter2d(image=(1, 64), filter=(1, 2), border=Border.WRAP, planes=2),
    Filter2d(image=(97, 1), filter=(3, 1), border=Border.REFLECT),
    Filter2d(image=(2, 2), filter=(2, 2), border=Border.REFLECT),
    Filter2d(image=(40, 33), filter=(3, 3)),
    Filter2d(image=(37, 50), filter=(3, 3), border=Border.NEAREST),
    Filter2d(image=(50, 48), filter=(2, 2), border=Border.CONSTANT, cval=-1.5),
    Filter2d(image=(64, 64), filter=(4, 4), planes=3, border=Border.WRAP),
    Filter2d(image=(70, 260), filter=(5, 5), border=Border.MIRROR, weights=weights(5, 5)),
    Filter2d(image=(33, 128), filter=(2, 7), border=Border.REFLECT, weights=weights(2, 7)),
    Filter2d(image=(90, 36), filter=(6, 1), planes=5),
    Filter2d(image=(45, 47), filter=(11, 9), border=Border.CONSTANT, weights=weights(11, 9)),
    Filter2d(image=(31, 33), filter=(31, 31)),
    Filter2d(image=(40, 40), filter=(31, 31), border=Border.NEAREST, weights=weights(31, 31)),
    Filter2d(image=(300, 514), filter=(7, 7)),
]

WINDOW, PLAIN = Filter2dWindow(), Filter2dPlain()


def name_of(value: Family | Problem | Device) -> str:
    """A test's name for what it is about."""
    return value.key().replace(" ", ",") if isinstance(value, Problem) else value.name


every_family = pytest.mark.parametrize("family", FAMILIES, ids=name_of)
every_problem = pytest.mark.parametrize("problem", PROBLEMS, ids=name_of)
window_and_plain = pytest.mark.parametrize("family", [WINDOW, PLAIN], ids=name_of)
whatever_is_solved = pytest.mark.parametrize(
    ("family", "problem"),
    [(family, problem) for family in FAMILIES for problem in PROBLEMS if family.why_not(problem, H200) is None],
    ids=name_of,
)
every_device = pytest.mark.parametrize("device", [H200, HOST, SMALL], ids=name_of)


@functools.cache
def sample(family: Family, problem: Problem) -> tuple[Config, ...]:
    """The default config and SAMPLE others, the same ones in each run."""
    rng = random.Random(problem.key())
    others = heapq.nsmallest(SAMPLE, family.space(problem, H200).configs(), key=lambda _: rng.random())
    return (family.default(problem, H200), *others)


@functools.cache
def programs(family: Family, problem: Problem) -> tuple[Program, ...]:
    """The programs of `sample`."""
    return tuple(family.program(problem, config) for config in sample(family, problem))


@every_problem
@every_device
class TestEverySpace:
    @every_family
    def test_has_the_default_in_it_unless_the_family_says_why_not(
        self, family: Family, problem: Problem, device: Device
    ) -> None:
        why_not = family.why_not(problem, device)
        assert why_not is None or (why_not and "\n" not in why_not)
        if why_not is None:
            space = family.space(problem, device)
            assert space.contains(next(space.configs()))
            assert space.why_not(family.default(problem, device)) is None
            assert all(parameter.meaning and parameter.values for parameter in space.parameters)
            assert all(constraint.why and "\n" not in constraint.why for constraint in space.constraints)

    @window_and_plain
    def test_is_not_empty_in_these_two(self, family: Family, problem: Problem, device: Device) -> None:
        assert family.why_not(problem, device) is None


@whatever_is_solved
class TestEveryProgram:
    def test_writes_the_same_bytes_each_time(self, family: Family, problem: Problem) -> None:
        again = dataclasses.replace(problem)  # type: ignore[type-var]
        for config, program in zip(sample(family, problem), programs(family, problem), strict=True):
            assert family.program(again, Config.of(config.values())) == program

    def test_writes_another_text_for_another_config(self, family: Family, problem: Problem) -> None:
        configs = set(sample(family, problem))
        assert len({program.source for program in programs(family, problem)}) == len(configs)

    def test_says_in_the_text_what_it_is(self, family: Family, problem: Problem) -> None:
        for program in programs(family, problem):
            header = program.source[: program.source.index("constexpr")]
            assert family.name in header
            assert problem.key() in header
            assert program.config.key() in header
            assert (program.family, program.config) == (family.name, Config.of(program.config.values()))

    def test_writes_tidy_text(self, family: Family, problem: Problem) -> None:
        source = programs(family, problem)[0].source
        assert source.isascii()
        assert source.endswith("}\n")
        assert "\t" not in source
        assert not re.search(r"[ \t]+$|\n\n\n|\{%|\{\{|\}\}|None|Undefined", source, re.MULTILINE)

    def test_launches_kernels_that_the_text_has(self, family: Family, problem: Problem) -> None:
        for program in programs(family, problem):
            entries = re.findall(
                r'extern "C" __global__ void(?: __launch_bounds__\([^)]*\))?\s+(\w+)\(', program.source
            )
            assert [launch.entry for launch in program.launches] == entries

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
            assert program.by_value <= inputs


class TestRefusals:
    @window_and_plain
    def test_a_problem_of_another_operation(self, family: Family) -> None:
        assert family.why_not(Mock(spec=Problem), H200) == "solves filter2d only"

    @window_and_plain
    @pytest.mark.parametrize("size", [(64, 64), (1, 4096), (90, 90)])
    def test_a_filter_that_is_too_large_is_refused_in_one_line(self, family: Family, size: tuple[int, int]) -> None:
        why = family.why_not(Filter2d(image=(5000, 5000), filter=size), H200)
        assert why is not None
        assert f"{size[0]}x{size[1]}" in why
        assert "\n" not in why

    def test_no_family_at_all_names_each_one_s_reason(self) -> None:
        problem = Filter2d(image=(100, 100), filter=(64, 64))
        with pytest.raises(BadArgument, match=re.escape(f"no kernel family solves {problem.key()}: ")) as caught:
            families_for(problem, H200, (WINDOW, PLAIN))
        assert "\n" not in str(caught.value)
        for family in (WINDOW, PLAIN):
            assert f"{family.name}: {family.why_not(problem, H200)}" in str(caught.value)

    def test_a_problem_that_is_no_filter(self) -> None:
        with pytest.raises(TypeError, match="not a filter2d problem"):
            require_filter2d(Mock(spec=Problem))


class TestRegistry:
    def test_prefers_the_first_family_that_can(self) -> None:
        only_window = Filter2d(image=(100, 100), filter=(40, 40))
        assert families_for(PROBLEMS[0], H200, (WINDOW, PLAIN)) == (WINDOW, PLAIN)
        assert families_for(PROBLEMS[0], H200, (PLAIN, WINDOW)) == (PLAIN, WINDOW)
        assert families_for(only_window, H200, (PLAIN, WINDOW)) == (WINDOW,)

    def test_names_are_unique_and_found_again(self) -> None:
        assert len({family.name for family in FAMILIES}) == len(FAMILIES)
        assert all(family_named(family.name) is family for family in FAMILIES)
        assert family_named("filter2d_imaginary") is None


Indices = NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class Tiles:
    """The outputs that each thread owns: where its tile begins, and the size that all tiles have."""

    plane: Indices
    row: Indices
    column: Indices
    rows: int
    columns: int


def plain_tiles(problem: Filter2d, config: Config, block: Indices, x: Indices, y: Indices) -> Tiles:
    """The arithmetic at the top of the plain kernel."""
    output_rows, output_columns = problem.output_shape
    width, height = config.integer("block_columns"), config.integer("block_rows")
    across, down = -(-output_columns // width), -(-output_rows // height)
    return Tiles(block // (across * down), block // across % down * height + y, block % across * width + x, 1, 1)


def window_tiles(problem: Filter2d, config: Config, block: Indices, x: Indices, y: Indices) -> Tiles:
    """The arithmetic at the top of the window kernel, the bottom strip of each plane first."""
    output_rows, output_columns = problem.output_shape
    rows, columns = config.integer("rows"), config.integer("columns")
    width, strips = config.integer("block_columns"), config.integer("block_strips")
    across, down = -(-output_columns // (columns * width)), -(-output_rows // (rows * strips))
    strip = (block // across + down - 1) % down
    return Tiles(
        plane=block // (across * down),
        row=(strip * strips + y) * rows,
        column=(block % across * width + x) * columns,
        rows=rows,
        columns=columns,
    )


def times_computed(problem: Filter2d, tiles: Tiles) -> Indices:
    """How many threads own each output, planes x rows x columns."""
    rows, columns = problem.output_shape
    live = (tiles.row < rows) & (tiles.column < columns)
    plane, top, left = tiles.plane[live], tiles.row[live], tiles.column[live]
    bottom, right = np.minimum(top + tiles.rows, rows), np.minimum(left + tiles.columns, columns)
    steps = np.zeros((problem.planes, rows + 1, columns + 1), np.int64)
    # The sum over everything above and to the left of a pixel is 1 inside a tile and 0 outside.
    for row, column, step in ((top, left, 1), (bottom, right, 1), (top, right, -1), (bottom, left, -1)):
        np.add.at(steps, (plane, row, column), step)
    return steps.cumsum(axis=1).cumsum(axis=2)[:, :rows, :columns]


@pytest.mark.parametrize(
    ("family", "tiles"),
    [(WINDOW, window_tiles), (PLAIN, plain_tiles)],
    ids=[WINDOW.name, PLAIN.name],
)
@every_problem
def test_the_launch_computes_every_output_exactly_once(
    family: Family, tiles: Callable[..., Tiles], problem: Filter2d
) -> None:
    for config in sample(family, problem):
        (launch,) = family.program(problem, config).launches
        block, y, x = (axis.ravel() for axis in np.indices((launch.grid[0], launch.block[1], launch.block[0])))
        assert launch.grid[1:] == (1, 1)
        assert launch.block[2] == 1
        assert (times_computed(problem, tiles(problem, config, block, x, y)) == 1).all(), config


@every_problem
class TestWindowGeometry:
    def test_vector_loads_and_stores_are_aligned(self, problem: Filter2d) -> None:
        for config in sample(WINDOW, problem):
            g = Geometry.of(problem, config)
            # A thread starts at a multiple of g.columns; rows and planes follow each other at the row pitch.
            for column in range(0, 8 * g.columns, g.columns):
                assert (column - problem.anchor[1] - g.lead) % g.load_vector == 0
                assert column % g.store_vector == 0
            assert problem.image[1] % g.load_vector == 0
            assert problem.output_shape[1] % g.store_vector == 0
            assert g.columns % g.store_vector == 0

    def test_loads_cover_the_window_and_nothing_is_loaded_in_vain(self, problem: Filter2d) -> None:
        for config in sample(WINDOW, problem):
            g = Geometry.of(problem, config)
            needed = g.lead + g.columns + problem.filter[1] - 1
            assert 0 <= g.lead < g.load_vector
            assert needed <= g.loads * g.load_vector < needed + g.load_vector

    def test_the_loop_turns_a_whole_number_of_times(self, problem: Filter2d) -> None:
        for config in sample(WINDOW, problem):
            g = Geometry.of(problem, config)
            assert g.rows % g.unroll == 0


@pytest.mark.parametrize("size", [(1, 1), (15, 15), (31, 31), (31, 1)])
def test_every_window_fits_the_registers_of_a_thread(size: tuple[int, int]) -> None:
    problem = Filter2d(image=(40, 40), filter=size, border=Border.NEAREST)
    for config in WINDOW.space(problem, SMALL).configs():
        g = Geometry.of(problem, config)
        sums, pixels = g.columns * (size[0] - 1 + g.unroll), g.loads * g.load_vector
        assert sums + pixels < MAX_REGISTERS
        blocks = config.integer("min_blocks")
        threads = blocks * g.block_columns * g.block_strips
        assert threads <= SMALL.threads_per_multiprocessor
        assert threads * (sums + pixels) <= SMALL.registers_per_multiprocessor


class TestWindowDefault:
    @pytest.mark.parametrize("columns", [512, 513, 514], ids=lambda columns: f"{columns} columns")
    @pytest.mark.parametrize("size", [(2, 2), (3, 3), (7, 7), (31, 31)])
    @pytest.mark.parametrize("border", [Border.VALID, Border.WRAP])
    def test_uses_the_widest_aligned_accesses(self, columns: int, size: tuple[int, int], border: Border) -> None:
        problem = Filter2d(image=(512, columns), filter=size, border=border)
        config = WINDOW.default(problem, H200)
        wide = config.integer("columns")
        assert config.integer("load_vector") == math.gcd(wide, columns, 4)
        assert config.integer("store_vector") == math.gcd(wide, problem.output_shape[1], 4)


class TestWindowSpace:
    def test_spaces_that_differ_have_fingerprints_that_differ(self) -> None:
        spaces = [
            WINDOW.space(Filter2d(image=(40, 40), filter=size, border=Border.REFLECT), H200)
            for size in ((3, 3), (9, 9), (31, 31))
        ]
        assert len({frozenset(space.configs()) for space in spaces}) == 3
        assert len({space.fingerprint for space in spaces}) == 3
