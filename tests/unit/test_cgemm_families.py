"""Contract of the cgemm families: a default in the space, stable text, every result computed once."""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import math
import random
import re

import numpy as np
import pytest

import exhaustive
from builders import count_of_words, with_whole_head
from warpsmith.generator.cgemm import Cgemm, Op
from warpsmith.generator.cgemm.cublas_family import CgemmCublas
from warpsmith.generator.cgemm.plain_family import CgemmPlain
from warpsmith.generator.cgemm.tensor_family import CgemmTensor
from warpsmith.generator.cgemm.thin_family import CgemmThin
from warpsmith.generator.cgemm.tiled_family import PARTS, CgemmTiled
from warpsmith.generator.cgemm.tiled_geometry import CHAIN, TiledGeometry, TiledSide
from warpsmith.generator.cgemm.warpgroup_family import HANDED, CgemmWarpgroup
from warpsmith.generator.family import MAX_UNROLLED, Family
from warpsmith.generator.presets import H200, HOST
from warpsmith.generator.problem import Accuracy
from warpsmith.generator.program import Pointer, Program
from warpsmith.generator.ranking import default_answer
from warpsmith.generator.space import Config, Space
from warpsmith.generator.steps import PROGRESS

SAMPLE = 16
"""Configs that are drawn for each family and problem, beside the default."""
PLAIN, TILED, TENSOR, CUBLAS = CgemmPlain(), CgemmTiled(), CgemmTensor(), CgemmCublas()
WARPGROUP, THIN = CgemmWarpgroup(), CgemmThin()
FAMILIES: tuple[Family, ...] = (TILED, WARPGROUP, TENSOR, PLAIN, THIN)
LEAST_SPACE = {PLAIN: 4, WARPGROUP: 15}
"""Configs of a family for a large product; 90 of the others."""
PROBLEMS = [
    Cgemm(*each)
    for each in (
        (1, 1, 1, 1),
        (5, 3, 3, 2),
        (3, 1, 70, 9),
        (7, 121, 95, 37, "t", "n"),
        (2112, 128, 64, 64, "n", "c"),
        (2112, 64, 64, 128, "c", "n"),
        (544, 128, 128, 128),
        (91, 128, 384, 384, "n", "n"),
        (8320, 128, 96, 3, "n", "c"),
        (2048, 16, 16, 16, "t", "t"),
        (40, 64, 64, 16384, "c", "n"),
        (1, 512, 512, 512),
        (2664, 64, 1, 96, "n", "n"),
        (544, 3, 128, 576, "t", "n"),
    )
]
LARGEST = Cgemm(2**30 - 1, 1, 1, 1), Cgemm(2**20, 2**15, 2, 2), Cgemm(32, 2, 2**29, 3)


def name_of(value: Family | Cgemm) -> str:
    """Test name of a parameter."""
    return value.key().replace(" ", ",") if isinstance(value, Cgemm) else value.name


def asked_of(family: Family, problem: Cgemm) -> Cgemm:
    """`problem` with the accuracy that the family promises."""
    return dataclasses.replace(problem, accuracy=Accuracy.NORMWISE) if family is WARPGROUP else problem


every_problem = pytest.mark.parametrize("problem", PROBLEMS, ids=name_of)
whatever_is_solved = pytest.mark.parametrize(
    ("family", "problem"),
    [
        (family, asked_of(family, problem))
        for family in FAMILIES
        for problem in PROBLEMS
        if family is not THIN or family.why_not(problem, H200) is None
    ],
    ids=name_of,
)


@functools.cache
def sample(family: Family, problem: Cgemm) -> tuple[Config, ...]:
    """The default config, the starts and up to SAMPLE others, the same ones in each run."""
    space, rng = family.space(problem, H200), random.Random(problem.key())
    drawn = (space.drawn(rng) for _ in range(SAMPLE))
    chosen = (family.default(problem, H200), *family.starts(problem, H200))
    return tuple(dict.fromkeys(filter(None, (*chosen, *drawn))))


@functools.cache
def programs(family: Family, problem: Cgemm) -> tuple[Program, ...]:
    """The programs of `sample`."""
    return tuple(family.program(problem, config) for config in sample(family, problem))


class TestSpace:
    @whatever_is_solved
    def test_holds_the_default_and_the_starts_on_every_device(self, family: Family, problem: Cgemm) -> None:
        assert family.why_not(problem, H200) is None
        for device in (H200, HOST):
            space, default = family.space(problem, device), family.default(problem, device)
            for config in (default, *family.starts(problem, device)):
                assert space.why_not(config) is None
            assert family.unrolled(problem, default) <= MAX_UNROLLED

    @pytest.mark.parametrize("k", [1, 3, 64, 1000])
    def test_holds_the_default_of_products_of_any_shape(self, k: int) -> None:
        """Thin products too: 256 rows of one column had no config, so a search walked all of a joined space."""
        for m, n, a in itertools.product(*[(1, 2, 3, 8, 100, 129, 256, 257)] * 2, (Op.N, Op.T)):
            problem = Cgemm(924, m, n, k, a)
            space = TILED.space(problem, H200)
            assert space.why_not(TILED.default(problem, H200)) is None, problem.key()

    @exhaustive.one_in(3)
    @whatever_is_solved
    def test_is_of_a_size_that_a_search_can_cover(self, family: Family, problem: Cgemm) -> None:
        configs = family.space(problem, H200).listed(60_000)
        assert configs is not None
        if problem.flops > 1e9:
            assert len(configs) >= LEAST_SPACE.get(family, 90)

    def test_no_value_of_a_parameter_is_there_in_vain(self) -> None:
        for family in FAMILIES:
            for parameter in family.space(PROBLEMS[0], H200).parameters:
                spaces = (family.space(problem, H200) for problem in PROBLEMS)
                used = {
                    value
                    for space in spaces
                    for value in parameter.values
                    if space.narrowed({parameter.name: [value]}).drawn(random.Random(0))
                }
                assert used == set(parameter.values), parameter.name

    @whatever_is_solved
    def test_constraints_say_why_in_one_line_each_its_own(self, family: Family, problem: Cgemm) -> None:
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

    @pytest.mark.parametrize("problem", LARGEST, ids=name_of)
    def test_of_the_largest_problems_has_grids_that_there_are(self, problem: Cgemm) -> None:
        for family in FAMILIES:
            for program in programs(family, problem):
                for launch in program.launches:
                    assert launch.grid[0] < 2**31
                    assert launch.grid[1:] == (1, 1)


class TestRefusals:
    def test_cublas_on_the_host(self) -> None:
        """NumPy would take its place on the host, win every search, and show nothing."""
        assert CUBLAS.why_not(PROBLEMS[0], HOST) == "calls cuBLAS, which runs on GPUs only"

    @every_problem
    def test_cublas_never_answers_where_nothing_is_stored(self, problem: Cgemm) -> None:
        assert CUBLAS.why_not(problem, H200) is None
        expected = TENSOR if min(problem.m, problem.n, problem.k) >= 32 else TILED
        is_thin = THIN.why_not(problem, H200) is None
        expected = THIN if is_thin else expected
        assert default_answer(problem, H200)[0].name == expected.name
        assert default_answer(problem, HOST)[0].name == (THIN if is_thin else TILED).name
        is_large = min(problem.m, problem.n) >= 48 and problem.k >= 16
        assert WARPGROUP.is_likely(problem, H200) is is_large
        expected = WARPGROUP if is_large else expected
        assert default_answer(asked_of(WARPGROUP, problem), H200)[0].name == expected.name


class TestText:
    @exhaustive.one_in(3)
    @whatever_is_solved
    def test_is_the_same_every_time(self, family: Family, problem: Cgemm) -> None:
        pairs = list(zip(sample(family, problem), programs(family, problem), strict=True))
        for config, program in exhaustive.share(pairs, 0, 2):
            again = family.program(problem, config)
            assert again == program
            assert again.fingerprint == program.fingerprint

    @whatever_is_solved
    def test_tells_problem_and_config_first_and_is_tidy(self, family: Family, problem: Cgemm) -> None:
        for program in programs(family, problem):
            first, second, third, *rest = with_whole_head(program.source).splitlines()
            assert first == f"// warpsmith {family.name}"
            assert second == f"// problem: {problem.key()}"
            assert third == f"// config:  {program.config.key()}"
            assert not [line for line in rest if line != line.rstrip()]
            assert max(map(len, rest)) <= 120
            assert "\n\n\n" not in program.source

    @exhaustive.one_in(3)
    @whatever_is_solved
    def test_names_every_constant_that_it_uses_and_uses_every_one(self, family: Family, problem: Cgemm) -> None:
        for program in programs(family, problem):
            code = re.sub(r"//.*", "", program.source)
            defined = set(re.findall(r"constexpr (?:int|bool|unsigned|unsigned long long|size_t) (k\w+)", code))
            of_templates = set(re.findall(r"\bk[A-Z]\w*", " ".join(re.findall(r"template <[^>]*>", code))))
            used = set(re.findall(r"\bk[A-Z]\w*", code)) - of_templates
            assert used == defined
            count = count_of_words(code)
            for name in defined:
                assert count[name] > 1, name

    @whatever_is_solved
    def test_its_launches_take_all_operands_in_order(self, family: Family, problem: Cgemm) -> None:
        for program in programs(family, problem):
            entries = [launch.entry.removeprefix(family.name) for launch in program.launches]
            assert entries in ([""], ["", "_sum"], ["_begin", ""])
            whole = program.launches[entries.index("")]
            named = [
                "a",
                "b",
                PARTS if "_sum" in entries else "c",
                *((HANDED, PROGRESS) if "_begin" in entries else ()),
            ]
            assert whole.arguments == tuple(map(Pointer, named))
            for launch in program.launches:
                declared = re.search(rf"{launch.entry}\(([^)]*)\)", program.source)
                assert declared is not None
                assert re.findall(r"(\w+)(?:,|$)", declared[1]) == [each.buffer for each in launch.arguments]  # type: ignore[union-attr]
                assert 1 <= math.prod(launch.block) <= 1024


def places(side: TiledSide) -> np.ndarray:
    """Row or column of each result of each thread of each tile."""
    thread, own = np.ogrid[: side.threads, : side.own]
    inside = 2 * thread + own // 2 * 2 * side.threads + own % 2 if side.in_pairs else thread + own * side.threads
    return (np.arange(side.tiles)[:, None] * side.block + np.asarray(inside).ravel()).ravel()


class TestTiles:
    @every_problem
    def test_every_result_is_computed_once(self, problem: Cgemm) -> None:
        for config in sample(TILED, problem):
            geometry = TiledGeometry.of(problem, config)
            for side in (geometry.a, geometry.b):
                found = places(side)
                assert np.array_equal(np.sort(found[found < side.size]), np.arange(side.size)), config
                assert (side.tiles - 1) * side.block < side.size
            products = -(-problem.batch // geometry.products)
            assert geometry.blocks == geometry.a.tiles * geometry.b.tiles * products * geometry.splits

    @every_problem
    def test_every_term_is_added_once(self, problem: Cgemm) -> None:
        for config in sample(TILED, problem):
            geometry = TiledGeometry.of(problem, config)
            starts = range(0, geometry.splits * geometry.split_steps, geometry.split_steps)
            counts = [min(geometry.split_steps, geometry.steps - start) for start in starts]
            assert sum(counts) == geometry.steps
            assert min(counts) >= 1
            assert (geometry.steps - 1) * geometry.terms < problem.k <= geometry.steps * geometry.terms
            assert geometry.stages <= geometry.split_steps
            chain = (geometry.chain_steps or geometry.split_steps) * geometry.terms
            assert chain <= CHAIN + geometry.terms

    @every_problem
    def test_threads_of_a_warp_are_those_of_a_rectangle(self, problem: Cgemm) -> None:
        """Each thread of a product has its own place in the tile, counted as in the kernel."""
        for config in sample(TILED, problem):
            geometry = TiledGeometry.of(problem, config)
            lanes, across = geometry.lanes, geometry.b.threads
            thread = np.arange(geometry.threads)
            column = thread // 32 % (across // lanes) * lanes + thread % lanes
            row = thread // 32 // (across // lanes) * (32 // lanes) + thread % 32 // lanes
            assert np.array_equal(np.sort(row * across + column), thread), config
            assert row.max() < geometry.a.threads

    @every_problem
    def test_copies_and_reads_are_aligned(self, problem: Cgemm) -> None:
        for config in sample(TILED, problem):
            geometry = TiledGeometry.of(problem, config)
            assert geometry.stage % 2 == geometry.a.tile % 2 == 0
            for side in (geometry.a, geometry.b):
                across = side.terms if side.terms_inner else side.block
                assert side.inner % side.vector == across % side.vector == 0
                if side.terms_inner or side.in_pairs or side.vector == 2:
                    assert side.pitch % 2 == 0

    @every_problem
    def test_threads_that_are_served_at_once_read_different_banks(self, problem: Cgemm) -> None:
        """Eight threads read 16 bytes each of eight rows if the K terms are adjacent."""
        for config in sample(TILED, problem):
            for side in (TiledGeometry.of(problem, config).a, TiledGeometry.of(problem, config).b):
                if side.terms_inner:
                    banks = {row * side.pitch // 2 % 8 for row in range(8)}
                    assert len(banks) == 8

    @every_problem
    def test_memory_of_parts_is_a_workspace(self, problem: Cgemm) -> None:
        for program in programs(TILED, problem):
            splits = program.config.integer("splits")
            assert [each.nbytes for each in program.workspaces] == ([problem.output.nbytes * splits] * (splits > 1))
            assert len(program.launches) == (1 if splits == 1 else 2)
            assert program.launches[0].shared_bytes <= H200.shared_per_block_bytes


class TestPlain:
    @every_problem
    def test_threads_cover_the_results(self, problem: Cgemm) -> None:
        for program in programs(PLAIN, problem):
            (launch,) = program.launches
            results = launch.grid[0] * launch.block[0]
            assert results - launch.block[0] < problem.output.size <= results

    def test_counts_more_than_32_bits_where_there_are_more(self) -> None:
        many = PLAIN.program(LARGEST[1], PLAIN.default(LARGEST[1], H200)).source
        few = PLAIN.program(PROBLEMS[4], PLAIN.default(PROBLEMS[4], H200)).source
        assert "constexpr unsigned long long kResults = 68719476736;" in many
        assert "constexpr unsigned kResults" in few
